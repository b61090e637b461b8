r"""What the outputs of some nodes depend on, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.views import RowsGraph, with_sources

WORTH = 0.8  # of the edges: where more are needed, nothing is gained


class Needs(NamedTuple):
    r"""What a layer takes in for each of its outputs."""

    reach: int  # from how many steps away an output comes
    every: bool  # whether its formula needs the features of all nodes


class Stage(NamedTuple):
    r"""What one layer runs on."""

    graph: Graph  # the graph, of the nodes below
    nodes: Tensor  # the nodes whose features go in, ascending
    # The rows of its output that are needed: the nodes of the next stage, at last the nodes that
    # were asked for
    kept: Tensor


@final
@dataclass(frozen=True, eq=False)
class Field:
    r"""The receptive field of some nodes: what each layer of a model runs on for their outputs."""

    whole: Graph  # the graph that it is taken from
    stages: Sequence[Stage]  # one for each layer
    needs: tuple[Needs, ...]  # what the layers were taken to need

    @property
    def nodes(self) -> Tensor:
        r"""The nodes whose features are needed, ascending."""
        return self.stages[0].nodes


def field_of(graph: Graph, rows: Tensor, needs: Sequence[Needs]) -> Field | None:
    r"""The receptive field of ascending nodes, or :obj:`None` if it holds most edges."""
    if bool((rows.diff() <= 0).any()) or not 0 <= int(rows[0]) <= int(rows[-1]) < graph.num_nodes:
        raise ValueError("'nodes' must be nodes of the graph, ascending, each once")
    every = torch.arange(graph.num_nodes, device=graph.device)
    ends: list[tuple[Tensor, Tensor]] = []
    for need in reversed(needs):
        nodes = every
        if not need.every:
            nodes = rows
            for _ in range(need.reach):
                nodes = with_sources(graph, nodes)
        ends.insert(0, (nodes, rows))
        rows = nodes
    degree = graph.rowptr.diff().long()
    if sum(int(degree[rows].sum()) for _, rows in ends) > WORTH * len(ends) * graph.num_edges:
        return None
    return Field(graph, [_stage(graph, *both) for both in ends], tuple(needs))


def _stage(graph: Graph, nodes: Tensor, rows: Tensor) -> Stage:
    part = graph if len(rows) == graph.num_nodes else RowsGraph(graph, nodes, rows)
    return Stage(part, nodes, torch.searchsorted(nodes, rows))
