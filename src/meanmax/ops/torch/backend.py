r"""The torch backend: sparse CSR products on any device.

Every sum over edges is a sparse product, so nothing of shape [edges, channels] exists, except a
chunk at a time: for rows that underflow and for the gradient of edge weights.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import Gradients, own_weight, row_totals
from meanmax.ops.chunks import budget_of, chunk_rows, head_of_channel
from meanmax.ops.scaling import (
    Channel,
    TooExtremeError,
    channel_table,
    check_features,
    check_magnitude,
    origin_of,
    sample_nodes,
)
from meanmax.ops.spec import AggregationSpec, Precision, precision_of
from meanmax.ops.torch.tilted import (
    ExactRows,
    NodeTable,
    Pieces,
    State,
    centred,
    graph_of,
    mean_backward,
    mean_output,
    mean_ratio,
    norm_backward,
    norm_output,
    product,
    tilt_of,
)


def forward(
    x: Tensor,
    graph: Graph,
    theta: Tensor,
    weight: Tensor | None,
    mu: Tensor | None,
    spec: AggregationSpec,
) -> tuple[Tensor, State]:
    r"""Aggregates; the arguments are those of :func:`meanmax.ops.reference.reference`."""
    x, theta = x.detach(), theta.detach()
    weight = (own_weight(graph, x) if weight is None else weight).detach().to(x.dtype)
    limits = precision_of(str(x.dtype).removeprefix("torch."))
    high, low = _channel_range(x, graph)
    check_features(high, low)
    check_magnitude(high, low)
    check_weights(weight, limits)
    origin = origin_of(low, mu, spec)
    sample = x[sample_nodes(graph.src_ptr)]
    nodes = NodeTable(channel_table(high, low, origin, theta, spec, sample), graph)
    total = row_totals(graph, weight).repeat_interleave(x.size(1) // weight.size(1), dim=1)
    tilt = tilt_of(x, nodes, spec, limits.floor)
    below = product(tilt, graph, weight)
    lost = _lost_rows(below, total, weight, graph, limits, spec)
    below = torch.where((total > 0) & ~lost.unsqueeze(1), below, 0.0)
    state = State(spec, graph, limits, x, weight, nodes, total, below, ratio=below)
    if spec.kind == "lp":
        out = norm_output(state)
    else:
        state = replace(state, ratio=mean_ratio(state, tilt))
        out = mean_output(state)
    rows = lost.nonzero().flatten()
    if rows.numel():
        exact = ExactRows(x, graph, theta, weight, origin, spec, rows)
        exact.forward(out)
        state = replace(state, exact=exact)
    return out, state


def backward(state: State, grad: Tensor, *, need_weight: bool, mu_is_minimum: bool) -> Gradients:
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


def check_weights(weight: Tensor, limits: Precision) -> None:
    r"""Raises :class:`TooExtremeError` where some weight needs a wider dtype."""
    least = limits.least_weight
    if least and bool((((weight > 0) & (weight < least)) | (weight > limits.largest_weight)).any()):
        raise TooExtremeError


def _channel_range(x: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    if graph.num_graphs == 1:
        low, high = x.aminmax(dim=0, keepdim=True)
        return high, low
    owner = graph_of(graph.src_ptr, graph.num_src).unsqueeze(1).expand_as(x)
    empty = x.new_zeros(graph.num_graphs, x.size(1))
    high = empty.scatter_reduce(0, owner, x, "amax", include_self=False)
    return high, empty.scatter_reduce(0, owner, x, "amin", include_self=False)


def _lost_rows(
    below: Tensor,
    total: Tensor,
    weight: Tensor,
    graph: Graph,
    limits: Precision,
    spec: AggregationSpec,
) -> Tensor:
    if spec.unit_denominator:
        return torch.ones(graph.num_dst, dtype=torch.bool, device=below.device)
    lost = ~(below >= limits.lost * total)
    if spec.has_mu:
        lost &= below != 0
    rows = lost.any(dim=1)
    outside = ((weight > 0) & (weight < limits.smallest_weight)) | (weight > limits.largest_weight)
    if bool(outside.any()):
        rows |= (row_totals(graph, outside.to(below.dtype)) > 0).any(dim=1)
    return rows


def _weight_backward(state: State, pieces: Pieces) -> Tensor:
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


def _spread(state: State, mu: Tensor, dx: Tensor) -> None:
    r"""Shares the origin's gradient evenly among the features that attain it."""
    attained = (state.x == state.nodes.src(Channel.MU)).to(dx.dtype)
    ties = state.nodes.sum_src(attained).sum(1).clamp(min=1)
    share = (mu / ties).to(dx.dtype).unsqueeze(1)
    dx.addcmul_(attained, state.nodes.spread_src(share))
