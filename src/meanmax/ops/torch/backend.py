r"""The torch backend: sparse CSR products on any device.

Every sum over edges is a sparse product, so nothing of shape [edges, channels] exists, except a
chunk at a time: for rows that underflow and for the gradient of edge weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import Gradients, row_totals
from meanmax.ops.reference import aggregate_rows, per_node
from meanmax.ops.scaling import (
    CONCENTRATED,
    FAR_OUTLYING,
    OUTLYING,
    SMALLEST_SPREAD,
    STEEP,
    STEEP_POWER,
    Channel,
    TooExtremeError,
    check_origin,
    check_range,
    is_extreme,
    recentre,
    sample_nodes,
    saturate,
)
from meanmax.ops.spec import FLOAT32, AggregationSpec, Precision, precision_of
from meanmax.ops.torch import reduce
from meanmax.ops.torch.reduce import (
    Chunk,
    budget_of,
    chunk_rows,
    edge_weights,
    head_of_channel,
    product,
    transposed_product,
)

__all__ = ["backward", "forward", "reduce"]


def forward(
    x: Tensor,
    graph: Graph,
    theta: Tensor,
    weight: Tensor | None,
    mu: Tensor | None,
    spec: AggregationSpec,
) -> tuple[Tensor, TorchState]:
    r"""Aggregates; the arguments are those of :func:`meanmax.ops.reference.reference`."""
    x, theta, limits = x.detach(), theta.detach(), precision_of(x)
    high, low = _channel_range(x, graph)
    bottom, top = float(low.amin()), float(high.amax())
    check_range(bottom, top, x.dtype, limits)
    if is_extreme(bottom, top, limits):
        raise TooExtremeError
    origin = low.amin(dim=1) if spec.has_mu else low.new_zeros(len(low))
    if mu is not None and spec.has_mu:
        check_origin(mu, origin)
        origin = mu.detach().to(x.dtype)
    sample = x[sample_nodes(graph.src_ptr)]
    table = channel_table(high, low, origin, theta, spec, sample)
    uneven = weight is not None and spec.has_mu and _has_outliers(table, sample)
    weight = edge_weights(x, graph, weight)
    narrow = limits is FLOAT32 and (uneven or _is_narrow(table, high, low, spec))
    if narrow or _has_extreme_weights(weight, limits):
        raise TooExtremeError
    nodes = NodeTable(table, graph)
    if limits is FLOAT32 and spec.has_mu and _underflows(x, nodes):
        raise TooExtremeError
    total = row_totals(graph, weight).repeat_interleave(x.size(1) // weight.size(1), dim=1)
    tilt = tilt_of(x, nodes, spec, limits.floor)
    below = product(tilt, graph, weight)
    exact_rows = _needs_exact(below, total, weight, graph, limits, spec) | uneven
    below = torch.where((total > 0) & ~exact_rows.unsqueeze(1), below, 0.0)
    state = TorchState(spec, graph, limits, x, weight, nodes, total, below, ratio=below)
    if spec.kind == "lp":
        out = norm_output(state)
    else:
        ratio = mean_ratio(state, tilt)
        if spec.has_mu:
            exact_rows |= _is_far(ratio, state).any(dim=1)
            kept = (~exact_rows).unsqueeze(1)
            below, ratio = torch.where(kept, below, 0.0), torch.where(kept, ratio, 0.0)
        state = replace(state, below=below, ratio=ratio)
        out = mean_output(state)
    rows = exact_rows.nonzero().flatten()
    if rows.numel():
        exact = ExactRows(x, graph, theta, weight, origin, spec, rows)
        exact.forward(out)
        state = replace(state, exact=exact)
    return out, state


def backward(
    state: TorchState, grad: Tensor, *, need_weight: bool, mu_is_minimum: bool
) -> Gradients:
    r"""The gradients of everything, given that of the output."""
    grad = grad.detach().contiguous()
    kept = grad if state.exact is None else grad.index_fill(0, state.exact.rows, 0.0)
    rule = norm_backward if state.spec.kind == "lp" else mean_backward
    pieces = rule(state, kept)
    mu = pieces.direct - state.nodes.sum_src(pieces.x).sum(1) if state.spec.has_mu else None
    weight = _weight_backward(state, pieces) if need_weight else None
    grads = Gradients(pieces.x, pieces.theta, weight, mu)
    if state.exact is not None:
        state.exact.backward(grad, grads, graph_of(state.graph.dst_ptr, state.graph.num_dst))
    if mu_is_minimum and mu is not None:
        _spread(state, mu, grads.x)
    limit = state.limits.largest
    weight = None if weight is None else weight.clamp_(-limit, limit)
    return grads._replace(x=grads.x.clamp_(-limit, limit), weight=weight)


def _has_extreme_weights(weight: Tensor, limits: Precision) -> bool:
    r"""Whether some weight needs a wider dtype."""
    least = limits.least_weight
    outside = ((weight > 0) & (weight < least)) | (weight > limits.largest_weight)
    return least > 0 and bool(outside.any())


def _is_narrow(table: Tensor, high: Tensor, low: Tensor, spec: AggregationSpec) -> bool:
    r"""Whether some range is too small for float32."""
    centre = table[:, Channel.CENTRE]
    spread = torch.maximum((high - centre).abs(), (low - centre).abs())
    narrow = (spread > 0) & (spread < SMALLEST_SPREAD)
    if spec.has_mu:
        narrow |= table[:, Channel.RANGE] < SMALLEST_SPREAD
    return bool(narrow.any())


def _underflows(x: Tensor, nodes: NodeTable) -> bool:
    r"""Whether some feature's distance from the origin, or its share of the range, is subnormal."""
    y = x - nodes.src(Channel.MU)
    least = torch.minimum(y, y / nodes.src(Channel.RANGE))
    return bool(((y > 0) & (least < 2 * _tiny(x))).any())


def _has_outliers(table: Tensor, sample: Tensor) -> bool:
    r"""Whether the range of some channel is :obj:`OUTLYING` times that of its bulk, in float64
    :obj:`FAR_OUTLYING` times.
    """
    most = OUTLYING if sample.itemsize == 4 else FAR_OUTLYING
    ordered = sample.sort(dim=1).values
    bulk = ordered[:, sample.size(1) * 3 // 4] - ordered[:, sample.size(1) // 4]
    return bool(((bulk > 0) & (table[:, Channel.RANGE] > most * bulk)).any())


def channel_table(
    high: Tensor, low: Tensor, mu: Tensor, theta: Tensor, spec: AggregationSpec, sample: Tensor
) -> Tensor:
    r"""The table of :mod:`meanmax.ops.scaling` from the largest and smallest feature per graph and
    channel, the origin per graph, the parameter per channel, and features of sampled nodes.
    """
    origin, theta = mu.unsqueeze(1).expand_as(high), theta.expand_as(high)
    ordered = sample.sort(dim=1).values
    quarter, half, three = (ordered[:, sample.size(1) * k // 4] for k in (1, 2, 3))
    base = torch.zeros_like(high) if spec.kind == "softmax" else origin
    concentrated = three - quarter < CONCENTRATED * (half - base).abs()
    steep = theta * high.abs() > STEEP if spec.kind == "softmax" else theta >= STEEP_POWER
    centre = torch.where(steep, high, torch.where(concentrated, half, base))
    scale = _next_power_of_two(torch.maximum((high - centre).abs(), (low - centre).abs()))
    span = high - origin
    span = torch.where(span > 0, span, 1.0)
    slope = theta * scale if spec.kind == "softmax" else scale / span
    slope = slope.clamp(max=torch.finfo(high.dtype).max)
    inverse = 1 / torch.where(theta > 0, theta, 1.0)
    table = (high, centre, scale, 1 / scale, origin, span, theta, slope, 1 / span, inverse)
    return torch.stack(table, dim=1)


def _next_power_of_two(values: Tensor) -> Tensor:
    exponent = torch.frexp(torch.where(values > 0, values, 0.5))[1]
    # Its inverse must be a normal number too.
    largest = int(-math.log2(torch.finfo(values.dtype).tiny))
    return torch.ldexp(torch.ones_like(values), exponent.clamp(-largest, largest))


def _channel_range(x: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    if graph.num_graphs == 1:
        low, high = x.aminmax(dim=0, keepdim=True)
        return high, low
    owner = graph_of(graph.src_ptr, graph.num_src).unsqueeze(1).expand_as(x)
    empty = x.new_zeros(graph.num_graphs, x.size(1))
    high = empty.scatter_reduce(0, owner, x, "amax", include_self=False)
    return high, empty.scatter_reduce(0, owner, x, "amin", include_self=False)


def _needs_exact(
    below: Tensor,
    total: Tensor,
    weight: Tensor,
    graph: Graph,
    limits: Precision,
    spec: AggregationSpec,
) -> Tensor:
    if spec.unit_denominator:
        return torch.ones(graph.num_dst, dtype=torch.bool, device=below.device)
    fell = ~(below >= limits.least_share * total)
    if spec.has_mu:
        fell &= below != 0
    rows = fell.any(dim=1)
    outside = ((weight > 0) & (weight < limits.smallest_weight)) | (weight > limits.largest_weight)
    if bool(outside.any()):
        rows |= (row_totals(graph, outside.to(below.dtype)) > 0).any(dim=1)
    return rows


def _is_far(ratio: Tensor, state: TorchState) -> Tensor:
    r"""Whether a mean is too far from the centre for the digits of its distance from the origin."""
    nodes = state.nodes
    away = nodes.dst(Channel.SCALE) * ratio
    above = (nodes.dst(Channel.CENTRE) - nodes.dst(Channel.MU)) + away
    return (away.abs() > state.limits.farthest * above) & (state.below > 0)


def _weight_backward(state: TorchState, pieces: Pieces) -> Tensor:
    r"""The products of rows and sources sampled at the edges, a chunk at a time."""
    graph, heads = state.graph, state.weight.size(1)
    head = head_of_channel(state.x.size(1), heads, state.x.device)
    tilt = tilt_of(state.x, state.nodes, state.spec, state.limits.floor)
    value = None if state.spec.kind == "lp" else centred(state.x, state.nodes)
    grad = torch.zeros_like(state.weight)
    rows = torch.arange(graph.num_dst, device=grad.device)
    if state.exact is not None:
        rows = rows[~torch.isin(rows, state.exact.rows)]
    for chunk in chunk_rows(graph, rows, state.x.size(1), budget_of(state.x)):
        row = chunk.rows[chunk.target]
        col = graph.col[chunk.edges].long()
        part = tilt[col, chunk.channels]
        if value is not None:
            part *= value[col, chunk.channels] - state.ratio[row, chunk.channels]
        part *= pieces.left[row, chunk.channels]
        part += pieces.whole[row, chunk.channels]
        alive = state.total[row, chunk.channels] > 0
        summed = grad.new_zeros(len(col), heads)
        summed.index_add_(1, head[chunk.channels], torch.where(alive, part, 0.0))
        grad.index_add_(0, chunk.edges, summed)
    return grad


def _spread(state: TorchState, mu: Tensor, dx: Tensor) -> None:
    r"""Shares the origin's gradient evenly among the features that attain it."""
    attained = (state.x == state.nodes.src(Channel.MU)).to(dx.dtype)
    ties = state.nodes.sum_src(attained).sum(1).clamp(min=1)
    share = (mu / ties).to(dx.dtype).unsqueeze(1)
    dx.addcmul_(attained, state.nodes.spread_src(share))


class ExactRows:
    r"""The rows of one aggregation that underflow under the common shift, by the reference's
    formulas in float64; :obj:`mu` is the origin of every graph.
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
            x = saturate(x, into.x.dtype)
            into.x[:, chunk.channels].index_add_(0, self._col(chunk), x)
            into.theta[chunk.channels] += theta
            if into.weight is not None:
                heads = self._heads(chunk)
                part = weight.new_zeros(len(chunk.edges), into.weight.size(1))
                part = saturate(part.index_add_(1, heads, weight), into.weight.dtype)
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
    above = torch.where(y > 0, y, 1.0)
    far = (above / span).clamp(min=_tiny(x)).log()
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
class TorchState:
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
    r"""Gradients of one pass over the rows that are not recomputed."""

    x: Tensor  # of the features
    theta: Tensor  # of the parameter, float64
    direct: Tensor  # what reaches the origin other than through the features, per graph
    left: Tensor  # the rows' factors for the gradient of the weights
    whole: Tensor  # what every weight of a row gets besides, per channel


def mean_ratio(state: TorchState, tilt: Tensor) -> Tensor:
    r"""The tilted mean in units of the channel; overwrites :obj:`tilt`."""
    value = product(tilt.mul_(centred(state.x, state.nodes)), state.graph, state.weight)
    return torch.where(state.below > 0, value / _nonzero(state.below), 0.0)


def mean_output(state: TorchState) -> Tensor:
    r"""The aggregate of every row; :math:`\mu` where all neighbours sit there."""
    nodes = state.nodes
    mean = nodes.dst(Channel.CENTRE) + nodes.dst(Channel.SCALE) * state.ratio
    mean = torch.where(state.below > 0, mean, nodes.dst(Channel.MU))
    if state.spec.times_weight:
        mean = mean * state.total
    return torch.where(state.total > 0, mean, 0.0)


def mean_backward(state: TorchState, grad: Tensor) -> Pieces:
    r"""Two products with the transpose, measured from each channel's average mean."""
    nodes, x, spec = state.nodes, state.x, state.spec
    factor = state.total if spec.times_weight else (state.total > 0).to(x.dtype)
    counted = nodes.sum_dst((state.below > 0).to(x.dtype)).clamp(min=1)
    average = (nodes.sum_dst(state.ratio) / counted).to(x.dtype)
    middle, share = recentre(torch, average, nodes.table, spec)
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
        logarithm = logarithm - nodes.spread_src(share.log())
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


def norm_output(state: TorchState) -> Tensor:
    r"""The norm of every row plus the shift."""
    nodes = state.nodes
    out = nodes.dst(Channel.RANGE) * _norm(state) + nodes.dst(Channel.MU) * _root(state)
    return torch.where(state.total > 0, out, 0.0)


def norm_backward(state: TorchState, grad: Tensor) -> Pieces:
    r"""One product with the transpose."""
    nodes, x = state.nodes, state.x
    p = nodes.dst(Channel.THETA)
    alive = state.below > 0
    # S^(1/p - 1); without a neighbour above the origin only p = 1 has a slope there.
    slope = torch.where(alive, _norm(state) / _nonzero(state.below), (p == 1).to(x.dtype))
    grad = torch.where(state.total > 0, grad, 0.0)
    q = slope * grad
    carried = transposed_product(q, state.graph, state.weight)
    logarithm = relative_log(x, nodes)
    tilt = power_tilt(x, nodes, logarithm)
    dx = power_slope(x, nodes, tilt) * carried
    span, mu = nodes.table[:, Channel.RANGE].double(), nodes.table[:, Channel.MU].double()
    exponent = nodes.table[:, Channel.THETA].double()
    entropy = nodes.sum_dst(grad * _norm(state) * _nonzero(state.below).log()) * span
    root = _root(state)
    if state.spec.shift == "consistent":
        entropy = entropy + nodes.sum_dst(grad * root * _nonzero(state.total).log()) * mu
    theta = nodes.sum_src(tilt * logarithm * carried) * span / exponent - entropy / exponent**2
    whole = grad * nodes.dst(Channel.MU) * root / (p * _nonzero(state.total))
    return Pieces(
        dx,
        theta.sum(0),
        nodes.sum_dst(grad * root).sum(1),
        q * nodes.dst(Channel.RANGE) / p,
        whole if state.spec.shift == "consistent" else grad * 0,
    )


def _norm(state: TorchState) -> Tensor:
    p = state.nodes.dst(Channel.THETA)
    norm = torch.where(p == 1, state.below, _nonzero(state.below) ** (1 / p))
    return torch.where(state.below > 0, norm, 0.0)


def _root(state: TorchState) -> Tensor:
    if state.spec.shift == "paper":
        return torch.ones_like(state.total)
    return _nonzero(state.total) ** (1 / state.nodes.dst(Channel.THETA))
