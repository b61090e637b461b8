r"""The inner loop of every kernel: weighted sums of gathered rows.

A row is :obj:`heads` blocks of :obj:`width` values; an edge carries one weight per head, or one
for all (:obj:`heads = 1`). Four edges at a time reduce loads and stores of the running sum.
Unsigned indices avoid the check for negative ones, which prevents vectorisation.
"""

from __future__ import annotations

import numpy as np

from meanmax.ops.numba.launch import reordered_subroutine

U = np.uint64


@reordered_subroutine
def gather_sum(total, rows, neighbour, weight, first, last, width):
    r"""Writes the weighted sum of :obj:`rows[neighbour[first:last]]` into :obj:`total`."""
    if weight.shape[1] == 1:
        _gather_shared(total, rows, neighbour, weight, first, last)
        return
    for c in range(total.shape[0]):
        total[c] = 0
    if width == 8:
        _gather_8(total, rows, neighbour, weight, first, last)
    elif width == 16:
        _gather_16(total, rows, neighbour, weight, first, last)
    else:
        _gather_heads(total, rows, neighbour, weight, first, last, width)


@reordered_subroutine
def _gather_shared(total, rows, neighbour, weight, first, last):
    e, last = U(first), U(last)
    if e + U(4) <= last:  # as below, but there is no running sum yet
        x0, x1 = rows[U(neighbour[e])], rows[U(neighbour[e + U(1)])]
        x2, x3 = rows[U(neighbour[e + U(2)])], rows[U(neighbour[e + U(3)])]
        a0, a1 = weight[e, U(0)], weight[e + U(1), U(0)]
        a2, a3 = weight[e + U(2), U(0)], weight[e + U(3), U(0)]
        for c in range(total.shape[0]):
            total[c] = a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
        e += U(4)
    else:
        for c in range(total.shape[0]):
            total[c] = 0
    while e + U(4) <= last:
        x0, x1 = rows[U(neighbour[e])], rows[U(neighbour[e + U(1)])]
        x2, x3 = rows[U(neighbour[e + U(2)])], rows[U(neighbour[e + U(3)])]
        a0, a1 = weight[e, U(0)], weight[e + U(1), U(0)]
        a2, a3 = weight[e + U(2), U(0)], weight[e + U(3), U(0)]
        for c in range(total.shape[0]):
            total[c] += a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
        e += U(4)
    while e < last:
        x0 = rows[U(neighbour[e])]
        a0 = weight[e, U(0)]
        for c in range(total.shape[0]):
            total[c] += a0 * x0[c]
        e += U(1)


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


@reordered_subroutine
def block_sum(a, start, width):
    r"""The sum of :obj:`width` entries from :obj:`start` on."""
    total = a.dtype.type(0)
    for c in range(U(start), U(start) + U(width)):
        total += a[c]
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
