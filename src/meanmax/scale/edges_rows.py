r"""Rows of a compressed matrix taken out and put together."""

from __future__ import annotations

from numba import prange

from meanmax.ops.numba.launch import kernel


@kernel()
def copy_rows(starts, pointer, source, target):
    r"""Copies entries of rows that begin at :obj:`starts` to where :obj:`pointer` wants them."""
    for row in prange(len(starts)):
        start = starts[row] - pointer[row]
        for position in range(pointer[row], pointer[row + 1]):
            target[position] = source[start + position]


@kernel()
def count_kept(pointer, column, first, counts, loops):
    r"""For each row the edges that are no self-loops, and how many are."""
    for row in prange(len(counts)):
        own = first + row
        found = 0
        for position in range(pointer[row], pointer[row + 1]):
            if column[position] == own:
                found += 1
        loops[row] = found
        counts[row] = pointer[row + 1] - pointer[row] - found


@kernel()
def with_loops(pointer, column, weight, first, keep_own, new_pointer, new_column, new_weight):
    r"""Rows whose last entry is their one self-loop: of weight 1, or of that of their last own
    one. :obj:`weight` may be empty, which stands for ones.
    """
    weighted = len(weight) > 0
    for row in prange(len(pointer) - 1):
        own, loop = first + row, 1.0
        place = new_pointer[row]
        for position in range(pointer[row], pointer[row + 1]):
            if column[position] == own:
                if weighted and keep_own:
                    loop = weight[position]
            else:
                new_column[place] = column[position]
                if weighted:
                    new_weight[place] = weight[position]
                place += 1
        new_column[place] = own
        if weighted:
            new_weight[place] = loop


@kernel()
def row_sums(pointer, weight, total):
    r"""The sum of each row's weights."""
    for row in prange(len(total)):
        value = 0.0
        for position in range(pointer[row], pointer[row + 1]):
            value += weight[position]
        total[row] = value
