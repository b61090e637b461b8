r"""Rows that underflow under the common shift, scaled by their own largest term: forward.

Every row gets, per channel, the exponent :math:`K` of its largest term :math:`a_{vu} T_u`, and a
feature near those that dominate as the anchor that means are taken from. The sums are then of
order one whatever the features, the parameter or the weights.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.kernels.numba_backend.branchless import larger, where
from meanmax.kernels.numba_backend.extended import NOWHERE, split_weight
from meanmax.kernels.numba_backend.launch import kernel, subroutine
from meanmax.kernels.numba_backend.norm import weight_root
from meanmax.kernels.numba_backend.tilt import (
    CENTRE,
    INV_SCALE,
    MU,
    ONE,
    THETA,
    TOP,
    ZERO,
    U,
)
from meanmax.kernels.numba_backend.transcendental import exp, power_of_two
from meanmax.kernels.scaling import Channel

SCALE = int(Channel.SCALE)
LN_2 = np.float32(0.6931471805599453)
LOG_LIMIT = np.float32(88.0)


@subroutine
def row_peaks(peak, rowptr, col, weight, v, exponent, unit_denominator):
    r"""Writes the exponent of a row's largest term; returns that of its largest weight."""
    for c in range(peak.shape[0]):
        peak[c] = NOWHERE
    highest = NOWHERE
    width = peak.shape[0] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        k = exponent[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not (a > ZERO or unit_denominator):
                continue
            lift = ZERO * a if unit_denominator else split_weight(a)[1]
            highest = max(highest, np.float32(lift))
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                peak[c] = larger(k[c] + lift, peak[c])
    return highest


@subroutine
def softmax_anchor(anchor, peak, table):
    r"""Writes a feature near those that dominate the row: the one whose tilt is the peak."""
    theta, top, centre, scale = table[THETA], table[TOP], table[CENTRE], table[SCALE]
    for c in range(anchor.shape[0]):
        anchor[c] = peak[c] * LN_2 / theta[c]
    for c in range(anchor.shape[0]):
        lowest = centre[c] - scale[c]
        bounded = where(anchor[c] > lowest, anchor[c], lowest)
        anchor[c] = where(bounded < top[c], bounded, top[c])


@subroutine
def power_anchor(anchor, peak, table):
    r"""The same for the polynomial, whose tilt is a power of the distance to the origin."""
    theta, top, mu = table[THETA], table[TOP], table[MU]
    for c in range(anchor.shape[0]):
        logarithm = peak[c] * LN_2 / theta[c]
        anchor[c] = where(logarithm < LOG_LIMIT, logarithm, LOG_LIMIT)
    for c in range(anchor.shape[0]):
        feature = mu[c] + exp(anchor[c])
        anchor[c] = where((feature < top[c]) & (theta[c] > ZERO), feature, top[c])


@kernel()
def exact_mean_forward(
    blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    softmax, unit_denominator, times_weight, peak, anchor, inverse, ratio, extra, out,
):  # fmt: skip
    r"""Tilted means of the rows :obj:`chosen`; with :obj:`unit_denominator` as Eq. 15 prints it.

    Saves :math:`K`, the anchor, :math:`1 / S`, the mean from the anchor in units of the channel
    and in :obj:`extra`, for the printed form, :math:`\sum a T / \sum T`, for others :math:`K` less
    the exponent of the row's largest weight.
    """
    for b in prange(blocks.shape[0]):
        width = x.shape[1] // weight.shape[1]
        s = np.empty(x.shape[1], x.dtype)
        m = np.empty(x.shape[1], x.dtype)
        plain, term = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
        for i in range(blocks[b, 0], blocks[b, 1]):
            v, t = chosen[i], table[graph_of[i]]
            scale, inv, mu = t[SCALE], t[INV_SCALE], t[MU]
            top, base = peak[i], anchor[i]
            highest = row_peaks(top, rowptr, col, weight, v, exponent, unit_denominator)
            if softmax:
                softmax_anchor(base, top, t)
            else:
                power_anchor(base, top, t)
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
                    for c in range(start, stop):
                        term[c] = mant[c] * power_of_two(expo[c] + raised - top[c])
                    if unit_denominator:
                        for c in range(start, stop):
                            plain[c] += term[c]
                    for c in range(start, stop):
                        s[c] += near * term[c]
                    for c in range(start, stop):
                        m[c] += near * term[c] * ((z[c] - base[c]) * inv[c])
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
                    extra[i, c] = top[c] - highest
                    if unit_denominator:
                        extra[i, c] = s[c] * q
                        mean = base[c] * (s[c] * q) + scale[c] * (m[c] * q)
                    at_origin = where(a > ZERO, mu[c], ZERO)
                    out[v, c] = factor * where(alive, mean, at_origin)


@kernel()
def exact_norm_forward(
    blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    consistent, peak, inverse, norm, extra, out,
):  # fmt: skip
    r"""Tilted norms of the rows :obj:`chosen`; saves :math:`K`, :math:`1/S`, the norm, its log."""
    for b in prange(blocks.shape[0]):
        width = x.shape[1] // weight.shape[1]
        s = np.empty(x.shape[1], x.dtype)
        root = np.empty(x.shape[1], x.dtype)
        for i in range(blocks[b, 0], blocks[b, 1]):
            v, t = chosen[i], table[graph_of[i]]
            mu, theta, top = t[MU], t[THETA], peak[i]
            row_peaks(top, rowptr, col, weight, v, exponent, False)
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
                        s[c] += near * mant[c] * power_of_two(expo[c] + raised - top[c])
            for h in range(weight.shape[1]):
                a = total[v, h]
                start = U(h) * U(width)
                if a > ZERO:
                    weight_root(root, a, theta, start, U(width), consistent)
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
