r"""What the kernels derive from a graph once: numpy views, blocks of work, sums of weights."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.kernel_cache import compiled
from meanmax.ops.autograd import with_heads
from meanmax.ops.numba.launch import kernel
from meanmax.ops.numba.vector_math import ZERO, U
from meanmax.ops.scaling import FEW_GRAPHS, SAMPLE, SMALL_SAMPLE
from meanmax.ops.spec import precision_of

Array = npt.NDArray[Any]
NUM_BLOCKS = 64
LEAST_COST = 512  # of a block, in edges
ROW_COST = 4  # a row costs about as much as this many edges


def as_array(tensor: Tensor) -> Array:
    r"""A contiguous numpy view of a tensor, or a copy if it is not contiguous."""
    return tensor.detach().contiguous().numpy()


def blocks_of(cost: Array, bounds: Array, number: int | None = None, *, row_cost: int = 0) -> Array:
    r"""Cuts rows into blocks of equal cost, none of which spans two graphs.

    The cut does not depend on the number of threads, and neither does anything that is summed
    over blocks.

    Args:
        cost (ndarray): Cumulative cost before each row, one longer than there are rows.
        bounds (ndarray): First row of each graph, one longer than there are graphs.
        number (int, optional): How many blocks, or one more for each graph after the first; if
            :obj:`None`, :obj:`NUM_BLOCKS`, or fewer if there is little to do.
            (default: :obj:`None`)
        row_cost (int, optional): The cost of a row besides. (default: :obj:`0`)

    Returns:
        Rows :obj:`(first, last, graph)`, int64.
    """
    if number is None:
        total = int(cost[-1]) - int(cost[0]) + row_cost * (len(cost) - 1)
        number = max(1, min(NUM_BLOCKS, total // LEAST_COST))
    blocks: Array = _cut(cost, row_cost, bounds, number)
    return blocks


class EdgeWeights:
    r"""Edge weights, and what is derived from them when it is first needed.

    Args:
        edge (ndarray): Weights in CSR order, :obj:`[num_edges, heads]`.
        blocks (GraphBlocks): The graph's blocks.
        unit (bool, optional): Whether all are 1. (default: :obj:`False`)
    """

    def __init__(self, edge: Array, blocks: GraphBlocks, *, unit: bool = False) -> None:
        self.edge = edge
        # Both cache the other, and a cycle of them would outlive its graph until it is collected.
        self._blocks = weakref.proxy(blocks)
        self._unit = unit

    @cached_property
    def transposed(self) -> Array:
        r"""The weights in CSC order."""
        if self._unit:
            return self.edge
        blocks, moved = self._blocks, np.empty_like(self.edge)
        permute_rows(blocks.source_blocks, blocks.colptr, blocks.csc_to_csr, self.edge, moved)
        return moved

    @cached_property
    def sums(self) -> tuple[Array, Array, bool]:
        r"""The sum of each row, :obj:`[num_dst, heads]`; the rows with weights that the common
        shift is not safe for; whether some weight needs a wider dtype.
        """
        blocks, edge, limits = self._blocks, self.edge, precision_of(self.edge)
        if self._unit:
            degree = blocks.rowptr[1:] - blocks.rowptr[:-1]
            return degree.astype(edge.dtype)[:, None], np.zeros(blocks.num_dst, np.bool_), False
        total = np.empty((blocks.num_dst, edge.shape[1]), edge.dtype)
        needs_exact = np.empty(blocks.num_dst, np.bool_)
        extreme = np.zeros(len(blocks.row_blocks), np.bool_)
        bounds = (limits.smallest_weight, limits.largest_weight, limits.least_weight)
        weight_sums(
            blocks.row_blocks, blocks.rowptr, edge, np.array(bounds, edge.dtype), total,
            needs_exact, extreme,
        )  # fmt: skip
        return total, needs_exact, bool(extreme.any())


class GraphBlocks:
    r"""Numpy views of a graph and its blocks of work. Made by :func:`blocks_of_graph`."""

    def __init__(self, graph: Graph) -> None:
        self.num_dst = graph.num_dst
        self.rowptr, self.col = graph.rowptr.numpy(), graph.col.numpy()
        # Not the graph, which caches this.
        self._structure, self._weight = graph._structure, graph.weight
        self.src_bounds, self.dst_bounds = graph.src_ptr.numpy(), graph.dst_ptr.numpy()
        self.row_blocks = blocks_of(self.rowptr, self.dst_bounds, row_cost=ROW_COST)
        nodes = np.arange(graph.num_src + 1, dtype=self.rowptr.dtype)
        self.node_blocks = blocks_of(nodes, self.src_bounds)
        count = SAMPLE if len(self.src_bounds) <= FEW_GRAPHS else SMALL_SAMPLE
        # The first block of nodes of each graph, and a few of its nodes.
        self.block_ptr, self.sample = _per_graph(self.node_blocks, self.src_bounds, count)
        self._weights: dict[torch.dtype, EdgeWeights] = {}

    @cached_property
    def colptr(self) -> Array:
        r"""First edge of each source, CSC."""
        return self._structure.csc.colptr.numpy()

    @cached_property
    def row(self) -> Array:
        r"""Target of each edge in CSC order."""
        return self._structure.csc.row.numpy()

    @cached_property
    def csc_to_csr(self) -> Array:
        r"""The position in CSR order of each edge in CSC order."""
        return self._structure.csc.csc_to_csr.numpy()

    @cached_property
    def source_blocks(self) -> Array:
        r"""Blocks of sources of equal cost in the transposed graph."""
        return blocks_of(self.colptr, self.src_bounds, row_cost=ROW_COST)

    def sources_of(self, rows: Array) -> Array:
        r"""Blocks that cover the sources of some rows: one for each source where there are few,
        else those of all nodes.
        """
        first, last = self.rowptr[rows].astype(np.int64), self.rowptr[rows + 1].astype(np.int64)
        ends = np.cumsum(last - first)
        if ends[-1] > self.src_bounds[-1] // 8:
            return self.node_blocks
        edges = np.arange(ends[-1]) + np.repeat(last - ends, last - first)
        nodes = np.unique(self.col[edges]).astype(np.int64)
        graph = np.searchsorted(self.src_bounds, nodes, side="right") - 1
        return np.stack([nodes, nodes + 1, graph], axis=1)

    def weights(self, given: Tensor | None, dtype: torch.dtype) -> EdgeWeights:
        r"""The weights a call uses: those :obj:`given`, or the graph's own, cached."""
        if given is not None:
            return EdgeWeights(as_array(given.to(dtype)), self)
        if dtype not in self._weights:
            self._weights[dtype] = self._own_weights(dtype)
        return self._weights[dtype]

    def _own_weights(self, dtype: torch.dtype) -> EdgeWeights:
        if self._weight is None:
            edge = torch.ones(len(self.col), 1, dtype=dtype)
            return EdgeWeights(edge.numpy(), self, unit=True)
        return EdgeWeights(as_array(with_heads(self._weight).to(dtype)), self)

    def per_graph(self, values: Array, blocks: Array) -> Array:
        r"""Sums values of :obj:`blocks` over each graph."""
        summed: Array = np.bincount(blocks[:, 2], values, len(self.src_bounds) - 1)
        return summed


def blocks_of_graph(graph: Graph) -> GraphBlocks:
    r"""The graph's blocks, made at first use."""
    blocks: GraphBlocks | None = graph.cache.get("numba_blocks")
    if blocks is None:
        blocks = graph.cache["numba_blocks"] = GraphBlocks(graph)
    return blocks


@compiled
def _cut(cost, row_cost, bounds, number):
    rows = len(cost) - 1
    begin, total = np.int64(cost[0]), np.int64(cost[rows]) - np.int64(cost[0]) + row_cost * rows
    blocks = np.empty((number + len(bounds), 3), np.int64)
    found, goal, cut = 0, 1, 0
    for g in range(len(bounds) - 1):
        first, last = bounds[g], bounds[g + 1]
        while first < last:
            while cut <= first and goal < number:
                # The first row with that much before it.
                wanted, high = begin - (-goal * total) // number, rows
                while cut < high:
                    middle = (cut + high) // 2
                    if cost[middle] + row_cost * middle < wanted:
                        cut = middle + 1
                    else:
                        high = middle
                goal += 1
            end = min(cut, last) if cut > first else last
            blocks[found, 0], blocks[found, 1], blocks[found, 2] = first, end, g
            found += 1
            first = end
    return blocks[:found].copy()


@compiled
def _per_graph(blocks, bounds, count):
    r"""The first block of each graph, and what :func:`~meanmax.ops.scaling.sample_nodes` gives,
    without the fixed costs of its operations.
    """
    graphs, b = len(bounds) - 1, 0
    first = np.empty(graphs + 1, np.int64)
    sample = np.empty((graphs, count), np.int64)
    for g in range(graphs):
        while b < len(blocks) and blocks[b, 2] < g:
            b += 1
        first[g] = b
        size = np.float32(bounds[g + 1] - bounds[g])
        for i in range(count):
            step = (np.float32(i) + np.float32(0.5)) / np.float32(count)
            sample[g, i] = min(bounds[g] + np.int64(step * size), bounds[graphs] - 1)
    first[graphs] = len(blocks)
    return first, sample


@compiled
def sum_parts(parts, blocks, table, row, power):
    r"""Sums parts of blocks, each times a row of its graph's table to a power, in float64."""
    total = np.zeros(parts.shape[1], np.float64)
    for b in range(parts.shape[0]):
        factor = table[blocks[b, 2], row]
        for c in range(parts.shape[1]):
            one = np.float64(factor[c])
            total[c] += parts[b, c] * (one * one if power == 2 else one)
    return total


@compiled
def averages(sums, counted, blocks, average):
    r"""Writes the sums of each graph's blocks, divided by what was counted there."""
    total = np.zeros(average.shape, np.float64)
    number = np.zeros(average.shape[0], np.float64)
    for b in range(blocks.shape[0]):
        g = blocks[b, 2]
        number[g] += counted[b]
        for c in range(average.shape[1]):
            total[g, c] += sums[b, c]
    for g in range(average.shape[0]):
        for c in range(average.shape[1]):
            average[g, c] = total[g, c] / max(number[g], 1.0)


@kernel()
def permute_rows(b, blocks, pointer, position, values, moved):
    r"""Writes :obj:`values[position]` into :obj:`moved`, edge by edge."""
    first, last = pointer[blocks[b, 0]], pointer[blocks[b, 1]]
    if values.shape[1] == 1:
        for e in range(first, last):
            moved[e, 0] = values[position[e], 0]
        return
    for e in range(first, last):
        source = position[e]
        for h in range(U(values.shape[1])):
            moved[e, h] = values[source, h]


@kernel()
def weight_sums(b, blocks, rowptr, weight, bounds, total, needs_exact, extreme):
    r"""Sums the weights of every row and marks rows, and blocks, with weights out of bounds.

    :obj:`bounds`: smallest and largest safe weight, and the smallest weight this dtype supports
    (0: no limit).
    """
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
        needs_exact[v] = outside
    extreme[b] = beyond
