r"""How much a node's neighbourhood disagrees with it, channel by channel: Masked GCN's exponent."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from meanmax import functional
from meanmax.graph import (Graph, SparseFeatures)
from meanmax.ops.edge_weight import (own_weight, summed_weights)

COLUMNS = 128


def spread(x: Tensor, graph: Graph, degree: Tensor) -> Tensor:
    r""":math:`\frac{1}{d_i} \sum_j \hat A_{ij} (x_i - x_j)^2` of every node and channel.

    Measured from the channel's mean, which changes nothing but leaves less to cancel; what
    rounding leaves below 0 is 0.

    Args:
        x (Tensor): :obj:`[num_nodes, channels]`.
        graph (Graph): With weights :math:`\hat A`.
        degree (Tensor): :math:`d`, :obj:`[num_nodes, 1]`.
    """
    total = summed_weights(graph).to(x.dtype)
    centred = x - graph.total(x) / graph.total(x.new_ones(x.size(0), 1)).clamp(min=1)
    both = functional.sum(torch.cat([centred, centred * centred], dim=1), graph)
    first, second = both.chunk(2, dim=1)
    whole = centred * (centred * total - 2 * first) + second
    return whole.clamp(min=0) / _divisor(degree).to(x.dtype)


def sparse_spread(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    r"""The same at the places that sparse features store, :obj:`[stored]`, without gradient.

    It stays the same while features and graph do, and is remembered with the graph.
    """
    remembered = graph.cache.get("sparse_spread")
    if remembered is None or remembered[0] is not x.value or remembered[1] is not x.graph:
        with torch.inference_mode(False):
            remembered = (x.value, x.graph, _sparse_spread(x, graph, degree))
        graph.cache["sparse_spread"] = remembered
    found: Tensor = remembered[2]
    return found


@torch.no_grad()
def _sparse_spread(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    if not graph.is_whole:
        return _spread_by_columns(x, graph, degree)
    features = x.to(torch.float64).to_scipy()
    weight = own_weight(graph, torch.empty(0, dtype=torch.float64))
    adjacency = SparseFeatures(graph, weight.squeeze(1)).to_scipy()
    row = np.repeat(np.arange(len(features.indptr) - 1), np.diff(features.indptr))
    total, column, value = np.asarray(adjacency.sum(axis=1)), features.indices, features.data
    squared = scipy.sparse.csr_array((value**2, column, features.indptr), features.shape)
    first = _at(adjacency @ features, row, column)
    second = _at(adjacency @ squared, row, column)
    whole = value * (value * total[row] - 2 * first) + second
    found = torch.from_numpy(np.maximum(whole, 0) / _divisor(degree).double().cpu().numpy()[row, 0])
    return found.to(x.device, x.dtype)


def _spread_by_columns(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    r"""The same where some neighbours' features are elsewhere: some dense columns at a time."""
    wide = x.to(torch.float64)
    row = torch.repeat_interleave(torch.arange(x.size(0)), x.graph.rowptr.diff().long())
    column, found = x.graph.col.long(), torch.zeros_like(wide.value)
    for first in range(0, x.size(1), COLUMNS):
        inside = (column >= first) & (column < first + COLUMNS)
        at = (row[inside], column[inside] - first)
        dense = wide.value.new_zeros(x.size(0), min(COLUMNS, x.size(1) - first))
        dense[at] = wide.value[inside]
        found[inside] = spread(dense, graph, degree)[at]
    return found.to(x.dtype)


def _divisor(degree: Tensor) -> Tensor:
    r"""Degrees, and 1 where there is no edge and so nothing to divide."""
    return degree.where(degree > 0, 1.0)


def _at(matrix: scipy.sparse.csr_array, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    if not len(row):  # scipy would give an array of objects
        return np.zeros(0)
    entries: np.ndarray = np.asarray(matrix[row, column]).reshape(-1)
    return entries
