r"""The graph from all sources that some rows need to those rows, with the whole graph's weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from meanmax.scale.edges import (Array, Edges, Loops, RowBlock)
from meanmax.graph import Graph
from meanmax.graph.checks import Normalize

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
