r"""The edges of a graph, in memory or on disk, read a block of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from numba import prange

from meanmax.graph import Graph
from meanmax.graph.checks import Normalize
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


class BatchingError(ValueError):
    r"""Batches, or layer-wise inference, that cannot be made as asked; the message says why."""


class FolderError(ValueError):
    r"""A graph folder that is missing something, damaged, or cannot be written."""


Array: TypeAlias = npt.NDArray[Any]
Loops: TypeAlias = Literal["none", "add", "replace"]


@dataclass(frozen=True, eq=False)
class RowBlock:
    r"""Edges of consecutive rows, or of rows that were chosen.

    Args:
        pointer (ndarray): The first edge of each row, int64, :obj:`[num_rows + 1]`.
        column (ndarray): The source of each edge, among all nodes.
        weight (ndarray, optional): The weight of each edge, float32.
    """

    pointer: Array
    column: Array
    weight: Array | None

    def totals(self) -> Array:
        r"""The sum of each row's weights, float32."""
        if self.weight is None:
            return np.diff(self.pointer).astype(np.float32)
        total = np.empty(len(self.pointer) - 1, np.float32)
        row_sums(self.pointer, self.weight, total)
        return total


@dataclass(frozen=True, eq=False)
class Edges:
    r"""Edges grouped by target, which may be mapped from files.

    Args:
        rowptr (ndarray): The first edge of each node, :obj:`[num_nodes + 1]`.
        col (ndarray): The source of each edge, :obj:`[num_edges]`.
        weight (ndarray, optional): Weights, float32, :obj:`[num_edges]`.
    """

    rowptr: Array
    col: Array
    weight: Array | None = None

    @classmethod
    def of(cls, graph: Graph) -> Edges:
        r"""The edges of a graph on the CPU, sharing its memory."""
        if graph.num_graphs > 1:
            raise BatchingError(
                f"batches are drawn from one graph (got a batch of {graph.num_graphs} graphs, "
                f"which training batches as whole graphs already)"
            )
        weight = graph.weight
        if weight is not None and weight.dim() > 1:
            raise BatchingError("batches take one weight for each edge (got weights per head)")
        own = None if weight is None else weight.detach().float().numpy()
        return cls(graph.rowptr.numpy(), graph.col.numpy(), own)

    @property
    def num_nodes(self) -> int:
        r"""Nodes of the graph."""
        return len(self.rowptr) - 1

    @property
    def num_edges(self) -> int:
        r"""Edges of the graph."""
        return len(self.col)

    def rows(self, first: int, last: int, loops: Loops = "none") -> RowBlock:
        r"""The edges of the nodes from :obj:`first` to before :obj:`last`, copied.

        Args:
            first (int): The first node.
            last (int): The node after the last one.
            loops (str, optional): :obj:`"add"` gives each node one self-loop, placed last: its own
                weight where there is one (of several, the last), else 1; :obj:`"replace"` gives
                weight 1 to all. (default: :obj:`"none"`)
        """
        pointer = np.array(self.rowptr[first : last + 1], np.int64)
        edges = slice(int(pointer[0]), int(pointer[-1]))
        weight = None if self.weight is None else np.array(self.weight[edges])
        block = RowBlock(pointer - pointer[0], np.array(self.col[edges]), weight)
        return block if loops == "none" else _looped(block, first, loops == "add")

    def chosen(self, nodes: Array) -> RowBlock:
        r"""The edges of some nodes, copied in their order."""
        starts = np.asarray(self.rowptr[nodes]).astype(np.int64)
        ends = np.asarray(self.rowptr[nodes + 1]).astype(np.int64)
        pointer = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(ends - starts, out=pointer[1:])
        column = np.empty(int(pointer[-1]), self.col.dtype)
        copy_rows(starts, pointer, np.asarray(self.col), column)
        if self.weight is None:
            return RowBlock(pointer, column, None)
        weight = np.empty(len(column), np.float32)
        copy_rows(starts, pointer, np.asarray(self.weight), weight)
        return RowBlock(pointer, column, weight)

    def blocks(self, edge_bytes: int, row_bytes: int, memory: int) -> list[tuple[int, int]]:
        r"""Consecutive rows whose work fits into some memory; a row is never divided.

        Args:
            edge_bytes (int): What an edge needs.
            row_bytes (int): What a row needs.
            memory (int): What there is.
        """
        blocks, first = [], 0
        while first < self.num_nodes:
            last = self._reach(first, edge_bytes, row_bytes, memory)
            blocks.append((first, last))
            first = last
        return blocks

    def _reach(self, first: int, edge_bytes: int, row_bytes: int, memory: int) -> int:
        r"""The row after the last one that still fits, by bisection; at least one row does."""
        start, low, high = int(self.rowptr[first]), first + 1, self.num_nodes
        while low < high:
            middle = (low + high + 1) // 2
            needed = (int(self.rowptr[middle]) - start) * edge_bytes
            if needed + (middle - first) * row_bytes <= memory:
                low = middle
            else:
                high = middle - 1
        return low


def _looped(block: RowBlock, first: int, keep_own: bool) -> RowBlock:
    rows = len(block.pointer) - 1
    counts, loops = np.empty((2, rows), np.int64)
    count_kept(block.pointer, block.column, first, counts, loops)
    pointer = np.zeros(rows + 1, np.int64)
    np.cumsum(counts + 1, out=pointer[1:])
    column = np.empty(int(pointer[-1]), block.column.dtype)
    given = np.empty(0, np.float32) if block.weight is None else block.weight
    weight = np.empty(0 if block.weight is None else len(column), np.float32)
    with_loops(block.pointer, block.column, given, first, keep_own, pointer, column, weight)
    return RowBlock(pointer, column, None if block.weight is None else weight)


PASS_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class Block:
    r"""Some rows and what they are aggregated from.

    Args:
        first (int): The first row.
        last (int): The row after the last one.
        sources (ndarray): The nodes that have an edge to one of them, ascending, int64.
        graph (Graph): From the sources to the rows.
    """

    first: int
    last: int
    sources: Array
    graph: Graph


class BlockGraphs:
    r"""Makes the graphs of blocks of rows, as :meth:`meanmax.Graph.prepared` would make the whole.

    It keeps five bytes for each node, and four more once weights are normalised.

    Args:
        edges (Edges): The whole graph.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self._seen = np.zeros(edges.num_nodes, np.bool_)
        self._place = np.empty(edges.num_nodes, np.int32)

    def block(
        self, first: int, last: int, normalize: Normalize | None = None, loops: Loops = "none"
    ) -> Block:
        r"""The block of consecutive rows.

        Args:
            first (int): The first row.
            last (int): The row after the last one.
            normalize (str, optional): :obj:`"sym"`, with self-loops added, :obj:`"row"` or
                :obj:`None`; see :meth:`meanmax.Graph.from_edge_index`. (default: :obj:`None`)
            loops (str, optional): See :meth:`Edges.rows`. (default: :obj:`"none"`)
        """
        rows = self.edges.rows(first, last, loops)
        weight = self._weights(rows, first, last, normalize)
        sources = self._sources(rows.column)
        graph = Graph.from_csr(
            torch.from_numpy(rows.pointer),
            torch.from_numpy(self._place[rows.column]),
            num_src=len(sources),
            weight=None if weight is None else torch.from_numpy(weight),
        )
        return Block(first, last, sources, graph)

    @cached_property
    def degree(self) -> Array:
        r"""The summed weights of every row, self-loops added, float32."""
        found = np.empty(self.edges.num_nodes, np.float32)
        for first, last in self.edges.blocks(40, 40, PASS_BYTES):
            found[first:last] = self.edges.rows(first, last, "add").totals()
        return found

    def _weights(
        self, rows: RowBlock, first: int, last: int, normalize: Normalize | None
    ) -> Array | None:
        if normalize is None:
            return rows.weight
        counts = np.diff(rows.pointer)
        if normalize == "row":
            share = np.repeat(_inverse(rows.totals(), 1.0), counts)
        else:
            own = np.repeat(_inverse(self.degree[first:last], 0.5), counts)
            share = _inverse(self.degree[rows.column], 0.5) * own
        return share if rows.weight is None else share * rows.weight

    def _sources(self, column: Array) -> Array:
        r"""The different ones, ascending; notes the place of each."""
        self._seen[column] = True
        sources = np.flatnonzero(self._seen)
        self._seen[sources] = False
        self._place[sources] = np.arange(len(sources), dtype=np.int32)
        return sources


def _inverse(total: Array, power: float) -> Array:
    r""":math:`t^{-power}`, 0 where nothing can be divided by."""
    safe = np.where(total > 0, total, np.float32(1))
    inverse = 1 / safe if power == 1.0 else 1 / np.sqrt(safe)
    return np.where(total > 0, inverse, np.float32(0)).astype(np.float32, copy=False)
