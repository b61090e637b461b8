r"""Tilted means, :math:`\sum a T \hat v / \sum a T`: the softmax and the polynomial.

Loops over channels write one array each: with more, the compiler gives up on proving that they do
not overlap and does not vectorise.
"""

from __future__ import annotations

import numpy as np

from meanmax.ops.numba.gather import block_sum, edge_dots, gather_sum
from meanmax.ops.numba.launch import kernel, read, scratch, subroutine, where, zero_scratch
from meanmax.ops.numba.vector_math import (
    CENTRE,
    INV_RANGE,
    INV_SCALE,
    MU,
    ONE,
    SCALE,
    STEEPNESS,
    THETA,
    TOP,
    ZERO,
    U,
    bounded,
    clipped,
    count_equal,
    count_underflows,
    exp,
    exp2,
    flush,
    is_last,
    relative_log2,
    tilt_power,
)


@kernel()
def tilt_softmax(b, blocks, x, table, rows, width):
    r"""Writes blocks :math:`[T, T \hat v]` with :math:`T = e^{\gamma (z - z_{max})}`."""
    t = table[blocks[b, 2]]
    top, centre, inv, steep = t[TOP], t[CENTRE], t[INV_SCALE], t[STEEPNESS]
    for u in range(blocks[b, 0], blocks[b, 1]):
        row, z = rows[u], x[u]
        for h in range(x.shape[1] // width):
            start, pair = U(h) * U(width), U(h) * U(2 * width)
            for i in range(U(width)):
                c = start + i
                tilt = exp(steep[c] * ((z[c] - top[c]) * inv[c]))
                row[pair + i] = tilt
                row[pair + U(width) + i] = tilt * ((z[c] - centre[c]) * inv[c])


@kernel()
def tilt_polynomial(b, blocks, x, table, rows, width, floor, ties, lost):
    r"""Writes blocks :math:`[T, T \hat v]` with :math:`T = (y / y_{max})^\alpha`, and counts the
    features at :math:`\mu` and, in :obj:`lost`, those whose distance from it underflows.

    Above :math:`\mu` no tilt falls below :obj:`floor`, so that a sum of exactly 0 tells that all
    neighbours sit at :math:`\mu`.
    """
    t = table[blocks[b, 2]]
    top, centre, inv, mu = t[TOP], t[CENTRE], t[INV_SCALE], t[MU]
    inv_range, theta = t[INV_RANGE], t[THETA]
    count, underflows = 0, 0
    for u in range(blocks[b, 0], blocks[b, 1]):
        row, z = rows[u], x[u]
        for h in range(x.shape[1] // width):
            start, pair = U(h) * U(width), U(h) * U(2 * width)
            for i in range(U(width)):
                c = start + i
                tilt = tilt_power(z[c], top[c], mu[c], inv_range[c], theta[c])
                tilt = where((tilt < floor) & (z[c] > mu[c]), floor, tilt)
                row[pair + i] = tilt
                row[pair + U(width) + i] = tilt * ((z[c] - centre[c]) * inv[c])
        count += count_equal(z, mu)
        underflows += count_underflows(z, mu, inv_range)
    ties[b], lost[b] = count, underflows


@subroutine
def count_far(ratio, centre, scale, mu, acc, farthest, start, pair, width):
    r"""How many means are farther from the centre than :obj:`farthest` times their distance from
    the origin.
    """
    count = np.int32(0)
    for i in range(U(width)):
        c = start + i
        away = read(scale, c) * ratio[c]
        above = (read(centre, c) - read(mu, c)) + away
        far = (abs(away) > farthest * above) & (acc[pair + i] > ZERO)
        count += where(far, np.int32(1), np.int32(0))
    return count


@kernel()
def mean_forward(
    b, blocks, rowptr, col, weight, rows, table, total, extreme_weights, least, times_weight,
    must_not_vanish, farthest, inverse, ratio, out, needs_exact, ratio_sum, counted,
):  # fmt: skip
    r"""One pass over the rows.

    Saves :math:`1 / \sum a T`, the mean :math:`r` in units of the channel, and sums of the means
    over the block's rows, of which those that need the exact path are left out.
    A row that has a channel in which the sum fell below :obj:`least` of its weight is marked in
    :obj:`needs_exact`, and for the polynomial one whose mean is more than :obj:`farthest` times as
    far from the centre as from the origin: the gradient depends on the features' ratio to that.
    """
    t = table[blocks[b, 2]]
    centre, scale, inv, mu = t[CENTRE], t[SCALE], t[INV_SCALE], t[MU]
    width = out.shape[1] // weight.shape[1]
    acc, sums, kept = scratch(rows.shape[1], rows.dtype), ratio_sum[b], 0
    part = zero_scratch(out.shape[1], out.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        fell, weighted = 1 if extreme_weights[v] else 0, 0
        inverse_row, ratio_row, out_row = inverse[v], ratio[v], out[v]
        if not fell:
            gather_sum(acc, rows, col, weight, rowptr[v], rowptr[v + 1], 2 * width)
        for h in range(weight.shape[1]):
            a = total[v, h]
            start, pair, w = U(h) * U(width), U(h) * U(2 * width), U(width)
            if not a > ZERO or fell:
                for i in range(w):
                    inverse_row[start + i] = ZERO
                for i in range(w):
                    ratio_row[start + i] = ZERO
                for i in range(w):
                    out_row[start + i] = ZERO
                continue
            weighted += 1
            factor, floor, fallen = where(times_weight, a, ONE), least * a, np.int32(0)
            for i in range(w):
                low = (acc[pair + i] < floor) & ((acc[pair + i] > ZERO) | must_not_vanish)
                fallen += where(low, np.int32(1), np.int32(0))
            fell += fallen
            for i in range(w):
                c, s = start + i, acc[pair + i]
                inverted = where(s > ZERO, ONE / s, ZERO)
                at_origin = (read(mu, c) - read(centre, c)) * read(inv, c)
                mean = where(s > ZERO, acc[pair + w + i] * inverted, at_origin)
                inverse_row[c] = inverted
                ratio_row[c] = mean
                average = where(s > ZERO, read(centre, c) + read(scale, c) * mean, read(mu, c))
                out_row[c] = factor * average
            if not must_not_vanish:
                fell += count_far(
                    ratio_row, centre, scale, mu, acc, farthest, start, pair, width
                )  # fmt: skip
        needs_exact[v] = fell > 0
        if fell:
            for c in range(out.shape[1]):
                inverse_row[c] = ZERO
            for c in range(out.shape[1]):
                ratio_row[c] = ZERO
        elif weighted:
            kept += 1
            for c in range(out.shape[1]):
                part[c] += ratio_row[c]
        if is_last(v, blocks[b, 1]):
            flush(sums, part)
    counted[b] = kept


@kernel()
def mean_pullback(b, blocks, grad, inverse, ratio, total, middle, times_weight, rows, origin):
    r"""Writes blocks :math:`[q, q (r - \bar r)]` with :math:`q = g / \sum a T`, and sums the direct
    gradient of :math:`\mu`, without the part through the features.

    The backward pass cancels :math:`r` against features; measured from the channel's average
    mean :math:`\bar r` (:obj:`middle`) there is less to cancel.
    """
    mid, reached = middle[blocks[b, 2]], 0.0
    heads = total.shape[1]
    width = grad.shape[1] // heads
    for v in range(blocks[b, 0], blocks[b, 1]):
        row, g, inverse_row, ratio_row = rows[v], grad[v], inverse[v], ratio[v]
        for h in range(heads):
            a = total[v, h]
            factor = where(times_weight, a, ONE)
            start, pair = U(h) * U(width), U(h) * U(2 * width)
            for i in range(U(width)):
                row[pair + i] = factor * g[start + i] * inverse_row[start + i]
            for i in range(U(width)):
                c = start + i
                row[pair + U(width) + i] = row[pair + i] * (ratio_row[c] - mid[c])
            if a > ZERO:
                reached += factor * block_sum(g, start, width)
    origin[b] = reached


@kernel()
def softmax_backward(
    b, blocks, colptr, row_of, weight, pulled, x, table, middle, limit, grad, theta_grad
):  # fmt: skip
    r"""One pass over the transposed rows: feature gradients and the sums for :math:`\gamma`."""
    t = table[blocks[b, 2]]
    top, centre, inv, steep = t[TOP], t[CENTRE], t[INV_SCALE], t[STEEPNESS]
    mid = middle[blocks[b, 2]]
    width = x.shape[1] // weight.shape[1]
    acc, parts = scratch(pulled.shape[1], x.dtype), zero_scratch(x.shape[1], x.dtype)
    theta_sum = theta_grad[b]
    for u in range(blocks[b, 0], blocks[b, 1]):
        gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], 2 * width)
        z, grad_row = x[u], grad[u]
        for h in range(weight.shape[1]):
            start, pair = U(h) * U(width), U(h) * U(2 * width)
            for i in range(U(width)):
                c = start + i
                tilt = exp(read(steep, c) * ((read(z, c) - read(top, c)) * read(inv, c)))
                away = (read(z, c) - read(centre, c)) * read(inv, c) - read(mid, c)
                moved = away * acc[pair + i] - acc[pair + U(width) + i]
                slope = where(tilt > ZERO, read(steep, c) * moved, ZERO)
                grad_row[c] = clipped(tilt * (acc[pair + i] + slope), limit)
                parts[c] += tilt * moved * away
        if is_last(u, blocks[b, 1]):
            flush(theta_sum, parts)


@kernel()
def polynomial_backward(
    b, blocks, colptr, row_of, weight, pulled, x, table, middle, log_middle, log_units, limit,
    grad, theta_grad, origin,
):  # fmt: skip
    r"""The same for the polynomial; also sums the feature gradients,
    which are subtracted from that of :math:`\mu`.
    """
    t = table[blocks[b, 2]]
    top, centre, inv, mu = t[TOP], t[CENTRE], t[INV_SCALE], t[MU]
    inv_range, theta, stretch = t[INV_RANGE], t[THETA], t[STEEPNESS]
    mid, log_mid = middle[blocks[b, 2]], log_middle[blocks[b, 2]]
    log_unit, channels = log_units[blocks[b, 2]], U(x.shape[1])
    width = x.shape[1] // weight.shape[1]
    acc = scratch(pulled.shape[1], pulled.dtype)
    logs, tilts = scratch(x.shape[1], x.dtype), scratch(x.shape[1], x.dtype)
    slopes, parts = scratch(x.shape[1], x.dtype), zero_scratch(x.shape[1], x.dtype)
    theta_sum = theta_grad[b]
    moved_part, moved_sum = zero_scratch(x.shape[1], x.dtype), zero_scratch(x.shape[1], np.float64)
    for u in range(blocks[b, 0], blocks[b, 1]):
        gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], 2 * width)
        z, grad_row = x[u], grad[u]
        for c in range(channels):
            # At the origin y^alpha does not move with alpha, in the features' own unit.
            above, power = read(z, c) > read(mu, c), read(theta, c)
            logarithm = relative_log2(read(z, c), read(top, c), read(mu, c), read(inv_range, c))
            y = (read(z, c) - read(mu, c)) * read(inv_range, c)
            tilt = where(power == ONE, y, exp2(power * logarithm))
            tilts[c] = where(above, tilt, where(power == ZERO, ONE, ZERO))
            logs[c] = where(above, logarithm, read(log_unit, c)) - read(log_mid, c)
        for c in range(channels):
            y = (read(z, c) - read(mu, c)) * read(inv_range, c)
            slope = read(theta, c) * tilts[c] / y
            at_origin = where(read(theta, c) == ONE, ONE, ZERO)
            slopes[c] = where(read(z, c) > read(mu, c), slope, at_origin) * read(stretch, c)
        for h in range(weight.shape[1]):
            start, pair = U(h) * U(width), U(h) * U(2 * width)
            for i in range(U(width)):
                c = start + i
                away = (read(z, c) - read(centre, c)) * read(inv, c) - read(mid, c)
                moved = away * acc[pair + i] - acc[pair + U(width) + i]
                d = tilts[c] * acc[pair + i] + slopes[c] * moved
                grad_row[c] = bounded(d, limit)
                parts[c] += moved * tilts[c] * logs[c]
        for c in range(channels):
            moved_part[c] += grad_row[c]
        if is_last(u, blocks[b, 1]):
            flush(theta_sum, parts)
            flush(moved_sum, moved_part)
    origin[b] = moved_sum.sum()


@kernel(reassociate=True)
def mean_weight_backward(
    b, blocks, rowptr, col, rows, table, grad, inverse, ratio, total, needs_exact, times_weight,
    weight_grad,
):  # fmt: skip
    r"""The gradient of every edge weight, a product sampled at the edges."""
    t = table[blocks[b, 2]]
    centre, scale, mu = t[CENTRE], t[SCALE], t[MU]
    heads = total.shape[1]
    width = grad.shape[1] // heads
    left, whole = np.empty(rows.shape[1], rows.dtype), np.empty(heads, rows.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        if needs_exact[v]:
            continue
        g, inverse_row, ratio_row = grad[v], inverse[v], ratio[v]
        for h in range(heads):
            a = total[v, h]
            factor = where(times_weight, a, ONE)
            start, pair, kept = U(h) * U(width), U(h) * U(2 * width), ZERO * a
            for i in range(U(width)):
                c = start + i
                q = where(a > ZERO, factor * g[c] * inverse_row[c] * scale[c], ZERO)
                left[pair + i] = -q * ratio_row[c]
                left[pair + U(width) + i] = q
            if times_weight and a > ZERO:
                for i in range(U(width)):
                    c = start + i
                    average = centre[c] + scale[c] * ratio_row[c]
                    kept += g[c] * where(inverse_row[c] > ZERO, average, mu[c])
            whole[h] = kept
        edge_dots(left, rows, col, rowptr[v], rowptr[v + 1], 2 * width, weight_grad)
        if times_weight:
            for e in range(rowptr[v], rowptr[v + 1]):
                for h in range(heads):
                    weight_grad[e, h] += whole[h]


@kernel()
def mean_shift_sums(b, blocks, grad, total, times_weight, origin):
    r"""The direct gradient of :math:`\mu`, without the part through the features."""
    heads, reached = total.shape[1], 0.0
    width = grad.shape[1] // heads
    for v in range(blocks[b, 0], blocks[b, 1]):
        for h in range(heads):
            a = total[v, h]
            if a > ZERO:
                reached += where(times_weight, a, ONE) * block_sum(grad[v], h * width, width)
    origin[b] = reached
