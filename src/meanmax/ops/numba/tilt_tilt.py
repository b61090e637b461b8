r"""The node-wise work: channel ranges and the tilt of every source.

Literal numbers are float32 throughout the kernels: numba would widen float32 arithmetic to
float64 for a Python literal, and float32 constants widen by themselves where the data is float64.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.ops.numba.branchless import (larger, where)
from meanmax.ops.numba.launch import (kernel, subroutine)
from meanmax.ops.numba.tilt import (exp, log)
from meanmax.ops.scaling import Channel

U = np.uint64
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
TOP, CENTRE, INV_SCALE = int(Channel.TOP), int(Channel.CENTRE), int(Channel.INV_SCALE)
MU, RANGE, INV_RANGE = int(Channel.MU), int(Channel.RANGE), int(Channel.INV_RANGE)
THETA, INV_THETA = int(Channel.THETA), int(Channel.INV_THETA)
STEEPNESS = int(Channel.STEEPNESS)


@kernel()
def channel_range(blocks, x, high, low, finite):
    r"""Largest and smallest feature of every block and channel, and whether all are finite."""
    for b in prange(blocks.shape[0]):
        top, bottom, poison = high[b], low[b], np.zeros(x.shape[1], x.dtype)
        first = x[blocks[b, 0]]
        for c in range(x.shape[1]):
            top[c] = first[c]
            bottom[c] = first[c]
        for u in range(blocks[b, 0], blocks[b, 1]):
            row = x[u]
            for c in range(x.shape[1]):
                z = row[c]
                top[c] = larger(z, top[c])
                bottom[c] = -larger(-z, -bottom[c])
                poison[c] += z * ZERO  # NaN from the first entry that is not finite
        finite[b] = 1
        for c in range(x.shape[1]):
            if poison[c] != ZERO:
                finite[b] = 0


@subroutine
def relative_log(z, top, mu, inv_range):
    r""":math:`\log(y / y_{max})` for a feature above :math:`\mu`, accurate at both ends.

    Near the top the quotient's distance from one, :math:`z - z_{max}`, is known exactly, so take
    :math:`\log(1 + d)` and put back what rounding :math:`1 + d` lost (to first order); further
    down the quotient itself is the accurate one.
    """
    d = (z - top) * inv_range
    f = where(d > -HALF, ONE + d, (z - mu) * inv_range)
    lost = where(d > -HALF, (d - (f - ONE)) * (ONE + ONE - f), ZERO)
    return log(f) + lost


@subroutine
def tilt_power(z, top, mu, inv_range, theta):
    r""":math:`(y / y_{max})^\theta` with :math:`0^0 = 1`; exact for :math:`\theta = 1`."""
    tilt = exp(theta * relative_log(z, top, mu, inv_range))
    tilt = where(theta == ONE, (z - mu) * inv_range, tilt)
    return where(z > mu, tilt, where(theta == ZERO, ONE, ZERO))


@kernel()
def tilt_softmax(blocks, x, table, rows, width):
    r"""Writes blocks :math:`[T, T \hat v]` with :math:`T = e^{\gamma (z - z_{max})}`."""
    for b in prange(blocks.shape[0]):
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
def tilt_polynomial(blocks, x, table, rows, width, floor):
    r"""Writes blocks :math:`[T, T \hat v]` with :math:`T = (y / y_{max})^\alpha`.

    Above :math:`\mu` no tilt falls below :obj:`floor`, so that a sum of exactly 0 tells that all
    neighbours sit at :math:`\mu`.
    """
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        top, centre, inv, mu = t[TOP], t[CENTRE], t[INV_SCALE], t[MU]
        inv_range, theta = t[INV_RANGE], t[THETA]
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


@kernel()
def tilt_lp(blocks, x, table, rows, floor):
    r"""Writes :math:`T = (y / y_{max})^p`, at least :obj:`floor` above :math:`\mu`."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        top, mu, inv_range, theta = t[TOP], t[MU], t[INV_RANGE], t[THETA]
        for u in range(blocks[b, 0], blocks[b, 1]):
            row, z = rows[u], x[u]
            for c in range(x.shape[1]):
                tilt = tilt_power(z[c], top[c], mu[c], inv_range[c], theta[c])
                row[c] = where((tilt < floor) & (z[c] > mu[c]), floor, tilt)
