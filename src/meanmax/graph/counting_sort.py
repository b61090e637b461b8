r"""Compiled counting sorts: how edges and messages are grouped, in one pass each.

Needs numba, so it is imported where it is used; without it PyTorch's stable sort serves.
Results are written into arrays of one integer type that the caller allocates.
"""

from __future__ import annotations

from meanmax.kernel_cache import compiled


@compiled
def group_edges(src, dst, num_src, num_dst, rowptr, col, perm):
    r"""Groups edges by target, stably.

    Returns 0 if they were sorted, and then leaves :obj:`perm` alone; 1 if they were not; -1, with
    nothing written, if an index is no node.
    """
    outside, falls = False, False
    for e in range(len(dst)):
        outside |= (src[e] < 0) | (src[e] >= num_src) | (dst[e] < 0) | (dst[e] >= num_dst)
    if outside:
        return -1
    for e in range(1, len(dst)):
        falls |= dst[e] < dst[e - 1]
    _starts(dst, rowptr)
    if not falls:
        for e in range(len(src)):
            col[e] = src[e]
        return 0
    for e in range(len(dst)):
        place = rowptr[dst[e]]
        rowptr[dst[e]] = place + 1
        col[place] = src[e]
        perm[place] = e
    _shift(rowptr)
    return 1


@compiled
def group_messages(group, num_groups, rowptr, perm, inverse, row):
    r"""Groups messages, stably; :obj:`row` gets the groups, :obj:`inverse` the inverse of
    :obj:`perm`. Returns as :func:`group_edges`.
    """
    outside, falls = False, False
    for e in range(len(group)):
        outside |= (group[e] < 0) | (group[e] >= num_groups)
    if outside:
        return -1
    for e in range(1, len(group)):
        falls |= group[e] < group[e - 1]
    _starts(group, rowptr)
    for e in range(len(group)):
        row[e] = group[e]
    if not falls:
        return 0
    for e in range(len(group)):
        place = rowptr[group[e]]
        rowptr[group[e]] = place + 1
        perm[place] = e
        inverse[e] = place
    _shift(rowptr)
    return 1


@compiled
def transpose(ptr, index, new_ptr, group, order):
    r"""From rows to columns: the row and the position of each entry, by column."""
    _starts(index, new_ptr)
    for v in range(len(ptr) - 1):
        for e in range(ptr[v], ptr[v + 1]):
            place = new_ptr[index[e]]
            new_ptr[index[e]] = place + 1
            group[place] = v
            order[place] = e
    _shift(new_ptr)


@compiled
def stays_within(rowptr, col, src_ptr, dst_ptr):
    r"""Whether all edges join nodes of one graph of the batch."""
    outside = False
    for g in range(len(dst_ptr) - 1):
        for e in range(rowptr[dst_ptr[g]], rowptr[dst_ptr[g + 1]]):
            outside |= (col[e] < src_ptr[g]) | (col[e] >= src_ptr[g + 1])
    return not outside


@compiled
def _starts(index, ptr):
    for v in range(len(ptr)):
        ptr[v] = 0
    for e in range(len(index)):
        ptr[index[e] + 1] += 1
    for v in range(1, len(ptr)):
        ptr[v] += ptr[v - 1]


@compiled
def _shift(ptr):
    r"""Undoes that each start was moved to the end of its group."""
    for v in range(len(ptr) - 1, 0, -1):
        ptr[v] = ptr[v - 1]
    ptr[0] = 0
