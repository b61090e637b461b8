r"""Graphs with features in the shapes of the benchmarks, generated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from meanmax.study.bench.graphs import power_law_graph
from meanmax.graph import Graph


@dataclass(frozen=True)
class Shape:
    r"""The sizes of a data set.

    Args:
        name (str): The data set it resembles.
        nodes (int): Nodes.
        edges (int): Edges, both directions counted, without self-loops.
        features (int): Feature channels.
        filled (float): The share of features that are not 0.
        classes (int): Classes.
    """

    name: str
    nodes: int
    edges: int
    features: int
    filled: float
    classes: int

    def shrunk(self, factor: int) -> Shape:
        r"""A smaller one to try things with."""
        nodes = max(self.nodes // factor, 50)
        return Shape(
            self.name,
            nodes,
            min(max(self.edges // factor, 200), 10 * nodes),
            max(self.features // factor, 8),
            max(self.filled, 0.1),
            self.classes,
        )


PUBMED = Shape("pubmed-shaped", 19_717, 88_648, 500, 0.1, 3)
COMPUTERS = Shape("computers-shaped", 13_381, 491_556, 767, 0.35, 10)
PPI = Shape("ppi-shaped", 3_000, 70_000, 50, 1.0, 121)
CITESEER = Shape("citeseer-shaped", 3_327, 9_104, 3_703, 0.009, 6)
LARGE = Shape("large", 170_000, 2_300_000, 64, 1.0, 40)


class Problem:
    r"""A graph, features and classes to train on.

    Args:
        shape (Shape): The sizes.
        seed (int): Of graph, features and classes.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        looped = power_law_graph(shape.nodes, shape.edges + shape.nodes, seed)
        edges = looped.edge_index
        self.shape = shape
        self.edge_index: Tensor = edges[:, edges[0] != edges[1]].contiguous()
        self.graph = Graph.from_edge_index(self.edge_index, shape.nodes)
        generator = torch.Generator().manual_seed(seed)
        size = (shape.nodes, shape.features)
        x = torch.randn(size, generator=generator)
        if shape.filled < 1:
            kept = torch.rand(size, generator=generator) < shape.filled
            x = x.abs() * kept
        self.x = x
        self.y = torch.randint(shape.classes, (shape.nodes,), generator=generator)
