r"""Tilted norms, :math:`(\sum a y^p)^{1/p}` plus the shift: the Lp aggregator."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from meanmax.kernels.numba_backend.gather import block_dot, gather_sum
from meanmax.kernels.numba_backend.launch import kernel, subroutine
from meanmax.kernels.numba_backend.tilt import (
    MU,
    ONE,
    RANGE,
    THETA,
    TOP,
    ZERO,
    U,
    relative_log,
)
from meanmax.kernels.numba_backend.transcendental import exp, log


@subroutine
def weight_root(root, total, theta, start, width, consistent):
    r"""Writes the shift's factor of every channel of a head: :math:`A^{1/p}`, or 1 as printed."""
    if not consistent or total == ONE:
        for c in range(start, start + width):
            root[c] = ONE
        return
    log_total = math.log(total)
    for c in range(start, start + width):
        if c > start and theta[c] == theta[c - U(1)]:
            root[c] = root[c - U(1)]
        else:
            root[c] = math.exp(log_total / theta[c])


@kernel()
def norm_forward(
    blocks, rowptr, col, weight, rows, table, total, delicate, least, consistent,
    slope, entropy, out, lost,
):  # fmt: skip
    r"""One pass over the rows.

    With :math:`S = \sum a T`, saves :math:`S^{1/p - 1}` (:obj:`slope`) and
    :math:`S^{1/p} \log S` (:obj:`entropy`), all that the backward pass needs of a row.
    """
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        mu, span, theta = t[MU], t[RANGE], t[THETA]
        heads = weight.shape[1]
        width = out.shape[1] // heads
        acc = np.empty(rows.shape[1], rows.dtype)
        root = np.empty(rows.shape[1], rows.dtype)
        for v in range(blocks[b, 0], blocks[b, 1]):
            fell = 1 if delicate[v] else 0
            if not fell:
                gather_sum(acc, rows, col, weight, rowptr[v], rowptr[v + 1], width)
            slope_row, entropy_row, out_row = slope[v], entropy[v], out[v]
            for h in range(heads):
                a = total[v, h]
                start = U(h) * U(width)
                if a > ZERO:
                    weight_root(root, a, theta, start, U(width), consistent)
                for c in range(start, start + U(width)):
                    s, p = acc[c], theta[c]
                    empty = s <= ZERO
                    fell += 1 if (s < least * a) & (not empty) else 0
                    log_s = log(ONE if empty else s)
                    norm = s if p == ONE else exp(log_s / p)
                    norm = ZERO if empty else norm
                    at_origin = ONE if p == ONE else ZERO
                    slope_row[c] = at_origin if empty else norm / s
                    entropy_row[c] = norm * log_s
                    out_row[c] = span[c] * norm + mu[c] * root[c]
                if not a > ZERO:
                    for c in range(start, start + U(width)):
                        slope_row[c] = ZERO
                        entropy_row[c] = ZERO
                        out_row[c] = ZERO
            lost[v] = fell > 0
            if fell:
                for c in range(out.shape[1]):
                    slope_row[c] = ZERO
                    entropy_row[c] = ZERO


@kernel()
def norm_pullback(
    blocks, grad, slope, entropy, total, table, consistent, pulled, entropy_sum, root_sum, origin
):  # fmt: skip
    r"""Writes :math:`q = g S^{1/p - 1}`; sums per channel what the rows give to :math:`p`.

    :obj:`entropy_sum` collects :math:`g S^{1/p} \log S`, :obj:`root_sum` collects
    :math:`g A^{1/p} \log A`, and :obj:`origin` what reaches :math:`\mu` directly.
    """
    for b in prange(blocks.shape[0]):
        theta = table[blocks[b, 2]][THETA]
        heads = total.shape[1]
        width = grad.shape[1] // heads
        root = np.empty(grad.shape[1], grad.dtype)
        direct = np.zeros(grad.shape[1], np.float64)
        entropies, roots = entropy_sum[b], root_sum[b]
        for v in range(blocks[b, 0], blocks[b, 1]):
            g, slope_row, entropy_row, row = grad[v], slope[v], entropy[v], pulled[v]
            for c in range(grad.shape[1]):
                row[c] = g[c] * slope_row[c]
                entropies[c] += g[c] * entropy_row[c]
            for h in range(heads):
                a = total[v, h]
                if not a > ZERO:
                    continue
                start = U(h) * U(width)
                weight_root(root, a, theta, start, U(width), consistent)
                log_a = grad.dtype.type(math.log(a)) if consistent else grad.dtype.type(0)
                for c in range(start, start + U(width)):
                    direct[c] += g[c] * root[c]
                    roots[c] += g[c] * root[c] * log_a
        origin[b] = direct.sum()


@kernel()
def norm_backward(
    blocks, colptr, row_of, weight, pulled, x, table, grad, theta_grad, origin
):  # fmt: skip
    r"""One pass over the transposed rows: feature gradients and the sums for :math:`p`."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        top, mu, span, theta = t[TOP], t[MU], t[RANGE], t[THETA]
        width = x.shape[1] // weight.shape[1]
        acc = np.empty(x.shape[1], x.dtype)
        moved_sum = np.zeros(x.shape[1], np.float64)
        theta_sum = theta_grad[b]
        for u in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, pulled, row_of, weight, colptr[u], colptr[u + 1], width)
            z, grad_row = x[u], grad[u]
            for c in range(x.shape[1]):
                above = z[c] > mu[c]
                logarithm = relative_log(z[c], top[c], mu[c], span[c])
                derivative = exp((theta[c] - ONE) * logarithm)
                derivative = derivative if above else ZERO
                derivative = ONE if theta[c] == ONE else derivative
                d = derivative * acc[c]
                grad_row[c] = d
                moved_sum[c] += d
                part = d * ((z[c] - mu[c]) / span[c]) * logarithm
                theta_sum[c] += part if above else ZERO
        origin[b] = moved_sum.sum()


@kernel(reassociate=True)
def norm_weight_backward(
    blocks, rowptr, col, rows, table, grad, slope, total, lost, consistent, weight_grad
):  # fmt: skip
    r"""The gradient of every edge weight, a product sampled at the edges."""
    for b in prange(blocks.shape[0]):
        t = table[blocks[b, 2]]
        mu, span, theta = t[MU], t[RANGE], t[THETA]
        heads = total.shape[1]
        width = grad.shape[1] // heads
        left = np.empty(grad.shape[1], grad.dtype)
        root = np.empty(grad.shape[1], grad.dtype)
        for v in range(blocks[b, 0], blocks[b, 1]):
            if lost[v]:
                continue
            g, slope_row = grad[v], slope[v]
            for h in range(heads):
                a = total[v, h]
                start = U(h) * U(width)
                whole = ZERO
                if a > ZERO:
                    weight_root(root, a, theta, start, U(width), consistent)
                    for c in range(start, start + U(width)):
                        left[c] = g[c] * slope_row[c] * span[c] / theta[c]
                        whole += g[c] * mu[c] * root[c] / (theta[c] * a)
                whole = whole if consistent else ZERO
                for e in range(rowptr[v], rowptr[v + 1]):
                    part = block_dot(left, rows[col[e]], h * width, width)
                    weight_grad[e, h] = part + whole if a > ZERO else ZERO
