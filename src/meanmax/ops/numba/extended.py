r"""Tilts of unlimited range: every :math:`T = e^s` as a mantissa and an exponent of its own.

:math:`s / \log 2 = k + f` is formed in float64, so :math:`T = m \, 2^k` with :math:`m = 2^f` is
right to the last digit however far :math:`s` lies from the other nodes'. Rows that underflow
under the common shift then need no exponential per edge: they scale by powers of two.
"""

from __future__ import annotations

import math

import numpy as np
from numba import prange, types
from numba.extending import overload

from meanmax.ops.numba.branchless import where
from meanmax.ops.numba.launch import (kernel, subroutine)
from meanmax.ops.numba.tilt_tilt import (MU, ONE, THETA, ZERO)
from meanmax.ops.numba.tilt import (bits_float, float_bits)

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


def split_weight(a):
    r"""A positive weight as mantissa in [1/2, 1) and exponent, both in the weight's type."""
    raise NotImplementedError("only inside compiled code")


@overload(split_weight)
def _split_weight_overload(a):
    if a == types.float32:
        return lambda a: _split_weight32(a)
    return lambda a: _split_weight64(a)


@subroutine
def _split_weight32(a):
    small = a < np.float32(1.17549435e-38)
    bits = float_bits(where(small, a * np.float32(16777216.0), a))
    exponent = (bits >> np.int32(23)) - where(small, np.int32(150), np.int32(126))
    mantissa = bits_float((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000))
    return mantissa, np.float32(exponent)


@subroutine
def _split_weight64(a):
    mantissa, exponent = math.frexp(a)
    return mantissa, np.float64(exponent)


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
                    m[c] = where(theta[c] == ZERO, ONE, ZERO)
                    k[c] = where(theta[c] == ZERO, ZERO, NOWHERE)
