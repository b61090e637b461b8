r"""The numba backend: fused kernels over CSR rows forward and CSC rows backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import Gradients
from meanmax.ops.numba import mean, norm, tilt
from meanmax.ops.numba.exact import Exact, exact_forward
from meanmax.ops.numba.plan import Array, Plan, Weights, plan_of
from meanmax.ops.scaling import (
    Channel,
    TooExtremeError,
    channel_table,
    check_features,
    check_magnitude,
    origin_of,
    recentre,
    too_narrow,
)
from meanmax.ops.spec import AggregationSpec, Precision, precision_of


@dataclass(frozen=True, eq=False)
class State:
    r"""What the forward pass leaves for the backward pass.

    :obj:`first` and :obj:`second` are :math:`1/S` and the mean for the tilted means, and
    :math:`S^{1/p-1}` and :math:`S^{1/p} \log S` for the norm. :obj:`average` is that of the
    means per graph and channel. :obj:`rows` are the tilts, kept where weights are given, whose
    gradient needs them again.
    """

    spec: AggregationSpec
    plan: Plan
    weights: Weights
    x: Array
    table: Array
    first: Array | None
    second: Array | None
    lost: Array
    out: Array
    exact: Exact | None
    average: Array | None
    rows: Array | None

    @property
    def limits(self) -> Precision:
        r"""The limits of the dtype."""
        return precision_of(self.x.dtype.name)


def forward(
    x: Tensor,
    graph: Graph,
    theta: Tensor,
    weight: Tensor | None,
    mu: Tensor | None,
    spec: AggregationSpec,
) -> tuple[Tensor, State]:
    r"""Aggregates; the arguments are those of :func:`meanmax.ops.reference.reference`."""
    plan = plan_of(graph)
    weights = plan.weights(weight, x.dtype)
    features = x.detach().contiguous().numpy()
    high, low = _channel_range(plan, features)
    check_features(high, low)
    check_magnitude(high, low)
    if weights.extreme:
        raise TooExtremeError
    sample = torch.from_numpy(features[plan.sample])
    origins = origin_of(low, mu, spec)
    table = channel_table(high, low, origins, theta.detach(), spec, sample).numpy()
    out = np.empty((plan.num_dst, features.shape[1]), features.dtype)
    state = _fast_forward(plan, weights, features, table, out, spec, weight is not None)
    return torch.from_numpy(out), state


def backward(state: State, grad: Tensor, *, need_weight: bool, mu_is_minimum: bool) -> Gradients:
    r"""The gradients of everything, given that of the output."""
    g = grad.detach().contiguous().numpy()
    plan, x = state.plan, state.x
    dx = np.empty_like(x)
    theta, moved = _fast_backward(state, g, dx)
    if state.exact is not None:
        exact_theta, exact_moved = state.exact.backward(state, g, dx)
        theta = theta + exact_theta
        moved = moved + exact_moved
    mu_grad = None
    if state.spec.has_mu:
        shift_theta, direct = _shift_backward(state, g)
        theta = theta + shift_theta
        mu_grad = _per_graph(direct, plan.row_blocks, len(plan.dst_bounds) - 1)
        mu_grad -= _per_graph(moved, plan.source_blocks, len(plan.src_bounds) - 1)
        if mu_is_minimum:
            _spread(plan, x, state.table, mu_grad, dx)
    return Gradients(
        x=torch.from_numpy(dx),
        theta=torch.from_numpy(theta),
        weight=torch.from_numpy(_weight_backward(state, g)) if need_weight else None,
        mu=None if mu_grad is None else torch.from_numpy(mu_grad),
    )


def _channel_range(plan: Plan, x: Array) -> tuple[Tensor, Tensor]:
    blocks = plan.node_blocks
    high, low = np.empty((2, len(blocks), x.shape[1]), x.dtype)
    finite = np.empty(len(blocks), np.bool_)
    tilt.channel_range(blocks, x, high, low, finite)
    if not finite.all():
        high[~finite] = np.nan
    num_graphs = len(plan.src_bounds) - 1
    per_graph = np.zeros((2, num_graphs, x.shape[1]), x.dtype)
    if len(blocks):
        owners, starts = np.unique(blocks[:, 2], return_index=True)
        per_graph[0, owners] = np.maximum.reduceat(high, starts)
        per_graph[1, owners] = np.minimum.reduceat(low, starts)
    return torch.from_numpy(per_graph[0]), torch.from_numpy(per_graph[1])


def _fast_forward(
    plan: Plan,
    weights: Weights,
    x: Array,
    table: Array,
    out: Array,
    spec: AggregationSpec,
    keep: bool,
) -> State:
    first = second = average = exact = rows = None
    lost = np.ones(plan.num_dst, np.bool_)
    if not spec.unit_denominator and not too_narrow(torch.from_numpy(table)):
        first, second = np.empty((2, *out.shape), x.dtype)
        rows = _tilts(plan, x, table, spec, weights.edge.shape[1])
        average = _fast_rows(plan, weights, x, rows, table, out, spec, first, second, lost)
    if lost.any():
        if not (weights.total[~lost] > 0).any():
            first = second = average = None
        exact = exact_forward(plan, weights, x, table, spec, lost, out)
    rows = rows if keep else None
    return State(spec, plan, weights, x, table, first, second, lost, out, exact, average, rows)


def _fast_rows(
    plan: Plan, weights: Weights, x: Array, rows: Array, table: Array, out: Array,
    spec: AggregationSpec, first: Array, second: Array, lost: Array,
) -> Array | None:  # fmt: skip
    r"""Aggregates under the common shift; returns the means' average, if there are means."""
    least = x.dtype.type(precision_of(x.dtype.name).lost)
    shared = (
        plan.row_blocks, plan.rowptr, plan.col, weights.edge, rows, table,
        weights.total, weights.delicate, least,
    )  # fmt: skip
    if spec.kind == "lp":
        norm.norm_forward(*shared, spec.shift == "consistent", first, second, out, lost)
        return None
    ratio_sum = np.zeros((len(plan.row_blocks), x.shape[1]))
    counted = np.zeros(len(plan.row_blocks))
    mean.mean_forward(
        *shared, spec.times_weight, spec.kind == "softmax", first, second, out, lost, ratio_sum,
        counted,
    )  # fmt: skip
    return _average(plan, ratio_sum, counted).astype(x.dtype)


def _tilts(plan: Plan, x: Array, table: Array, spec: AggregationSpec, heads: int) -> Array:
    r"""The rows that the sums gather: the tilts, and beside them the tilted features."""
    floor = x.dtype.type(precision_of(x.dtype.name).floor)
    if spec.kind == "lp":
        rows = np.empty_like(x)
        tilt.tilt_lp(plan.node_blocks, x, table, rows, floor)
        return rows
    rows, width = np.empty((len(x), 2 * x.shape[1]), x.dtype), x.shape[1] // heads
    if spec.kind == "softmax":
        tilt.tilt_softmax(plan.node_blocks, x, table, rows, width)
    else:
        tilt.tilt_polynomial(plan.node_blocks, x, table, rows, width, floor)
    return rows


def _fast_backward(state: State, g: Array, dx: Array) -> tuple[Array, Array]:
    r"""Writes :obj:`dx`; returns the parameter's gradient and :obj:`dx`'s sum per block."""
    plan, table, x, spec = state.plan, state.table, state.x, state.spec
    theta = np.zeros((len(plan.source_blocks), x.shape[1]))
    moved = np.zeros(len(plan.source_blocks))
    if state.first is None or state.second is None:
        dx[...] = 0
        return np.zeros(x.shape[1]), moved
    pulled = np.empty((plan.num_dst, x.shape[1] * (1 if spec.kind == "lp" else 2)), x.dtype)
    transposed = (
        plan.source_blocks, plan.colptr, plan.row, state.weights.transposed, pulled, x, table,
    )  # fmt: skip
    if spec.kind == "lp":
        entropy = np.zeros((len(plan.row_blocks), x.shape[1]))
        norm.norm_pullback(plan.row_blocks, g, state.first, state.second, pulled, entropy)
        norm.norm_backward(*transposed, dx, theta, moved)
        return _norm_theta(state, theta, entropy), moved
    assert state.average is not None
    middle, log_middle = (
        point.numpy()
        for point in recentre(torch.from_numpy(state.average), torch.from_numpy(table), spec)
    )
    mean.mean_pullback(
        plan.row_blocks, g, state.first, state.second, state.weights.total, middle,
        spec.times_weight, pulled,
    )  # fmt: skip
    if spec.kind == "softmax":
        mean.softmax_backward(*transposed, middle, dx, theta)
        power = 2
    else:
        limit = x.dtype.type(state.limits.largest)
        log_units = np.log(table[:, Channel.INV_RANGE])
        mean.polynomial_backward(
            *transposed, middle, log_middle, log_units, dx, theta, limit, moved
        )
        power = 1
    scale = table[plan.source_blocks[:, 2], Channel.SCALE].astype(np.float64)
    return (theta * scale**power).sum(axis=0), moved


def _shift_backward(state: State, g: Array) -> tuple[Array, Array]:
    r"""What the shift gives to the parameter and, per block of rows, to the origin."""
    plan, spec, total = state.plan, state.spec, state.weights.total
    direct = np.zeros(len(plan.row_blocks))
    if spec.kind == "polynomial":
        norm.mean_shift_sums(plan.row_blocks, g, total, spec.times_weight, direct)
        return np.zeros(g.shape[1]), direct
    roots = np.zeros((len(plan.row_blocks), g.shape[1]))
    norm.norm_shift_sums(
        plan.row_blocks, g, total, state.table, spec.shift == "consistent", roots, direct
    )
    mu = state.table[plan.row_blocks[:, 2], Channel.MU].astype(np.float64)
    p = state.table[0, Channel.THETA].astype(np.float64)
    return -(roots * mu).sum(axis=0) / p**2, direct


def _norm_theta(state: State, theta: Array, entropy: Array) -> Array:
    table, plan = state.table.astype(np.float64), state.plan
    p = table[0, Channel.THETA]
    nodes = (theta * table[plan.source_blocks[:, 2], Channel.RANGE]).sum(axis=0)
    rows = (entropy * table[plan.row_blocks[:, 2], Channel.RANGE]).sum(axis=0)
    value: Array = nodes / p - rows / p**2
    return value


def _weight_backward(state: State, g: Array) -> Array:
    plan, total, spec = state.plan, state.weights.total, state.spec
    all_written = state.first is not None and state.exact is None
    weight_grad = (np.empty_like if all_written else np.zeros_like)(state.weights.edge)
    if state.first is not None:
        rows = state.rows
        if rows is None:  # the graph's own weights, with a gradient
            rows = _tilts(plan, state.x, state.table, spec, total.shape[1])
        shared = (plan.row_blocks, plan.rowptr, plan.col, rows, state.table, g, state.first)
        if spec.kind == "lp":
            consistent = spec.shift == "consistent"
            norm.norm_weight_backward(*shared, total, state.lost, consistent, weight_grad)
        else:
            mean.mean_weight_backward(
                *shared, state.second, total, state.lost, spec.times_weight, weight_grad
            )
    if state.exact is not None:
        state.exact.weight_backward(state, g, weight_grad)
    return weight_grad


def _average(plan: Plan, ratio_sum: Array, counted: Array) -> Array:
    r"""The mean of the rows' means per graph and channel, over rows that are not lost."""
    total = np.zeros((len(plan.dst_bounds) - 1, ratio_sum.shape[1]))
    np.add.at(total, plan.row_blocks[:, 2], ratio_sum)
    kept = np.maximum(_per_graph(counted, plan.row_blocks, len(total)), 1)
    average: Array = total / kept[:, None]
    return average


def _per_graph(values: Array, blocks: Array, num_graphs: int) -> Array:
    summed: Array = np.bincount(blocks[:, 2], weights=values, minlength=num_graphs)
    return summed


def _spread(plan: Plan, x: Array, table: Array, mu_grad: Array, dx: Array) -> None:
    mu = np.ascontiguousarray(table[:, Channel.MU, 0])
    count = np.empty(len(plan.node_blocks), np.int64)
    norm.count_origin(plan.node_blocks, x, mu, count)
    ties = _per_graph(count, plan.node_blocks, len(mu))
    share = (mu_grad / np.maximum(ties, 1)).astype(x.dtype)
    norm.spread_origin(plan.node_blocks, x, mu, share, dx)
