r"""The edges of a graph, in memory or on disk, read a block of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from meanmax.scale.edges_rows import (copy_rows, count_kept, row_sums, with_loops)
from meanmax.scale.edges_errors import BatchingError
from meanmax.graph import Graph

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
