r"""Sparse matrices from files, checked, and edges in one canonical order."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from meanmax.data.files import DataError


def checked_csr(data: Any, indices: Any, indptr: Any, shape: Any, what: str) -> Any:
    r"""A scipy :obj:`csr_array` of arrays that came from outside, each claim of them checked:
    pointers that rise from 0 to the number of entries, columns within the shape, finite values.

    Args:
        data (ndarray): Stored values.
        indices (ndarray): Their columns.
        indptr (ndarray): The first entry of each row.
        shape (sequence): Rows and columns.
        what (str): The name to use in errors.
    """
    rows, columns = (int(size) for size in shape)
    for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
        if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in "iufb":
            raise DataError(f"'{what}': '{name}' of a sparse matrix must be a vector of numbers")
        if name != "data" and part.dtype.kind not in "iu":
            raise DataError(f"'{what}': '{name}' of a sparse matrix must hold integers")
    if indptr.size != rows + 1 or indptr[0] != 0 or indptr[-1] != indices.size:
        raise DataError(f"'{what}': the row pointer does not fit {rows} rows")
    if (indptr[1:] < indptr[:-1]).any() or data.size != indices.size:
        raise DataError(f"'{what}': the row pointer falls, or values are missing")
    if indices.size and (indices.min() < 0 or indices.max() >= columns):
        raise DataError(f"'{what}': a column index lies outside {columns} columns")
    if not np.isfinite(data).all():
        raise DataError(f"'{what}': a stored value is not finite")
    matrix = scipy.sparse.csr_array((data, indices, indptr), (rows, columns))
    return matrix


def undirected(source: np.ndarray, target: np.ndarray, num_nodes: int) -> Tensor:
    r"""Edges both ways, each once, without self-loops, sorted by target and then source.

    Args:
        source (ndarray): One end of each edge.
        target (ndarray): The other.
        num_nodes (int): The number of nodes.

    Returns:
        :obj:`edge_index`, int64, :obj:`[2, num_edges]`.
    """
    both = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    both = both.astype(np.int64, copy=False)
    if both.size and (both.min() < 0 or both.max() >= num_nodes):
        raise DataError(f"an edge has an end outside the {num_nodes} nodes (got {both.max()})")
    both = both[:, both[0] != both[1]]
    key = distinct(both[1] * num_nodes + both[0])
    return torch.from_numpy(np.stack([key % max(num_nodes, 1), key // max(num_nodes, 1)]))


def distinct(keys: np.ndarray) -> np.ndarray:
    r"""Sorts a vector of integers in place and returns each once. Numpy's :obj:`unique` hashes
    integers, which takes far longer on millions of them.
    """
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if keys.size else keys


def largest_component(adjacency: Any) -> np.ndarray:
    r"""The nodes of the largest connected component, ascending; of several, the first."""
    _, component = connected_components(adjacency, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


def normalise_rows(matrix: Any) -> Any:
    r"""Divides each row by its sum; a row of zeros stays."""
    rows = scipy.sparse.csr_array(matrix, dtype=np.float64)
    total = np.asarray(rows.sum(axis=1)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
    return scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ rows)


def standardise(features: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    r"""Subtracts means and divides by standard deviations, both taken over :obj:`rows`; a constant
    feature is only centred.

    Args:
        features (ndarray): :obj:`[num_nodes, num_features]`.
        rows (ndarray, optional): Which nodes count. (default: all)

    Returns:
        float32, of the same shape.
    """
    values = features.astype(np.float64)
    known = values if rows is None else values[rows]
    spread = known.std(axis=0)
    scaled: np.ndarray = (values - known.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled.astype(np.float32)
