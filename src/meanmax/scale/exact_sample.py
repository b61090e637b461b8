r"""Nodes whose outputs are computed layer by layer over the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from meanmax.scale.edges import Edges
from meanmax.scale.edges_errors import BatchingError
from meanmax.scale.layerwise import (MEMORY, check_model, run_layers, scratch_bytes)
from meanmax.scale.rows import Rows
from meanmax.scale.scratch import scratch_files
from meanmax.graph import Graph
from meanmax.train import (Nodes, Sample)


class ExactSample(Sample):
    r"""Nodes to validate on, in a graph that is read from disk; see
    :func:`~meanmax.scale.layerwise.layerwise`. Nothing can be learned from them.

    Args:
        rows (Rows): Features of all nodes.
        edges (Edges): The graph.
        nodes (Nodes): The nodes that count.
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers. (default: that of temporary files)
    """

    def __init__(
        self,
        rows: Rows,
        edges: Edges,
        nodes: Nodes,
        *,
        memory: int = MEMORY,
        scratch: Path | None = None,
    ) -> None:
        nothing = Graph.from_edge_index([[], []], 0)
        kept = Nodes(torch.arange(len(nodes.index)), nodes.target)
        super().__init__(torch.empty(0, rows.shape[1]), nothing, kept)
        more = {"rows": rows, "edges": edges, "chosen": nodes.index, "memory": memory}
        for name, value in {**more, "scratch": scratch}.items():
            object.__setattr__(self, name, value)

    rows: Rows
    edges: Edges
    chosen: Tensor
    memory: int
    scratch: Path | None

    def output(self, model: Any) -> Tensor:
        r"""The model's output for these nodes alone."""
        if torch.is_grad_enabled():
            raise BatchingError(
                "validation nodes of a graph on disk have no gradient: aggregator_loss='val' needs "
                "the graph in memory"
            )
        return exact_rows(
            model, self.rows, self.edges, self.chosen, memory=self.memory, scratch=self.scratch
        )


@torch.no_grad()
def exact_rows(
    model: Any,
    rows: Rows,
    edges: Edges,
    chosen: Tensor,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
) -> Tensor:
    r"""The outputs of some nodes, computed layer by layer over the whole graph.

    Args:
        model (NodeModel): The model.
        rows (Rows): Features of all nodes.
        edges (Edges): The graph.
        chosen (Tensor): The nodes, int64.
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers. (default: that of temporary files)
    """
    check_model(model, rows, edges)
    with scratch_files(scratch, scratch_bytes(model, rows)) as store:
        return run_layers(model, rows, edges, store, memory).gather(chosen.numpy())
