r"""Rows that underflow under the common shift, scaled by their own largest term: forward.

Every row gets, per channel, the exponent :math:`K` of its largest term :math:`a_{vu} T_u`, and the
largest feature among its neighbours as the point that means are taken from. The sums are then of
order one whatever the features, the parameter or the weights.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.kernels.numba_backend.extended import NOWHERE, split_weight
from meanmax.kernels.numba_backend.launch import kernel, subroutine
from meanmax.kernels.numba_backend.norm import weight_root
from meanmax.kernels.numba_backend.tilt import INV_SCALE, MU, ONE, THETA, ZERO, U
from meanmax.kernels.numba_backend.transcendental import power_of_two
from meanmax.kernels.scaling import Channel

SCALE = int(Channel.SCALE)


@subroutine
def row_tops(
    peak, anchor, extra, rowptr, col, weight, v, x, exponent, unit_denominator
):  # fmt: skip
    r"""Largest exponent and largest feature of a row's neighbours, per channel.

    :obj:`extra` becomes the largest exponent before weights are counted.
    """
    for c in range(peak.shape[0]):
        peak[c] = NOWHERE
        anchor[c] = NOWHERE
        extra[c] = NOWHERE
    width = x.shape[1] // weight.shape[1]
    for e in range(rowptr[v], rowptr[v + 1]):
        k, z = exponent[col[e]], x[col[e]]
        for h in range(weight.shape[1]):
            a = weight[e, h]
            if not (a > ZERO or unit_denominator):
                continue
            lift = x.dtype.type(0) if unit_denominator else x.dtype.type(split_weight(a)[1])
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                raised = k[c] + lift
                extra[c] = k[c] if k[c] > extra[c] else extra[c]
                peak[c] = raised if raised > peak[c] else peak[c]
                anchor[c] = z[c] if z[c] > anchor[c] else anchor[c]


@kernel()
def exact_mean_forward(
    blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    unit_denominator, times_weight, peak, anchor, inverse, ratio, extra, out,
):  # fmt: skip
    r"""Tilted means of the rows :obj:`chosen`; with :obj:`unit_denominator` as Eq. 15 prints it.

    Saves :math:`K`, the anchor, :math:`1 / S`, the mean from the anchor in units of the channel
    and, for the printed form, :math:`\sum a T / \sum T` in :obj:`extra`.
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
            row_tops(top, base, extra[i], rowptr, col, weight, v, x, exponent, unit_denominator)
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
                    part, lift = split_weight(a)
                    if unit_denominator:
                        part, lift = a, 0
                    raised, near = x.dtype.type(lift), x.dtype.type(part)
                    start = U(h) * U(width)
                    for c in range(start, start + U(width)):
                        bare = mant[c] * power_of_two(expo[c] + raised - top[c])
                        term = near * bare
                        s[c] += term
                        plain[c] += bare
                        m[c] += term * ((z[c] - base[c]) * inv[c])
            for h in range(weight.shape[1]):
                a = total[v, h]
                factor = a if times_weight else ONE
                start = U(h) * U(width)
                for c in range(start, start + U(width)):
                    below = plain[c] if unit_denominator else s[c]
                    alive = (below > ZERO) & (a > ZERO)
                    q = ONE / below if alive else ZERO
                    inverse[i, c] = q
                    ratio[i, c] = m[c] * q
                    mean = base[c] + scale[c] * (m[c] * q)
                    if unit_denominator:
                        extra[i, c] = s[c] * q
                        mean = base[c] * (s[c] * q) + scale[c] * (m[c] * q)
                    at_origin = mu[c] if a > ZERO else ZERO
                    out[v, c] = factor * (mean if alive else at_origin)


@kernel()
def exact_norm_forward(
    blocks, chosen, graph_of, rowptr, col, weight, x, mantissa, exponent, table, total,
    consistent, peak, anchor, inverse, norm, extra, out,
):  # fmt: skip
    r"""Tilted norms of the rows :obj:`chosen`; saves :math:`K`, :math:`1/S`, the norm, its log."""
    for b in prange(blocks.shape[0]):
        width = x.shape[1] // weight.shape[1]
        s = np.empty(x.shape[1], x.dtype)
        root = np.empty(x.shape[1], x.dtype)
        for i in range(blocks[b, 0], blocks[b, 1]):
            v, t = chosen[i], table[graph_of[i]]
            mu, theta, top = t[MU], t[THETA], peak[i]
            row_tops(top, anchor[i], extra[i], rowptr, col, weight, v, x, exponent, False)
            for c in range(x.shape[1]):
                s[c] = ZERO
            for e in range(rowptr[v], rowptr[v + 1]):
                mant, expo = mantissa[col[e]], exponent[col[e]]
                for h in range(weight.shape[1]):
                    a = weight[e, h]
                    if not a > ZERO:
                        continue
                    part, lift = split_weight(a)
                    raised, near = x.dtype.type(lift), x.dtype.type(part)
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
                    log_s = np.log2(np.float64(s[c])) if alive else 0.0
                    length = np.exp2((np.float64(top[c]) + log_s) / theta[c]) if alive else 0.0
                    inverse[i, c] = ONE / s[c] if alive else ZERO
                    extra[i, c] = log_s
                    norm[i, c] = length
                    # Without a neighbour above the origin only p = 1 has a slope there.
                    if not alive and a > ZERO and theta[c] == ONE:
                        top[c] = ZERO
                        inverse[i, c] = ONE
                        norm[i, c] = ONE
                    out[v, c] = length + mu[c] * root[c] if a > ZERO else ZERO
