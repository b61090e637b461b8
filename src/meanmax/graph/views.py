r"""A graph of which only some rows are computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from meanmax.graph.checks import Normalize, SelfLoops
from meanmax.graph.graph import Graph


@final
class RowsGraph(Graph):
    r"""Some nodes of a graph, of which some have their edges and the others have none.

    Layers take it with the features of :obj:`nodes` and give at :obj:`rows` what they would give
    there on the whole graph: self-loops and normalised weights are those of the whole. What comes
    out elsewhere has no meaning, but is finite.

    Args:
        whole (Graph): One graph, whose weights carry no gradient.
        nodes (Tensor): The nodes to keep, ascending, int64.
        rows (Tensor): Those of them that keep their edges, ascending; all their neighbours must
            be among the nodes.
    """

    def __init__(self, whole: Graph, nodes: Tensor, rows: Tensor) -> None:
        part = _cut(whole.prepared(), nodes, rows)
        super().__init__(part._structure, part.weight)
        self.whole = whole
        self.nodes = nodes
        self.rows = rows

    @cached_property
    def around_sources(self) -> Graph:
        r"""With the rows of all sources; the whole where features of all nodes are there, since a
        formula may then measure them all.
        """
        if len(self.nodes) == self.whole.num_nodes:
            return self.whole
        return RowsGraph(self.whole, self.nodes, with_sources(self.whole, self.rows))

    def with_weight(self, weight: Tensor | Sequence[float] | None) -> Graph:
        r"""Weights are those of the whole."""
        raise TypeError("weights belong to the whole graph: give them to it, then take its rows")

    def to(self, device: torch.device | str) -> RowsGraph:
        r"""The same rows on another device."""
        whole = self.whole.to(device)
        if whole is self.whole:
            return self
        return RowsGraph(whole, self.nodes.to(device), self.rows.to(device))

    def _prepare(self, normalize: Normalize | None, self_loops: SelfLoops) -> Graph:
        if normalize is None and self_loops is False:
            return self
        return _cut(self.whole.prepared(normalize, self_loops), self.nodes, self.rows)

    def __repr__(self) -> str:
        r"""How much of the whole it is."""
        return (
            f"RowsGraph(num_nodes={self.num_nodes}, rows={len(self.rows)}, "
            f"num_edges={self.num_edges}, whole={self.whole!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        r"""Copies and pickles what it is made from."""
        return RowsGraph, (self.whole, self.nodes, self.rows)


def with_sources(graph: Graph, rows: Tensor) -> Tensor:
    r"""Some nodes and all that they aggregate from, ascending.

    Args:
        graph (Graph): The graph.
        rows (Tensor): The nodes, int64.
    """
    seen = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    seen[rows] = True
    seen[graph.col[edges_of(graph, rows)].long()] = True
    return seen.nonzero().view(-1)


def edges_of(graph: Graph, rows: Tensor) -> Tensor:
    r"""The edges of some rows in CSR order, row by row, int64.

    Args:
        graph (Graph): The graph.
        rows (Tensor): The rows, int64.
    """
    count = graph.rowptr.diff()[rows].long()
    before = count.cumsum(0) - count
    shift = (graph.rowptr[rows].long() - before).repeat_interleave(count)
    return torch.arange(len(shift), device=graph.device) + shift


def _cut(graph: Graph, nodes: Tensor, rows: Tensor) -> Graph:
    place = torch.full((graph.num_nodes,), -1, device=graph.device)
    place[nodes] = torch.arange(len(nodes), device=graph.device)
    edges = edges_of(graph, rows)
    rowptr = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=graph.device)
    rowptr[place[rows] + 1] = graph.rowptr.diff()[rows].long()
    weight = None if graph.weight is None else graph.weight[edges]
    return Graph.from_csr(rowptr.cumsum(0), place[graph.col[edges].long()], weight=weight)
