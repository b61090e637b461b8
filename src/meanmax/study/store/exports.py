r"""Rows and curves as files for people and other programs, and back."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanmax.data.files import escaped, replacing
from meanmax.study.runs.row import COLUMNS, NESTED, TYPES, Artefact, Row
from meanmax.study.store.store import Store, StoreError, reported

if TYPE_CHECKING:  # reading .jsonl does not wait for them
    import pyarrow as pa

ORDER = ("data", "backbone", "aggr", "settings_name", "split_seed", "key")
METRIC = "metric_"
CURVES = ("train_loss", "val_loss", "val_score")


def export_rows(rows: Iterable[Row], path: Path, *, raw: bool = False) -> None:
    r"""Writes sorted rows to a file, which is replaced as a whole.

    A line of :obj:`.jsonl` is a row; files of equal rows are equal. In :obj:`.parquet` and
    :obj:`.csv` each metric has its own column (:obj:`metric_test_score`), and settings, learned
    parameters, maxness and versions are JSON. Unless :obj:`raw`, texts in :obj:`.csv` are escaped;
    see :func:`meanmax.data.files.escaped`.
    """
    path = Path(path)
    check_export(path)
    listed = sorted(rows, key=lambda row: tuple(getattr(row, name) for name in ORDER))
    with reported(path), replacing(path) as temporary:
        if path.suffix == ".csv":
            _write_csv(listed, temporary, raw=raw)
        else:
            _WRITERS[path.suffix](listed, temporary)


def check_export(path: Path) -> None:
    r"""Raises a :class:`StoreError` unless rows can be written to a file of that name."""
    if path.suffix not in (*_WRITERS, ".csv"):
        listed = _listed([*_WRITERS, ".csv"])
        raise StoreError(f"rows are written to {listed} files (got {str(path)!r})")


def read_rows(path: Path) -> list[Row]:
    r"""Reads rows from a :obj:`.jsonl` or :obj:`.parquet` file, or from the folder of a store."""
    path = Path(path)
    if path.is_dir():
        return Store(path, create=False).rows()
    if not path.exists():
        raise StoreError(f"there is no file or folder {path}: name a store of runs or an export")
    if path.suffix not in _READERS:
        raise StoreError(
            f"rows are read from {_listed(_READERS)} files and from folders (got {str(path)!r})"
        )
    with reported(path):
        rows = _READERS[path.suffix](path)
    return list({(row.key, row.attempt): row for row in rows}.values())


def _write_jsonl(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(row.to_json() + "\n" for row in rows)


def _read_jsonl(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                facts = json.loads(line, parse_constant=_refuse)
                if not isinstance(facts, dict):
                    raise ValueError(f"a row is a JSON object, not {type(facts).__name__}")
                rows.append(Row.from_dict(facts))
            except (ValueError, RecursionError) as error:
                raise _damaged(f"{path}:{number}", error) from error
    return rows


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _write_parquet(rows: Sequence[Row], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    # dictionaries are text; what is not a column of a row is a metric
    types = {name: kinds.get(TYPES[name][0], pa.string()) for name in COLUMNS}
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in _table_columns(rows)])
    pq.write_table(pa.Table.from_pylist(_records(rows), schema=schema), path)


def _read_parquet(path: Path) -> list[Row]:
    import pyarrow.parquet as pq

    try:
        records = pq.read_table(path).to_pylist()
    except Exception as error:  # Arrow documents no closed list of what it raises
        raise _damaged(str(path), error) from error
    rows = []
    for number, record in enumerate(records, start=1):
        metrics = {name: record.pop(name) for name in list(record) if name.startswith(METRIC)}
        known = {name.removeprefix(METRIC): x for name, x in metrics.items() if x is not None}
        try:
            rows.append(Row.from_flat({**record, "metrics": known}))
        except ValueError as error:
            raise _damaged(f"{path}, row {number}", error) from error
    return rows


def _write_csv(rows: Sequence[Row], path: Path, *, raw: bool) -> None:
    def shown(cell: Any) -> Any:
        return escaped(cell) if isinstance(cell, str) and not raw else cell

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _table_columns(rows), lineterminator="\n")
        writer.writeheader()
        for record in _records(rows):
            writer.writerow({name: shown(cell) for name, cell in record.items()})


_WRITERS = {".jsonl": _write_jsonl, ".parquet": _write_parquet}
_READERS = {".jsonl": _read_jsonl, ".parquet": _read_parquet}


def _table_columns(rows: Iterable[Row]) -> list[str]:
    r"""The columns of a table, those of the metrics before the dictionaries."""
    metrics = sorted({f"{METRIC}{name}" for row in rows for name in row.metrics})
    plain = [name for name in COLUMNS if name not in NESTED]
    return [*plain, *metrics, *(name for name in NESTED if name != "metrics")]


def _records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    facts = (row.to_flat() | {f"{METRIC}{n}": x for n, x in row.metrics.items()} for row in rows)
    return [{name: x for name, x in record.items() if name != "metrics"} for record in facts]


def _damaged(where: str, error: Exception) -> StoreError:
    return StoreError(f"{where} is damaged ({error}): restore it from a backup, or export it again")


def _listed(suffixes: Iterable[str]) -> str:
    *first, last = suffixes
    return f"{', '.join(first)} or {last}"


def merge_source(store: Store, source: Path) -> int:
    r"""Adds the new runs of an export to a store, or those of another store with their artefacts,
    all or none, and returns their number.
    """
    source = Path(source)
    rows = read_rows(source)
    copied: list[Path] = []
    try:
        if source.is_dir():
            other = Store(source, create=False)
            with reported(store.folder):
                for key in (row.key for row in store.unknown(rows)):
                    path = store.artefact_path(key)
                    if other.artefact(key) is not None and not path.exists():
                        with replacing(path) as temporary:
                            shutil.copyfile(other.artefact_path(key), temporary)
                        copied.append(path)
        return store.merge(rows)
    except BaseException:
        for path in copied:
            path.unlink(missing_ok=True)
        raise


def check_sources(store: Path, sources: tuple[Path, ...]) -> None:
    r"""Raises a :class:`StoreError` if a store is to be merged into itself."""
    for source in sources:
        if source.resolve() == store.resolve():
            raise StoreError(f"{source} is the store itself: name other sources, or another store")


def export_curves(store: Store, rows: Iterable[Row], path: Path) -> int:
    r"""Writes the curves of runs to one Parquet file, and returns the number of runs that have any.
    Curves in the existing file are kept for runs whose artefacts are not in the store.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    check_curves(path)
    before = read_curves(path) if path.exists() else {}
    schema = _curves_schema()
    tables = []
    for key in sorted(row.key for row in rows):
        curves = store.artefact(key, CURVES.__contains__) or before.get(key)
        if curves is not None:
            tables.append(_curves_table(key, curves, schema))
    with reported(path), replacing(path) as temporary:
        pq.write_table(pa.concat_tables([schema.empty_table(), *tables]), temporary)
    return len(tables)


def check_curves(path: Path) -> None:
    r"""Raises a :class:`StoreError` unless curves can be written to a file of that name."""
    if path.suffix != ".parquet":
        raise StoreError(f"curves are written to a .parquet file (got {str(path)!r})")


def read_curves(path: Path) -> dict[str, Artefact]:
    r"""Reads what :func:`export_curves` wrote: arrays by name for the key of each run."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reported(Path(path)):
        try:
            table = pq.read_table(path, schema=_curves_schema())
        except (pa.ArrowException, ValueError) as error:
            raise _damaged(str(path), error) from error
    keys = table["key"].to_numpy()
    arrays = {name: table[name].to_numpy() for name in ("epoch", *CURVES)}
    if len(keys) == 0:
        return {}
    parts = np.split(np.arange(len(keys)), np.flatnonzero(keys[1:] != keys[:-1]) + 1)
    return {
        str(keys[part[0]]): {name: array[part] for name, array in arrays.items()} for part in parts
    }


def _curves_schema() -> pa.Schema:
    import pyarrow as pa

    curves = [(name, pa.float32()) for name in CURVES]
    return pa.schema([("key", pa.string()), ("epoch", pa.int32()), *curves])


def _curves_table(key: str, curves: Artefact, schema: pa.Schema) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    epochs = len(curves["train_loss"])
    columns: dict[str, object] = {"key": [key] * epochs, "epoch": np.arange(epochs, dtype=np.int32)}
    for name in CURVES:  # without validation nodes their curves are empty
        missing = np.full(epochs - len(curves[name]), np.nan, np.float32)
        columns[name] = np.concatenate([curves[name], missing]).astype(np.float32)
    return pa.table(columns, schema=schema)
