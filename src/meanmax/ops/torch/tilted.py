r"""Tilted means: the softmax and the polynomial."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import Gradients
from meanmax.ops.chunks import Chunk, budget_of, chunk_rows, head_of_channel
from meanmax.ops.reference import aggregate_rows, per_node
from meanmax.ops.scaling import Channel, recentre
from meanmax.ops.spec import AggregationSpec, Precision


class ExactRows:
    r"""The rows :obj:`rows` of one aggregation, forward and backward.

    Args:
        x (Tensor): Features, :obj:`[num_src, channels]`.
        graph (Graph): The graph.
        theta (Tensor): The parameter, :obj:`[channels]`.
        weight (Tensor): Weights in CSR order, :obj:`[num_edges, heads]`.
        mu (Tensor): The origin of every graph.
        spec (AggregationSpec): What is computed.
        rows (Tensor): The rows.
    """

    def __init__(
        self, x: Tensor, graph: Graph, theta: Tensor, weight: Tensor, mu: Tensor,
        spec: AggregationSpec, rows: Tensor,
    ) -> None:  # fmt: skip
        self.x, self.graph, self.theta, self.weight = x, graph, theta, weight
        self.spec, self.rows = spec, rows
        self.mu_src, self.mu_dst = per_node(mu, graph)

    def forward(self, out: Tensor) -> None:
        r"""Writes the rows into :obj:`out`."""
        for chunk in self._chunks():
            part = self._aggregate(chunk, *self._inputs(chunk))
            out[chunk.rows, chunk.channels] = part.to(out.dtype)

    def backward(self, grad: Tensor, into: Gradients, graph_of_row: Tensor) -> None:
        r"""Adds to the gradients; that of the origin includes what the features' undo."""
        for chunk in self._chunks():
            leaves = [t.requires_grad_() for t in self._inputs(chunk)]
            with torch.enable_grad():
                out = self._aggregate(chunk, *leaves)
            above = grad[chunk.rows, chunk.channels].double()
            x, theta, weight, mu = torch.autograd.grad(out, leaves, above, allow_unused=True)
            into.x[:, chunk.channels].index_add_(0, self._col(chunk), x.to(into.x.dtype))
            into.theta[chunk.channels] += theta
            if into.weight is not None:
                heads = self._heads(chunk)
                part = into.weight.new_zeros(len(chunk.edges), into.weight.size(1))
                part.index_add_(1, heads, weight.to(part.dtype))
                into.weight.index_add_(0, chunk.edges, part)
            if into.mu is not None:
                into.mu.index_add_(0, graph_of_row[chunk.rows], mu)

    def _chunks(self) -> Iterator[Chunk]:
        return chunk_rows(self.graph, self.rows, self.x.size(1), budget_of(self.x))

    def _col(self, chunk: Chunk) -> Tensor:
        return self.graph.col[chunk.edges].long()

    def _heads(self, chunk: Chunk) -> Tensor:
        heads = head_of_channel(self.x.size(1), self.weight.size(1), self.x.device)
        return heads[chunk.channels]

    def _inputs(self, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x = self.x[self._col(chunk), chunk.channels].double()
        weight = self.weight[chunk.edges].double()[:, self._heads(chunk)]
        assert self.mu_dst is not None
        return x, self.theta[chunk.channels].double(), weight, self.mu_dst[chunk.rows].double()

    def _aggregate(
        self, chunk: Chunk, x: Tensor, theta: Tensor, weight: Tensor, mu: Tensor
    ) -> Tensor:
        edges = torch.arange(len(chunk.edges), device=x.device)
        return aggregate_rows(
            x, theta, weight, edges, chunk.target, len(chunk.rows), self.spec,
            mu[chunk.target], mu,
        )  # fmt: skip


def product(x: Tensor, graph: Graph, weight: Tensor) -> Tensor:
    r"""Weighted sums over the rows of the graph.

    Args:
        x (Tensor): :obj:`[num_src, channels]`.
        graph (Graph): The graph.
        weight (Tensor): In CSR order, :obj:`[num_edges, heads]`; heads divide the channels.
    """
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


class NodeTable:
    r"""Spreads the channel table over nodes: one row for all where there is one graph.

    Args:
        table (Tensor): :obj:`[num_graphs, len(Channel), channels]`.
        graph (Graph): The graph.
    """

    def __init__(self, table: Tensor, graph: Graph) -> None:
        self.table = table
        self.src_graph = graph_of(graph.src_ptr, graph.num_src)
        self.dst_graph = graph_of(graph.dst_ptr, graph.num_dst)

    def src(self, channel: Channel) -> Tensor:
        r"""The row :obj:`channel` for every source, or one that broadcasts over them."""
        return self.spread_src(self.table[:, channel])

    def dst(self, channel: Channel) -> Tensor:
        r"""The row :obj:`channel` for every target, or one that broadcasts over them."""
        return self.spread_dst(self.table[:, channel])

    def spread_src(self, values: Tensor) -> Tensor:
        r"""Takes one row per graph to its sources."""
        return values if values.size(0) == 1 else values[self.src_graph]

    def spread_dst(self, values: Tensor) -> Tensor:
        r"""Takes one row per graph to its targets."""
        return values if values.size(0) == 1 else values[self.dst_graph]

    def sum_src(self, values: Tensor) -> Tensor:
        r"""Sums over the sources of each graph, in float64."""
        return _sum_by(values, self.src_graph, self.table.size(0))

    def sum_dst(self, values: Tensor) -> Tensor:
        r"""Sums over the targets of each graph, in float64."""
        return _sum_by(values, self.dst_graph, self.table.size(0))


def graph_of(pointer: Tensor, num_nodes: int) -> Tensor:
    r"""The graph of every node."""
    graphs = torch.arange(pointer.numel() - 1, device=pointer.device)
    return graphs.repeat_interleave(pointer.diff(), output_size=num_nodes)


def _sum_by(values: Tensor, owner: Tensor, num_graphs: int) -> Tensor:
    if num_graphs == 1:
        return values.sum(dim=0, keepdim=True, dtype=torch.float64)
    total = values.new_zeros(num_graphs, values.size(1), dtype=torch.float64)
    return total.index_add_(0, owner, values.double())


def centred(x: Tensor, nodes: NodeTable) -> Tensor:
    r""":math:`\hat v`, the features in units of their channel."""
    return (x - nodes.src(Channel.CENTRE)) * nodes.src(Channel.INV_SCALE)


def relative_log(x: Tensor, nodes: NodeTable) -> Tensor:
    r""":math:`\log(y / y_{max})`, accurate at both ends; at the origin :math:`-\log y_{max}`.

    The value at the origin makes the derivative of :math:`y^\alpha` in :math:`\alpha` vanish
    there, in the features' own unit.
    """
    span = nodes.src(Channel.RANGE)
    below_top = (x - nodes.src(Channel.TOP)) / span
    y = x - nodes.src(Channel.MU)
    far = (torch.where(y > 0, y, 1.0) / span).clamp(min=_tiny(x)).log()
    return torch.where((below_top > -0.5) & (y > 0), below_top.clamp(min=-0.5).log1p(), far)


def power_tilt(x: Tensor, nodes: NodeTable, logarithm: Tensor) -> Tensor:
    r""":math:`(y / y_{max})^\theta` with :math:`0^0 = 1`; exact for :math:`\theta = 1`."""
    theta = nodes.src(Channel.THETA)
    y = x - nodes.src(Channel.MU)
    tilt = torch.where(theta == 1, y / nodes.src(Channel.RANGE), (theta * logarithm).exp())
    return torch.where(y > 0, tilt, (theta == 0).to(x.dtype))


def tilt_of(x: Tensor, nodes: NodeTable, spec: AggregationSpec, floor: float) -> Tensor:
    r""":math:`T`; for powers at least :obj:`floor` above the origin.

    A sum of exactly 0 then tells that all neighbours sit at the origin.
    """
    if spec.kind == "softmax":
        below_top = (x - nodes.src(Channel.TOP)) * nodes.src(Channel.INV_SCALE)
        return below_top.mul_(nodes.src(Channel.STEEPNESS)).exp_()
    tilt = power_tilt(x, nodes, relative_log(x, nodes))
    return torch.where(x > nodes.src(Channel.MU), tilt.clamp_(min=floor), tilt)


def power_slope(x: Tensor, nodes: NodeTable, tilt: Tensor) -> Tensor:
    r""":math:`T / (y / y_{max})`; at the origin 1 for :math:`\theta = 1` and 0 otherwise."""
    y = x - nodes.src(Channel.MU)
    ratio = (torch.where(y > 0, y, 1.0) / nodes.src(Channel.RANGE)).clamp(min=_tiny(x))
    at_origin = (nodes.src(Channel.THETA) == 1).to(x.dtype)
    return torch.where(y > 0, tilt / ratio, at_origin)


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny


@dataclass(frozen=True, eq=False)
class State:
    r"""Inputs and intermediate results of one aggregation.

    :obj:`total` is :math:`A`, :obj:`below` :math:`S = \sum a T`, :obj:`ratio` the tilted mean in
    units of the channel; all :obj:`[num_dst, channels]`, and :obj:`below` is 0 in rows without
    weight, without a neighbour above the origin, or recomputed as :obj:`exact`. Lp has no
    :obj:`ratio`.
    """

    spec: AggregationSpec
    graph: Graph
    limits: Precision
    x: Tensor
    weight: Tensor
    nodes: NodeTable
    total: Tensor
    below: Tensor
    ratio: Tensor
    exact: ExactRows | None = None


class Pieces(NamedTuple):
    r"""Gradients of one pass over the rows that are not recomputed.

    Args:
        x (Tensor): Of the features.
        theta (Tensor): Of the parameter, float64.
        direct (Tensor): What reaches the origin other than through the features, per graph.
        left (Tensor): The rows' factors for the gradient of the weights.
        whole (Tensor): What every weight of a row gets besides, per channel.
    """

    x: Tensor
    theta: Tensor
    direct: Tensor
    left: Tensor
    whole: Tensor


def mean_ratio(state: State, tilt: Tensor) -> Tensor:
    r"""The tilted mean in units of the channel; overwrites :obj:`tilt`."""
    value = product(tilt.mul_(centred(state.x, state.nodes)), state.graph, state.weight)
    return torch.where(state.below > 0, value / _nonzero(state.below), 0.0)


def mean_output(state: State) -> Tensor:
    r"""The aggregate of every row; :math:`\mu` where all neighbours sit there."""
    nodes = state.nodes
    mean = nodes.dst(Channel.CENTRE) + nodes.dst(Channel.SCALE) * state.ratio
    mean = torch.where(state.below > 0, mean, nodes.dst(Channel.MU))
    if state.spec.times_weight:
        mean = mean * state.total
    return torch.where(state.total > 0, mean, 0.0)


def mean_backward(state: State, grad: Tensor) -> Pieces:
    r"""Two products with the transpose, measured from each channel's average mean."""
    nodes, x, spec = state.nodes, state.x, state.spec
    factor = state.total if spec.times_weight else (state.total > 0).to(x.dtype)
    counted = nodes.sum_dst((state.below > 0).to(x.dtype)).clamp(min=1)
    average = (nodes.sum_dst(state.ratio) / counted).to(x.dtype)
    middle, log_middle = recentre(average, nodes.table, spec)
    q = torch.where(state.below > 0, factor * grad / _nonzero(state.below), 0.0)
    carried = transposed_product(q, state.graph, state.weight)
    bent = transposed_product(
        q * (state.ratio - nodes.spread_dst(middle)), state.graph, state.weight
    )
    away = centred(x, nodes) - nodes.spread_src(middle)
    moved = away * carried - bent
    scale = nodes.table[:, Channel.SCALE].double()
    if spec.kind == "softmax":
        tilt = tilt_of(x, nodes, spec, 0.0)
        slope = torch.where(tilt > 0, nodes.src(Channel.STEEPNESS) * moved, 0.0)
        dx = tilt * (carried + slope)
        theta = (nodes.sum_src(tilt * moved * away) * scale**2).sum(0)
    else:
        logarithm = relative_log(x, nodes)
        tilt = power_tilt(x, nodes, logarithm)
        slope = nodes.src(Channel.THETA) * power_slope(x, nodes, tilt)
        at_origin = x <= nodes.src(Channel.MU)
        slope = torch.where(at_origin & (nodes.src(Channel.THETA) != 1), 0.0, slope)
        dx = tilt * carried + nodes.src(Channel.STEEPNESS) * slope * moved
        logarithm = logarithm - nodes.spread_src(log_middle)
        theta = (nodes.sum_src(tilt * moved * logarithm) * scale).sum(0)
    limit = torch.finfo(x.dtype).max
    return Pieces(
        dx.clamp_(-limit, limit),
        theta,
        nodes.sum_dst(factor * grad).sum(1),
        q * nodes.dst(Channel.SCALE),
        grad * mean_output(state) / _nonzero(state.total) if spec.times_weight else grad * 0,
    )


def _nonzero(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)


def norm_output(state: State) -> Tensor:
    r"""The norm of every row plus the shift."""
    nodes = state.nodes
    out = nodes.dst(Channel.RANGE) * _norm(state) + nodes.dst(Channel.MU) * _root(state)
    return torch.where(state.total > 0, out, 0.0)


def norm_backward(state: State, grad: Tensor) -> Pieces:
    r"""One product with the transpose."""
    nodes, x = state.nodes, state.x
    p = nodes.dst(Channel.THETA)
    alive = state.below > 0
    # S^(1/p - 1); without a neighbour above the origin only p = 1 has a slope there.
    slope = torch.where(alive, _norm(state) / _one(state.below), (p == 1).to(x.dtype))
    grad = torch.where(state.total > 0, grad, 0.0)
    q = slope * grad
    carried = transposed_product(q, state.graph, state.weight)
    logarithm = relative_log(x, nodes)
    tilt = power_tilt(x, nodes, logarithm)
    dx = power_slope(x, nodes, tilt) * carried
    span, mu = nodes.table[:, Channel.RANGE].double(), nodes.table[:, Channel.MU].double()
    exponent = nodes.table[:, Channel.THETA].double()
    entropy = nodes.sum_dst(grad * _norm(state) * _one(state.below).log()) * span
    root = _root(state)
    if state.spec.shift == "consistent":
        entropy = entropy + nodes.sum_dst(grad * root * _one(state.total).log()) * mu
    theta = nodes.sum_src(tilt * logarithm * carried) * span / exponent - entropy / exponent**2
    whole = grad * nodes.dst(Channel.MU) * root / (p * _one(state.total))
    return Pieces(
        dx,
        theta.sum(0),
        nodes.sum_dst(grad * root).sum(1),
        q * nodes.dst(Channel.RANGE) / p,
        whole if state.spec.shift == "consistent" else grad * 0,
    )


def _norm(state: State) -> Tensor:
    p = state.nodes.dst(Channel.THETA)
    norm = torch.where(p == 1, state.below, _one(state.below) ** (1 / p))
    return torch.where(state.below > 0, norm, 0.0)


def _root(state: State) -> Tensor:
    if state.spec.shift == "paper":
        return torch.ones_like(state.total)
    return _one(state.total) ** (1 / state.nodes.dst(Channel.THETA))


def _one(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)
