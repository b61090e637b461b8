r"""Rows that underflow under the common shift, scaled by their own largest term: backward.

What a source collects from such a row is formed edge by edge, from the row's own anchor, because
the split into sums over the row that serves all others would cancel here.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.ops.numba.branchless import where
from meanmax.ops.numba.extended import (LOG2_E, split_weight)
from meanmax.ops.numba.launch import (kernel, subroutine)
from meanmax.ops.numba.memory import read
from meanmax.ops.numba.origin import weight_root
from meanmax.ops.numba.tilt_tilt import (INV_SCALE, MU, ONE, RANGE, STEEPNESS, THETA, TOP, ZERO, U, relative_log)
from meanmax.ops.numba.tilt import (log, power_of_two)
from meanmax.ops.scaling import Channel

SCALE = int(Channel.SCALE)
SOFTMAX, PRINTED_SOFTMAX, POLYNOMIAL, LP = 0, 1, 2, 3


@subroutine
def add_mean_edge(
    carried, pull, moment, start, stop, part, lift, m, k, z, inv, peak, q, anchor, ratio
):  # fmt: skip
    r"""One edge's terms: the weight carried, the pull on the mean, and that times the distance."""
    for c in range(start, stop):
        tilt = read(m, c) * power_of_two(read(k, c) + lift - read(peak, c))
        term = part * read(q, c) * tilt
        away = (read(z, c) - read(anchor, c)) * read(inv, c)
        force = term * (away - read(ratio, c))
        carried[c] += term
        pull[c] += force
        moment[c] += force * away


@subroutine
def add_polynomial_edge(
    carried, pull, moment, start, stop, part, lift, m, k, z, inv, peak, q, anchor, ratio, highest
):  # fmt: skip
    r"""The same for the polynomial, where the distance is one of exponents."""
    for c in range(start, stop):
        tilt = read(m, c) * power_of_two(read(k, c) + lift - read(peak, c))
        term = part * read(q, c) * tilt
        force = term * ((read(z, c) - read(anchor, c)) * read(inv, c) - read(ratio, c))
        carried[c] += term
        pull[c] += force
        moment[c] += where(force == ZERO, ZERO, force * (read(k, c) - read(highest, c)))


@subroutine
def add_printed_edge(
    carried, pull, moment, start, stop, a, m, k, z, inv, peak, q, anchor, ratio, share
):  # fmt: skip
    r"""The same where the denominator counts every neighbour as one."""
    for c in range(start, stop):
        term = read(q, c) * (read(m, c) * power_of_two(read(k, c) - read(peak, c)))
        away = (read(z, c) - read(anchor, c)) * read(inv, c)
        excess = read(anchor, c) * read(inv, c) * (a - read(share, c))
        force = term * ((a * away - read(ratio, c)) + excess)
        carried[c] += term * a
        pull[c] += force
        moment[c] += force * away


@subroutine
def add_norm_edge(carried, moment, start, stop, part, lift, m, k, peak, q, log_sum):
    r"""The same for Lp: the term, and the term times its logarithm."""
    for c in range(start, stop):
        above = read(k, c) - read(peak, c)
        term = part * read(q, c) * (read(m, c) * power_of_two(above + lift))
        carried[c] += term
        moment[c] += where(term == ZERO, ZERO, term * (above - read(log_sum, c)))


@subroutine
def add_origin_edge(
    to, start, stop, part, lift, z, mu, theta, inv, peak, q, anchor, ratio, is_mean
):  # fmt: skip
    r"""What an edge gives to features at the origin, where only a power of one has a slope: 1."""
    for c in range(start, stop):
        at_origin = (read(z, c) <= read(mu, c)) & (read(theta, c) == ONE)
        term = part * read(q, c) * power_of_two(lift - read(peak, c))
        distance = (read(z, c) - read(anchor, c)) * read(inv, c) - read(ratio, c)
        term *= where(is_mean, distance, ONE)
        to[c] += where(at_origin, term, ZERO)


@subroutine
def has_origin_slope(z, mu, theta):
    r"""Whether a node has a feature at the origin in a channel whose power is one."""
    count = 0
    for c in range(z.shape[0]):
        count += where((z[c] <= mu[c]) & (theta[c] == ONE), 1, 0)
    return count > 0


@subroutine
def bounded(value, limit):
    r"""Clips to the largest finite number."""
    value = where(value < limit, value, limit)
    return where(value > -limit, value, -limit)


@subroutine
def finish_softmax(carried, pull, moment, table, grad, theta_sum, limit):
    r"""Adds a source's collected terms to its gradient; returns their sum."""
    steep = table[STEEPNESS]
    for c in range(grad.shape[0]):
        slope = where(pull[c] != ZERO, steep[c] * pull[c], ZERO)
        grad[c] += bounded(carried[c] + slope, limit)
        theta_sum[c] += moment[c]
    return 0.0


@subroutine
def finish_polynomial(carried, pull, moment, z, m, table, grad, theta_sum, limit):
    r"""The same for the polynomial."""
    mu, theta, scale, top, span = table[MU], table[THETA], table[SCALE], table[TOP], table[RANGE]
    total = 0.0
    for c in range(grad.shape[0]):
        y, alpha = z[c] - mu[c], theta[c]
        if y > ZERO:
            d = carried[c] + pull[c] * scale[c] * (alpha / y)
            if alpha >= ONE:
                # The row's peak cancels: within a row the pulls sum to zero.
                theta_sum[c] += (moment[c] / LOG2_E + pull[c] * log(m[c])) / alpha
            else:
                theta_sum[c] += pull[c] * relative_log(z[c], top[c], mu[c], ONE / span[c])
        elif alpha == ONE:
            d = scale[c] * pull[c]
        else:
            d = carried[c]
            theta_sum[c] -= pull[c] * log(span[c])
        d = bounded(d, limit)
        grad[c] += d
        total += d
    return total


@subroutine
def finish_norm(carried, moment, z, m, table, grad, theta_sum, limit):
    r"""The same for Lp."""
    mu, theta = table[MU], table[THETA]
    total = 0.0
    for c in range(grad.shape[0]):
        y = z[c] - mu[c]
        d = ZERO
        if y > ZERO:
            d = carried[c] / y
            theta_sum[c] += moment[c] / LOG2_E + carried[c] * log(m[c])
        elif theta[c] == ONE:
            d = carried[c]
        d = bounded(d, limit)
        grad[c] += d
        total += d
    return total


@kernel()
def exact_backward(
    blocks, colptr, row_of, weight, slot, x, mantissa, exponent, table, kind, limit,
    peak, pulled, anchor, ratio, extra, grad, theta_grad, origin,
):  # fmt: skip
    r"""Adds to the gradients what comes from the rows that have a :obj:`slot`.

    :obj:`extra` holds what only one form needs: about the largest exponent before weights
    (polynomial), :math:`\sum a T / \sum T` (printed softmax), the sum's binary logarithm (Lp).
    """
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        inv, theta_sum = t[INV_SCALE], theta_grad[b]
        channels, heads = x.shape[1], weight.shape[1]
        width = U(channels // heads)
        carried, pull = np.empty(channels, x.dtype), np.empty(channels, x.dtype)
        moment = np.empty(channels, x.dtype)
        mu, theta = t[MU], t[THETA]
        collected = 0.0
        for u in range(blocks[b, 0], blocks[b, 1]):
            touched, sloped = False, False
            z, m, k = x[u], mantissa[u], exponent[u]
            for e in range(colptr[u], colptr[u + 1]):
                i = slot[row_of[e]]
                if i < 0:
                    continue
                if not touched:
                    touched = True
                    carried[:] = ZERO
                    pull[:] = ZERO
                    moment[:] = ZERO
                    if kind == POLYNOMIAL or kind == LP:
                        sloped = has_origin_slope(z, mu, theta)
                for h in range(heads):
                    a = weight[e, h]
                    start, stop = U(h) * width, U(h) * width + width
                    if kind == PRINTED_SOFTMAX:
                        add_printed_edge(
                            carried, pull, moment, start, stop, a, m, k, z, inv,
                            peak[i], pulled[i], anchor[i], ratio[i], extra[i],
                        )  # fmt: skip
                        continue
                    if not a > ZERO:
                        continue
                    part, lift = split_weight(a)
                    if kind == SOFTMAX:
                        add_mean_edge(
                            carried, pull, moment, start, stop, part, lift, m, k, z, inv,
                            peak[i], pulled[i], anchor[i], ratio[i],
                        )  # fmt: skip
                    elif kind == POLYNOMIAL:
                        add_polynomial_edge(
                            carried, pull, moment, start, stop, part, lift, m, k, z, inv,
                            peak[i], pulled[i], anchor[i], ratio[i], extra[i],
                        )  # fmt: skip
                    else:
                        add_norm_edge(
                            carried, moment, start, stop, part, lift, m, k,
                            peak[i], pulled[i], extra[i],
                        )  # fmt: skip
                    if sloped:
                        add_origin_edge(
                            pull if kind == POLYNOMIAL else carried, start, stop, part, lift, z,
                            mu, theta, inv, peak[i], pulled[i], anchor[i], ratio[i],
                            kind == POLYNOMIAL,
                        )  # fmt: skip
            if not touched:
                continue
            if kind == POLYNOMIAL:
                collected += finish_polynomial(
                    carried, pull, moment, z, m, t, grad[u], theta_sum, limit
                )
            elif kind == LP:
                collected += finish_norm(carried, moment, z, m, t, grad[u], theta_sum, limit)
            else:
                finish_softmax(carried, pull, moment, t, grad[u], theta_sum, limit)
        origin[b] = collected


@kernel()
def exact_weight_backward(
    blocks, chosen, graph_of, rowptr, col, x, mantissa, exponent, table, kind, consistent,
    times_weight, limit, total, peak, pulled, anchor, ratio, grad, out, weight_grad,
):  # fmt: skip
    r"""The gradient of the weights of the rows :obj:`chosen`, edge by edge."""
    for b in prange(blocks.shape[0]):
        channels, heads = x.shape[1], weight_grad.shape[1]
        width = U(channels // heads)
        root, term = np.empty(channels, x.dtype), np.empty(channels, x.dtype)
        for i in range(blocks[b, 0], blocks[b, 1]):
            v, t = chosen[i], table[graph_of[i]]
            scale, inv, mu, theta = t[SCALE], t[INV_SCALE], t[MU], t[THETA]
            top, q, base, mean = peak[i], pulled[i], anchor[i], ratio[i]
            for h in range(heads):
                a = total[v, h]
                start, stop = U(h) * width, U(h) * width + width
                whole = 0.0
                if a > ZERO and kind == LP and consistent:
                    weight_root(root, a, theta, start, stop, True, False)
                    for c in range(start, start + width):
                        whole += grad[v, c] * mu[c] * root[c] / (theta[c] * a)
                elif a > ZERO and times_weight:
                    for c in range(start, start + width):
                        whole += grad[v, c] * (out[v, c] / a)
                for e in range(rowptr[v], rowptr[v + 1]):
                    z, m, k = x[col[e]], mantissa[col[e]], exponent[col[e]]
                    for c in range(start, stop):
                        term[c] = q[c] * (m[c] * power_of_two(k[c] - top[c]))
                    if kind == LP:
                        for c in range(start, stop):
                            term[c] /= theta[c]
                    elif kind == PRINTED_SOFTMAX:
                        for c in range(start, stop):
                            term[c] *= z[c]
                    else:
                        for c in range(start, stop):
                            away = ((z[c] - base[c]) * inv[c] - mean[c]) * scale[c]
                            term[c] = where(term[c] != ZERO, term[c] * away, ZERO)
                    whole_edge = whole
                    for c in range(start, stop):
                        whole_edge += bounded(term[c], limit)
                    weight_grad[e, h] = where(a > ZERO, bounded(whole_edge, limit), ZERO)
