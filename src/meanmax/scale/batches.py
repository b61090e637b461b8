r"""How batches are made, in plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch

from meanmax.graph import Graph
from meanmax.scale.clusters import ClusterProblem, Clusters
from meanmax.scale.edges import Array, BatchingError, CsrEdges
from meanmax.scale.features import FeatureRows
from meanmax.scale.partition import assign_metis, block_bounds
from meanmax.scale.sampling import Draws, NeighbourProblem, NeighbourSampler
from meanmax.train import LabeledNodes, Sample, TrainingProblem

Kind: TypeAlias = Literal["clusters", "neighbours"]
Cut: TypeAlias = Literal["metis", "blocks"]
PART_NODES, PARTS_PER_BATCH, FANOUT = 400, 20, 10


@dataclass(frozen=True)
class Batches:
    r"""Batches of clusters, or of training nodes with neighbours drawn at random.

    Args:
        kind (str): :obj:`"clusters"` or :obj:`"neighbours"`.
        parts (int, optional): Into how many parts the graph is cut. (default: one for each 400
            nodes)
        parts_per_batch (int, optional): The most parts in a batch. (default: :obj:`20`, or all)
        cut (str, optional): :obj:`"metis"`, or :obj:`"blocks"` of consecutive nodes.
            (default: :obj:`"metis"`)
        fanout (tuple, optional): How many neighbours are drawn in each hop, -1 for all.
            (default: :obj:`10` for each layer)
        batch_size (int, optional): The most training nodes in a batch. (default: :obj:`512`)
    """

    kind: Kind
    parts: int | None = None
    parts_per_batch: int | None = None
    cut: Cut = "metis"
    fanout: tuple[int, ...] | None = None
    batch_size: int = 512

    def __post_init__(self) -> None:
        r"""Checks names and numbers."""
        for name, known in (("kind", get_args(Kind)), ("cut", get_args(Cut))):
            if getattr(self, name) not in known:
                listed = ", ".join(map(repr, known))
                raise BatchingError(f"'{name}' must be one of {listed} (got {getattr(self, name)})")
        for name in ("parts", "parts_per_batch", "batch_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise BatchingError(f"'{name}' must be a whole number from 1 on (got {value!r})")

    @property
    def key(self) -> str:
        r"""A text that differs where batches would."""
        return ",".join(f"{name}={value}" for name, value in asdict(self).items())

    def problem(
        self,
        x: FeatureRows,
        edges: CsrEdges,
        nodes: LabeledNodes,
        val: Sample | None,
        *,
        layers: int,
        part_ptr: Array | None = None,
        draws: Draws | None = None,
    ) -> TrainingProblem:
        r"""What to train on.

        Args:
            x (FeatureRows): Features, on the scale they are learned from.
            edges (CsrEdges): The graph.
            nodes (LabeledNodes): Training nodes.
            val (Sample, optional): Validation nodes.
            layers (int): The layers of the model.
            part_ptr (ndarray, optional): The first node of each part, where nodes are grouped by
                parts already. (default: :obj:`None`)
            draws (Draws, optional): Draws batches. (default: for this process alone)
        """
        draws = draws or Draws()
        if self.kind == "neighbours":
            fanout = self.fanout or (FANOUT,) * layers
            if len(fanout) < layers:
                raise BatchingError(
                    f"'fanout' has {len(fanout)} hops, but the model has {layers} layers: give one "
                    f"number for each layer"
                )
            sampler = NeighbourSampler(edges, fanout)
            return NeighbourProblem(
                x=x, sampler=sampler, nodes=nodes, val=val, batch_size=self.batch_size, draws=draws
            )
        clusters = self._clusters(x, edges, part_ptr)
        wanted = self.parts_per_batch or min(PARTS_PER_BATCH, clusters.num_parts)
        return ClusterProblem(
            clusters=clusters, nodes=nodes, val=val, per_batch=wanted, draws=draws
        )

    def _clusters(self, x: FeatureRows, edges: CsrEdges, part_ptr: Array | None) -> Clusters:
        if part_ptr is not None:
            if self.parts not in (None, len(part_ptr) - 1):
                raise BatchingError(
                    f"the graph is cut into {len(part_ptr) - 1} parts already (got "
                    f"parts={self.parts}): leave the number out, or write the folder anew"
                )
            return Clusters(x, edges, np.asarray(part_ptr))
        parts = self.parts or max(1, round(edges.num_nodes / PART_NODES))
        if self.cut == "blocks":
            return Clusters(x, edges, block_bounds(edges.rowptr, parts))
        pointer, column = (torch.from_numpy(np.array(a)) for a in (edges.rowptr, edges.col))
        return Clusters.of(x, edges, assign_metis(Graph.from_csr(pointer, column), parts))
