r"""What the outputs of some nodes depend on, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.rows import RowsGraph, with_sources

WORTH = 0.8  # of the edges: where more are needed, nothing is gained


@final
@dataclass(frozen=True, eq=False)
class Field:
    r"""The receptive field of some nodes: the graph that each layer runs on, and the rows of its
    output that the next one needs.

    Args:
        graphs (sequence): A graph for each layer.
        kept (sequence): For each layer the rows of its output that are kept: the nodes of the next
            layer's graph, at last the nodes that were asked for, ascending.
    """

    graphs: Sequence[RowsGraph]
    kept: Sequence[Tensor]

    @property
    def nodes(self) -> Tensor:
        r"""The nodes whose features are needed, ascending."""
        return self.graphs[0].nodes

    @property
    def whole(self) -> Graph:
        r"""The graph that it is taken from."""
        return self.graphs[0].whole


def field_of(
    graph: Graph, rows: Tensor, reaches: Sequence[int], measured: Sequence[bool]
) -> Field | None:
    r"""The receptive field of some nodes, or :obj:`None` where it holds most edges of all layers.

    Args:
        graph (Graph): One graph, as it is.
        rows (Tensor): The nodes, ascending, each once.
        reaches (sequence): For each layer from how many steps away a node's output comes.
        measured (sequence): For each layer whether its formula needs the features of all nodes.
    """
    every = torch.arange(graph.num_nodes, device=graph.device)
    given = graph.prepared()
    graphs: list[RowsGraph] = []
    kept: list[Tensor] = []
    for reach, needs_all in zip(reversed(reaches), reversed(measured), strict=True):
        nodes = every
        if not needs_all:
            nodes = rows
            for _ in range(reach):
                nodes = with_sources(given, nodes)
        graphs.append(RowsGraph(graph, nodes, rows))
        kept.append(torch.searchsorted(nodes, rows))
        rows = nodes
    if sum(part.num_edges for part in graphs) > WORTH * len(graphs) * graph.num_edges:
        return None
    return Field(graphs[::-1], kept[::-1])
