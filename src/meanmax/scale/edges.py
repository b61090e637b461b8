r"""The edges of a graph, in memory or on disk, and views of it a block of rows at a time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.build import LoopMode, expand, inverse_root, prepare_edges, to_csr
from meanmax.graph.checks import Normalize, SelfLoops, check_options
from meanmax.scale.compiled import copy_rows, row_blocks

if TYPE_CHECKING:
    from meanmax.scale.features import RowSummary

Array: TypeAlias = npt.NDArray[Any]
PASS_BYTES = 1 << 28


class BatchingError(ValueError):
    r"""Batches or layer-wise inference that are not possible; the message says why."""


class FolderError(ValueError):
    r"""A graph folder that is missing something, damaged, or cannot be written."""


class RowEdges(NamedTuple):
    r"""The edges of some rows."""

    pointer: Array  # [num_rows + 1], int64, the first edge of each row
    column: Array  # [num_edges], the source of each edge, among all nodes
    weight: Array | None  # [num_edges], float32


@dataclass(frozen=True, eq=False)
class CsrEdges:
    r"""Edges grouped by target, in memory or mapped from files."""

    rowptr: Array  # [num_nodes + 1], the first edge of each node
    col: Array  # [num_edges], the source of each edge
    weight: Array | None = None  # [num_edges], float32

    @classmethod
    def of(cls, graph: Graph) -> CsrEdges:
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

    def rows(self, first: int, last: int) -> RowEdges:
        r"""The edges of the nodes from :obj:`first` to before :obj:`last`, copied."""
        pointer = np.array(self.rowptr[first : last + 1], np.int64)
        edges = slice(int(pointer[0]), int(pointer[-1]))
        weight = None if self.weight is None else np.array(self.weight[edges])
        return RowEdges(pointer - pointer[0], np.array(self.col[edges]), weight)

    def chosen(self, nodes: Array) -> RowEdges:
        r"""The edges of some nodes, copied in their order."""
        starts = np.asarray(self.rowptr[nodes]).astype(np.int64)
        counts = np.asarray(self.rowptr[nodes + 1]).astype(np.int64) - starts
        pointer = pointer_of(counts)
        column = np.empty(int(pointer[-1]), self.col.dtype)
        copy_rows(row_blocks(len(starts)), starts, pointer, np.asarray(self.col), column)
        weight = None
        if self.weight is not None:
            weight = np.empty(len(column), np.float32)
            copy_rows(row_blocks(len(starts)), starts, pointer, np.asarray(self.weight), weight)
        return RowEdges(pointer, column, weight)

    def blocks(self, edge_bytes: int, row_bytes: int, memory: int) -> list[tuple[int, int]]:
        r"""Ranges of consecutive rows that fit into :obj:`memory`, given the bytes that an edge and
        a row need. A row is never divided, so a single row may need more.
        """

        def needed(row: int) -> int:
            return int(self.rowptr[row]) * edge_bytes + row * row_bytes

        bounds = [0]
        while (first := bounds[-1]) < self.num_nodes:
            later = range(first + 1, self.num_nodes + 1)
            fitting = bisect_right(later, memory + needed(first), key=needed)
            bounds.append(first + max(1, fitting))
        return list(pairwise(bounds))


def pointer_of(counts: Array) -> Array:
    r"""The first element of each group from the groups' sizes, and the number of elements."""
    pointer = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=pointer[1:])
    return pointer


class Groups(NamedTuple):
    r"""Nodes grouped by part."""

    order: Array  # [num_nodes], the old number of each node, part by part, ascending in each
    place: Array  # [num_nodes], the new number of each node
    pointer: Array  # [num_parts + 1], the first new number of each part


def group_nodes(part: Tensor, num_nodes: int, num_parts: int | None = None) -> Groups:
    r"""Groups nodes by the part of each; parts beyond those that :obj:`part` names are empty.

    Example:
        >>> group_nodes(torch.tensor([1, 0, 1]), 3).order # nodes by part
        array([1, 0, 2])
    """
    if part.shape != (num_nodes,):
        raise FolderError(
            f"'part' must hold the part of each of {num_nodes} nodes (got shape {list(part.shape)})"
        )
    owner = part.numpy()
    most = int(owner.max()) + 1 if num_nodes else 0
    parts = most if num_parts is None else num_parts
    if num_nodes and not 0 <= owner.min() <= most <= parts:
        raise FolderError(f"'part' must hold parts from 0 to {parts - 1}")
    order = np.argsort(owner, kind="stable")
    place = np.empty(num_nodes, np.int64)
    place[order] = np.arange(num_nodes)
    return Groups(order, place, pointer_of(np.bincount(owner, minlength=parts)))


def group_edges(edges: CsrEdges, groups: Groups) -> CsrEdges:
    r"""The edges between nodes in their new numbers, in memory."""
    rows = edges.chosen(groups.order)
    return CsrEdges(rows.pointer, groups.place[rows.column].astype(edges.col.dtype), rows.weight)


@final
class BlockGraph(Graph):
    r"""The view of a block of rows: from their sources to them, with the self-loops and weights of
    the whole graph; see :class:`~meanmax.graph.views.GraphView`. The summary is that of all
    features.
    """

    holds_all_nodes = False

    def __init__(self, rows: Graph, source_nodes: Array, summary: RowSummary) -> None:
        super().__init__(rows._structure, rows.weight)
        self.source_nodes = source_nodes  # their numbers in the whole graph, ascending, int64
        self._summary = summary

    @property
    def around_sources(self) -> Graph:
        r"""Not available: blocks are aggregated once in each pass."""
        raise ValueError("a block has no edges of its sources: run another pass for them")

    def minimum(self, x: Tensor) -> Tensor:
        r"""The smallest feature of all nodes."""
        return self._summary.minimum.to(x.dtype)

    def mean(self, x: Tensor) -> Tensor:
        r"""The mean over all nodes."""
        return self._summary.mean.to(x.dtype)


class RowBlocks:
    r"""Makes views of blocks of rows, with self-loops and weights as
    :meth:`meanmax.Graph.prepared` gives them for the whole graph. It keeps five bytes for each
    node, and eight more once weights are normalised.
    """

    def __init__(self, edges: CsrEdges) -> None:
        self.edges = edges
        self._seen = np.zeros(edges.num_nodes, np.bool_)
        self._place = np.empty(edges.num_nodes, np.int32)
        self._degrees: dict[LoopMode | None, Tensor] = {}
        self._scales: dict[LoopMode | None, Tensor] = {}

    def degree(self, loop_mode: LoopMode | None) -> Tensor:
        r"""The summed weights of every row, self-loops included, float32."""
        if loop_mode not in self._degrees:
            found = torch.empty(self.edges.num_nodes)
            for first, last in self.edges.blocks(80, 40, PASS_BYTES):
                _, dst, weight = self._edges(first, last, None, loop_mode)
                weight = torch.ones(len(dst)) if weight is None else weight
                found[first:last] = torch.zeros(last - first).index_add(0, dst, weight)
            self._degrees[loop_mode] = found
        return self._degrees[loop_mode]

    def rows(
        self, first: int, last: int, normalize: Normalize | None, self_loops: SelfLoops
    ) -> tuple[Graph, Array]:
        r"""The graph of a block and the nodes that are its sources."""
        size = self.edges.num_nodes
        mode = check_options(normalize, self_loops, size, size)
        src, dst, weight = self._edges(first, last, normalize, mode)
        rowptr, src, perm = to_csr(src, dst, last - first)
        if weight is not None and perm is not None:
            weight = weight.index_select(0, perm)
        column = src.numpy()
        self._seen[column] = True
        sources = np.flatnonzero(self._seen)
        self._seen[sources] = False
        self._place[sources] = np.arange(len(sources), dtype=np.int32)
        col = torch.from_numpy(self._place[column])
        size = len(sources)
        return Graph.from_csr(rowptr, col, num_src=size, edge_weight=weight, copy=False), sources

    def _edges(
        self, first: int, last: int, normalize: Normalize | None, mode: LoopMode | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        pointer, column, values = self.edges.rows(first, last)
        src = torch.from_numpy(column)
        dst = expand(torch.from_numpy(pointer).to(src.dtype))
        weight = None if values is None else torch.from_numpy(values)
        return prepare_edges(
            src, dst, weight, last - first, normalize, mode,
            first=first, to_sources=lambda _: self._scale(mode),
        )  # fmt: skip

    def _scale(self, mode: LoopMode | None) -> Tensor:
        if mode not in self._scales:
            self._scales[mode] = inverse_root(self.degree(mode))
        return self._scales[mode]


class Block:
    r"""The rows of a graph from :obj:`first` to before :obj:`last`, which a layer prepares."""

    def __init__(self, blocks: RowBlocks, first: int, last: int, summary: RowSummary) -> None:
        self.first, self.last = first, last
        self.num_src = self.num_dst = blocks.edges.num_nodes
        self._blocks, self._summary = blocks, summary
        self._prepared: dict[tuple[Any, Any], BlockGraph] = {}

    def prepared(
        self, normalize: Normalize | None = None, self_loops: SelfLoops = False
    ) -> BlockGraph:
        r"""The view of the rows; see :meth:`meanmax.Graph.prepared`."""
        key = (normalize, self_loops)
        if key not in self._prepared:
            graph, sources = self._blocks.rows(self.first, self.last, normalize, self_loops)
            self._prepared[key] = BlockGraph(graph, sources, self._summary)
        return self._prepared[key]
