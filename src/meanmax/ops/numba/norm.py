r"""Tilted norms, :math:`(\sum a y^p)^{1/p}` plus the shift: the Lp aggregator.

Loops over channels write one array each: with more, the compiler gives up on proving that they do
not overlap and does not vectorise.
"""

from __future__ import annotations

import numpy as np

from meanmax.ops.numba.gather import block_dot, block_sum, edge_dots, gather_sum
from meanmax.ops.numba.launch import kernel, read, scratch, subroutine, where, zero_scratch
from meanmax.ops.numba.vector_math import (
    INV_RANGE,
    INV_THETA,
    MU,
    ONE,
    RANGE,
    THETA,
    TOP,
    ZERO,
    U,
    clipped,
    count_equal,
    count_underflows,
    exp2,
    flush,
    is_last,
    log2,
    relative_log2,
    tilt_power,
)


@subroutine
def uniform_heads(theta, heads):
    r"""Whether all channels of a head have one parameter, for every head."""
    width = theta.shape[0] // heads
    uniform = np.empty(heads, np.bool_)
    for h in range(heads):
        start, different = h * width, 0
        for i in range(width):
            different += where(theta[start + i] != theta[start], 1, 0)
        uniform[h] = different == 0
    return uniform


@subroutine
def weight_root(root, total, theta, start, stop, consistent, uniform):
    r"""Writes the shift's factor of every channel of a head: :math:`A^{1/p}`, or 1 as printed."""
    plain = not consistent or total == ONE
    if plain or uniform:
        one = ONE if plain else exp2(log2(total) / theta[start])
        for c in range(start, stop):
            root[c] = one
        return
    log_total = log2(total)
    for c in range(start, stop):
        root[c] = exp2(log_total / theta[c])


@subroutine
def fill(row, value, start, stop):
    r"""Writes one value."""
    for c in range(start, stop):
        row[c] = value


@subroutine
def count_low(sums, least, start, stop):
    r"""How many sums are positive but below :obj:`least`; a loop of its own vectorises better."""
    count = np.int32(0)
    for c in range(start, stop):
        low = (sums[c] > ZERO) & (sums[c] < least)
        count += where(low, np.int32(1), np.int32(0))
    return count


@subroutine
def write_row(out, slope, entropy, sums, theta, inverse, span, mu, root, start, stop):
    r"""Writes the output of a row and the values saved for the backward pass.

    That is the norm plus :obj:`root` times the origin, :math:`S^{1/p - 1}` (for an empty sum 1 if
    :math:`p = 1` and 0 otherwise) and :math:`S^{1/p} \log_2 S`.
    """
    for c in range(start, stop):
        s, linear = sums[c], read(theta, c) == ONE
        alive = s > ZERO
        log_s = where(alive, log2(s), ZERO)
        norm = where(linear, s, where(alive, exp2(log_s * read(inverse, c)), ZERO))
        slope[c] = where(alive, norm / s, where(linear, ONE, ZERO))
        entropy[c] = norm * log_s
        out[c] = read(span, c) * norm + read(mu, c) * root


@kernel()
def tilt_lp(b, blocks, x, table, rows, floor, ties, lost):
    r"""Writes :math:`T = (y / y_{max})^p`, at least :obj:`floor` above :math:`\mu`, and counts the
    features at :math:`\mu` and, in :obj:`lost`, those whose distance from it underflows.
    """
    t = table[blocks[b, 2]]
    top, mu, inv_range, theta = t[TOP], t[MU], t[INV_RANGE], t[THETA]
    count, underflows = 0, 0
    for u in range(blocks[b, 0], blocks[b, 1]):
        row, z = rows[u], x[u]
        for c in range(x.shape[1]):
            tilt = tilt_power(z[c], top[c], mu[c], inv_range[c], theta[c])
            row[c] = where((tilt < floor) & (z[c] > mu[c]), floor, tilt)
        count += count_equal(z, mu)
        underflows += count_underflows(z, mu, inv_range)
    ties[b], lost[b] = count, underflows


@kernel()
def norm_forward(
    b, blocks, rowptr, col, weight, rows, table, total, extreme_weights, least, consistent,
    slope, entropy, out, needs_exact,
):  # fmt: skip
    r"""One pass over the rows.

    With :math:`S = \sum a T`, saves :math:`S^{1/p - 1}` (:obj:`slope`) and
    :math:`S^{1/p} \log_2 S` (:obj:`entropy`), all that the backward pass needs of a row.
    """
    t = table[blocks[b, 2]]
    mu, span, theta, inverse = t[MU], t[RANGE], t[THETA], t[INV_THETA]
    channels, heads = out.shape[1], weight.shape[1]
    uniform = uniform_heads(theta, heads)
    width = U(channels // heads)
    acc, root = scratch(channels, out.dtype), scratch(channels, out.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        slope_row, entropy_row, out_row = slope[v], entropy[v], out[v]
        fell = 1 if extreme_weights[v] else 0
        if not fell:
            gather_sum(acc, rows, col, weight, rowptr[v], rowptr[v + 1], channels // heads)
        for h in range(heads):
            a = total[v, h]
            start, stop = U(h) * width, U(h) * width + width
            if not a > ZERO or fell:
                fill(slope_row, ZERO, start, stop)
                fill(entropy_row, ZERO, start, stop)
                fill(out_row, ZERO, start, stop)
                continue
            weight_root(root, a, theta, start, stop, consistent, uniform[h])
            one_root = uniform[h] or not consistent
            fell += count_low(acc, least * a, start, stop)
            write_row(
                out_row, slope_row, entropy_row, acc, theta, inverse, span, mu,
                where(one_root, root[start], ZERO), start, stop,
            )  # fmt: skip
            if not one_root:
                for c in range(start, stop):
                    out_row[c] += mu[c] * root[c]
        needs_exact[v] = fell > 0
        if fell:
            fill(slope_row, ZERO, U(0), U(channels))
            fill(entropy_row, ZERO, U(0), U(channels))


@subroutine
def add_shift(g, total, theta, uniform, consistent, mu, root, theta_part):
    r"""Adds what :math:`p` gets from a row's shift, :math:`g \mu A^{1/p} \log_2 A` per channel;
    returns what :math:`\mu` gets: the sum of :math:`g A^{1/p}`, or of :math:`g` as printed.
    """
    width, reached = U(g.shape[0] // total.shape[0]), 0.0
    for h in range(total.shape[0]):
        a = total[h]
        if not a > ZERO:
            continue
        start, stop = U(h) * width, U(h) * width + width
        weight_root(root, a, theta, start, stop, consistent, uniform[h])
        if uniform[h] or not consistent:
            reached += root[start] * block_sum(g, start, width)
        else:
            reached += block_dot(g, root, start, width)
        if consistent and a != ONE:
            log_a = log2(a)
            for c in range(start, stop):
                theta_part[c] += g[c] * (read(mu, c) * root[c] * log_a)
    return reached


@kernel()
def norm_shift_sums(b, blocks, grad, total, table, consistent, theta_grad, origin):
    r"""Sums :func:`add_shift` over rows."""
    t, channels, reached = table[blocks[b, 2]], grad.shape[1], 0.0
    uniform, root = uniform_heads(t[THETA], total.shape[1]), scratch(channels, grad.dtype)
    part = zero_scratch(channels, grad.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        reached += add_shift(grad[v], total[v], t[THETA], uniform, consistent, t[MU], root, part)
        if is_last(v, blocks[b, 1]):
            flush(theta_grad[b], part)
    origin[b] = reached


@kernel()
def norm_pullback(
    b, blocks, grad, total, table, consistent, theta_grad, origin, slope, entropy, pulled
):  # fmt: skip
    r"""Writes :math:`q = g S^{1/p - 1}`; sums the same and, for :math:`p`,
    :math:`g y_{max} S^{1/p} \log_2 S`.
    """
    t, channels, reached = table[blocks[b, 2]], grad.shape[1], 0.0
    theta, mu, span = t[THETA], t[MU], t[RANGE]
    uniform, root = uniform_heads(theta, total.shape[1]), scratch(channels, grad.dtype)
    part = zero_scratch(channels, grad.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        g, slope_row, entropy_row, row = grad[v], slope[v], entropy[v], pulled[v]
        for c in range(channels):
            row[c] = g[c] * slope_row[c]
        for c in range(channels):
            part[c] += g[c] * (entropy_row[c] * span[c])
        reached += add_shift(g, total[v], theta, uniform, consistent, mu, root, part)
        if is_last(v, blocks[b, 1]):
            flush(theta_grad[b], part)
    origin[b] = reached


@kernel()
def norm_backward(
    b, blocks, colptr, row_of, weight, pulled, x, table, limit, grad, theta_grad, origin
):  # fmt: skip
    r"""One pass over the transposed rows: feature gradients and the sums for :math:`p`."""
    t = table[blocks[b, 2]]
    top, mu, inv, theta = t[TOP], t[MU], t[INV_RANGE], t[THETA]
    width, channels = x.shape[1] // weight.shape[1], U(x.shape[1])
    acc, parts = scratch(x.shape[1], x.dtype), zero_scratch(x.shape[1], x.dtype)
    moved, moved_sum = zero_scratch(x.shape[1], x.dtype), zero_scratch(x.shape[1], np.float64)
    theta_sum = theta_grad[b]
    for u in range(blocks[b, 0], blocks[b, 1]):
        gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], width)
        z, grad_row = x[u], grad[u]
        for c in range(channels):
            above, p = read(z, c) > read(mu, c), read(theta, c)
            logarithm = relative_log2(read(z, c), read(top, c), read(mu, c), read(inv, c))
            slope = where(above, exp2((p - ONE) * logarithm), ZERO)
            d = where(p == ONE, ONE, slope) * acc[c]
            y = (read(z, c) - read(mu, c)) * read(inv, c)
            grad_row[c] = clipped(d, limit)
            parts[c] += where(above, d * y * logarithm, ZERO)
        for c in range(channels):
            moved[c] += grad_row[c]
        if is_last(u, blocks[b, 1]):
            flush(theta_sum, parts)
            flush(moved_sum, moved)
    origin[b] = moved_sum.sum()


@kernel(reassociate=True)
def norm_weight_backward(
    b, blocks, rowptr, col, rows, table, grad, slope, total, needs_exact, consistent, weight_grad
):  # fmt: skip
    r"""The gradient of every edge weight, a product sampled at the edges."""
    t = table[blocks[b, 2]]
    mu, span, theta = t[MU], t[RANGE], t[THETA]
    heads = total.shape[1]
    width = grad.shape[1] // heads
    left, whole = np.empty(grad.shape[1], grad.dtype), np.empty(heads, grad.dtype)
    root, uniform = scratch(grad.shape[1], grad.dtype), uniform_heads(theta, heads)
    for v in range(blocks[b, 0], blocks[b, 1]):
        if needs_exact[v]:
            continue
        g, slope_row = grad[v], slope[v]
        for h in range(heads):
            a = total[v, h]
            start, stop, kept = U(h) * U(width), U(h) * U(width) + U(width), ZERO * a
            for c in range(start, stop):
                left[c] = where(a > ZERO, g[c] * slope_row[c] * span[c] / theta[c], ZERO)
            if consistent and a > ZERO:
                weight_root(root, a, theta, start, stop, consistent, uniform[h])
                for c in range(start, stop):
                    kept += g[c] * mu[c] * root[c] / (theta[c] * a)
            whole[h] = kept
        edge_dots(left, rows, col, rowptr[v], rowptr[v + 1], width, weight_grad)
        for e in range(rowptr[v], rowptr[v + 1]):
            for h in range(heads):
                weight_grad[e, h] += whole[h]
