r"""Batches of clusters: the graph of a few parts at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from meanmax.graph import Graph
from meanmax.scale.edges import Array, BatchingError, CsrEdges, group_nodes
from meanmax.scale.features import FeatureRows
from meanmax.scale.sampling import Draws
from meanmax.train import LabeledNodes, Sample, TrainingProblem


class Induced:
    r"""Takes nodes out of a graph together with the edges among them.

    It keeps four bytes for each node, and reads the rows of the nodes alone.

    Args:
        edges (CsrEdges): The whole graph.
    """

    def __init__(self, edges: CsrEdges) -> None:
        self.edges = edges
        self._place = np.full(edges.num_nodes, -1, np.int32)

    def graph(self, nodes: Array, wanted: Array) -> tuple[Graph, Array]:
        r"""The graph of some different nodes, in their order, with the weights of the edges among
        them; and where in it other nodes are, -1 where they are not.

        Args:
            nodes (ndarray): The nodes, int64.
            wanted (ndarray): The other nodes, int64.
        """
        rows = self.edges.chosen(nodes)
        self._place[nodes] = np.arange(len(nodes), dtype=np.int32)
        local, places = self._place[rows.column], self._place[wanted]
        self._place[nodes] = -1
        kept = local >= 0
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        weight = None if rows.weight is None else torch.from_numpy(rows.weight[kept])
        pointer = torch.from_numpy(before[rows.pointer])
        graph = Graph.from_csr(pointer, torch.from_numpy(local[kept]), edge_weight=weight)
        return graph, places


@dataclass(frozen=True, eq=False)
class Clusters:
    r"""A graph whose nodes are grouped into parts.

    Args:
        x (FeatureRows): Features.
        edges (CsrEdges): The graph.
        pointer (ndarray): Where the nodes of each part begin, :obj:`[num_parts + 1]`.
        order (ndarray, optional): The nodes grouped by part; :obj:`None` if they are numbered so.
    """

    x: FeatureRows
    edges: CsrEdges
    pointer: Array
    order: Array | None = None

    @classmethod
    def of(cls, x: FeatureRows, edges: CsrEdges, part: torch.Tensor) -> Clusters:
        r"""Groups the nodes of a graph by their part.

        Args:
            x (FeatureRows): Features.
            edges (CsrEdges): The graph.
            part (Tensor): The part of each node, int64.
        """
        groups = group_nodes(part, edges.num_nodes)
        return cls(x, edges, groups.pointer, groups.order)

    @property
    def num_parts(self) -> int:
        r"""How many parts there are."""
        return len(self.pointer) - 1

    @cached_property
    def induced(self) -> Induced:
        r"""Takes nodes out."""
        return Induced(self.edges)

    def nodes(self, parts: Sequence[int]) -> Array:
        r"""The nodes of some parts."""
        ranges = [np.arange(self.pointer[part], self.pointer[part + 1]) for part in sorted(parts)]
        places = np.concatenate(ranges)
        return places if self.order is None else self.order[places]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterProblem(TrainingProblem):
    r"""Trains on the graph that a few parts induce, as `Cluster-GCN
    <https://arxiv.org/abs/1905.07953>`_ does. In each epoch parts are drawn into batches anew;
    edges within a batch count, between two parts of it too, others do not.

    Layers normalise weights by degrees within the batch. Batches are of about equal size; those
    without training nodes are left out.

    Args:
        clusters (Clusters): The graph in parts.
        nodes (LabeledNodes): Training nodes.
        per_batch (int, optional): The most parts in a batch. (default: :obj:`1`)
        draws (Draws, optional): Draws batches. (default: for this process alone)
    """

    samples: Sequence[Sample] = ()
    clusters: Clusters
    nodes: LabeledNodes
    per_batch: int = 1
    draws: Draws = field(default_factory=Draws)

    def __post_init__(self) -> None:
        r"""Checks the number of parts in a batch."""
        if not 1 <= self.per_batch <= self.clusters.num_parts:
            raise BatchingError(
                f"a batch takes between 1 and all {self.clusters.num_parts} parts "
                f"(got {self.per_batch})"
            )

    def batches(self) -> Iterator[Sample]:
        r"""The batches of one epoch, in an order drawn from PyTorch's generator."""
        generator = self.draws.generator()
        order = torch.randperm(self.clusters.num_parts, generator=generator)
        # Of about equal size: a last one of what is left over would be a poor picture of the graph.
        drawn = torch.tensor_split(order, math.ceil(len(order) / self.per_batch))
        listed = [parts.tolist() for parts in drawn if self._training[parts.numpy()].any()]
        for parts in self.draws.share(listed):
            yield self.sample(parts, len(listed))

    def sample(self, parts: Sequence[int], count: int = 1) -> Sample:
        r"""The batch of some parts.

        Its loss is the sum over its training nodes, divided by how many a batch has on average:
        each node counts the same, whichever batch it is in.

        Args:
            parts (sequence): Their numbers.
            count (int, optional): How many batches there are. (default: :obj:`1`)
        """
        nodes = self.clusters.nodes(parts)
        graph, places = self.clusters.induced.graph(nodes, self.nodes.index.numpy())
        own = torch.from_numpy(places).long()
        inside = own >= 0
        x = self.clusters.x.gather(nodes)
        total = None if count == 1 else max(1, round(len(own) / count))
        return Sample(x, graph, LabeledNodes(own[inside], self.nodes.target[inside], total))

    @cached_property
    def _training(self) -> Array:
        r"""Whether each part has training nodes."""
        places = self.nodes.index.numpy()
        if self.clusters.order is not None:
            place = np.empty(self.clusters.edges.num_nodes, np.int64)
            place[self.clusters.order] = np.arange(len(place))
            places = place[places]
        parts = np.searchsorted(self.clusters.pointer, places, side="right") - 1
        return np.bincount(parts, minlength=self.clusters.num_parts) > 0
