r"""Sparse matrices from files, checked, and edges in one canonical order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.data.files import DataError

_DEGREES = 64
DEGREE_NAMES = (*(f"degree={degree}" for degree in range(_DEGREES - 1)), f"degree>={_DEGREES - 1}")
r"""The names of the columns of :func:`one_hot_degrees`."""


def csr_problem(data: Any, indices: Any, indptr: Any, shape: Any, prefix: str = "") -> str:
    r"""What is wrong with the arrays of a sparse matrix, or :obj:`""`. The compiled code of scipy
    trusts them.
    """
    for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
        if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in "iufb":
            return f"'{prefix}{name}' must be a vector of numbers"
        if name != "data" and part.dtype.kind not in "iu":
            return f"'{prefix}{name}' must hold integers"
    sizes = [int(size) for size in shape]
    if len(sizes) != 2 or min(sizes) < 0 or indptr.size != sizes[0] + 1:
        return f"'{prefix}shape' does not fit '{prefix}indptr'"
    if indptr[0] != 0 or indptr[-1] != indices.size or (indptr[1:] < indptr[:-1]).any():
        return f"'{prefix}indptr' must rise from 0 to the number of entries"
    outside = indices.size and (indices.min() < 0 or indices.max() >= sizes[1])
    if data.size != indices.size or outside or sizes[1] >= 2**31:
        return f"'{prefix}indices' must name one column of {sizes[1]} for each entry"
    return "" if np.isfinite(data).all() else f"'{prefix}data' holds a value that is not finite"


def undirected(source: np.ndarray, target: np.ndarray, num_nodes: int) -> Tensor:
    r"""Edges both ways, each once, without self-loops, sorted by target and then source."""
    ends = np.stack([source, target]).astype(np.int64, copy=False)
    if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
        raise DataError(f"an edge has an end outside the {num_nodes} nodes (got {ends.max()})")
    source, target = ends[:, ends[0] != ends[1]]
    return canonical_edges(source, target, num_nodes)[0]


def canonical_edges(
    source: np.ndarray,
    target: np.ndarray,
    num_nodes: int,
    weight: np.ndarray | None = None,
    *,
    directed: bool = False,
) -> tuple[Tensor, Tensor | None]:
    r"""Each edge once, sorted by target and then source; repeated edges keep the largest weight.
    Unless they are :obj:`directed`, each is added in the opposite direction, too.
    """
    key = target * num_nodes + source
    if not directed:
        key = np.concatenate([key, source * num_nodes + target])
        weight = None if weight is None else np.concatenate([weight, weight])
    if weight is None:
        key = distinct(key)
    else:
        order = np.argsort(key, kind="stable")
        key, start = np.unique(key[order], return_index=True)
        weight = np.maximum.reduceat(weight[order], start) if start.size else weight
    nodes = max(num_nodes, 1)
    edge_index = torch.from_numpy(np.stack([key % nodes, key // nodes]))
    return edge_index, None if weight is None else torch.from_numpy(weight)


def distinct(keys: np.ndarray) -> np.ndarray:
    r"""Sorts a vector of integers in place and returns each once; much faster than
    :func:`numpy.unique`, which hashes them.
    """
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if keys.size else keys


def standardise(features: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    r"""Subtracts means and divides by standard deviations, both taken over :obj:`rows`; a constant
    feature is only centred. The result is float32; what does not fit is a
    :class:`FloatingPointError`.
    """
    values = features.astype(np.float64)
    known = values if rows is None else values[rows]
    with np.errstate(over="raise", invalid="raise"):
        spread = known.std(axis=0)
        scaled: np.ndarray = (values - known.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return scaled.astype(np.float32)


def one_hot_degrees(edge_index: np.ndarray, num_nodes: int) -> np.ndarray:
    r"""Features of nodes that have none: the number of neighbours, one-hot in 64 columns, the last
    for 63 and more. Every collection gets the same columns, so that a model of one predicts
    another, and a large degree is no large number. Self-loops do not count.
    """
    source, target = edge_index
    degree = np.bincount(target[source != target], minlength=num_nodes)
    x = np.zeros((num_nodes, _DEGREES), np.float32)
    x[np.arange(num_nodes), np.minimum(degree, _DEGREES - 1)] = 1
    return x
