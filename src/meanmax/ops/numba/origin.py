r"""The origin :math:`\mu`: the shift that is added back, and its gradient."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from meanmax.ops.numba.branchless import where
from meanmax.ops.numba.launch import (kernel, subroutine)
from meanmax.ops.numba.tilt_tilt import (ONE, THETA, ZERO, U)


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
        one = 1.0 if plain else math.exp(math.log(total) / theta[start])
        for c in range(start, stop):
            root[c] = one
        return
    log_total = math.log(total)
    for c in range(start, stop):
        root[c] = math.exp(log_total / theta[c])


@kernel()
def norm_shift_sums(blocks, grad, total, table, consistent, root_sum, origin):
    r"""What the shift of Lp gives to :math:`p` and :math:`\mu`.

    :obj:`root_sum` collects :math:`g A^{1/p} \log A` per channel, :obj:`origin`
    :math:`g A^{1/p}`; as printed, without the root.
    """
    for b in prange(blocks.shape[0]):
        theta = table[blocks[b, 2]][THETA]
        heads = total.shape[1]
        uniform = uniform_heads(theta, heads)
        width = grad.shape[1] // heads
        root = np.empty(grad.shape[1], grad.dtype)
        direct, roots = np.zeros(grad.shape[1], np.float64), root_sum[b]
        for v in range(blocks[b, 0], blocks[b, 1]):
            g = grad[v]
            for h in range(heads):
                a = total[v, h]
                if not a > ZERO:
                    continue
                start, stop = U(h) * U(width), U(h) * U(width) + U(width)
                weight_root(root, a, theta, start, stop, consistent, uniform[h])
                for c in range(start, stop):
                    direct[c] += g[c] * root[c]
                if consistent and a != ONE:
                    log_a = grad.dtype.type(math.log(a))
                    for c in range(start, stop):
                        roots[c] += g[c] * root[c] * log_a
        origin[b] = direct.sum()


@kernel(reassociate=True)
def mean_shift_sums(blocks, grad, total, times_weight, origin):
    r"""What reaches :math:`\mu` other than through the features of a tilted mean."""
    for b in prange(blocks.shape[0]):
        heads = total.shape[1]
        width = grad.shape[1] // heads
        reached = 0.0
        for v in range(blocks[b, 0], blocks[b, 1]):
            g = grad[v]
            for h in range(heads):
                a = total[v, h]
                start, direct = U(h) * U(width), ZERO * a
                for c in range(start, start + U(width)):
                    direct += g[c]
                if a > ZERO:
                    reached += where(times_weight, a, ONE) * direct
        origin[b] = reached


@kernel()
def spread_origin(blocks, x, mu, share, grad):
    r"""Adds each graph's share of :math:`\mu`'s gradient to the features that attain it."""
    for b in prange(blocks.shape[0]):
        origin, part = mu[blocks[b, 2]], share[blocks[b, 2]]
        for u in range(blocks[b, 0], blocks[b, 1]):
            row, z = grad[u], x[u]
            for c in range(x.shape[1]):
                row[c] += where(z[c] == origin, part, ZERO)


@kernel()
def count_origin(blocks, x, mu, count):
    r"""How many features of every block attain their graph's :math:`\mu`."""
    for b in prange(blocks.shape[0]):
        origin, ties = mu[blocks[b, 2]], 0
        for u in range(blocks[b, 0], blocks[b, 1]):
            z = x[u]
            for c in range(x.shape[1]):
                ties += where(z[c] == origin, 1, 0)
        count[b] = ties
