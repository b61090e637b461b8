r"""Nodes of one graph, or of a batch of graphs, as a problem to train on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from meanmax.graph import Graph
from meanmax.layers.linear import Features
from meanmax.training.graph_samples import graph_numbers, graph_samples, rows_of
from meanmax.training.nodes import Nodes
from meanmax.training.problem import Problem, Sample, joined
from meanmax.training.scaling import Scaling


@dataclass(frozen=True, eq=False)
class Arranged:
    r"""What a classifier is trained on.

    Args:
        problem (Problem): Training and validation nodes.
        scaling (Scaling): How features are brought to a common scale, if they are.
        inductive (bool): Whether training and validation nodes are in graphs of their own.
    """

    problem: Problem
    scaling: Scaling
    inductive: bool


def arrange(
    x: Features,
    graph: Graph,
    nodes: Nodes,
    val: Nodes | None,
    *,
    scale: bool,
    batch_graphs: int,
    structure_channels: int | None,
) -> Arranged:
    r"""One sample of everything; or one for each training graph, if there are several graphs of
    which none holds both training and validation nodes.

    Args:
        x (Tensor or SparseFeatures): Features of all nodes.
        graph (Graph): The graph, or the batch.
        nodes (Nodes): Training nodes.
        val (Nodes, optional): Validation nodes.
        scale (bool): Whether features are brought to a common scale: that of training nodes if
            they are in graphs of their own, else that of all nodes.
        batch_graphs (int): Graphs per batch.
        structure_channels (int, optional): Channels of CAT's embeddings of several graphs.
    """
    if not _is_apart(graph, nodes, val):
        scaling = Scaling.of(x)
        x = scaling(x) if scale else x
        samples = [Sample(x, graph, nodes)]
        problem = Problem(samples, None if val is None else Sample(x, graph, val))
        return Arranged(problem, scaling, inductive=False)
    scaling = Scaling.of(rows_of(x, nodes.index))
    x = scaling(x) if scale else x
    samples = graph_samples(x, graph, nodes, structure_channels)
    held = None if val is None else joined(graph_samples(x, graph, val, structure_channels))
    return Arranged(Problem(samples, held, batch_graphs), scaling, inductive=True)


def _is_apart(graph: Graph, nodes: Nodes, val: Nodes | None) -> bool:
    if graph.num_graphs == 1 or val is None:
        return graph.num_graphs > 1
    shared = torch.isin(graph_numbers(graph, nodes.index), graph_numbers(graph, val.index))
    return not bool(shared.any())
