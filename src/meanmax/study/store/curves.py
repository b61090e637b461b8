r"""What happened in training epoch by epoch, for many runs in one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meanmax.study.store.database import reported
from meanmax.study.runs.row import Row
from meanmax.study.store.store import (Store, StoreError)
from meanmax.train.whole_file import replacing

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
