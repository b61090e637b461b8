r"""Tilted means, :math:`\sum a T \hat v / \sum a T`: the softmax and the polynomial."""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.kernels.numba_backend.gather import block_dot, gather_sum
from meanmax.kernels.numba_backend.launch import kernel
from meanmax.kernels.numba_backend.tilt import (
    CENTRE,
    INV_SCALE,
    MU,
    ONE,
    RANGE,
    STEEPNESS,
    THETA,
    TOP,
    ZERO,
    U,
    relative_log,
    tilt_power,
)
from meanmax.kernels.numba_backend.transcendental import log
from meanmax.kernels.scaling import Channel

SCALE = int(Channel.SCALE)


@kernel()
def mean_forward(
    blocks, rowptr, col, weight, rows, table, total, delicate, least, times_weight, may_vanish,
    inverse, ratio, out, lost, ratio_sum, counted,
):  # fmt: skip
    r"""One pass over the rows.

    Saves :math:`1 / \sum a T` and the mean :math:`r` in units of the channel, and sums the means.
    A row that has a channel in which the sum fell below :obj:`least` of its weight is marked as
    lost.
    """
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        centre, scale, inv, mu = t[CENTRE], t[SCALE], t[INV_SCALE], t[MU]
        width = out.shape[1] // weight.shape[1]
        acc, sums, kept = np.empty(rows.shape[1], rows.dtype), ratio_sum[b], 0
        for v in range(blocks[b, 0], blocks[b, 1]):
            fell, weighted = 1 if delicate[v] else 0, 0
            if not fell:
                gather_sum(acc, rows, col, weight, rowptr[v], rowptr[v + 1], 2 * width)
            inverse_row, ratio_row, out_row = inverse[v], ratio[v], out[v]
            for h in range(weight.shape[1]):
                a = total[v, h]
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                factor = a if times_weight else ONE
                factor = factor if a > ZERO else ZERO
                weighted += 1 if a > ZERO else 0
                for i in range(U(width)):
                    c = start + i
                    s, m = acc[pair + i], acc[pair + U(width) + i]
                    empty = s <= ZERO
                    fell += 1 if (s < least * a) & (not (empty & may_vanish)) else 0
                    q = ZERO if empty else ONE / s
                    r = (mu[c] - centre[c]) * inv[c] if empty else m / s
                    inverse_row[c] = q if a > ZERO else ZERO
                    ratio_row[c] = r if a > ZERO else ZERO
                    out_row[c] = factor * (centre[c] + scale[c] * r)
            lost[v] = fell > 0
            if fell:
                for c in range(out.shape[1]):
                    inverse_row[c] = ZERO
                    ratio_row[c] = ZERO
            elif weighted:
                kept += 1
                for c in range(out.shape[1]):
                    sums[c] += ratio_row[c]
        counted[b] = kept


@kernel(reassociate=True)
def mean_pullback(blocks, grad, inverse, ratio, total, middle, times_weight, rows, origin):
    r"""Writes blocks :math:`[q, q (r - \bar r)]` with :math:`q = g / \sum a T`.

    The backward pass cancels :math:`r` against features; measured from the channel's average
    mean :math:`\bar r` (:obj:`middle`) there is less to cancel. Also sums what reaches
    :math:`\mu`.
    """
    for b in prange(blocks.shape[0]):
        mid = middle[blocks[b, 2]]
        heads = total.shape[1]
        width = grad.shape[1] // heads
        reached = 0.0
        for v in range(blocks[b, 0], blocks[b, 1]):
            row, g, inverse_row, ratio_row = rows[v], grad[v], inverse[v], ratio[v]
            for h in range(heads):
                a = total[v, h]
                factor = a if times_weight else ONE
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                direct = ZERO
                for i in range(U(width)):
                    q = factor * g[start + i] * inverse_row[start + i]
                    direct += g[start + i]
                    row[pair + i] = q
                    row[pair + U(width) + i] = q * (ratio_row[start + i] - mid[start + i])
                if a > ZERO:
                    reached += factor * direct
        origin[b] = reached


@kernel()
def softmax_backward(
    blocks, colptr, row_of, weight, pulled, x, rows, table, middle, grad, theta_grad
):  # fmt: skip
    r"""One pass over the transposed rows: feature gradients and the sums for :math:`\gamma`."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        centre, inv, steep = t[CENTRE], t[INV_SCALE], t[STEEPNESS]
        mid = middle[blocks[b, 2]]
        width = x.shape[1] // weight.shape[1]
        acc = np.empty(rows.shape[1], rows.dtype)
        theta_sum = theta_grad[b]
        for u in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], 2 * width)
            z, row, grad_row = x[u], rows[u], grad[u]
            for h in range(weight.shape[1]):
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                for i in range(U(width)):
                    c = start + i
                    tilt, q = row[pair + i], acc[pair + i]
                    away = (z[c] - centre[c]) * inv[c] - mid[c]
                    moved = away * q - acc[pair + U(width) + i]
                    slope = steep[c] * moved if tilt > ZERO else ZERO
                    grad_row[c] = tilt * (q + slope)
                    theta_sum[c] += tilt * moved * away


@kernel()
def polynomial_backward(
    blocks, colptr, row_of, weight, pulled, x, table, middle, log_middle, grad, theta_grad,
    limit, origin,
):  # fmt: skip
    r"""The same for the polynomial; also sums the feature gradients, which :math:`\mu` undoes."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        top, centre, inv, mu = t[TOP], t[CENTRE], t[INV_SCALE], t[MU]
        span, theta, stretch = t[RANGE], t[THETA], t[STEEPNESS]
        mid, log_mid = middle[blocks[b, 2]], log_middle[blocks[b, 2]]
        width = x.shape[1] // weight.shape[1]
        acc = np.empty(pulled.shape[1], pulled.dtype)
        theta_sum = theta_grad[b]
        moved_sum = np.zeros(x.shape[1], np.float64)
        for u in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], 2 * width)
            z, grad_row = x[u], grad[u]
            for h in range(weight.shape[1]):
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                for i in range(U(width)):
                    c = start + i
                    q = acc[pair + i]
                    away = (z[c] - centre[c]) * inv[c] - mid[c]
                    moved = away * q - acc[pair + U(width) + i]
                    above = z[c] > mu[c]
                    tilt = tilt_power(z[c], top[c], mu[c], span[c], theta[c])
                    slope = theta[c] * (tilt / ((z[c] - mu[c]) / span[c]))
                    at_origin = ONE if theta[c] == ONE else ZERO
                    slope = slope if above else at_origin
                    d = tilt * q + stretch[c] * slope * moved
                    d = d if d < limit else limit
                    d = d if d > -limit else -limit
                    grad_row[c] = d
                    moved_sum[c] += d
                    # At the origin y^alpha does not move with alpha, in the features' own unit.
                    logarithm = relative_log(z[c], top[c], mu[c], span[c])
                    logarithm = logarithm if above else -log(span[c])
                    theta_sum[c] += tilt * moved * (logarithm - log_mid[c])
        origin[b] = moved_sum.sum()


@kernel(reassociate=True)
def mean_weight_backward(
    blocks, rowptr, col, rows, table, grad, inverse, ratio, total, lost, times_weight, weight_grad
):  # fmt: skip
    r"""The gradient of every edge weight, a product sampled at the edges."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        centre, scale = t[CENTRE], t[SCALE]
        heads = total.shape[1]
        width = grad.shape[1] // heads
        left = np.empty(rows.shape[1], rows.dtype)
        for v in range(blocks[b, 0], blocks[b, 1]):
            if lost[v]:
                continue
            g, inverse_row, ratio_row = grad[v], inverse[v], ratio[v]
            for h in range(heads):
                a = total[v, h]
                factor = a if times_weight else ONE
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                whole = ZERO
                for i in range(U(width)):
                    c = start + i
                    r = ratio_row[c]
                    q = factor * g[c] * inverse_row[c] * scale[c]
                    left[pair + i] = -q * r
                    left[pair + U(width) + i] = q
                    whole += g[c] * (centre[c] + scale[c] * r)
                whole = whole if times_weight else ZERO
                for e in range(rowptr[v], rowptr[v + 1]):
                    part = block_dot(left, rows[col[e]], 2 * h * width, 2 * width)
                    weight_grad[e, h] = part + whole if a > ZERO else ZERO
