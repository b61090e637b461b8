r"""Products with sparse rows of which a random part is dropped.

Dropped entries cost a hash and nothing more: each row's survivors are moved together first, and
only they are multiplied. The gradient of the other factor is summed in the rows' own order, so
that nothing is sorted by column.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.numba.blocks import as_array, blocks_of, blocks_of_graph
from meanmax.ops.numba.gather import edge_dots, gather_sum
from meanmax.ops.numba.launch import kernel, subroutine, where

BLOCK = 1 << 15
W = np.uint32
U = np.uint64
GOLDEN = W(0x9E3779B9)
FIRST, SECOND = W(0x7FEB352D), W(0x846CA68B)


def masked(x: np.ndarray, seed: int, rate: float) -> np.ndarray:
    r"""Sets each number to 0 with probability :obj:`rate` and scales the others up.

    Args:
        x (ndarray): Contiguous, of any shape.
        seed (int): From 0 to 2^63; the same seed gives the same mask.
        rate (float): Below 1; met to within 2^-32.
    """
    out = np.empty_like(x)
    scale = x.dtype.type(1 / (1 - rate))
    draw = (*words_of(seed), threshold_of(rate), scale)
    mask(np.arange(0, x.size, BLOCK), x.reshape(-1), out.reshape(-1), *draw)
    return out


def words_of(seed: int) -> tuple[np.uint32, np.uint32]:
    r"""The low and the high half of a seed."""
    return W(seed & 0xFFFFFFFF), W(seed >> 32)


def threshold_of(rate: float) -> np.uint32:
    r"""The threshold that a random 32-bit word is below with probability :obj:`rate`."""
    return W(min(round(rate * 2**32), 2**32 - 1))


@subroutine
def mix(word):
    r"""A 32-bit hash: flipping one input bit flips about half of the output bits."""
    word = W(W(word ^ W(word >> W(16))) * FIRST)  # numba widens products to 64 bits
    word = W(W(word ^ W(word >> W(15))) * SECOND)
    return W(word ^ W(word >> W(16)))


@subroutine
def block_seed(block, low, high):
    r"""The seed of a block of numbers."""
    return mix(W(mix(W(W(block) + low)) ^ high))


@subroutine
def word(place, seed, low):
    r"""The word that decides about the number at a place in its block."""
    return mix(W(mix(W(W(W(place) * GOLDEN) + seed)) ^ low))


@kernel()
def mask(b, blocks, x, out, low, high, threshold, scale):
    r"""Each block has its own seed; :obj:`blocks` holds their first places."""
    seed = block_seed(b, low, high)
    start = U(blocks[b])
    size = min(U(BLOCK), U(x.size) - start)
    source, target = x[start : start + size], out[start : start + size]
    for i in range(size):
        drawn = word(i, seed, low)
        target[i] = where(drawn < threshold, source[i] * x.dtype.type(0), source[i] * scale)


PARTS = 8  # sums of their own, whatever the number of threads


SUMS = 1 << 18  # numbers that a core's cache holds beside the rest
LONG = 16  # entries of a row, on average, from which moving them pays


def is_tall(graph: Graph, channels: int) -> bool:
    r"""Whether skipping dropped entries is faster: rows are long, one part's sums fit into the
    cache, and there are many more entries than sums.

    :obj:`graph`: where the entries are. :obj:`channels`: the channels of the product.
    """
    fits = graph.num_src * channels <= SUMS and graph.num_edges > 4 * PARTS * graph.num_src
    return fits and graph.num_edges >= LONG * graph.num_dst


def product(matrix: Tensor, value: Tensor, graph: Graph, rate: float, seed: int) -> Tensor:
    r"""The rows times a matrix, :obj:`[num_dst, channels]`.

    Args:
        matrix (Tensor): :obj:`[num_src, channels]`.
        value (Tensor): Entries in CSR order of the graph, :obj:`[num_edges]`.
        graph (Graph): Where the entries are: its sources are columns, its targets rows.
        rate (float): The probability of an entry to be dropped.
        seed (int): See :func:`~meanmax.ops.numba.dropout.masked`, whose mask it is.
    """
    blocks, x = blocks_of_graph(graph), as_array(matrix)
    out = np.empty((graph.num_dst, x.shape[1]), x.dtype)
    draw = (*words_of(seed), threshold_of(rate), x.dtype.type(1 / (1 - rate)))
    _product(blocks.row_blocks, blocks.rowptr, blocks.col, as_array(value), *draw, x, out)
    return torch.from_numpy(out)


def product_backward(
    grad: Tensor,
    matrix: Tensor,
    value: Tensor,
    graph: Graph,
    rate: float,
    seed: int,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    r"""The gradients of matrix and entries, those that are needed."""
    blocks, x, g = blocks_of_graph(graph), as_array(matrix), as_array(grad)
    draw = (*words_of(seed), threshold_of(rate), x.dtype.type(1 / (1 - rate)))
    entries = (blocks.rowptr, blocks.col, as_array(value), *draw)
    of_matrix = of_value = None
    if needs[0]:
        parts = blocks_of(blocks.rowptr, np.array([0, blocks.num_dst]), PARTS)
        sums = np.empty((len(parts), *x.shape), x.dtype)
        _matrix_backward(parts, *entries, g, sums)
        of_matrix = torch.from_numpy(sums.sum(axis=0) if len(parts) > 1 else sums[0])
    if needs[1]:
        dots = np.zeros(graph.num_edges, x.dtype)
        _value_backward(blocks.row_blocks, *entries, x, g, dots)
        of_value = torch.from_numpy(dots)
    return of_matrix, of_value


@subroutine
def _draw(start, stop, low, high, words):
    r"""The words of a row's entries that decide which of them stay."""
    first = start
    while first < stop:
        block = first // BLOCK
        last = min(stop, (block + 1) * BLOCK)
        seed = block_seed(block, low, high)
        inside = W(first - block * BLOCK)
        part = words[first - start : last - start]
        for i in range(U(part.size)):
            part[i] = word(W(i) + inside, seed, low)
        first = last


@subroutine
def _survivors(start, stop, col, value, low, high, threshold, scale, words, columns, scaled):
    r"""Moves the entries from start to stop that stay to the front of buffers; their number."""
    _draw(start, stop, low, high, words)
    count = U(0)
    own_columns, own_values = col[start:stop], value[start:stop]
    for i in range(U(own_columns.size)):
        columns[count] = own_columns[i]
        scaled[count, U(0)] = own_values[i] * scale
        count += U(words[i] >= threshold)
    return count


@subroutine
def _longest(rowptr, first, last):
    r"""The entries of the longest row, and room for one that is written but not kept."""
    most = 0
    for v in range(first, last):
        most = max(most, rowptr[v + 1] - rowptr[v])
    return most + 1


@kernel()
def _product(b, blocks, rowptr, col, value, low, high, threshold, scale, x, out):
    room = _longest(rowptr, blocks[b, 0], blocks[b, 1])
    words, columns = np.empty(room, W), np.empty(room, col.dtype)
    scaled, acc = np.empty((room, 1), x.dtype), np.empty(x.shape[1], x.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        count = _survivors(
            rowptr[v], rowptr[v + 1], col, value, low, high, threshold, scale,
            words, columns, scaled,
        )  # fmt: skip
        gather_sum(acc, x, columns, scaled, 0, count, x.shape[1])
        row = out[v]
        for c in range(x.shape[1]):
            row[c] = acc[c]


@kernel()
def _matrix_backward(b, blocks, rowptr, col, value, low, high, threshold, scale, grad, sums):
    room = _longest(rowptr, blocks[b, 0], blocks[b, 1])
    words, columns = np.empty(room, W), np.empty(room, col.dtype)
    scaled, total = np.empty((room, 1), grad.dtype), sums[b]
    for u in range(total.shape[0]):
        for c in range(total.shape[1]):
            total[u, c] = 0
    for v in range(blocks[b, 0], blocks[b, 1]):
        count = _survivors(
            rowptr[v], rowptr[v + 1], col, value, low, high, threshold, scale,
            words, columns, scaled,
        )  # fmt: skip
        g = grad[v]
        for i in range(count):
            row, factor = total[columns[i]], scaled[i, 0]
            for c in range(g.shape[0]):
                row[c] += factor * g[c]


@kernel(reassociate=True)
def _value_backward(b, blocks, rowptr, col, value, low, high, threshold, scale, x, grad, dots):
    room = _longest(rowptr, blocks[b, 0], blocks[b, 1])
    words, columns = np.empty(room, W), np.empty(room, col.dtype)
    scaled = np.empty((room, 1), x.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        count = _survivors(
            rowptr[v], rowptr[v + 1], col, value, low, high, threshold, scale,
            words, columns, scaled,
        )  # fmt: skip
        edge_dots(grad[v], x, columns, 0, count, x.shape[1], scaled)
        place = 0
        for i in range(rowptr[v + 1] - rowptr[v]):
            if words[i] >= threshold:
                dots[rowptr[v] + i] = scaled[place, 0] * scale
                place += 1
