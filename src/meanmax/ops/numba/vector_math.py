r"""Elementary functions that the compiler can vectorise.

Numba calls the C library once per element. For float32 these polynomials inline into the
surrounding loop and run eight or sixteen wide, with an error near one unit in the last place;
float64 falls back to the C library. Those to base e are the classical Cephes ones; those to base 2
are minimax fits, which need fewer steps. Terms are paired rather than nested, since a chain of nine
multiplications would be all that the processor waits for.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from meanmax.ops.numba.launch import subroutine, where
from meanmax.ops.scaling import Channel

F = np.float32


@intrinsic
def float_bits(typingctx, value):
    r"""The bits of a float32 as int32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), codegen


@intrinsic
def bits_float(typingctx, value):
    r"""The float32 that has these bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic
def double_bits(typingctx, value):
    r"""The bits of a float64 as int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def bits_double(typingctx, value):
    r"""The float64 that has these bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


def exp(x):
    r""":math:`e^x` for :math:`x \leq 0`; exactly 0 below the smallest normal number."""
    raise NotImplementedError("only inside compiled code")


def log(x):
    r""":math:`\log x` for normal, positive, finite :math:`x`; finite for any other."""
    raise NotImplementedError("only inside compiled code")


def exp2(x):
    r""":math:`2^x` for :math:`x < 127`; exactly 0 below the smallest normal number."""
    raise NotImplementedError("only inside compiled code")


def log2(x):
    r""":math:`\log_2 x` for normal, positive, finite :math:`x`; finite for any other."""
    raise NotImplementedError("only inside compiled code")


def power_of_two(k):
    r""":math:`2^k` for an integer-valued float; 0 where it underflows, saturated above."""
    raise NotImplementedError("only inside compiled code")


@subroutine
def _exp32(x):
    bounded = where(x > F(-87.0), x, F(-87.0))
    k = np.rint(bounded * F(1.4426950408889634))
    r = (bounded - k * F(0.693359375)) - k * F(-2.12194440e-4)
    r2 = r * r
    low = F(1.6666665459e-1) * r + F(5.0000001201e-1)
    mid = F(8.3334519073e-3) * r + F(4.1665795894e-2)
    high = F(1.9875691500e-4) * r + F(1.3981999507e-3)
    q = low + r2 * (mid + r2 * high)
    scale = bits_float((np.int32(k) + np.int32(127)) << np.int32(23))
    value = (q * r2 + r + F(1.0)) * scale
    return where(x > F(-87.0), value, F(0.0))


@subroutine
def _log32(x):
    bits = float_bits(x)
    # Mantissa in [sqrt(1/2), sqrt(2)): subtracting the bits of sqrt(1/2) first moves the carry.
    e = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    m = bits_float(bits - (e << np.int32(23)))
    k = F(e)
    f = m - F(1.0)
    z = f * f
    z2 = z * z
    t0 = F(-2.4999993993e-1) * f + F(3.3333331174e-1)
    t1 = F(-1.6668057665e-1) * f + F(2.0000714765e-1)
    t2 = F(-1.2420140846e-1) * f + F(1.4249322787e-1)
    t3 = F(-1.1514610310e-1) * f + F(1.1676998740e-1)
    q = (t0 + t1 * z) + (t2 + t3 * z) * z2 + F(7.0376836292e-2) * (z2 * z2)
    r = (f * z) * q + k * F(-2.12194440e-4) - F(0.5) * z
    return (f + r) + k * F(0.693359375)


@subroutine
def _exp2_32(x):
    bounded = where(x > F(-126.0), x, F(-126.0))
    k = np.rint(bounded)
    r = bounded - k
    r2 = r * r
    low = F(2.4022647914e-1) * r + F(6.9314720286e-1)
    mid = F(9.6184373583e-3) * r + F(5.5503324710e-2)
    high = F(1.5353361811e-4) * r + F(1.3398874445e-3)
    value = r * (low + r2 * (mid + r2 * high)) + F(1.0)
    value = bits_float(float_bits(value) + (np.int32(k) << np.int32(23)))
    return where(x > F(-126.0), value, F(0.0))


@subroutine
def _exp2_64(x):
    bounded = where(x > -1022.0, x, -1022.0)
    # The low bits of the sum are the nearest integer.
    shifted = bounded + 6755399441055744.0
    r = (bounded - (shifted - 6755399441055744.0)) * 0.6931471805599453
    r2 = r * r
    r4 = r2 * r2
    t0 = (1.0 + r) + r2 * (5.0e-1 + r * 1.6666666666666666e-1)
    t1 = (4.1666666666666664e-2 + r * 8.3333333333333332e-3) + r2 * (
        1.3888888888888889e-3 + r * 1.9841269841269841e-4
    )
    t2 = (2.4801587301587302e-5 + r * 2.7557319223985893e-6) + r2 * (
        2.7557319223985888e-7 + r * 2.5052108385441720e-8
    )
    t3 = 2.0876756987868099e-9 + r * 1.6059043836821613e-10
    value = t0 + r4 * (t1 + r4 * (t2 + r4 * t3))
    value = bits_double(double_bits(value) + (double_bits(shifted) << np.int64(52)))
    return where(x > -1022.0, value, 0.0)


@subroutine
def _log2_32(x):
    bits = float_bits(x)
    e = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    f = bits_float(bits - (e << np.int32(23))) - F(1.0)
    z = f * f
    t0 = F(4.8091064296e-1) * f + F(-7.2134734681e-1)
    t1 = F(2.8791624734e-1) * f + F(-3.6070368238e-1)
    t2 = F(2.1571562347e-1) * f + F(-2.3894483083e-1)
    t3 = F(1.2583689837e-1) * f + F(-2.0726968716e-1)
    q = (t0 + t1 * z) + (t2 + t3 * z) * (z * z)
    # The leading coefficient less 1: f itself is exact.
    return F(e) + (f + f * (f * q + F(4.426950037e-1)))


@subroutine
def _power_of_two32(k):
    low = where(k > F(-127.0), k, F(-127.0))
    bounded = where(low < F(127.0), low, F(127.0))
    return bits_float((np.int32(bounded) + np.int32(127)) << np.int32(23))


@subroutine
def _power_of_two64(k):
    low = where(k > -1023.0, k, -1023.0)
    bounded = where(low < 1023.0, low, 1023.0)
    return bits_double((np.int64(bounded) + np.int64(1023)) << np.int64(52))


@overload(exp)
def _exp_overload(x):
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: math.exp(x)


@overload(log)
def _log_overload(x):
    if x == types.float32:
        return lambda x: _log32(x)
    return lambda x: math.log(max(x, 2.2250738585072014e-308))


@overload(exp2)
def _exp2_overload(x):
    if x == types.float32:
        return lambda x: _exp2_32(x)
    return lambda x: _exp2_64(x)


@overload(log2)
def _log2_overload(x):
    if x == types.float32:
        return lambda x: _log2_32(x)
    return lambda x: np.log2(max(x, 2.2250738585072014e-308))


@overload(power_of_two)
def _power_of_two_overload(k):
    if k == types.float32:
        return lambda k: _power_of_two32(k)
    return lambda k: _power_of_two64(k)


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


U = np.uint64
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
TOP, CENTRE, INV_SCALE = int(Channel.TOP), int(Channel.CENTRE), int(Channel.INV_SCALE)
MU, RANGE, INV_RANGE = int(Channel.MU), int(Channel.RANGE), int(Channel.INV_RANGE)
THETA, INV_THETA = int(Channel.THETA), int(Channel.INV_THETA)
STEEPNESS, SCALE = int(Channel.STEEPNESS), int(Channel.SCALE)


NORMAL = np.float32(2.0**-125)  # twice the smallest normal float32
LN_2, LOG2_E = np.float32(math.log(2.0)), np.float32(1 / math.log(2.0))


@subroutine
def relative_log2(z, top, mu, inv_range):
    r""":math:`\log_2(y / y_{max})` for a feature above :math:`\mu`, accurate at both ends.

    Near the top the quotient's distance from one, :math:`z - z_{max}`, is known exactly, so take
    :math:`\log(1 + d)` and put back what rounding :math:`1 + d` lost (to first order); further
    down the quotient itself is the accurate one.
    """
    d = (z - top) * inv_range
    f = where(d > -HALF, ONE + d, (z - mu) * inv_range)
    lost = where(d > -HALF, (d - (f - ONE)) * (ONE + ONE - f), ZERO)
    return log2(f) + lost * LOG2_E


@subroutine
def count_underflows(z, mu, inv_range):
    r"""How many features above :math:`\mu` have a :math:`y` or :math:`y / y_{max}` that is
    subnormal in float32.
    """
    count = np.int32(0)
    for c in range(U(z.shape[0])):
        y = z[c] - mu[c]
        lost = (y > ZERO) & ((y < NORMAL) | (y * inv_range[c] < NORMAL))
        count += where(lost, np.int32(1), np.int32(0))
    return count


@subroutine
def tilt_power(z, top, mu, inv_range, theta):
    r""":math:`(y / y_{max})^\theta` with :math:`0^0 = 1`; exact for :math:`\theta = 1`."""
    tilt = exp2(theta * relative_log2(z, top, mu, inv_range))
    tilt = where(theta == ONE, (z - mu) * inv_range, tilt)
    return where(z > mu, tilt, where(theta == ZERO, ONE, ZERO))


@subroutine
def clipped(value, limit):
    r"""Clips to :obj:`limit` in magnitude; NaN stays NaN."""
    return where(value > limit, limit, where(value < -limit, -limit, value))


@subroutine
def bounded(value, limit):
    r"""The same, but NaN, which a subnormal range can give, becomes :obj:`limit`."""
    value = where(value < limit, value, limit)
    return where(value > -limit, value, -limit)


CHUNK = 8  # rows whose terms are summed in their own precision before float64 takes them


@subroutine
def is_last(row, stop):
    r"""Whether a row ends a chunk of rows, or the block."""
    return row % CHUNK == CHUNK - 1 or row == stop - 1


@subroutine
def flush(total, part):
    r"""Adds the sums of a chunk to float64 sums, and clears them."""
    for c in range(U(part.shape[0])):
        total[c] += part[c]
    for c in range(U(part.shape[0])):
        part[c] = ZERO


@subroutine
def count_equal(a, b):
    r"""How many entries of two vectors are equal."""
    count = np.int32(0)
    for c in range(U(a.shape[0])):
        count += where(a[c] == b[c], np.int32(1), np.int32(0))
    return count
