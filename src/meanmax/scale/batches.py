r"""Batches to train on: clusters of a partition, or training nodes with sampled neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch

from meanmax.graph import Graph
from meanmax.scale.edges import Array, BatchingError, CsrEdges, group_nodes, pointer_of
from meanmax.scale.features import FeatureRows
from meanmax.scale.partition import assign_metis, block_bounds
from meanmax.scale.sampling import Draws, NeighbourProblem, NeighbourSampler, shuffled_batches
from meanmax.train import LabeledNodes, Sample, TrainingProblem

Kind: TypeAlias = Literal["clusters", "neighbours"]
CutMethod: TypeAlias = Literal["metis", "blocks"]
PART_NODES, PARTS_PER_BATCH, FANOUT = 400, 20, 10
_WITHOUT_EFFECT: dict[Kind, tuple[str, ...]] = {
    "clusters": ("fanout", "batch_size"),
    "neighbours": ("parts", "parts_per_batch", "cut"),
}


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
    cut: CutMethod = "metis"
    fanout: tuple[int, ...] | None = None
    batch_size: int = 512

    def __post_init__(self) -> None:
        for name, known in (("kind", get_args(Kind)), ("cut", get_args(CutMethod))):
            if getattr(self, name) not in known:
                listed = ", ".join(map(repr, known))
                raise BatchingError(f"'{name}' must be one of {listed} (got {getattr(self, name)})")
        for name in ("parts", "parts_per_batch", "batch_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise BatchingError(f"'{name}' must be a whole number from 1 on (got {value!r})")
        for name in _WITHOUT_EFFECT[self.kind]:
            if getattr(self, name) != getattr(Batches, name):
                raise BatchingError(
                    f"'{name}' has no effect with kind={self.kind!r} (got "
                    f"{getattr(self, name)!r}): leave it out"
                )

    @property
    def key(self) -> str:
        r"""A text that is different for different batches."""
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
        r"""The batches as a problem to train on, for a model with :obj:`layers` layers, from
        features that are scaled already. :obj:`part_ptr` holds the first node of each part, if
        nodes are already grouped by part. By default, batches are drawn for this process only.
        """
        draws = draws or Draws()
        if self.kind == "neighbours":
            fanout = self.fanout or (FANOUT,) * layers
            if len(fanout) != layers:
                raise BatchingError(
                    f"'fanout' has {len(fanout)} hops, but the model has {layers} layers: give one "
                    f"number for each layer"
                )
            return NeighbourProblem(
                x=x,
                sampler=NeighbourSampler(edges, fanout),
                nodes=nodes,
                val=val,
                batch_size=self.batch_size,
                draws=draws,
            )
        clusters = self._clusters(x, edges, part_ptr)
        count = self.parts_per_batch or min(PARTS_PER_BATCH, clusters.num_parts)
        return ClusterProblem(clusters=clusters, nodes=nodes, val=val, per_batch=count, draws=draws)

    def _clusters(self, x: FeatureRows, edges: CsrEdges, part_ptr: Array | None) -> Clusters:
        if part_ptr is not None:
            if self.parts not in (None, len(part_ptr) - 1):
                raise BatchingError(
                    f"the graph is cut into {len(part_ptr) - 1} parts already (got "
                    f"parts={self.parts}): leave the number out, or write the folder again"
                )
            return Clusters(x, edges, np.asarray(part_ptr))
        parts = self.parts or max(1, round(edges.num_nodes / PART_NODES))
        if self.cut == "blocks":
            return Clusters(x, edges, block_bounds(edges.rowptr, parts))
        pointer, column = (torch.from_numpy(np.array(a)) for a in (edges.rowptr, edges.col))
        graph = Graph.from_csr(pointer, column, copy=False)
        return Clusters.of(x, edges, assign_metis(graph, parts))


@dataclass(frozen=True, eq=False)
class Clusters:
    r"""A graph whose nodes are grouped into parts."""

    x: FeatureRows
    edges: CsrEdges
    pointer: Array  # where the nodes of each part begin, [num_parts + 1]
    order: Array | None = None  # the nodes grouped by part; None if they are numbered so

    @classmethod
    def of(cls, x: FeatureRows, edges: CsrEdges, part: torch.Tensor) -> Clusters:
        r"""Groups the nodes of a graph by their part, int64, :obj:`[num_nodes]`."""
        groups = group_nodes(part, edges.num_nodes)
        return cls(x, edges, groups.pointer, groups.order)

    @property
    def num_parts(self) -> int:
        r"""How many parts there are."""
        return len(self.pointer) - 1

    def nodes(self, parts: Sequence[int]) -> Array:
        r"""The nodes of some parts."""
        ranges = [np.arange(self.pointer[part], self.pointer[part + 1]) for part in sorted(parts)]
        places = np.concatenate(ranges)
        return places if self.order is None else self.order[places]

    def induced_graph(self, nodes: Array, wanted: Array) -> tuple[Graph, Array]:
        r"""The subgraph induced by some distinct nodes, in their order and with weights, and the
        position of each :obj:`wanted` node in it, -1 if it is not in it.
        """
        rows = self.edges.chosen(nodes)
        self._place[nodes] = np.arange(len(nodes), dtype=np.int32)
        local, places = self._place[rows.column], self._place[wanted]
        self._place[nodes] = -1
        kept = local >= 0
        weight = None if rows.weight is None else torch.from_numpy(rows.weight[kept])
        pointer = torch.from_numpy(pointer_of(kept)[rows.pointer])
        column = torch.from_numpy(local[kept])
        graph = Graph.from_csr(pointer, column, edge_weight=weight, copy=False)
        return graph, places

    @cached_property
    def _place(self) -> Array:
        r"""Scratch space of four bytes for each node, -1 between two calls."""
        return np.full(self.edges.num_nodes, -1, np.int32)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterProblem(TrainingProblem):
    r"""Trains on the graph that a few parts induce, as `Cluster-GCN
    <https://arxiv.org/abs/1905.07953>`_ does. Each epoch draws parts into new batches;
    a batch has all edges among its nodes, also those between two of its parts.

    Layers normalise weights by degrees within the batch. Batches are of about equal size; those
    without training nodes are left out.
    """

    samples: Sequence[Sample] = ()
    clusters: Clusters  # the graph in parts
    nodes: LabeledNodes  # training nodes
    per_batch: int = 1  # the most parts in a batch
    draws: Draws = field(default_factory=Draws)  # draws batches

    def __post_init__(self) -> None:
        if not 1 <= self.per_batch <= self.clusters.num_parts:
            raise BatchingError(
                f"a batch takes between 1 and all {self.clusters.num_parts} parts "
                f"(got {self.per_batch})"
            )

    def batches(self) -> Iterator[Sample]:
        r"""The batches of one epoch, in an order drawn from PyTorch's generator."""
        generator = self.draws.generator()
        drawn = shuffled_batches(self.clusters.num_parts, self.per_batch, generator)
        listed = [parts.tolist() for parts in drawn if self._training[parts.numpy()].any()]
        for parts in self.draws.share(listed):
            yield self.sample(parts, len(listed))

    def sample(self, parts: Sequence[int], count: int = 1) -> Sample:
        r"""The batch of some parts, one of :obj:`count` batches. Its loss is the sum over its
        training nodes, divided by their mean number per batch, so all nodes count equally.
        """
        nodes = self.clusters.nodes(parts)
        graph, places = self.clusters.induced_graph(nodes, self.nodes.index.numpy())
        own = torch.from_numpy(places).long()
        inside = own >= 0
        x = self.clusters.x.gather(nodes)
        total = None if count == 1 else max(1, round(len(own) / count))
        target = self.nodes.target[inside]
        return Sample(x, graph, replace(self.nodes, index=own[inside], target=target, total=total))

    @cached_property
    def _training(self) -> Array:
        r"""Whether each part has training nodes."""
        places = self.nodes.index.numpy()
        if self.clusters.order is not None:
            places = np.argsort(self.clusters.order)[places]
        parts = np.searchsorted(self.clusters.pointer, places, side="right") - 1
        return np.bincount(parts, minlength=self.clusters.num_parts) > 0
