r"""The inner loop of every kernel: weighted sums of gathered rows.

A row is :obj:`heads` blocks of :obj:`width` values; an edge carries one weight per head, or one
for all (:obj:`heads = 1`). Taking four edges at a time keeps the running sum out of the way of
the loads; unsigned indices spare the check for negative ones, which would stop vectorisation.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from meanmax.ops.numba.launch import kernel, larger, reordered_subroutine, where
from meanmax.ops.numba.tilt import ONE, ZERO

U = np.uint64


@reordered_subroutine
def gather_sum(total, rows, neighbour, weight, first, last, width):
    r"""Writes the weighted sum of :obj:`rows[neighbour[first:last]]` into :obj:`total`."""
    for c in range(total.shape[0]):
        total[c] = 0
    if weight.shape[1] == 1:
        _gather_shared(total, rows, neighbour, weight, first, last)
    elif width == 8:
        _gather_8(total, rows, neighbour, weight, first, last)
    elif width == 16:
        _gather_16(total, rows, neighbour, weight, first, last)
    else:
        _gather_heads(total, rows, neighbour, weight, first, last, width)


@reordered_subroutine
def _gather_shared(total, rows, neighbour, weight, first, last):
    e = first
    while e + 4 <= last:
        x0, x1 = rows[neighbour[e]], rows[neighbour[e + 1]]
        x2, x3 = rows[neighbour[e + 2]], rows[neighbour[e + 3]]
        a0, a1 = weight[e, 0], weight[e + 1, 0]
        a2, a3 = weight[e + 2, 0], weight[e + 3, 0]
        for c in range(total.shape[0]):
            total[c] += a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
        e += 4
    while e < last:
        x0 = rows[neighbour[e]]
        a0 = weight[e, 0]
        for c in range(total.shape[0]):
            total[c] += a0 * x0[c]
        e += 1


@reordered_subroutine
def _gather_heads(total, rows, neighbour, weight, first, last, width):
    e = first
    while e + 4 <= last:
        x0, x1 = rows[neighbour[e]], rows[neighbour[e + 1]]
        x2, x3 = rows[neighbour[e + 2]], rows[neighbour[e + 3]]
        for h in range(weight.shape[1]):
            a0, a1 = weight[e, h], weight[e + 1, h]
            a2, a3 = weight[e + 2, h], weight[e + 3, h]
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                total[c] += a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
        e += 4
    while e < last:
        x0 = rows[neighbour[e]]
        for h in range(weight.shape[1]):
            a0 = weight[e, h]
            start = U(h) * U(width)
            for c in range(start, start + U(width)):
                total[c] += a0 * x0[c]
        e += 1


def _gather_of_width(size):
    r"""The same for heads of one width, known when it is compiled: no loop is left over it."""

    @reordered_subroutine
    def gather(total, rows, neighbour, weight, first, last):
        e = first
        while e + 4 <= last:
            x0, x1 = rows[neighbour[e]], rows[neighbour[e + 1]]
            x2, x3 = rows[neighbour[e + 2]], rows[neighbour[e + 3]]
            for h in range(U(weight.shape[1])):
                a0, a1 = weight[e, h], weight[e + 1, h]
                a2, a3 = weight[e + 2, h], weight[e + 3, h]
                start = h * U(size)
                for i in range(size):
                    c = start + U(i)
                    total[c] += a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
            e += 4
        while e < last:
            x0 = rows[neighbour[e]]
            for h in range(U(weight.shape[1])):
                a0, start = weight[e, h], h * U(size)
                for i in range(size):
                    total[start + U(i)] += a0 * x0[start + U(i)]
            e += 1

    return gather


_gather_8 = _gather_of_width(8)
_gather_16 = _gather_of_width(16)


@reordered_subroutine
def block_dot(a, b, start, width):
    r"""The inner product of two vectors over :obj:`width` entries from :obj:`start` on."""
    total = a.dtype.type(0)
    for c in range(U(start), U(start) + U(width)):
        total += a[c] * b[c]
    return total


def _dots_of_width(size):
    @reordered_subroutine
    def dots(left, rows, neighbour, first, last, out):
        for e in range(first, last):
            row = rows[neighbour[e]]
            for h in range(U(out.shape[1])):
                start, total = h * U(size), left.dtype.type(0)
                for i in range(size):
                    total += left[start + U(i)] * row[start + U(i)]
                out[e, h] = total

    return dots


_dots_8 = _dots_of_width(8)
_dots_16 = _dots_of_width(16)


@reordered_subroutine
def edge_dots(left, rows, neighbour, first, last, width, out):
    r"""Writes, for every edge and head, the inner product of :obj:`left` with the gathered row."""
    if width == 8:
        _dots_8(left, rows, neighbour, first, last, out)
    elif width == 16:
        _dots_16(left, rows, neighbour, first, last, out)
    else:
        for e in range(first, last):
            row = rows[neighbour[e]]
            for h in range(out.shape[1]):
                out[e, h] = block_dot(left, row, h * width, width)


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
