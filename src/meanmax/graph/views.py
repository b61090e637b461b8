r"""Views: the interface that layers need from a graph of which only a part is available."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, final

import torch
from torch import Tensor

from meanmax.graph.build import ranges
from meanmax.graph.checks import Normalize, SelfLoops
from meanmax.graph.graph import Graph


class GraphView(Protocol):
    r"""What layers and aggregators ask of a graph, whether all of it is there or not.

    A layer is called with the features :obj:`x` of the nodes that the view holds, and computes the
    view's rows, its targets, as they come out on the whole graph. There are four views:

    =============================================== ===================== =======================
    view                                            rows                  features it is called with
    =============================================== ===================== =======================
    :class:`~meanmax.Graph`                         all targets           all sources
    :class:`RowsGraph`                              some nodes            nodes around them
    :class:`~meanmax.scale.DistributedGraph`        a rank's nodes        a rank's nodes
    :class:`~meanmax.scale.edges.BlockGraph`        a block of nodes      the block's sources
    =============================================== ===================== =======================
    """

    @property
    def local(self) -> Graph:
        r"""The graph that kernels run on, from the rows of :meth:`sources` to the view's rows."""

    @property
    def is_local(self) -> bool:
        r"""Whether the features of all sources are in this process, so that :meth:`sources` sends
        nothing.
        """

    @property
    def holds_all_nodes(self) -> bool:
        r"""Whether :obj:`x` has the features of all nodes. Aggregators then take the minimum of
        :obj:`x` itself, inside their kernels, and else ask for :meth:`minimum`.
        """

    @property
    def around_sources(self) -> GraphView:
        r"""The view whose rows include the sources of these, for layers that aggregate twice."""

    def prepared(
        self, normalize: Normalize | None = None, self_loops: SelfLoops = False
    ) -> GraphView:
        r"""The view with self-loops and normalised weights of the whole graph."""

    def sources(self, x: Tensor) -> Tensor:
        r"""The features of the sources of :attr:`local`, with their gradient."""

    def minimum(self, x: Tensor) -> Tensor:
        r"""The smallest feature of all nodes, with its gradient shared evenly among ties."""

    def mean(self, x: Tensor) -> Tensor:
        r"""The mean over all nodes, without gradient."""


@final
class RowsGraph(Graph):
    r"""Some nodes of a graph, of which some have their edges and the others have none.

    Layers take it with the features of :obj:`nodes` and give at :obj:`rows` what they would give
    there on the whole graph, which is one graph whose weights carry no gradient: self-loops and
    normalised weights are those of the whole graph. The output of other nodes has no meaning, but
    is finite. Nodes and rows are ascending; all neighbours of rows must be among the nodes.
    """

    def __init__(
        self,
        whole: Graph,
        nodes: Tensor,
        rows: Tensor,
        normalize: Normalize | None = None,
        self_loops: SelfLoops = False,
    ) -> None:
        part = _cut(whole.prepared(normalize, self_loops), nodes, rows)
        super().__init__(part._structure, part.weight)
        self.whole, self.nodes, self.rows = whole, nodes, rows
        self._preparation = (normalize, self_loops)

    @property
    def holds_all_nodes(self) -> bool:
        r"""Whether all nodes of the whole graph are kept."""
        return len(self.nodes) == self.whole.num_nodes

    @cached_property
    def around_sources(self) -> Graph:
        r"""With the rows of all sources; the whole graph if all nodes are kept."""
        if self.holds_all_nodes:
            return self.whole
        return RowsGraph(self.whole, self.nodes, with_sources(self.whole, self.rows))

    def minimum(self, x: Tensor) -> Tensor:
        r"""The smallest feature, if all nodes are kept."""
        if self.holds_all_nodes:
            return super().minimum(x)
        raise ValueError(
            f"the minimum over a graph of {self.whole.num_nodes} nodes needs all their features "
            f"(got those of {len(self.nodes)})"
        )

    def with_weight(self, edge_weight: Any) -> Graph:
        r"""Not supported: the weights are those of the whole graph."""
        raise TypeError("weights belong to the whole graph: give them to it, then take its rows")

    def to(self, device: torch.device | str) -> RowsGraph:
        r"""The same rows on another device."""
        whole = self.whole.to(device)
        if whole is self.whole:
            return self
        return RowsGraph(whole, self.nodes.to(device), self.rows.to(device), *self._preparation)

    def _prepare(self, normalize: Normalize | None, self_loops: SelfLoops) -> Graph:
        if normalize is None and self_loops is False:
            return self
        return RowsGraph(self.whole, self.nodes, self.rows, normalize, self_loops)

    def __repr__(self) -> str:
        return (
            f"RowsGraph(num_nodes={self.num_nodes}, rows={len(self.rows)}, "
            f"num_edges={self.num_edges}, whole={self.whole!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        r"""Copies and pickles what it was made from."""
        return RowsGraph, (self.whole, self.nodes, self.rows, *self._preparation)


def with_sources(graph: Graph, rows: Tensor) -> Tensor:
    r"""Some nodes and all that they aggregate from, ascending."""
    seen = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    seen[rows] = True
    seen[graph.col[edges_of(graph, rows)].long()] = True
    return seen.nonzero().view(-1)


def edges_of(graph: Graph, rows: Tensor) -> Tensor:
    r"""The edges of some rows in CSR order, row by row, int64."""
    return ranges(graph.rowptr[rows], graph.rowptr[rows + 1] - graph.rowptr[rows])


def _cut(graph: Graph, nodes: Tensor, rows: Tensor) -> Graph:
    place = torch.full((graph.num_nodes,), -1, device=graph.device)
    place[nodes] = torch.arange(len(nodes), device=graph.device)
    edges = edges_of(graph, rows)
    rowptr = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=graph.device)
    rowptr[place[rows] + 1] = graph.rowptr.diff()[rows].long()
    weight = None if graph.weight is None else graph.weight[edges]
    col = place[graph.col[edges].long()]
    return Graph.from_csr(rowptr.cumsum(0), col, edge_weight=weight, copy=False)
