r"""The linear product, the floor that everything else is measured against, and the maximum."""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.ops.numba.branchless import (larger, where)
from meanmax.ops.numba.gather import (edge_dots, gather_sum)
from meanmax.ops.numba.launch import kernel
from meanmax.ops.numba.tilt_tilt import (ONE, ZERO, U)


@kernel()
def product(blocks, pointer, neighbour, weight, x, out):
    r"""Weighted sums over the rows of :obj:`pointer`, of the graph or of its transpose."""
    for b in prange(blocks.shape[0]):
        acc = np.empty(x.shape[1], x.dtype)
        width = x.shape[1] // weight.shape[1]
        for v in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, x, neighbour, weight, pointer[v], pointer[v + 1], width)
            row = out[v]
            for c in range(x.shape[1]):
                row[c] = acc[c]


@kernel(reassociate=True)
def product_weight_backward(blocks, rowptr, col, x, grad, weight_grad):
    r"""The gradient of every edge weight: :math:`\langle g_v, x_u \rangle` per head."""
    for b in prange(blocks.shape[0]):
        width = x.shape[1] // weight_grad.shape[1]
        for v in range(blocks[b, 0], blocks[b, 1]):
            edge_dots(grad[v], x, col, rowptr[v], rowptr[v + 1], width, weight_grad)


@kernel()
def permute_rows(blocks, pointer, position, values, moved):
    r"""Writes :obj:`values[position]` into :obj:`moved`, edge by edge."""
    for b in prange(blocks.shape[0]):
        first, last = pointer[blocks[b, 0]], pointer[blocks[b, 1]]
        if values.shape[1] == 1:
            for e in range(first, last):
                moved[e, 0] = values[position[e], 0]
            continue
        for e in range(first, last):
            source = position[e]
            for h in range(U(values.shape[1])):
                moved[e, h] = values[source, h]


@kernel()
def weight_sums(blocks, rowptr, weight, bounds, total, delicate, extreme):
    r"""Sums the weights of every row and marks rows, and blocks, with weights out of bounds.

    :obj:`bounds` are the smallest and the largest weight that are safe and the least that is
    possible in this dtype; where that is 0, all are.
    """
    for b in prange(blocks.shape[0]):
        smallest, largest, least = bounds[0], bounds[1], bounds[2]
        beyond = False
        for v in range(blocks[b, 0], blocks[b, 1]):
            outside = False
            for h in range(weight.shape[1]):
                a = ZERO * smallest
                for e in range(rowptr[v], rowptr[v + 1]):
                    w = weight[e, h]
                    a += w
                    outside |= ((w > ZERO) & (w < smallest)) | (w > largest)
                    beyond |= (least > ZERO) & (((w > ZERO) & (w < least)) | (w > largest))
                total[v, h] = a
            delicate[v] = outside
        extreme[b] = beyond


@kernel()
def maximum(blocks, rowptr, col, weight, x, out, ties):
    r"""The largest neighbour of positive weight and how many attain it; 0 where there is none."""
    for b in prange(blocks.shape[0]):
        heads = weight.shape[1]
        width = x.shape[1] // heads
        for v in range(blocks[b, 0], blocks[b, 1]):
            best, count = out[v], ties[v]
            for c in range(x.shape[1]):
                best[c] = -np.inf
            for c in range(x.shape[1]):
                count[c] = ZERO
            for e in range(rowptr[v], rowptr[v + 1]):
                z = x[col[e]]
                for h in range(heads):
                    if not weight[e, h] > ZERO:
                        continue
                    start, stop = U(h) * U(width), U(h) * U(width) + U(width)
                    for c in range(start, stop):
                        more = count[c] + where(z[c] == best[c], ONE, ZERO)
                        count[c] = where(z[c] > best[c], ONE, more)
                    for c in range(start, stop):
                        best[c] = larger(z[c], best[c])
            for c in range(x.shape[1]):
                best[c] = where(count[c] > ZERO, best[c], ZERO)


@kernel()
def maximum_backward(blocks, colptr, row_of, weight, x, out, share, grad):
    r"""Gives each neighbour that attains the maximum its equal share of the gradient."""
    for b in prange(blocks.shape[0]):
        heads = weight.shape[1]
        width = x.shape[1] // heads
        for u in range(blocks[b, 0], blocks[b, 1]):
            z, grad_row = x[u], grad[u]
            for c in range(x.shape[1]):
                grad_row[c] = ZERO
            for e in range(colptr[u], colptr[u + 1]):
                best, part = out[row_of[e]], share[row_of[e]]
                for h in range(heads):
                    if not weight[e, h] > ZERO:
                        continue
                    start = U(h) * U(width)
                    for c in range(start, start + U(width)):
                        grad_row[c] += where(z[c] == best[c], part[c], ZERO)
