r"""What the kernels derive from a graph once: numpy views, blocks of work, sums of weights."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import own_weight
from meanmax.ops.numba.launch import kernel
from meanmax.ops.numba.vector_math import ZERO, U
from meanmax.ops.scaling import sample_nodes
from meanmax.ops.spec import precision_of

Array = npt.NDArray[Any]
NUM_BLOCKS = 64
ROW_COST = 4  # a row costs about as much as this many edges


def as_array(tensor: Tensor) -> Array:
    r"""A contiguous numpy view of a tensor, or a copy if it is not contiguous."""
    return tensor.detach().contiguous().numpy()


def blocks_of(cost: Array, bounds: Array, number: int = NUM_BLOCKS) -> Array:
    r"""Cuts rows into blocks of equal cost, none of which spans two graphs.

    The cut does not depend on the number of threads, and neither does anything that is summed
    over blocks.

    Args:
        cost (ndarray): Cumulative cost before each row, one longer than there are rows.
        bounds (ndarray): First row of each graph, one longer than there are graphs.
        number (int, optional): How many blocks, or one more for each graph after the first.

    Returns:
        Rows :obj:`(first, last, graph)`, int64.
    """
    goals = np.linspace(cost[0], cost[-1], number + 1)[1:-1]
    cuts = np.unique(np.concatenate([bounds, np.searchsorted(cost, goals)]))
    first, last = cuts[:-1], cuts[1:]
    graph = np.searchsorted(bounds, first, side="right") - 1
    return np.ascontiguousarray(np.stack([first, last, graph], axis=1), dtype=np.int64)


class EdgeWeights:
    r"""Edge weights, and what is derived from them when it is first needed.

    Args:
        edge (ndarray): Weights in CSR order, :obj:`[num_edges, heads]`.
        blocks (GraphBlocks): The graph's blocks.
    """

    def __init__(self, edge: Array, blocks: GraphBlocks) -> None:
        self.edge = edge
        self._blocks = blocks

    @cached_property
    def transposed(self) -> Array:
        r"""The weights in CSC order."""
        blocks, moved = self._blocks, np.empty_like(self.edge)
        permute_rows(blocks.source_blocks, blocks.colptr, blocks.csc_to_csr, self.edge, moved)
        return moved

    @cached_property
    def sums(self) -> tuple[Array, Array, bool]:
        r"""The sum of each row, :obj:`[num_dst, heads]`; the rows with weights that the common
        shift is not safe for; whether some weight needs a wider dtype.
        """
        blocks, edge, limits = self._blocks, self.edge, precision_of(self.edge)
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
        self._graph = graph
        self.src_bounds, self.dst_bounds = graph.src_ptr.numpy(), graph.dst_ptr.numpy()
        self.row_blocks = blocks_of(_edge_cost(self.rowptr), self.dst_bounds)
        self.node_blocks = blocks_of(np.arange(graph.num_src + 1), self.src_bounds)
        # The first block of nodes of each graph.
        self.block_ptr = np.searchsorted(self.node_blocks[:, 2], np.arange(graph.num_graphs + 1))
        self.sample = sample_nodes(graph.src_ptr).numpy()
        self._weights: dict[torch.dtype, EdgeWeights] = {}

    @cached_property
    def colptr(self) -> Array:
        r"""First edge of each source, CSC."""
        return self._graph.colptr.numpy()

    @cached_property
    def row(self) -> Array:
        r"""Target of each edge in CSC order."""
        return self._graph.row.numpy()

    @cached_property
    def csc_to_csr(self) -> Array:
        r"""The position in CSR order of each edge in CSC order."""
        return self._graph.csc_to_csr.numpy()

    @cached_property
    def source_blocks(self) -> Array:
        r"""Blocks of sources of equal cost in the transposed graph."""
        return blocks_of(_edge_cost(self.colptr), self.src_bounds)

    def weights(self, given: Tensor | None, dtype: torch.dtype) -> EdgeWeights:
        r"""The weights a call uses: those :obj:`given`, or the graph's own, cached."""
        if given is not None:
            return EdgeWeights(as_array(given.to(dtype)), self)
        if dtype not in self._weights:
            edge = own_weight(self._graph, torch.empty(0, dtype=dtype))
            self._weights[dtype] = EdgeWeights(as_array(edge), self)
        return self._weights[dtype]

    def per_graph(self, values: Array, blocks: Array) -> Array:
        r"""Sums values of :obj:`blocks` over each graph."""
        summed: Array = np.bincount(blocks[:, 2], values, len(self.src_bounds) - 1)
        return summed

    def average(self, sums: Array, counted: Array) -> Array:
        r"""Sums over blocks of rows, :obj:`[num_blocks, channels]`, divided by what was counted, as
        averages per graph.
        """
        graph, num_graphs = self.row_blocks[:, 2], len(self.src_bounds) - 1
        if num_graphs == 1:
            total, number = sums.sum(axis=0, keepdims=True), counted.sum(keepdims=True)
        else:
            total, number = np.zeros((num_graphs, sums.shape[1])), np.zeros(num_graphs)
            np.add.at(total, graph, sums)
            np.add.at(number, graph, counted)
        averages: Array = total / np.maximum(number, 1.0)[:, None]
        return averages


def blocks_of_graph(graph: Graph) -> GraphBlocks:
    r"""The graph's blocks, made at first use."""
    blocks: GraphBlocks | None = graph.cache.get("numba_blocks")
    if blocks is None:
        blocks = graph.cache["numba_blocks"] = GraphBlocks(graph)
    return blocks


def _edge_cost(pointer: Array) -> Array:
    return pointer.astype(np.int64) + ROW_COST * np.arange(len(pointer))


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
