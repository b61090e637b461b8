r"""Tilts of unlimited range: every :math:`T = e^s` as a mantissa and an exponent of its own.

:math:`s / \log 2 = k + f` is formed in float64, so :math:`T = m \, 2^k` with :math:`m = 2^f` is
right to the last digit however far :math:`s` lies from the other nodes'. Rows that underflow
under the common shift then need no exponential per edge: they scale by powers of two.
"""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from meanmax.kernels.numba_backend.launch import kernel, subroutine
from meanmax.kernels.numba_backend.tilt import MU, ONE, THETA, ZERO

NOWHERE = np.float32(-3.0e38)  # the exponent of zero
LOG2_E = 1.4426950408889634


@subroutine
def split(s, mantissa, exponent, c):
    r"""Writes :math:`2^s` as mantissa and integer exponent, both in the dtype of the arrays."""
    bounded = min(max(s, -1.0e38), 1.0e38)
    k = exponent.dtype.type(np.rint(bounded))
    # Beyond 2^24 float32 has no units left; the mantissa takes up what the exponent rounds off.
    rest = min(max(bounded - np.float64(k), -126.0), 126.0)
    exponent[c] = k
    mantissa[c] = np.exp2(rest)


@subroutine
def split_weight(a):
    r"""The weight as mantissa in [1/2, 1) and exponent."""
    m, e = math.frexp(a)
    return m, e


@kernel()
def extend_softmax(blocks, x, table, mantissa, exponent):
    r"""Mantissa and exponent of :math:`e^{\gamma z}`."""
    for b in prange(blocks.shape[0]):
        theta = table[blocks[b, 2]][THETA]
        for u in range(blocks[b, 0], blocks[b, 1]):
            m, k, z = mantissa[u], exponent[u], x[u]
            for c in range(x.shape[1]):
                split(np.float64(theta[c]) * np.float64(z[c]) * LOG2_E, m, k, c)


@kernel()
def extend_power(blocks, x, table, mantissa, exponent):
    r"""Mantissa and exponent of :math:`y^\theta`, with :math:`0^0 = 1`."""
    for b in prange(blocks.shape[0]):
        theta, mu = table[blocks[b, 2]][THETA], table[blocks[b, 2]][MU]
        for u in range(blocks[b, 0], blocks[b, 1]):
            m, k, z = mantissa[u], exponent[u], x[u]
            for c in range(x.shape[1]):
                y = np.float64(z[c]) - np.float64(mu[c])
                if y > 0.0:
                    split(np.float64(theta[c]) * np.log2(y), m, k, c)
                else:
                    m[c] = ONE if theta[c] == ZERO else ZERO
                    k[c] = ZERO if theta[c] == ZERO else NOWHERE
