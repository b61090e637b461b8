r"""Sum, maximum and attention over neighbours on the torch backend.

Sums are sparse products. What needs a tensor of edges × channels is formed a chunk at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import own_weight
from meanmax.ops.reference import edge_targets, row_max, row_sum

MINIMUM_BUDGET = 1 << 16


class Chunk(NamedTuple):
    r"""Some rows and some channels."""

    rows: Tensor  # the rows, ascending
    edges: Tensor  # their edges' positions in CSR order
    target: Tensor  # the position in rows of each edge's row
    channels: slice


def chunk_rows(graph: Graph, rows: Tensor, channels: int, budget: int) -> Iterator[Chunk]:
    r"""Yields chunks with at most about :obj:`budget` numbers per edge tensor.

    Rows come in groups of at most :obj:`budget / channels` edges; a row with more edges than that
    is alone in its group and cut by channels.
    """
    begin = graph.rowptr.long()[rows]
    degree = graph.rowptr.long()[rows + 1] - begin
    most = max(budget // max(channels, 1), 1)
    group = (degree.cumsum(0) - degree) // most
    for size in torch.unique_consecutive(group, return_counts=True)[1].tolist():
        here, rows = rows[:size], rows[size:]
        counts, degree = degree[:size], degree[size:]
        first, begin = begin[:size], begin[size:]
        num_edges = int(counts.sum())
        if num_edges == 0:
            continue
        target = torch.arange(size, device=here.device).repeat_interleave(counts)
        offset = (first - (counts.cumsum(0) - counts))[target]
        edges = torch.arange(num_edges, device=here.device) + offset
        width = max(min(channels, budget // num_edges), 1)
        for start in range(0, channels, width):
            yield Chunk(here, edges, target, slice(start, min(start + width, channels)))


def budget_of(x: Tensor) -> int:
    r"""How many numbers an edge tensor may hold: as many as the features, or a few."""
    return max(x.numel(), MINIMUM_BUDGET)


def head_of_channel(channels: int, heads: int, device: torch.device) -> Tensor:
    r"""The weight head of every channel."""
    return torch.arange(channels, device=device) // (channels // heads)


def product(x: Tensor, graph: Graph, weight: Tensor) -> Tensor:
    r"""Weighted sums over the rows of the graph; :obj:`weight` is :obj:`[num_edges, heads]`."""
    size = (graph.num_dst, graph.num_src)
    return _by_head(graph.rowptr, graph.col, weight, size, x)


def transposed_product(x: Tensor, graph: Graph, weight: Tensor) -> Tensor:
    r"""The same with the transpose: sums over the edges that leave each source."""
    size = (graph.num_src, graph.num_dst)
    weight = weight.index_select(0, graph.csc_to_csr)
    return _by_head(graph.colptr, graph.row, weight, size, x)


def _by_head(
    pointer: Tensor, neighbour: Tensor, weight: Tensor, size: tuple[int, int], x: Tensor
) -> Tensor:
    heads = weight.size(1)
    if heads == 1:
        return _csr(pointer, neighbour, weight[:, 0], size) @ x
    blocks = x.view(x.size(0), heads, -1).unbind(1)
    parts = [
        _csr(pointer, neighbour, weight[:, h].contiguous(), size) @ block.contiguous()
        for h, block in enumerate(blocks)
    ]
    return torch.cat(parts, dim=1)


def _csr(pointer: Tensor, neighbour: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
        return torch.sparse_csr_tensor(pointer, neighbour, values, size, check_invariants=False)


def weighted_sum(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Weighted sums over the rows of the graph."""
    return product(x.detach(), graph, edge_weights(x, graph, weight))


def weighted_sum_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, need_weight: bool
) -> tuple[Tensor, Tensor | None]:
    r"""The gradients of features and weights."""
    edge = edge_weights(x, graph, weight)
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


def edge_weights(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""The weights given, or the graph's own, in the dtype of :obj:`x` and without gradient."""
    return (own_weight(graph, x) if weight is None else weight).detach().to(x.dtype)


def _all_rows(x: Tensor, graph: Graph) -> Iterator[Chunk]:
    rows = torch.arange(graph.num_dst, device=x.device)
    return chunk_rows(graph, rows, x.size(1), budget_of(x))


def _neighbours(
    x: Tensor, graph: Graph, weight: Tensor | None, chunk: Chunk
) -> tuple[Tensor, Tensor]:
    edge = edge_weights(x, graph, weight)
    head = head_of_channel(x.size(1), edge.size(1), x.device)[chunk.channels]
    z = x.detach()[graph.col[chunk.edges].long(), chunk.channels]
    return z, edge[chunk.edges][:, head] > 0


def attention(source: Tensor, target: Tensor, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge, :obj:`[num_edges, heads]`."""
    score = source[graph.col.long()] + target[edge_targets(graph)]
    return row_softmax(torch.nn.functional.leaky_relu(score, slope), graph)


def attention_backward(
    grad: Tensor, alpha: Tensor, source: Tensor, target: Tensor, graph: Graph, slope: float
) -> tuple[Tensor, Tensor]:
    r"""The gradients of the scores of sources and of targets."""
    rows, col = edge_targets(graph), graph.col.long()
    bent = torch.where(source[col] + target[rows] > 0, 1.0, slope)
    edge = row_softmax_backward(grad, alpha, graph) * bent
    return row_sum(edge, col, graph.num_src), row_sum(edge, rows, graph.num_dst)


def row_softmax(score: Tensor, graph: Graph) -> Tensor:
    r"""The softmax of scores over the edges of each target."""
    rows = edge_targets(graph)
    weight = (score - row_max(score.detach(), rows, graph.num_dst)[rows]).exp()
    return weight / row_sum(weight, rows, graph.num_dst)[rows]


def row_softmax_backward(grad: Tensor, alpha: Tensor, graph: Graph) -> Tensor:
    r"""The gradient of the scores."""
    rows = edge_targets(graph)
    mean = row_sum(alpha * grad, rows, graph.num_dst)
    return alpha * (grad - mean[rows])
