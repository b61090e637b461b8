r"""A hash of prepared data, by which results are known to be comparable."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from meanmax.data.dataset import Dataset
from meanmax.graph import SparseFeatures


def fingerprint(dataset: Dataset) -> str:
    r"""The sha256 of everything a model sees: edges in the order of target and source, weights,
    features, labels and where each graph begins. Names, notes and splits do not count.

    Two sources of one data set have the same fingerprint exactly if their prepared data are the
    same, node for node.

    Args:
        dataset (Dataset): Any data set.
    """
    digest = hashlib.sha256(b"meanmax data 1\n")
    for name, array in _parts(dataset).items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.data if little.size else b"")
    return digest.hexdigest()


def _parts(dataset: Dataset) -> dict[str, np.ndarray]:
    source, target = dataset.edge_index.numpy()
    order = _edge_order(source, target)
    parts = {"source": source[order], "target": target[order]}
    if dataset.edge_weight is not None:
        parts["weight"] = dataset.edge_weight.numpy()[order]
    if isinstance(dataset.x, SparseFeatures):
        rows = dataset.x.to_scipy()
        rows.sort_indices()
        parts["columns"] = rows.indices.astype(np.int64)
        parts["pointer"] = rows.indptr.astype(np.int64)
        parts["values"] = rows.data
        parts["shape"] = np.array(rows.shape)
    else:
        parts["x"] = dataset.x.numpy()
    y = dataset.y if dataset.y.dim() == 1 else dataset.y.nan_to_num(-1.0).to(torch.int8)
    return parts | {"y": y.numpy(), "graphs": dataset.graph_ptr.numpy()}


def _edge_order(source: np.ndarray, target: np.ndarray) -> np.ndarray | slice:
    rising = (target[1:] > target[:-1]) | (
        (target[1:] == target[:-1]) & (source[1:] >= source[:-1])
    )
    return slice(None) if rising.all() else np.lexsort((source, target))
