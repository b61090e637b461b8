r"""Sum and maximum, the ends that the aggregators connect, on the numba backend."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.numba import gather
from meanmax.ops.numba.plan import plan_of


def weighted_sum(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Weighted sums over the rows of the graph."""
    plan = plan_of(graph)
    edge = plan.weights(weight, x.dtype).edge
    out = np.empty((plan.num_dst, x.size(1)), x.detach().numpy().dtype)
    gather.product(plan.row_blocks, plan.rowptr, plan.col, edge, _array(x), out)
    return torch.from_numpy(out)


def weighted_sum_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, need_weight: bool
) -> tuple[Tensor, Tensor | None]:
    r"""The gradients of features and weights."""
    plan = plan_of(graph)
    weights = plan.weights(weight, x.dtype)
    g, dx = _array(grad), np.empty_like(_array(x))
    gather.product(plan.source_blocks, plan.colptr, plan.row, weights.transposed, g, dx)
    if not need_weight:
        return torch.from_numpy(dx), None
    return torch.from_numpy(dx), edge_products(x, grad, graph, weights.edge.shape[1])


def edge_products(x: Tensor, y: Tensor, graph: Graph, heads: int) -> Tensor:
    r"""The inner product of :obj:`x` at the source and :obj:`y` at the target of every edge, head
    by head, :obj:`[num_edges, heads]`.
    """
    plan = plan_of(graph)
    out = np.empty((graph.num_edges, heads), _array(x).dtype)
    gather.product_weight_backward(
        plan.row_blocks, plan.rowptr, plan.col, _array(x), _array(y), out
    )
    return torch.from_numpy(out)


def neighbour_max(x: Tensor, graph: Graph, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""The largest neighbour of positive weight, and how many attain it."""
    plan = plan_of(graph)
    edge = plan.weights(weight, x.dtype).edge
    out, ties = np.empty((2, plan.num_dst, x.size(1)), _array(x).dtype)
    gather.maximum(plan.row_blocks, plan.rowptr, plan.col, edge, _array(x), out, ties)
    return torch.from_numpy(out), torch.from_numpy(ties)


def neighbour_max_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, out: Tensor, ties: Tensor
) -> Tensor:
    r"""The gradient of the features, shared evenly among ties."""
    plan = plan_of(graph)
    transposed = plan.weights(weight, x.dtype).transposed
    share = _array(grad) / np.maximum(_array(ties), 1)
    dx = np.empty_like(_array(x))
    gather.maximum_backward(
        plan.source_blocks, plan.colptr, plan.row, transposed, _array(x), _array(out), share, dx
    )
    return torch.from_numpy(dx)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().numpy()
