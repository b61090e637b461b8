"""A small problem for tests of training."""

from __future__ import annotations

import torch

from meanmax import Graph
from meanmax.train import LabeledNodes, Sample, TrainingProblem


def small(num_nodes=24, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes, (2, 4 * num_nodes), generator=generator)
    graph = Graph.from_edge_index(edges, num_nodes)
    y = torch.arange(num_nodes) % classes
    x = torch.randn(num_nodes, 5, generator=generator) + y[:, None]
    half = num_nodes // 2
    index = torch.arange(num_nodes)
    train = Sample(x, graph, LabeledNodes(index[:half], y[:half]))
    return TrainingProblem([train], Sample(x, graph, LabeledNodes(index[half:], y[half:])))
