r"""Sum and maximum, the ends that the aggregators connect, on the torch backend."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import own_weight
from meanmax.ops.chunks import Chunk, budget_of, chunk_rows, head_of_channel
from meanmax.ops.torch.tilted import product, transposed_product


def weighted_sum(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Weighted sums over the rows of the graph."""
    return product(x.detach(), graph, _weight(x, graph, weight))


def weighted_sum_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, need_weight: bool
) -> tuple[Tensor, Tensor | None]:
    r"""The gradients of features and weights."""
    edge = _weight(x, graph, weight)
    dx = transposed_product(grad.detach().contiguous(), graph, edge)
    if not need_weight:
        return dx, None
    return dx, edge_products(x, grad, graph, edge.size(1))


def edge_products(x: Tensor, y: Tensor, graph: Graph, heads: int) -> Tensor:
    r"""The inner product of :obj:`x` at the source and :obj:`y` at the target of every edge, head
    by head, :obj:`[num_edges, heads]`.
    """
    x, y = x.detach(), y.detach()
    head = head_of_channel(x.size(1), heads, x.device)
    out = x.new_zeros(graph.num_edges, heads)
    for chunk in _all_rows(x, graph):
        part = y[chunk.rows, chunk.channels][chunk.target]
        part = part * x[graph.col[chunk.edges].long(), chunk.channels]
        summed = part.new_zeros(len(part), heads)
        summed.index_add_(1, head[chunk.channels], part)
        out.index_add_(0, chunk.edges, summed)
    return out


def neighbour_max(x: Tensor, graph: Graph, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""The largest neighbour of positive weight, and how many attain it."""
    out, ties = x.detach().new_zeros(2, graph.num_dst, x.size(1))
    for chunk in _all_rows(x, graph):
        z, present = _neighbours(x, graph, weight, chunk)
        index = chunk.target.unsqueeze(1).expand_as(z)
        best = z.new_full((len(chunk.rows), z.size(1)), -torch.inf)
        best.scatter_reduce_(0, index, z.masked_fill(~present, -torch.inf), "amax")
        count = torch.zeros_like(best)
        count.index_add_(0, chunk.target, ((z == best[chunk.target]) & present).to(z.dtype))
        out[chunk.rows, chunk.channels] = torch.where(count > 0, best, 0.0)
        ties[chunk.rows, chunk.channels] = count
    return out, ties


def neighbour_max_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, out: Tensor, ties: Tensor
) -> Tensor:
    r"""The gradient of the features, shared evenly among ties."""
    share = grad / ties.clamp(min=1)
    dx = torch.zeros_like(x)
    for chunk in _all_rows(x, graph):
        z, present = _neighbours(x, graph, weight, chunk)
        attained = (z == out[chunk.rows, chunk.channels][chunk.target]) & present
        part = share[chunk.rows, chunk.channels][chunk.target] * attained
        dx[:, chunk.channels].index_add_(0, graph.col[chunk.edges].long(), part)
    return dx


def _weight(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    return (own_weight(graph, x) if weight is None else weight).detach().to(x.dtype)


def _all_rows(x: Tensor, graph: Graph) -> Iterator[Chunk]:
    rows = torch.arange(graph.num_dst, device=x.device)
    return chunk_rows(graph, rows, x.size(1), budget_of(x))


def _neighbours(
    x: Tensor, graph: Graph, weight: Tensor | None, chunk: Chunk
) -> tuple[Tensor, Tensor]:
    edge = _weight(x, graph, weight)
    head = head_of_channel(x.size(1), edge.size(1), x.device)[chunk.channels]
    z = x.detach()[graph.col[chunk.edges].long(), chunk.channels]
    return z, edge[chunk.edges][:, head] > 0
