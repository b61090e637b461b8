r"""A hash of prepared data, by which results are known to be comparable."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from meanmax.data.dataset import Dataset
from meanmax.graph import SparseFeatures


def fingerprint(dataset: Dataset) -> str:
    r"""The sha256 of everything a model sees: edges in the order of target and source, weights,
    features, labels and where each graph begins. Names, notes and splits do not count.

    Two sources of one data set have the same fingerprint exactly if their prepared data are the
    same, node for node. How they are stored does not count: weights that are all 1 are as none, and
    features of which at most half are not zero are hashed as sparse, the others as dense.

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
    if dataset.edge_weight is not None and not bool((dataset.edge_weight == 1).all()):
        parts["weight"] = dataset.edge_weight.numpy()[order]
    parts |= _features(dataset.x)
    y = dataset.y if dataset.y.dim() == 1 else dataset.y.nan_to_num(-1.0).to(torch.int8)
    return parts | {"y": y.numpy(), "graphs": dataset.graph_ptr.numpy()}


def _features(x: Tensor | SparseFeatures) -> dict[str, np.ndarray]:
    value = x.value if isinstance(x, SparseFeatures) else x
    if 2 * int(value.count_nonzero()) > x.size(0) * x.size(1):
        dense = x.to_dense() if isinstance(x, SparseFeatures) else x
        return {"x": dense.numpy() + np.float32(0)}  # -0 becomes 0
    sparse = x if isinstance(x, SparseFeatures) else SparseFeatures.from_dense(x, x.dtype)
    rows = sparse.to_scipy().copy()
    rows.eliminate_zeros()
    rows.sort_indices()
    return {
        "columns": rows.indices.astype(np.int64),
        "pointer": rows.indptr.astype(np.int64),
        "values": rows.data,
        "shape": np.array(rows.shape),
    }


def _edge_order(source: np.ndarray, target: np.ndarray) -> np.ndarray | slice:
    rising = (target[1:] > target[:-1]) | (
        (target[1:] == target[:-1]) & (source[1:] >= source[:-1])
    )
    return slice(None) if rising.all() else np.lexsort((source, target))
