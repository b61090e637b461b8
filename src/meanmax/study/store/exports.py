r"""Rows as files for people and other programs, and back."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meanmax.data.files import replacing
from meanmax.study.runs.row import NESTED, PLAIN, Row, Status
from meanmax.study.store.store import Store, StoreError, reported

ORDER = ("data", "backbone", "aggr", "settings_name", "split_seed", "key")
METRIC = "metric_"
TEXTS: Final = tuple(name for name in NESTED if name != "metrics")

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(PLAIN, (str,)),
    **dict.fromkeys(NESTED, (dict,)),
    **dict.fromkeys(("attempt", "split_seed", "seed", "best_epoch", "epochs", "threads"), (int,)),
    **dict.fromkeys(("error", "commit"), (str, type(None))),
    "seconds": (float, int),
    "alone": (bool,),
}
_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def export_rows(rows: Iterable[Row], path: Path) -> None:
    r"""Writes rows, sorted, to a file that is there as a whole or not at all.

    A line of :obj:`.jsonl` is a row; files of equal rows are equal. In :obj:`.parquet` and
    :obj:`.csv` each metric has a column of its own (:obj:`metric_test_score`), and settings,
    learned parameters, maxness and versions are JSON.

    Args:
        rows (iterable): The rows.
        path (Path): A file that ends with :obj:`.jsonl`, :obj:`.parquet` or :obj:`.csv`.
    """
    path = Path(path)
    check_export(path)
    listed = sorted(rows, key=lambda row: tuple(getattr(row, name) for name in ORDER))
    with reported(path), replacing(path) as temporary:
        _WRITERS[path.suffix](listed, temporary)


def check_export(path: Path) -> None:
    r"""A :class:`StoreError` unless rows can be written to a file of that name."""
    if path.suffix not in _WRITERS:
        raise StoreError(f"rows are written to {_listed(_WRITERS)} files (got {str(path)!r})")


def read_rows(path: Path) -> list[Row]:
    r"""Reads rows from a file that :func:`export_rows` has written, or from a store's folder.

    Args:
        path (Path): A :obj:`.jsonl` or :obj:`.parquet` file, or a folder.
    """
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
                rows.append(_checked(json.loads(line, parse_constant=_refuse)))
            except (ValueError, TypeError) as error:
                raise StoreError(_damaged(f"{path}:{number}", error)) from error
    return rows


def _write_parquet(rows: Sequence[Row], path: Path) -> None:
    fields = [pa.field(name, _ARROW[_KINDS[name][0]]) for name in PLAIN]
    fields += [pa.field(f"{METRIC}{name}", pa.float64()) for name in _metrics(rows)]
    fields += [pa.field(name, pa.string()) for name in TEXTS]
    flat = _flat(rows)
    pq.write_table(pa.Table.from_pylist(flat, schema=pa.schema(fields)), path)


def _read_parquet(path: Path) -> list[Row]:
    try:
        listed = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(_damaged(str(path), error)) from error
    rows = []
    for number, flat in enumerate(listed, start=1):
        metrics = {name: flat.pop(name) for name in list(flat) if name.startswith(METRIC)}
        known = {name.removeprefix(METRIC): x for name, x in metrics.items() if x is not None}
        try:
            texts = {name: json.loads(flat[name]) for name in TEXTS if name in flat}
            rows.append(_checked({**flat, **texts, "metrics": known}))
        except (ValueError, TypeError) as error:
            raise StoreError(_damaged(f"{path}, row {number}", error)) from error
    return rows


def _write_csv(rows: Sequence[Row], path: Path) -> None:
    names = [*PLAIN, *(f"{METRIC}{name}" for name in _metrics(rows)), *TEXTS]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_flat(rows))


_WRITERS: dict[str, Callable[[Sequence[Row], Path], None]] = {
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
    ".csv": _write_csv,
}
_READERS: dict[str, Callable[[Path], list[Row]]] = {
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def _flat(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [
        {name: getattr(row, name) for name in PLAIN}
        | {f"{METRIC}{name}": value for name, value in row.metrics.items()}
        | {name: json.dumps(getattr(row, name), sort_keys=True) for name in TEXTS}
        for row in rows
    ]


def _metrics(rows: Iterable[Row]) -> list[str]:
    return sorted({name for row in rows for name in row.metrics})


def _checked(facts: object) -> Row:
    if not isinstance(facts, dict):
        raise ValueError(f"a row is a JSON object, not {type(facts).__name__}")
    for name, value in facts.items():
        kinds = _KINDS.get(name, ())
        if kinds and (type(value) not in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"'{name}' is {value!r}, not {wanted}")
    if facts.get("status") not in get_args(Status):
        listed = ", ".join(get_args(Status))
        raise ValueError(f"'status' is {facts.get('status')!r}, not one of {listed}")
    for name, value in dict(facts.get("metrics") or {}).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"metric '{name}' is {value!r}, not a number")
    return Row.from_dict(facts)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _damaged(where: str, error: Exception) -> str:
    said = str(error).replace("Row.__init__() ", "")
    return f"{where} is damaged ({said}): take the file from a backup, or export it anew"


def _listed(suffixes: Iterable[str]) -> str:
    *first, last = suffixes
    return f"{', '.join(first)} or {last}"


def merge_source(store: Store, source: Path) -> int:
    r"""Adds the runs of a source that a store does not have, all or none; how many were new.

    Args:
        store (Store): Where they go.
        source (Path): A :obj:`.jsonl` or :obj:`.parquet` file, or the folder of another store,
            whose artefacts come along.
    """
    source = Path(source)
    rows = read_rows(source)
    copied: list[Path] = []
    try:
        if source.is_dir():
            with reported(store.folder):
                _copy_artefacts(Store(source, create=False), store, store.unknown(rows), copied)
        return store.merge(rows)
    except BaseException:
        for path in copied:
            path.unlink(missing_ok=True)
        raise


def _copy_artefacts(source: Store, target: Store, rows: list[Row], copied: list[Path]) -> None:
    for row in rows:
        path = target.artefact_path(row.key)
        if source.artefact(row.key) is None or path.exists():
            continue
        with replacing(path) as temporary:
            shutil.copyfile(source.artefact_path(row.key), temporary)
        copied.append(path)


def check_sources(store: Path, sources: tuple[Path, ...]) -> None:
    r"""A :class:`StoreError` if a store is to be merged into itself."""
    for source in sources:
        if source.resolve() == store.resolve():
            raise StoreError(f"{source} is the store itself: name other sources, or another store")


CURVES = ("train_loss", "val_loss", "val_score")
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("epoch", pa.int32()),
        *((name, pa.float32()) for name in CURVES),
    ]
)


def export_curves(store: Store, rows: Iterable[Row], path: Path) -> int:
    r"""Writes the curves of runs to one Parquet file; how many runs had any. What the file holds
    already of runs whose artefacts are not in the store is kept.

    Args:
        store (Store): Where the artefacts of the runs are.
        rows (iterable): The runs; those that did not end well have no curves.
        path (Path): A file that ends with :obj:`.parquet`.
    """
    path = Path(path)
    check_curves(path)
    before = read_curves(path) if path.exists() else {}
    tables = []
    for key in sorted(row.key for row in rows):
        curves = store.artefact(key) or before.get(key)
        if curves is not None:
            tables.append(_table(key, curves))
    with reported(path), replacing(path) as temporary:
        pq.write_table(pa.concat_tables([SCHEMA.empty_table(), *tables]), temporary)
    return len(tables)


def check_curves(path: Path) -> None:
    r"""A :class:`StoreError` unless curves can be written to a file of that name."""
    if path.suffix != ".parquet":
        raise StoreError(f"curves are written to a .parquet file (got {str(path)!r})")


def read_curves(path: Path) -> dict[str, dict[str, np.ndarray]]:
    r"""Reads what :func:`export_curves` has written: arrays by name for each run's key.

    Args:
        path (Path): The file.
    """
    with reported(Path(path)):
        try:
            table = pq.read_table(path, schema=SCHEMA)
        except (pa.ArrowException, ValueError) as error:
            raise StoreError(
                f"{path} is damaged ({error}): take the file from a backup, or export it anew"
            ) from error
    keys = table["key"].to_numpy()
    arrays = {name: table[name].to_numpy() for name in ("epoch", *CURVES)}
    if len(keys) == 0:
        return {}
    parts = np.split(np.arange(len(keys)), np.flatnonzero(keys[1:] != keys[:-1]) + 1)
    return {
        str(keys[part[0]]): {name: array[part] for name, array in arrays.items()} for part in parts
    }


def _table(key: str, artefact: dict[str, np.ndarray]) -> pa.Table:
    epochs = len(artefact["train_loss"])
    columns: dict[str, object] = {
        "key": [key] * epochs,
        "epoch": np.arange(epochs, dtype=np.int32),
    }
    for name in CURVES:  # without validation nodes there are no values of them
        missing = np.full(epochs - len(artefact[name]), np.nan, np.float32)
        columns[name] = np.concatenate([artefact[name], missing]).astype(np.float32)
    return pa.table(columns, schema=SCHEMA)
