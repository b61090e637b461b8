r"""Rows that underflow under the common shift, scaled by their own largest term: forward.

Every row gets, per channel, the exponent :math:`K` of its largest term :math:`a_{vu} T_u`, and the
largest feature among its neighbours as the anchor that means are taken from. The sums are then of
order one whatever the features, the parameter or the weights.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.ops.numba.branchless import (larger, where)
from meanmax.ops.numba.extended import (LOG2_E, NOWHERE, split_weight)
from meanmax.ops.numba.launch import (kernel, subroutine)
from meanmax.ops.numba.memory import read
from meanmax.ops.numba.origin import weight_root
from meanmax.ops.numba.tilt_tilt import (INV_SCALE, MU, ONE, THETA, ZERO, U)
from meanmax.ops.numba.tilt import power_of_two
from meanmax.ops.scaling import Channel

SCALE = int(Channel.SCALE)


@subroutine
def row_peaks(peak, rowptr, col, weight, v, exponent, unit_denominator):
    r"""Writes the exponent of a row's largest term."""
    for c in range(peak.shape[0]):
        peak[c] = NOWHERE
    width = peak.shape[0] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        k = exponent[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not (a > ZERO or unit_denominator):
                continue
            lift = ZERO * a if unit_denominator else split_weight(a)[1]
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                peak[c] = larger(k[c] + lift, peak[c])


@subroutine
def row_anchors(anchor, rowptr, col, weight, v, x, unit_denominator):
    r"""Writes the largest feature of a row's neighbours; returns its largest weight's exponent."""
    for c in range(anchor.shape[0]):
        anchor[c] = NOWHERE
    highest = NOWHERE
    width = anchor.shape[0] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        z = x[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not (a > ZERO or unit_denominator):
                continue
            if not unit_denominator:
                highest = max(highest, np.float32(split_weight(a)[1]))
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                anchor[c] = larger(z[c], anchor[c])
    return highest


@subroutine
def softmax_peaks(peak, anchor, theta, highest):
    r"""The peak of a softmax row with ordinary weights, from its largest feature alone."""
    for c in range(peak.shape[0]):
        s = np.float64(theta[c]) * np.float64(anchor[c]) * LOG2_E
        peak[c] = np.rint(min(max(s, -1.0e38), 1.0e38)) + highest


@kernel()
def exact_mean_forward(
    blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    softmax, delicate, unit_denominator, times_weight, peak, anchor, inverse, ratio, extra, out,
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
        plain = np.empty(x.shape[1], x.dtype)
        for i in range(blocks[b, 0], blocks[b, 1]):
            v, t = chosen[i], table[graph_of[i]]
            scale, inv, mu = t[SCALE], t[INV_SCALE], t[MU]
            top, base = peak[i], anchor[i]
            highest = row_anchors(base, rowptr, col, weight, v, x, unit_denominator)
            if softmax and not delicate[v] and not unit_denominator:
                softmax_peaks(top, base, t[THETA], highest)
            else:
                row_peaks(top, rowptr, col, weight, v, exponent, unit_denominator)
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
                        tilt = read(mant, c) * power_of_two(read(expo, c) + raised - top[c])
                        s[c] += near * tilt
                        m[c] += near * tilt * ((read(z, c) - base[c]) * read(inv, c))
                    if unit_denominator:
                        for c in range(start, stop):
                            plain[c] += read(mant, c) * power_of_two(read(expo, c) - top[c])
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
