r"""Tilted means, :math:`\sum a T \hat v / \sum a T`: the softmax and the polynomial.

Loops over channels write one array each: with more, the compiler gives up on proving that they do
not overlap and does not vectorise.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.kernels.numba_backend.branchless import where
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
)
from meanmax.kernels.numba_backend.transcendental import exp, log
from meanmax.kernels.scaling import Channel

SCALE = int(Channel.SCALE)


@kernel()
def mean_forward(
    blocks, rowptr, col, weight, rows, table, total, delicate, least, times_weight,
    must_not_vanish, inverse, ratio, out, lost, ratio_sum, counted,
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
                for i in range(w):
                    s = acc[pair + i]
                    fell += where((s < least * a) & ((s > ZERO) | must_not_vanish), 1, 0)
                for i in range(w):
                    s = acc[pair + i]
                    inverse_row[start + i] = where(s > ZERO, ONE / s, ZERO)
                for i in range(w):
                    at_origin = (mu[start + i] - centre[start + i]) * inv[start + i]
                    s, m = acc[pair + i], acc[pair + w + i]
                    ratio_row[start + i] = where(s > ZERO, m / s, at_origin)
                factor = where(times_weight, a, ONE)
                for i in range(w):
                    c = start + i
                    out_row[c] = factor * (centre[c] + scale[c] * ratio_row[c])
            lost[v] = fell > 0
            if fell:
                for c in range(out.shape[1]):
                    inverse_row[c] = ZERO
                for c in range(out.shape[1]):
                    ratio_row[c] = ZERO
            elif weighted:
                kept += 1
                for c in range(out.shape[1]):
                    sums[c] += ratio_row[c]
        counted[b] = kept


@kernel()
def mean_pullback(blocks, grad, inverse, ratio, total, middle, times_weight, rows):
    r"""Writes blocks :math:`[q, q (r - \bar r)]` with :math:`q = g / \sum a T`.

    The backward pass cancels :math:`r` against features; measured from the channel's average
    mean :math:`\bar r` (:obj:`middle`) there is less to cancel.
    """
    for b in prange(blocks.shape[0]):
        mid = middle[blocks[b, 2]]
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


@kernel()
def softmax_backward(
    blocks, colptr, row_of, weight, pulled, x, table, middle, grad, theta_grad
):  # fmt: skip
    r"""One pass over the transposed rows: feature gradients and the sums for :math:`\gamma`."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        top, centre, inv, steep = t[TOP], t[CENTRE], t[INV_SCALE], t[STEEPNESS]
        mid = middle[blocks[b, 2]]
        width = x.shape[1] // weight.shape[1]
        acc, moved = np.empty(pulled.shape[1], x.dtype), np.empty(width, x.dtype)
        tilts = np.empty(width, x.dtype)
        theta_sum = theta_grad[b]
        for u in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], 2 * width)
            z, grad_row = x[u], grad[u]
            for h in range(weight.shape[1]):
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                for i in range(U(width)):
                    c = start + i
                    tilts[i] = exp(steep[c] * ((z[c] - top[c]) * inv[c]))
                for i in range(U(width)):
                    c = start + i
                    away = (z[c] - centre[c]) * inv[c] - mid[c]
                    moved[i] = away * acc[pair + i] - acc[pair + U(width) + i]
                for i in range(U(width)):
                    c = start + i
                    slope = where(tilts[i] > ZERO, steep[c] * moved[i], ZERO)
                    grad_row[c] = tilts[i] * (acc[pair + i] + slope)
                for i in range(U(width)):
                    moved[i] *= tilts[i]
                for i in range(U(width)):
                    c = start + i
                    theta_sum[c] += moved[i] * ((z[c] - centre[c]) * inv[c] - mid[c])


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
        logs, tilts = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
        slopes, moved = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
        theta_sum = theta_grad[b]
        moved_sum = np.zeros(x.shape[1], np.float64)
        for u in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], 2 * width)
            z, grad_row = x[u], grad[u]
            for c in range(x.shape[1]):
                # At the origin y^alpha does not move with alpha, in the features' own unit.
                logarithm = relative_log(z[c], top[c], mu[c], span[c])
                logs[c] = where(z[c] > mu[c], logarithm, -log(span[c]))
            for c in range(x.shape[1]):
                tilt = exp(theta[c] * logs[c])
                tilt = where(theta[c] == ONE, (z[c] - mu[c]) / span[c], tilt)
                at_origin = where(theta[c] == ZERO, ONE, ZERO)
                tilts[c] = where(z[c] > mu[c], tilt, at_origin)
            for c in range(x.shape[1]):
                slope = theta[c] * (tilts[c] / ((z[c] - mu[c]) / span[c]))
                at_origin = where(theta[c] == ONE, ONE, ZERO)
                slopes[c] = where(z[c] > mu[c], slope, at_origin)
            for h in range(weight.shape[1]):
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                for i in range(U(width)):
                    c = start + i
                    away = (z[c] - centre[c]) * inv[c] - mid[c]
                    moved[c] = away * acc[pair + i] - acc[pair + U(width) + i]
                for i in range(U(width)):
                    c = start + i
                    d = tilts[c] * acc[pair + i] + stretch[c] * slopes[c] * moved[c]
                    d = where(d < limit, d, limit)
                    grad_row[c] = where(d > -limit, d, -limit)
            for c in range(x.shape[1]):
                moved_sum[c] += grad_row[c]
            for c in range(x.shape[1]):
                moved[c] *= tilts[c] * (logs[c] - log_mid[c])
            for c in range(x.shape[1]):
                theta_sum[c] += moved[c]
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
                factor = where(times_weight, a, ONE)
                start, pair = U(h) * U(width), U(h) * U(2 * width)
                whole = ZERO
                for i in range(U(width)):
                    c = start + i
                    r = ratio_row[c]
                    q = factor * g[c] * inverse_row[c] * scale[c]
                    left[pair + i] = -q * r
                    left[pair + U(width) + i] = q
                    whole += g[c] * (centre[c] + scale[c] * r)
                whole = where(times_weight, whole, ZERO)
                for e in range(rowptr[v], rowptr[v + 1]):
                    part = block_dot(left, rows[col[e]], 2 * h * width, 2 * width)
                    weight_grad[e, h] = where(a > ZERO, part + whole, ZERO)
