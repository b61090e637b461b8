r"""The numba backend: fused kernels over CSR rows forward and CSC rows backward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import Gradients
from meanmax.ops.numba import mean, norm, reduce
from meanmax.ops.numba.blocks import (
    Array,
    EdgeWeights,
    GraphBlocks,
    as_array,
    averages,
    blocks_of_graph,
    sum_parts,
)
from meanmax.ops.numba.exact import ExactState, exact_forward
from meanmax.ops.numba.launch import kernel, larger, scratch, subroutine, where, zero_scratch
from meanmax.ops.numba.memory import empty, empty_like
from meanmax.ops.numba.vector_math import (
    CENTRE,
    HALF,
    INV_RANGE,
    INV_SCALE,
    INV_THETA,
    MU,
    ONE,
    RANGE,
    SCALE,
    STEEPNESS,
    THETA,
    TOP,
    ZERO,
    U,
    clipped,
    power_of_two,
    split_weight,
)
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
)
from meanmax.ops.spec import AggregationSpec, precision_of

__all__ = ["backward", "forward", "reduce"]


@dataclass(frozen=True, eq=False)
class NumbaState:
    r"""What the forward pass leaves for the backward pass.

    :obj:`first` and :obj:`second` are :math:`1/S` and the mean for the tilted means, and
    :math:`S^{1/p-1}` and :math:`S^{1/p} \log_2 S` for the norm. :obj:`average` is the mean of the
    rows' means per graph and channel. :obj:`tilts` are kept where weights are given, whose
    gradient needs them again. :obj:`limit` is the largest finite number.
    """

    spec: AggregationSpec
    blocks: GraphBlocks
    weights: EdgeWeights
    x: Array
    table: Array
    first: Array | None
    second: Array | None
    average: Array | None
    tilts: Array | None
    needs_exact: Array
    exact: ExactState | None
    ties: Array  # how many features of each block of nodes lie at the origin
    limit: np.floating

    def sum_theta(self, parts: Array) -> Array:
        r"""The gradient of a mean's parameter from its parts per block of sources."""
        power = 2 if self.spec.kind == "softmax" else 1
        summed: Array = sum_parts(parts, self.blocks.source_blocks, self.table, SCALE, power)
        return summed


def forward(
    x: Tensor,
    graph: Graph,
    theta: Tensor,
    weight: Tensor | None,
    mu: Tensor | None,
    spec: AggregationSpec,
) -> tuple[Tensor, NumbaState]:
    r"""Aggregates; the arguments are those of :func:`meanmax.ops.reference.reference`."""
    blocks, z = blocks_of_graph(graph), as_array(x)
    weights, limits = blocks.weights(weight, x.dtype), precision_of(z)
    num_graphs, channels = len(blocks.src_bounds) - 1, z.shape[1]
    origin = np.zeros(num_graphs, z.dtype) if mu is None else as_array(mu)
    table = np.empty((num_graphs, len(Channel), channels), z.dtype)
    ends, marks = np.empty((2, num_graphs), z.dtype), np.empty((2, num_graphs), np.bool_)
    narrow, outlying = marks
    parts = np.empty((2, len(blocks.node_blocks), channels), z.dtype)
    channel_ends(blocks.node_blocks, z, parts)
    channel_table(
        table, blocks.block_ptr, z, blocks.sample, as_array(theta), spec.kind == "softmax",
        mu is None, origin, parts, ends, marks,
    )  # fmt: skip
    bottom, top = float(ends[0].min()), float(ends[1].max())
    check_range(bottom, top, x.dtype, limits)
    if mu is not None and spec.has_mu:
        check_origin(origin, ends[0])
    total, extreme_weights, too_extreme = weights.sums
    uneven = narrow.any() or (weight is not None and outlying.any())
    if too_extreme or (z.itemsize == 4 and uneven) or is_extreme(bottom, top, limits):
        raise TooExtremeError
    out = empty((graph.num_dst, channels), z.dtype)
    fast = _FastRows(None, None, None, None)
    exact, ties = None, np.full(len(blocks.node_blocks), -1)
    needs_exact = np.ones(graph.num_dst, np.bool_)
    if not spec.unit_denominator and not uneven:
        fast = _fast_forward(blocks, weights, z, table, spec, needs_exact, out, ties)
        if weight is None:
            fast = fast._replace(tilts=None)
    if needs_exact.any():
        if not (total[~needs_exact] > 0).any():
            fast = _FastRows(None, None, None, None)
        exact = exact_forward(blocks, weights, z, table, spec, needs_exact, out)
    limit = z.dtype.type(limits.largest)
    return torch.from_numpy(out), NumbaState(
        spec, blocks, weights, z, table, *fast, needs_exact, exact, ties, limit
    )


class _FastRows(NamedTuple):
    first: Array | None
    second: Array | None
    average: Array | None
    tilts: Array | None


def _fast_forward(
    blocks: GraphBlocks, weights: EdgeWeights, x: Array, table: Array, spec: AggregationSpec,
    needs_exact: Array, out: Array, ties: Array,
) -> _FastRows:  # fmt: skip
    r"""Writes :obj:`out` and the rows that need the exact path."""
    total, extreme_weights, _ = weights.sums
    first, second = empty((2, *out.shape), x.dtype)
    tilts = _tilts(blocks, x, table, spec, total.shape[1], ties)
    shared = (
        blocks.row_blocks, blocks.rowptr, blocks.col, weights.edge, tilts, table, total,
        extreme_weights, x.dtype.type(precision_of(x).least_share),
    )  # fmt: skip
    if spec.kind == "lp":
        consistent = spec.shift == "consistent"
        norm.norm_forward(*shared, consistent, first, second, out, needs_exact)
        return _FastRows(first, second, None, tilts)
    sums = np.zeros((len(blocks.row_blocks), out.shape[1]))
    counted = np.zeros(len(blocks.row_blocks))
    mean.mean_forward(
        *shared, spec.times_weight, spec.kind == "softmax", x.dtype.type(precision_of(x).farthest),
        first, second, out, needs_exact, sums, counted,
    )  # fmt: skip
    average = np.empty((len(table), out.shape[1]), x.dtype)
    averages(sums, counted, blocks.row_blocks, average)
    return _FastRows(first, second, average, tilts)


def backward(
    state: NumbaState, grad: Tensor, *, need_weight: bool, mu_is_minimum: bool
) -> Gradients:
    r"""The gradients of everything, given that of the output; those of the features are finite."""
    g = as_array(grad)
    blocks, x = state.blocks, state.x
    dx = empty_like(x)
    theta, moved, direct = _fast_backward(state, g, dx)
    if state.exact is not None:
        exact_theta, exact_moved = state.exact.backward(state, g, dx)
        theta = theta + exact_theta
        moved = moved + exact_moved
    mu_grad = None
    if state.spec.has_mu:
        mu_grad = blocks.per_graph(direct, blocks.row_blocks)
        mu_grad -= blocks.per_graph(moved, blocks.source_blocks)
        if mu_is_minimum:
            _spread(state, mu_grad, dx)
    return Gradients(
        x=torch.from_numpy(dx),
        theta=torch.from_numpy(theta),
        weight=torch.from_numpy(_weight_backward(state, g)) if need_weight else None,
        mu=None if mu_grad is None else torch.from_numpy(mu_grad),
    )


def _tilts(
    blocks: GraphBlocks, x: Array, table: Array, spec: AggregationSpec, heads: int, ties: Array
) -> Array:
    r"""The rows that the sums gather: the tilts, and beside them the tilted features; writes how
    many features of each block of nodes lie at the origin.
    """
    floor, lost = x.dtype.type(precision_of(x).floor), np.zeros_like(ties)
    if spec.kind == "lp":
        rows = empty_like(x)
        norm.tilt_lp(blocks.node_blocks, x, table, rows, floor, ties, lost)
    else:
        rows, width = empty((len(x), 2 * x.shape[1]), x.dtype), x.shape[1] // heads
        if spec.kind == "softmax":
            mean.tilt_softmax(blocks.node_blocks, x, table, rows, width)
        else:
            mean.tilt_polynomial(blocks.node_blocks, x, table, rows, width, floor, ties, lost)
    if x.itemsize == 4 and lost.any():
        raise TooExtremeError
    return rows


def _fast_backward(state: NumbaState, g: Array, dx: Array) -> tuple[Array, Array, Array]:
    r"""Writes :obj:`dx`; returns the gradient of the parameter, the sum of :obj:`dx` per block of
    sources, and the direct gradient of the origin per block of rows.
    """
    blocks, table, x, spec = state.blocks, state.table, state.x, state.spec
    moved, direct = np.zeros(len(blocks.source_blocks)), np.zeros(len(blocks.row_blocks))
    if state.first is None or state.second is None:
        dx[...] = 0
        return _shift_backward(state, g, direct), moved, direct
    theta = np.zeros((len(blocks.source_blocks), x.shape[1]))
    pulled = empty((blocks.num_dst, x.shape[1] * (1 if spec.kind == "lp" else 2)), x.dtype)
    transposed = (
        blocks.source_blocks, blocks.colptr, blocks.row, state.weights.transposed, pulled, x,
        table,
    )  # fmt: skip
    total = state.weights.sums[0]
    if spec.kind == "lp":
        of_rows = np.zeros((len(blocks.row_blocks), x.shape[1]))
        norm.norm_pullback(
            blocks.row_blocks, g, total, table, spec.shift == "consistent", of_rows, direct,
            state.first, state.second, pulled,
        )  # fmt: skip
        norm.norm_backward(*transposed, state.limit, dx, theta, moved)
        return _norm_theta(state, theta, of_rows), moved, direct
    middle, share = recentre(np, state.average, table, spec)
    mean.mean_pullback(
        blocks.row_blocks, g, state.first, state.second, total, middle, spec.times_weight, pulled,
        direct,
    )  # fmt: skip
    if spec.kind == "softmax":
        mean.softmax_backward(*transposed, middle, state.limit, dx, theta)
    else:
        # PyTorch's logarithm, whose last bit is not numpy's: the torch backend takes it too.
        log_middle = torch.from_numpy(share).log2().numpy()
        log_units = np.log2(table[:, Channel.INV_RANGE])
        mean.polynomial_backward(
            *transposed, middle, log_middle, log_units, state.limit, dx, theta, moved
        )
        theta *= math.log(2.0)
    return state.sum_theta(theta), moved, direct


def _norm_theta(state: NumbaState, of_nodes: Array, of_rows: Array) -> Array:
    r"""The gradient of :math:`p` from its parts per block of sources and of rows, to base 2."""
    p = state.table[0, Channel.THETA].astype(np.float64)
    nodes = sum_parts(of_nodes, state.blocks.source_blocks, state.table, RANGE, 1)
    value: Array = math.log(2.0) * (nodes / p - of_rows.sum(axis=0) / p**2)
    return value


def _shift_backward(state: NumbaState, g: Array, direct: Array) -> Array:
    r"""What the shift gives to the parameter and, into :obj:`direct`, to the origin; for rows that
    are all exact.
    """
    blocks, spec, total = state.blocks, state.spec, state.weights.sums[0]
    if spec.kind == "polynomial":
        mean.mean_shift_sums(blocks.row_blocks, g, total, spec.times_weight, direct)
    if spec.kind != "lp":
        return np.zeros(g.shape[1])
    of_rows = np.zeros((len(blocks.row_blocks), g.shape[1]))
    norm.norm_shift_sums(
        blocks.row_blocks, g, total, state.table, spec.shift == "consistent", of_rows, direct
    )
    of_nodes = np.zeros((len(blocks.source_blocks), g.shape[1]))
    return _norm_theta(state, of_nodes, of_rows)


def _weight_backward(state: NumbaState, g: Array) -> Array:
    blocks, total, spec = state.blocks, state.weights.sums[0], state.spec
    all_written = state.first is not None and state.exact is None
    weight_grad = (np.empty_like if all_written else np.zeros_like)(state.weights.edge)
    if state.first is not None:
        rows = state.tilts
        if rows is None:  # the graph's own weights, with a gradient
            rows = _tilts(blocks, state.x, state.table, spec, total.shape[1], state.ties)
        shared = (blocks.row_blocks, blocks.rowptr, blocks.col, rows, state.table, g, state.first)
        if spec.kind == "lp":
            consistent = spec.shift == "consistent"
            norm.norm_weight_backward(*shared, total, state.needs_exact, consistent, weight_grad)
        else:
            mean.mean_weight_backward(
                *shared, state.second, total, state.needs_exact, spec.times_weight, weight_grad
            )
    if state.exact is not None:
        state.exact.weight_backward(state, g, weight_grad)
    return weight_grad


def _spread(state: NumbaState, mu_grad: Array, dx: Array) -> None:
    r"""Shares the origin's gradient evenly among the features that attain it."""
    blocks, x, ties = state.blocks, state.x, state.ties
    mu = np.ascontiguousarray(state.table[:, Channel.MU, 0])
    if ties[0] < 0:  # the rows are all exact: no tilt was taken
        count_origin(blocks.node_blocks, x, mu, ties)
    share = mu_grad / np.maximum(blocks.per_graph(ties, blocks.node_blocks), 1)
    spread_origin(blocks.node_blocks[ties > 0], x, mu, share.astype(x.dtype), state.limit, dx)


@kernel()
def channel_ends(b, blocks, x, parts):
    r"""Writes the largest and smallest feature of each block and channel; the largest is NaN unless
    all features are finite.
    """
    channels, first = x.shape[1], x[blocks[b, 0]]
    top, bottom = scratch(channels, x.dtype), scratch(channels, x.dtype)
    poison = zero_scratch(channels, x.dtype)
    for c in range(channels):
        top[c] = first[c]
        bottom[c] = first[c]
    for u in range(blocks[b, 0], blocks[b, 1]):
        row = x[u]
        for c in range(channels):
            z = row[c]
            top[c] = larger(z, top[c])
            bottom[c] = -larger(-z, -bottom[c])
            poison[c] += z * ZERO  # NaN from the first entry that is not finite
    for c in range(channels):
        parts[0, b, c] = top[c] + poison[c]
        parts[1, b, c] = bottom[c]


@kernel()
def channel_table(
    b, table, block_ptr, x, sample, theta, softmax, find_origin, origin, parts, ends, marks
):  # fmt: skip
    r"""Fills the table of :mod:`meanmax.ops.scaling` for one graph.

    :obj:`parts` is from :func:`channel_ends`. :obj:`origin` is written for powers if
    :obj:`find_origin`, else it is given. :obj:`ends` receives the smallest and largest feature of
    the graph, NaN unless all are finite. :obj:`marks` receives whether some range is too small: for
    float32 to compute in, for float64 to have a finite inverse; and, for powers, whether one
    is far larger than that of the channel's bulk.
    """
    t = table[b]
    high, low = t[TOP], t[CENTRE]
    ends[0, b], ends[1, b] = graph_range(parts, block_ptr[b], block_ptr[b + 1], high, low)
    if find_origin and not softmax:
        origin[b] = ends[0, b]
    values = np.empty((sample.shape[1], x.shape[1]), x.dtype)
    for i in range(sample.shape[1]):
        row = x[sample[b, i]]
        for c in range(x.shape[1]):  # an assignment of arrays takes seconds to compile
            values[i, c] = row[c]
    sort_columns(values)
    write_centres(t, high, origin[b], theta, values, softmax)
    marks[0, b] = write_table(t, low, origin[b], theta, softmax)
    marks[1, b] = not softmax and has_outliers(t[RANGE], values)


@subroutine
def graph_range(parts, first, last, high, low):
    r"""Writes the largest and smallest feature of a graph's channels, 0 where it has no nodes;
    returns the ends of all of them, NaN unless all are finite.
    """
    bottom, top = low.dtype.type(0), low.dtype.type(0)
    for c in range(high.shape[0]):
        high[c], low[c] = ZERO, ZERO
        if last > first:
            high[c], low[c] = parts[0, first, c], parts[1, first, c]
        for b in range(first + 1, last):
            above, below = parts[0, b, c], parts[1, b, c]
            high[c] = where(above > high[c], above, where(above == above, high[c], above))
            low[c] = where(below < low[c], below, low[c])
        top = where(c == 0, high[c], where(high[c] > top, high[c], top))
        bottom = where(c == 0, low[c], where(low[c] < bottom, low[c], bottom))
    for c in range(high.shape[0]):
        if not np.isfinite(high[c]) or not np.isfinite(low[c]):
            top = low.dtype.type(np.nan)
    return bottom, top


@subroutine
def sort_columns(values):
    r"""Sorts each column, all of them at once: Batcher's odd-even merge sort."""
    size, channels = values.shape
    merged = 1
    while merged < size:
        step = merged
        while step >= 1:
            for first in range(step % merged, size - step, 2 * step):
                for i in range(U(first), U(min(first + step, size - step))):
                    j = i + U(step)
                    if (i ^ j) < U(2 * merged):  # both lie in one part that is merged
                        for c in range(U(channels)):
                            below, above = values[i, c], values[j, c]
                            values[i, c] = where(above < below, above, below)
                            values[j, c] = where(above < below, below, above)
            step //= 2
        merged *= 2


@subroutine
def write_centres(t, high, origin, theta, values, softmax):
    r"""Writes the centre of each channel into the place of the inverse scale, which is written
    last: the smallest features are still in the place of the centre.
    """
    size = values.shape[0]
    quarter, half, three = values[size // 4], values[size // 2], values[size * 3 // 4]
    base, share = t.dtype.type(0) if softmax else origin, t.dtype.type(CONCENTRATED)
    out = t[INV_SCALE]
    for c in range(high.shape[0]):
        steep = theta[c] * abs(high[c]) > STEEP if softmax else theta[c] >= STEEP_POWER
        concentrated = three[c] - quarter[c] < share * abs(half[c] - base)
        out[c] = where(steep, high[c], where(concentrated, half[c], base))


@subroutine
def has_outliers(span, values):
    r"""Whether the range of some channel is :obj:`OUTLYING` times that of its bulk, in float64
    :obj:`FAR_OUTLYING` times.
    """
    most = span.dtype.type(OUTLYING if span.itemsize == 4 else FAR_OUTLYING)
    quarter, three, count = values[values.shape[0] // 4], values[values.shape[0] * 3 // 4], 0
    for c in range(span.shape[0]):
        bulk = three[c] - quarter[c]
        count += where((bulk > ZERO) & (span[c] > most * bulk), 1, 0)
    return count > 0


@subroutine
def write_table(t, low, origin, theta, softmax):
    r"""Writes the other rows of a graph's table, one loop for each; returns whether some range
    is too narrow.
    """
    high, centre, span, scale = t[TOP], t[INV_SCALE], t[RANGE], t[SCALE]
    # The inverse of the scale must be a normal number too.
    largest = t.dtype.type(126.0 if t.itemsize == 4 else 1022.0)
    least, narrow = t.dtype.type(SMALLEST_SPREAD if t.itemsize == 4 else 0.0), np.int32(0)
    for c in range(high.shape[0]):
        spread = larger(abs(high[c] - centre[c]), abs(low[c] - centre[c]))
        narrow += where((spread > ZERO) & (spread < least), np.int32(1), np.int32(0))
        exponent = split_weight(where(spread > ZERO, spread, HALF * (ONE + ZERO * spread)))[1]
        exponent = where(exponent > -largest, exponent, -largest)
        scale[c] = power_of_two(where(exponent < largest, exponent, largest))
    for c in range(high.shape[0]):
        t[CENTRE, c] = centre[c]
    for c in range(high.shape[0]):
        span[c] = where(high[c] - origin > ZERO, high[c] - origin, ONE + ZERO * origin)
    for c in range(high.shape[0]):
        t[MU, c] = origin
    for c in range(high.shape[0]):
        t[THETA, c] = theta[c]
    inverse, inv_theta, slope = t[INV_SCALE], t[INV_THETA], t[STEEPNESS]
    for c in range(high.shape[0]):
        inverse[c] = ONE / scale[c]
    for c in range(high.shape[0]):
        inv_theta[c] = where(theta[c] > ZERO, ONE / theta[c], ONE)
    most = t.dtype.type(np.finfo(t.dtype).max)
    for c in range(high.shape[0]):
        steepness = theta[c] * scale[c] if softmax else scale[c] / span[c]
        slope[c] = where(steepness < most, steepness, most)
    inverse = t[INV_RANGE]
    for c in range(high.shape[0]):
        inverse[c] = ONE / span[c]
        fits = (inverse[c] <= most) & (softmax | (span[c] >= least))
        narrow += where(fits, np.int32(0), np.int32(1))
    return narrow > 0


@kernel()
def spread_origin(b, blocks, x, mu, share, limit, grad):
    r"""Adds each graph's share of :math:`\mu`'s gradient to the features that attain it."""
    origin, part = mu[blocks[b, 2]], share[blocks[b, 2]]
    for u in range(blocks[b, 0], blocks[b, 1]):
        row, z = grad[u], x[u]
        for c in range(x.shape[1]):
            row[c] = clipped(row[c] + where(z[c] == origin, part, ZERO), limit)


@kernel()
def count_origin(b, blocks, x, mu, count):
    r"""How many features of every block attain their graph's :math:`\mu`."""
    origin, ties = mu[blocks[b, 2]], 0
    for u in range(blocks[b, 0], blocks[b, 1]):
        z = x[u]
        for c in range(x.shape[1]):
            ties += where(z[c] == origin, 1, 0)
    count[b] = ties
