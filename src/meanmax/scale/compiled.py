r"""Compiled loops over rows of edges."""

import numpy as np

from meanmax.ops.numba.blocks import NUM_BLOCKS, Array
from meanmax.ops.numba.launch import kernel, subroutine

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_MIX, SECOND_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
FEW = 64  # up to this many, searching those drawn is faster than walking along all edges


@subroutine()
def mixed(state):
    r"""The output of splitmix64 for a state."""
    state = (state ^ (state >> np.uint64(30))) * FIRST_MIX
    state = (state ^ (state >> np.uint64(27))) * SECOND_MIX
    return state ^ (state >> np.uint64(31))


@subroutine()
def below(bits, bound):
    r"""A number from 0 to before :obj:`bound`, which is below :math:`2^{32}`, from 64 bits."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


def row_blocks(count: int) -> Array:
    r"""Cuts rows into blocks of work, :obj:`(first, last)`."""
    cuts = np.unique(np.linspace(0, count, NUM_BLOCKS + 1).astype(np.int64))
    return np.stack([cuts[:-1], cuts[1:]], axis=1)


@kernel()
def draw_edges(b, blocks, seed, nodes, starts, degrees, pointer, positions):
    r"""Positions of as many edges of each node as :obj:`pointer` has room for, none twice.

    Few are drawn by Floyd's algorithm, many in one walk along the row.
    """
    for index in range(blocks[b, 0], blocks[b, 1]):
        first, degree = pointer[index], degrees[index]
        count, start = pointer[index + 1] - first, starts[index]
        if count == degree:
            for offset in range(count):
                positions[first + offset] = start + offset
            continue
        state = mixed(np.uint64(seed) + mixed(np.uint64(nodes[index]) + GOLDEN))
        if count <= FEW:
            for offset in range(count):
                last = degree - count + offset
                state += GOLDEN
                found = start + below(mixed(state), last + 1)
                for before in range(first, first + offset):
                    if positions[before] == found:
                        found = start + last
                        break
                positions[first + offset] = found
        else:
            taken = 0
            for offset in range(degree):
                state += GOLDEN
                if below(mixed(state), degree - offset) < count - taken:
                    positions[first + taken] = start + offset
                    taken += 1
                    if taken == count:
                        break


@kernel()
def copy_rows(b, blocks, starts, pointer, source, target):
    r"""Copies entries of rows that begin at :obj:`starts` to where :obj:`pointer` wants them."""
    for row in range(blocks[b, 0], blocks[b, 1]):
        start = starts[row] - pointer[row]
        for position in range(pointer[row], pointer[row + 1]):
            target[position] = source[start + position]
