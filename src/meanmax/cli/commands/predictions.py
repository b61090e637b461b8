r"""Predictions as a table for other programs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from meanmax.data import Dataset
from meanmax.train import NodeClassifier
from meanmax.train.whole_file import whole_file

SUFFIXES = (".csv", ".parquet")


def prediction_columns(
    classifier: NodeClassifier, dataset: Dataset, chance: np.ndarray, *, every_class: bool
) -> dict[str, np.ndarray]:
    r"""The columns of a table with a row for each node.

    They are :obj:`id`, the user's identifier or the number of the node; :obj:`label`, the name of
    the likeliest class; and its :obj:`probability`. Where a node has several labels there are
    :obj:`label_NAME`, 0 or 1, and :obj:`probability_NAME` for each.

    Args:
        classifier (NodeClassifier): The trained classifier.
        dataset (Dataset): What it predicts.
        chance (ndarray): What :meth:`~meanmax.NodeClassifier.predict_proba` gives.
        every_class (bool): Whether there is a column :obj:`probability_NAME` for each class too.
    """
    ids = np.arange(dataset.num_nodes) if dataset.node_ids is None else dataset.node_ids
    columns = {"id": np.asarray(ids)}
    chances = {
        f"probability_{name}": chance[:, number]
        for number, name in enumerate(classifier.class_names_)
    }
    if classifier.multilabel_:
        for number, name in enumerate(classifier.class_names_):
            columns[f"label_{name}"] = (chance[:, number] > 0.5).astype(np.int8)
            columns[f"probability_{name}"] = chances[f"probability_{name}"]
        return columns
    best = chance.argmax(axis=1)
    columns["label"] = np.array(classifier.class_names_)[best]
    columns["probability"] = np.take_along_axis(chance, best[:, None], axis=1)[:, 0]
    return columns | chances if every_class else columns


def write_predictions(path: Path, columns: dict[str, np.ndarray]) -> None:
    r"""Writes a table, all at once or not at all.

    Args:
        path (Path): A file that ends with one of :obj:`SUFFIXES`. Probabilities have six digits in
            csv, and are float32 in parquet.
        columns (dict): Columns of equal length by name.
    """
    with whole_file(path) as file:
        if path.suffix.lower() == ".parquet":
            table = pa.table({name: _array(values) for name, values in columns.items()})
            pyarrow.parquet.write_table(table, file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))
        text.detach()  # whole_file closes it


def _array(values: np.ndarray) -> pa.Array:
    return pa.array(values if values.dtype.kind in "fi" else values.tolist())


def _cells(values: np.ndarray) -> list[object]:
    if values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values.tolist()]
    listed: list[object] = values.tolist()
    return listed
