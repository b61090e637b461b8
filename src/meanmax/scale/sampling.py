r"""Neighbours drawn at random, hop by hop, into one small graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from meanmax.scale.edges_blocks import BlockGraphs
from meanmax.scale.sample import draw_edges
from meanmax.scale.edges import (Array, Edges)
from meanmax.scale.edges_errors import BatchingError
from meanmax.graph import Graph

HOP_STRIDE = 0x632BE59BD9B4E019


@dataclass(frozen=True, eq=False)
class SampledGraph:
    r"""A drawn graph.

    Args:
        graph (Graph): Its nodes begin with the seeds.
        nodes (ndarray): The number of each node in the whole graph, int64.
    """

    graph: Graph
    nodes: Array


class NeighbourSampler:
    r"""Draws, for some seeds, a share of their neighbours, a share of those nodes' neighbours, and
    so on, as `GraphSAGE <https://arxiv.org/abs/1706.02216>`_ does, without replacement.

    The result is one square graph on which any layer runs. A node is expanded once, in the hop
    that finds it. Edges keep their weights, so that layers normalise by the degrees of what was
    drawn; scaling them up to the degrees of the whole graph would be right in expectation, but
    learned less well, since the few drawn edges of a hub then weigh a hundredfold. Nodes of the
    last hop have no neighbours: a self-loop with the weight of all their edges gives them the
    degree that they have. Their own hidden features mean nothing, and reach no seed through as many
    layers as there are hops.

    What is drawn depends on the number it is seeded with, on node and hop: not on threads, nor on
    the other seeds.

    Args:
        edges (Edges): The whole graph.
        fanout (sequence): How many neighbours are drawn in each hop; -1 for all.
    """

    def __init__(self, edges: Edges, fanout: Sequence[int]) -> None:
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
        return BlockGraphs(self.edges).degree

    def sample(self, seeds: Array, seed: int) -> SampledGraph:
        r"""Draws once.

        Args:
            seeds (ndarray): Different nodes, int64.
            seed (int): What it is drawn with, not negative.
        """
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
        pointer = np.zeros(known + 1, np.int64)
        np.cumsum(counts, out=pointer[1:])
        local = self._place[column]
        self._place[everyone] = -1
        graph = Graph.from_csr(
            torch.from_numpy(pointer), torch.from_numpy(local), weight=torch.from_numpy(weight)
        )
        return SampledGraph(graph, everyone)

    def _hop(self, nodes: Array, count: int, seed: int) -> tuple[Array, Array, Array]:
        r"""How many edges each node has, their sources and their weights."""
        starts = np.asarray(self.edges.rowptr[nodes]).astype(np.int64)
        degrees = np.asarray(self.edges.rowptr[nodes + 1]).astype(np.int64) - starts
        counts = degrees if count < 0 else np.minimum(degrees, count)
        pointer = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(counts, out=pointer[1:])
        positions = np.empty(int(pointer[-1]), np.int64)
        draw_edges(seed, nodes, starts, degrees, pointer, positions)
        if self.edges.weight is None:
            weight = np.ones(len(positions), np.float32)
        else:
            weight = np.asarray(self.edges.weight[positions])
        return counts, np.asarray(self.edges.col[positions]), weight
