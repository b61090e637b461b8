r"""Rows that underflow under the common shift: each is scaled by its own largest term.

The backward pass computes the gradient of such rows edge by edge, relative to the neighbour with
the largest term. The factored sums used for other rows would cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meanmax.ops.numba.blocks import ROW_COST, Array, EdgeWeights, GraphBlocks, blocks_of
from meanmax.ops.numba.launch import kernel, larger, read, scratch, subroutine, where
from meanmax.ops.numba.memory import empty, empty_like
from meanmax.ops.numba.norm import weight_root
from meanmax.ops.numba.vector_math import (
    INV_SCALE,
    LN_2,
    MU,
    ONE,
    RANGE,
    SCALE,
    STEEPNESS,
    THETA,
    TOP,
    ZERO,
    U,
    bounded,
    clipped,
    exp2,
    log,
    power_of_two,
    relative_log2,
    split_weight,
)
from meanmax.ops.scaling import TooExtremeError
from meanmax.ops.spec import AggregationSpec

if TYPE_CHECKING:
    from meanmax.ops.numba.backend import NumbaState


NOWHERE = np.float32(-3.0e38)  # the exponent of zero
STEEPEST = 2.0**14  # a power beyond leaves float32 no digits for exponents
LOG2_E = 1.4426950408889634


@subroutine
def bends(bend, steep):
    r"""Writes the derivative of the binary exponent of a softmax's tilt in :math:`\hat v`."""
    most = bend.dtype.type(np.finfo(bend.dtype).max)
    for c in range(bend.shape[0]):
        value = bend.dtype.type(steep[c] * LOG2_E)
        bend[c] = where(value < most, value, most)


@subroutine
def split(s, mantissa, exponent, c):
    r"""Writes :math:`2^s` as mantissa and integer exponent, both in the dtype of the arrays."""
    k = np.rint(min(max(s, -1.0e300), 1.0e300))
    exponent[c] = k
    mantissa[c] = np.exp2(min(max(s, -1.0e300), 1.0e300) - k)


@kernel()
def extend_power(b, blocks, x, table, mantissa, exponent):
    r"""Mantissa and exponent of :math:`y^\theta`, with :math:`0^0 = 1`."""
    theta, mu = table[blocks[b, 2]][THETA], table[blocks[b, 2]][MU]
    for u in range(blocks[b, 0], blocks[b, 1]):
        m, k, z = mantissa[u], exponent[u], x[u]
        for c in range(x.shape[1]):
            y = np.float64(z[c]) - np.float64(mu[c])
            if y > 0.0:
                split(np.float64(theta[c]) * np.log2(y), m, k, c)
            else:
                m[c] = where(theta[c] == ZERO, ONE, ZERO)
                k[c] = where(theta[c] == ZERO, ZERO, NOWHERE)


SOFTMAX, PRINTED_SOFTMAX, POLYNOMIAL, LP = 0, 1, 2, 3


@subroutine
def add_mean_edge(
    carried, pull, moment, start, stop, part, lift, z, inv, bend, peak, q, anchor, ratio
):  # fmt: skip
    r"""Adds one edge's terms: its weight, its gradient of the mean, and that gradient times the
    distance from the anchor.
    """
    for c in range(start, stop):
        away = (read(z, c) - read(anchor, c)) * read(inv, c)
        tilt = exp2(away * read(bend, c) + (lift - read(peak, c)))
        term = part * read(q, c) * tilt
        force = term * (away - read(ratio, c))
        carried[c] += term
        pull[c] += force
        moment[c] += force * away


@subroutine
def add_polynomial_edge(
    carried, pull, moment, start, stop, part, lift, m, k, z, inv, peak, q, anchor, ratio, highest
):  # fmt: skip
    r"""The same for the polynomial, where the distance is one of exponents."""
    for c in range(start, stop):
        tilt = read(m, c) * power_of_two(read(k, c) + lift - read(peak, c))
        term = part * read(q, c) * tilt
        force = term * ((read(z, c) - read(anchor, c)) * read(inv, c) - read(ratio, c))
        carried[c] += term
        pull[c] += force
        moment[c] += where(force == ZERO, ZERO, force * (read(k, c) - read(highest, c)))


@subroutine
def add_printed_edge(
    carried, pull, moment, start, stop, a, z, inv, bend, weight, q, anchor, ratio, share
):  # fmt: skip
    r"""The same where the denominator counts every neighbour as one."""
    for c in range(start, stop):
        away = (read(z, c) - read(anchor, c)) * read(inv, c)
        term = read(q, c) * exp2(away * read(bend, c))
        excess = read(anchor, c) * read(inv, c) * ((a - read(weight, c)) - read(share, c))
        force = term * ((a * away - read(ratio, c)) + excess)
        carried[c] += term * a
        pull[c] += force
        moment[c] += force * away


@subroutine
def add_norm_edge(carried, moment, start, stop, part, lift, m, k, peak, q, log_sum):
    r"""The same for Lp: the term, and the term times its logarithm."""
    for c in range(start, stop):
        above = read(k, c) - read(peak, c)
        term = part * read(q, c) * (read(m, c) * power_of_two(above + lift))
        carried[c] += term
        moment[c] += where(term == ZERO, ZERO, term * (above - read(log_sum, c)))


@subroutine
def add_origin_edge(
    to, start, stop, part, lift, z, mu, theta, inv, peak, q, anchor, ratio, is_mean
):  # fmt: skip
    r"""Adds an edge's gradient for features at the origin; not zero only where the power is 1."""
    for c in range(start, stop):
        at_origin = (read(z, c) <= read(mu, c)) & (read(theta, c) == ONE)
        term = part * read(q, c) * power_of_two(lift - read(peak, c))
        distance = (read(z, c) - read(anchor, c)) * read(inv, c) - read(ratio, c)
        term *= where(is_mean, distance, ONE)
        to[c] += where(at_origin, term, ZERO)


@subroutine
def has_origin_slope(z, mu, theta):
    r"""Whether a node has a feature at the origin in a channel whose power is one."""
    count = 0
    for c in range(z.shape[0]):
        count += where((z[c] <= mu[c]) & (theta[c] == ONE), 1, 0)
    return count > 0


@subroutine
def finish_softmax(carried, pull, moment, table, grad, theta_sum, limit):
    r"""Adds a source's collected terms to its gradient; returns their sum."""
    steep = table[STEEPNESS]
    for c in range(grad.shape[0]):
        slope = where(pull[c] != ZERO, steep[c] * pull[c], ZERO)
        grad[c] = clipped(grad[c] + bounded(carried[c] + slope, limit), limit)
        theta_sum[c] += moment[c]
    return 0.0


@subroutine
def finish_polynomial(carried, pull, moment, z, m, table, grad, theta_sum, limit):
    r"""The same for the polynomial."""
    mu, theta, scale, top, span = table[MU], table[THETA], table[SCALE], table[TOP], table[RANGE]
    total = 0.0
    for c in range(grad.shape[0]):
        y, alpha = z[c] - mu[c], theta[c]
        if y > ZERO:
            d = carried[c] + pull[c] * scale[c] * alpha / y
            if alpha >= ONE:
                # The row's peak cancels: within a row the pulls sum to zero.
                theta_sum[c] += (moment[c] / LOG2_E + pull[c] * log(m[c])) / alpha
            else:
                theta_sum[c] += pull[c] * LN_2 * relative_log2(z[c], top[c], mu[c], ONE / span[c])
        elif alpha == ONE:
            d = scale[c] * pull[c]
        else:
            d = carried[c]
            theta_sum[c] -= pull[c] * log(span[c])
        d = bounded(d, limit)
        grad[c] = clipped(grad[c] + d, limit)
        total += d
    return total


@subroutine
def finish_norm(carried, moment, z, m, table, grad, theta_sum, limit):
    r"""The same for Lp."""
    mu, theta = table[MU], table[THETA]
    total = 0.0
    for c in range(grad.shape[0]):
        y = z[c] - mu[c]
        d = ZERO
        if y > ZERO:
            d = carried[c] / y
            theta_sum[c] += moment[c] / LOG2_E + carried[c] * log(m[c])
        elif theta[c] == ONE:
            d = carried[c]
        d = bounded(d, limit)
        grad[c] = clipped(grad[c] + d, limit)
        total += d
    return total


@kernel()
def exact_backward(
    b, blocks, colptr, row_of, weight, slot, x, mantissa, exponent, table, kind, limit,
    peak, pulled, anchor, ratio, extra, grad, theta_grad, origin,
):  # fmt: skip
    r"""Adds to the gradients what comes from the rows that have a :obj:`slot`.

    :obj:`extra` holds what only one form needs: the exponent of the anchor before weights
    (polynomial), :math:`\sum a T / \sum T` less the anchor's weight (printed softmax), the sum's
    binary logarithm (Lp).
    """
    t = table[blocks[b, 2]]
    inv, theta_sum = t[INV_SCALE], theta_grad[b]
    channels, heads = x.shape[1], weight.shape[1]
    width = U(channels // heads)
    carried, pull = scratch(channels, x.dtype), scratch(channels, x.dtype)
    moment, bend = scratch(channels, x.dtype), scratch(channels, x.dtype)
    bends(bend, t[STEEPNESS])
    mu, theta = t[MU], t[THETA]
    collected = 0.0
    for u in range(blocks[b, 0], blocks[b, 1]):
        touched, sloped = False, False
        z, m, k = x[u], mantissa[u], exponent[u]
        for e in range(colptr[u], colptr[u + 1]):
            i = slot[row_of[e]]
            if i < 0:
                continue
            if not touched:
                touched = True
                carried[:] = ZERO
                pull[:] = ZERO
                moment[:] = ZERO
                if kind == POLYNOMIAL or kind == LP:
                    sloped = has_origin_slope(z, mu, theta)
            for h in range(heads):
                a = weight[e, h]
                start, stop = U(h) * width, U(h) * width + width
                if kind == PRINTED_SOFTMAX:
                    add_printed_edge(
                        carried, pull, moment, start, stop, a, z, inv, bend, peak[i],
                        pulled[i], anchor[i], ratio[i], extra[i],
                    )  # fmt: skip
                    continue
                if not a > ZERO:
                    continue
                part, lift = split_weight(a)
                if kind == SOFTMAX:
                    add_mean_edge(
                        carried, pull, moment, start, stop, part, lift, z, inv, bend,
                        peak[i], pulled[i], anchor[i], ratio[i],
                    )  # fmt: skip
                elif kind == POLYNOMIAL:
                    add_polynomial_edge(
                        carried, pull, moment, start, stop, part, lift, m, k, z, inv,
                        peak[i], pulled[i], anchor[i], ratio[i], extra[i],
                    )  # fmt: skip
                else:
                    add_norm_edge(
                        carried, moment, start, stop, part, lift, m, k,
                        peak[i], pulled[i], extra[i],
                    )  # fmt: skip
                if sloped:
                    add_origin_edge(
                        pull if kind == POLYNOMIAL else carried, start, stop, part, lift, z,
                        mu, theta, inv, peak[i], pulled[i], anchor[i], ratio[i],
                        kind == POLYNOMIAL,
                    )  # fmt: skip
        if not touched:
            continue
        if kind == POLYNOMIAL:
            collected += finish_polynomial(
                carried, pull, moment, z, m, t, grad[u], theta_sum, limit
            )
        elif kind == LP:
            collected += finish_norm(carried, moment, z, m, t, grad[u], theta_sum, limit)
        else:
            finish_softmax(carried, pull, moment, t, grad[u], theta_sum, limit)
    origin[b] = collected


@kernel()
def exact_weight_backward(
    b, blocks, chosen, graph_of, rowptr, col, x, mantissa, exponent, table, kind, consistent,
    times_weight, limit, total, peak, pulled, anchor, ratio, grad, out, weight_grad,
):  # fmt: skip
    r"""The gradient of the weights of the rows :obj:`chosen`, edge by edge."""
    channels, heads = x.shape[1], weight_grad.shape[1]
    width = U(channels // heads)
    root, term = scratch(channels, x.dtype), scratch(channels, x.dtype)
    bend = scratch(channels, x.dtype)
    most = x.dtype.type(126.0 if x.itemsize == 4 else 1022.0)  # the largest exponent of two
    for i in range(blocks[b, 0], blocks[b, 1]):
        v, t = chosen[i], table[graph_of[i]]
        scale, inv, mu, theta = t[SCALE], t[INV_SCALE], t[MU], t[THETA]
        top, q, base, mean = peak[i], pulled[i], anchor[i], ratio[i]
        bends(bend, t[STEEPNESS])
        for h in range(heads):
            a = total[v, h]
            start, stop = U(h) * width, U(h) * width + width
            whole = 0.0
            if a > ZERO and kind == LP and consistent:
                weight_root(root, a, theta, start, stop, True, False)
                for c in range(start, start + width):
                    whole += grad[v, c] * mu[c] * root[c] / (theta[c] * a)
            elif a > ZERO and times_weight:
                for c in range(start, start + width):
                    whole += grad[v, c] * (out[i, c] / a)
            for e in range(rowptr[v], rowptr[v + 1]):
                z, m, k = x[col[e]], mantissa[col[e]], exponent[col[e]]
                if kind == SOFTMAX or kind == PRINTED_SOFTMAX:
                    for c in range(start, stop):
                        above = (z[c] - base[c]) * inv[c] * bend[c]
                        above -= where(kind == SOFTMAX, top[c], ZERO * top[c])
                        term[c] = q[c] * exp2(where(above < most, above, most))
                else:
                    for c in range(start, stop):
                        term[c] = q[c] * (m[c] * power_of_two(k[c] - top[c]))
                if kind == LP:
                    for c in range(start, stop):
                        term[c] /= theta[c]
                elif kind == PRINTED_SOFTMAX:
                    for c in range(start, stop):
                        term[c] *= z[c]
                else:
                    for c in range(start, stop):
                        away = ((z[c] - base[c]) * inv[c] - mean[c]) * scale[c]
                        term[c] = where(term[c] != ZERO, term[c] * away, ZERO)
                whole_edge = whole
                for c in range(start, stop):
                    whole_edge += bounded(term[c], limit)
                weight_grad[e, h] = where(a > ZERO, bounded(whole_edge, limit), ZERO)


@subroutine
def norm_peaks(peak, rowptr, col, weight, v, exponent):
    r"""Writes the exponent of a row's largest term."""
    for c in range(peak.shape[0]):
        peak[c] = NOWHERE
    width = peak.shape[0] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        k = exponent[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not a > ZERO:
                continue
            lift = split_weight(a)[1]
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                peak[c] = larger(k[c] + lift, peak[c])


@subroutine
def polynomial_anchors(peak, anchor, highest, rowptr, col, weight, v, x, exponent):
    r"""Writes the exponent of a row's largest term, the feature of that term, and its exponent
    before weights.
    """
    for c in range(peak.shape[0]):
        peak[c], anchor[c], highest[c] = NOWHERE, ZERO, ZERO
    width = peak.shape[0] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        z, k = x[col[e]], exponent[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not a > ZERO:
                continue
            lift = split_weight(a)[1]
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                more = k[c] + lift > peak[c]
                anchor[c] = where(more, z[c], anchor[c])
                highest[c] = where(more, k[c], highest[c])
                peak[c] = where(more, k[c] + lift, peak[c])


@subroutine
def softmax_anchors(peak, anchor, rowptr, col, weight, v, x, inv, bend, unit_denominator):
    r"""Writes the feature of a row's largest term, and the exponent of that term's weight, or the
    weight itself where the denominator has none.
    """
    for c in range(peak.shape[0]):
        peak[c], anchor[c] = NOWHERE, ZERO
    width = peak.shape[0] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        z = x[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not (a > ZERO or unit_denominator):
                continue
            lift = a if unit_denominator else split_weight(a)[1]
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                above = (z[c] - anchor[c]) * inv[c] * bend[c]
                above += where(unit_denominator, ZERO * lift, lift - peak[c])
                more = (above > ZERO) | (peak[c] == NOWHERE)
                anchor[c] = where(more, z[c], anchor[c])
                peak[c] = where(more, lift, peak[c])


@kernel()
def exact_mean_forward(
    b, blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    softmax, unit_denominator, times_weight, peak, anchor, inverse, ratio, extra,
    out,
):  # fmt: skip
    r"""Tilted means of the rows :obj:`chosen`; with :obj:`unit_denominator` as Eq. 15 prints it.

    The anchor is the feature of the row's largest term. Saves it and the exponent that terms are
    measured from, :math:`1 / S`, the mean from the anchor in units of the channel and in
    :obj:`extra`, for the printed form, :math:`\sum a T / \sum T` less the anchor's weight, for the
    polynomial the anchor's exponent before weights.
    """
    width = x.shape[1] // weight.shape[1]
    s = scratch(x.shape[1], x.dtype)
    m = scratch(x.shape[1], x.dtype)
    plain, bend = scratch(x.shape[1], x.dtype), scratch(x.shape[1], x.dtype)
    for i in range(blocks[b, 0], blocks[b, 1]):
        v, t = chosen[i], table[graph_of[i]]
        scale, inv, mu = t[SCALE], t[INV_SCALE], t[MU]
        top, base = peak[i], anchor[i]
        if softmax:
            bends(bend, t[STEEPNESS])
            softmax_anchors(
                top, base, rowptr, col, weight, v, x, inv, bend, unit_denominator
            )  # fmt: skip
        else:
            polynomial_anchors(top, base, extra[i], rowptr, col, weight, v, x, exponent)
        for c in range(x.shape[1]):
            s[c] = ZERO
            m[c] = ZERO
            plain[c] = ZERO
        for e in range(rowptr[v], rowptr[v + 1]):
            u = col[e]
            z, mant, expo = x[u], mantissa[u], exponent[u]
            for h in range(weight.shape[1]):
                a = weight[e, h]
                if not (a > ZERO or unit_denominator):
                    continue
                near, raised = a, ZERO * a
                if not unit_denominator:
                    near, raised = split_weight(a)
                start, stop = U(h) * U(width), U(h) * U(width) + U(width)
                if unit_denominator:
                    for c in range(start, stop):
                        away = (read(z, c) - base[c]) * read(inv, c)
                        tilt = exp2(away * bend[c])
                        plain[c] += tilt
                        s[c] += (near - top[c]) * tilt
                        m[c] += near * tilt * away
                elif softmax:
                    for c in range(start, stop):
                        away = (read(z, c) - base[c]) * read(inv, c)
                        tilt = near * exp2(away * bend[c] + (raised - top[c]))
                        s[c] += tilt
                        m[c] += tilt * away
                else:
                    for c in range(start, stop):
                        tilt = read(mant, c) * power_of_two(read(expo, c) + raised - top[c])
                        s[c] += near * tilt
                        m[c] += near * tilt * ((read(z, c) - base[c]) * read(inv, c))
        for h in range(weight.shape[1]):
            a = total[v, h]
            factor = where(times_weight, a, ONE)
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                below = where(unit_denominator, plain[c], s[c])
                alive = (below > ZERO) & (a > ZERO)
                q = where(alive, ONE / below, ZERO)
                inverse[i, c] = q
                ratio[i, c] = m[c] * q
                mean = base[c] + scale[c] * (m[c] * q)
                if unit_denominator:
                    extra[i, c] = s[c] * q
                    mean = base[c] * (top[c] + s[c] * q) + scale[c] * (m[c] * q)
                at_origin = where(a > ZERO, mu[c], ZERO)
                out[v, c] = factor * where(alive, mean, at_origin)


@kernel()
def exact_norm_forward(
    b, blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    consistent, peak, inverse, norm, extra, out,
):  # fmt: skip
    r"""Tilted norms of the rows :obj:`chosen`; saves :math:`K`, :math:`1/S`, the norm, its log."""
    width = x.shape[1] // weight.shape[1]
    s = scratch(x.shape[1], x.dtype)
    root = scratch(x.shape[1], x.dtype)
    for i in range(blocks[b, 0], blocks[b, 1]):
        v, t = chosen[i], table[graph_of[i]]
        mu, theta, top = t[MU], t[THETA], peak[i]
        norm_peaks(top, rowptr, col, weight, v, exponent)
        for c in range(x.shape[1]):
            s[c] = ZERO
        for e in range(rowptr[v], rowptr[v + 1]):
            mant, expo = mantissa[col[e]], exponent[col[e]]
            for h in range(weight.shape[1]):
                a = weight[e, h]
                if not a > ZERO:
                    continue
                near, raised = split_weight(a)
                start = U(h) * U(width)
                for c in range(start, start + U(width)):
                    tilt = read(mant, c) * power_of_two(read(expo, c) + raised - top[c])
                    s[c] += near * tilt
        for h in range(weight.shape[1]):
            a = total[v, h]
            start = U(h) * U(width)
            if a > ZERO:
                weight_root(root, a, theta, start, start + U(width), consistent, False)
            for c in range(start, start + U(width)):
                alive = (s[c] > ZERO) & (a > ZERO)
                log_s = where(alive, np.log2(np.float64(s[c])), 0.0)
                length = where(alive, np.exp2((np.float64(top[c]) + log_s) / theta[c]), 0.0)
                inverse[i, c] = where(alive, ONE / s[c], ZERO)
                extra[i, c] = log_s
                norm[i, c] = length
                # Without a neighbour above the origin only p = 1 has a slope there.
                if not alive and a > ZERO and theta[c] == ONE:
                    top[c] = ZERO
                    inverse[i, c] = ONE
                    norm[i, c] = ONE
                out[v, c] = where(a > ZERO, length + mu[c] * root[c], ZERO)


@dataclass(frozen=True, eq=False)
class ExactState:
    r"""What the exact forward pass leaves, one row of each array per row of :obj:`chosen`.

    For the means, :obj:`ratio` is the mean from the :obj:`anchor`, for Lp the norm. What
    :obj:`extra` holds depends on the form; see the kernels.
    """

    chosen: Array
    graph_of: Array
    blocks: Array
    mantissa: Array
    exponent: Array
    peak: Array
    anchor: Array
    inverse: Array
    ratio: Array
    extra: Array
    out: Array  # a copy of these rows' output, where the gradient of weights needs it

    def backward(self, state: NumbaState, g: Array, dx: Array) -> tuple[Array, Array]:
        r"""Adds to :obj:`dx`; returns the parameter's gradient and :obj:`dx`'s sum per block."""
        graph, x, table = state.blocks, state.x, state.table
        theta = np.zeros((len(graph.source_blocks), x.shape[1]))
        moved = np.zeros(len(graph.source_blocks))
        slot = np.full(graph.num_dst, -1, np.int64)
        slot[self.chosen] = np.arange(len(self.chosen))
        exact_backward(
            graph.source_blocks, graph.colptr, graph.row, state.weights.transposed, slot, x,
            self.mantissa, self.exponent, table, kind_code(state.spec), state.limit,
            self.peak, self._pulled(state, g), self.anchor, self.ratio, self.extra,
            dx, theta, moved,
        )  # fmt: skip
        if state.spec.kind == "lp":
            return theta.sum(axis=0) / table[0, THETA].astype(np.float64) ** 2, moved
        return state.sum_theta(theta), moved

    def weight_backward(self, state: NumbaState, g: Array, weight_grad: Array) -> None:
        r"""Writes the gradient of the weights of these rows."""
        graph, spec = state.blocks, state.spec
        exact_weight_backward(
            self.blocks, self.chosen, self.graph_of, graph.rowptr, graph.col, state.x,
            self.mantissa, self.exponent, state.table, kind_code(spec),
            spec.shift == "consistent", spec.times_weight, state.limit, state.weights.sums[0],
            self.peak, self._pulled(state, g), self.anchor, self.ratio, g, self.out, weight_grad,
        )  # fmt: skip

    def _pulled(self, state: NumbaState, g: Array) -> Array:
        pulled = empty(self.inverse.shape, g.dtype)
        np.take(g, self.chosen, axis=0, out=pulled, mode="clip")  # other modes copy
        pulled *= self.inverse
        if state.spec.kind == "lp":
            pulled *= self.ratio
        if state.spec.times_weight:
            total = state.weights.sums[0][self.chosen]
            pulled *= np.repeat(total, pulled.shape[1] // total.shape[1], axis=1)
        return pulled


def exact_forward(
    graph: GraphBlocks, weights: EdgeWeights, x: Array, table: Array, spec: AggregationSpec,
    needs_exact: Array, out: Array,
) -> ExactState:  # fmt: skip
    r"""Recomputes the rows that are marked in :obj:`needs_exact` and writes them to :obj:`out`."""
    chosen = np.flatnonzero(needs_exact)
    graph_of = np.searchsorted(graph.dst_bounds, chosen, side="right") - 1
    degree = (graph.rowptr[chosen + 1] - graph.rowptr[chosen]).astype(np.int64)
    cost = np.concatenate([[0], np.cumsum(degree + ROW_COST)])
    blocks = blocks_of(cost, np.array([0, len(chosen)]))
    mantissa = exponent = x  # the softmax has no use for them
    if spec.has_mu:
        if x.itemsize == 4 and table[:, THETA].max() > STEEPEST:
            raise TooExtremeError
        mantissa, exponent = empty((2, *x.shape), x.dtype)
        extend_power(graph.sources_of(chosen), x, table, mantissa, exponent)
    pair = (2, len(chosen), x.shape[1])  # of the size of what the fast path has used
    (peak, inverse), (ratio, extra) = empty(pair, x.dtype), empty(pair, x.dtype)
    # Lp has no mean, so nothing to measure it from.
    anchor = peak if spec.kind == "lp" else empty_like(peak)
    total = weights.sums[0]
    shared = (
        blocks, chosen, graph_of, graph.rowptr, graph.col, weights.edge, x, mantissa, exponent,
        table, total,
    )  # fmt: skip
    if spec.kind == "lp":
        exact_norm_forward(*shared, spec.shift == "consistent", peak, inverse, ratio, extra, out)
    else:
        exact_mean_forward(
            *shared, spec.kind == "softmax", spec.unit_denominator, spec.times_weight, peak,
            anchor, inverse, ratio, extra, out,
        )  # fmt: skip
    kept = out[chosen] if spec.times_weight else peak
    return ExactState(
        chosen, graph_of, blocks, mantissa, exponent, peak, anchor, inverse, ratio, extra, kept
    )


def kind_code(spec: AggregationSpec) -> int:
    r"""The kernels' number for an aggregator."""
    codes = {"softmax": SOFTMAX, "polynomial": POLYNOMIAL, "lp": LP}
    return PRINTED_SOFTMAX if spec.unit_denominator else codes[spec.kind]
