r"""Neighbours drawn at random, hop by hop, into one small graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Generator

from meanmax.graph import Graph
from meanmax.scale.collectives import Job
from meanmax.scale.compiled import draw_edges, row_blocks
from meanmax.scale.edges import Array, BatchingError, CsrEdges, RowBlocks, pointer_of
from meanmax.scale.features import FeatureRows
from meanmax.train import LabeledNodes, Sample, TrainingProblem

HOP_STRIDE = 0x632BE59BD9B4E019


class SampledGraph(NamedTuple):
    r"""A drawn graph."""

    graph: Graph  # its nodes begin with the seeds
    nodes: Array  # the number of each node in the whole graph, int64


class NeighbourSampler:
    r"""Draws, for some seeds, a share of their neighbours, a share of those nodes' neighbours, and
    so on, as `GraphSAGE <https://arxiv.org/abs/1706.02216>`_ does, without replacement.

    The result is one square graph on which any layer runs. A node is expanded once, in the hop
    that finds it. Edges keep their weights, so layers normalise by the degrees in the sample.
    Scaling weights up to the degrees of the whole graph would be right in expectation but gave
    lower accuracy, because the few sampled edges of a hub then weigh a hundred times as much. Nodes
    of the last hop have no neighbours: a self-loop with the weight of all their edges gives them
    their true degree. Their own hidden features are meaningless, but do not reach a seed if there
    are as many hops as layers.

    The sample of a node depends only on the random seed, the node and the hop: not on threads or on
    the other seeds.

    Args:
        edges (CsrEdges): The whole graph.
        fanout (sequence): How many neighbours are drawn in each hop; -1 for all.
    """

    def __init__(self, edges: CsrEdges, fanout: Sequence[int]) -> None:
        if not fanout or any(count == 0 or count < -1 for count in fanout):
            raise BatchingError(
                f"'fanout' must be a number of neighbours for each hop, or -1 for all "
                f"(got {list(fanout)})"
            )
        self.edges = edges
        self.fanout = tuple(int(count) for count in fanout)
        self._place = np.full(edges.num_nodes, -1, np.int32)

    @cached_property
    def degree(self) -> Array:
        r"""Summed weights of every node, self-loops added."""
        degree: Array = RowBlocks(self.edges).degree("add").numpy()
        return degree

    def sample(self, seeds: Array, seed: int) -> SampledGraph:
        r"""Draws once, for different nodes, int64, with a seed that is not negative."""
        hops, nodes, frontier = [], [seeds], seeds
        self._place[seeds] = np.arange(len(seeds), dtype=np.int32)
        known = len(seeds)
        for hop, count in enumerate(self.fanout):
            hops.append(self._hop(frontier, count, (seed + hop * HOP_STRIDE) % 2**63))
            column = hops[-1][1]
            frontier = np.unique(column[self._place[column] < 0]).astype(np.int64)
            self._place[frontier] = np.arange(known, known + len(frontier), dtype=np.int32)
            nodes.append(frontier)
            known += len(frontier)
        hops.append((np.ones(len(frontier), np.int64), frontier, self.degree[frontier]))
        everyone = np.concatenate(nodes)
        counts, column, weight = (np.concatenate(part) for part in zip(*hops, strict=True))
        csr = (torch.from_numpy(pointer_of(counts)), torch.from_numpy(self._place[column]))
        self._place[everyone] = -1
        graph = Graph.from_csr(*csr, edge_weight=torch.from_numpy(weight), copy=False)
        return SampledGraph(graph, everyone)

    def _hop(self, nodes: Array, count: int, seed: int) -> tuple[Array, Array, Array]:
        r"""How many edges each node has, their sources and their weights."""
        starts = np.asarray(self.edges.rowptr[nodes]).astype(np.int64)
        degrees = np.asarray(self.edges.rowptr[nodes + 1]).astype(np.int64) - starts
        counts = degrees if count < 0 else np.minimum(degrees, count)
        pointer = pointer_of(counts)
        positions = np.empty(int(pointer[-1]), np.int64)
        draw_edges(row_blocks(len(nodes)), seed, nodes, starts, degrees, pointer, positions)
        every = self.edges.weight
        weight = np.ones(len(positions), np.float32) if every is None else every[positions]
        return counts, np.asarray(self.edges.col[positions]), np.asarray(weight)


T = TypeVar("T")
LARGEST = 2**62


@dataclass(frozen=True)
class Draws:
    r"""Draws the batches of an epoch from PyTorch's generator, the same on every replica."""

    job: Job | None = None  # the replicas, each with a share of the batches; None for one process

    def generator(self) -> Generator:
        r"""A generator for one epoch, seeded from PyTorch's own; that of the first replica."""
        seed = int(torch.randint(LARGEST, ()))
        if self.job is not None:
            seed = int.from_bytes(self.job.broadcast_bytes(seed.to_bytes(8, "little")), "little")
        return Generator().manual_seed(seed)

    def share(self, batches: Sequence[T]) -> list[T]:
        r"""The batches of this replica. All replicas get the same number; if the batches cannot be
        divided evenly, some are used twice.
        """
        rank, size = (0, 1) if self.job is None else (self.job.rank, self.job.size)
        rounds = math.ceil(len(batches) / size)
        return [batches[(index * size + rank) % len(batches)] for index in range(rounds)]


def shuffled_batches(count: int, most: int, generator: Generator) -> Sequence[torch.Tensor]:
    r"""The numbers below :obj:`count` in random order, in batches of at most :obj:`most`.

    Batches are of about equal size: a last one with only what is left over would represent the
    graph badly.
    """
    order = torch.randperm(count, generator=generator)
    return torch.tensor_split(order, math.ceil(count / most))


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighbourProblem(TrainingProblem):
    r"""Trains on a few training nodes at a time, with newly drawn neighbours each time. The loss is
    taken over those nodes alone.
    """

    samples: Sequence[Sample] = ()
    x: FeatureRows
    sampler: NeighbourSampler  # of as many hops as the model has layers, or more
    nodes: LabeledNodes  # training nodes
    batch_size: int = 512  # the most training nodes in a batch; batches are of about equal size
    draws: Draws = field(default_factory=Draws)  # draws batches

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BatchingError(f"'batch_size' must be 1 or more (got {self.batch_size})")

    def batches(self) -> Iterator[Sample]:
        r"""The batches of one epoch, in an order drawn from PyTorch's generator."""
        generator = self.draws.generator()
        drawn = shuffled_batches(len(self.nodes.index), self.batch_size, generator)
        seeds = torch.randint(LARGEST, (len(drawn),), generator=generator).tolist()
        for chosen, seed in self.draws.share(list(zip(drawn, seeds, strict=True))):
            yield self.sample(chosen, seed)

    def sample(self, chosen: torch.Tensor, seed: int) -> Sample:
        r"""The batch of the training nodes at some positions, with neighbours drawn by a seed."""
        drawn = self.sampler.sample(self.nodes.index[chosen].numpy(), seed)
        own = torch.arange(len(chosen))
        nodes = replace(self.nodes, index=own, target=self.nodes.target[chosen])
        return Sample(self.x.gather(drawn.nodes), drawn.graph, nodes)
