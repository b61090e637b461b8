r"""Nodes of one graph, or of a batch of graphs, as a problem to train on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from meanmax.graph import Graph
from meanmax.nn.linear import Features
from meanmax.train.graph_samples import (graph_numbers, graph_samples, rows_of)
from meanmax.train.nodes import Nodes
from meanmax.train.problem import (Problem, Sample, joined)
from meanmax.train.scaling import Scaling


@dataclass(frozen=True, eq=False)
class Arranged:
    r"""What a model is trained on.

    Args:
        problem (Problem): Training and validation nodes.
        x (Tensor or SparseFeatures): Features of all nodes, on a common scale if that is wanted.
        graph (Graph): The graph, or the batch.
        scaling (Scaling): How features are brought to a common scale, if they are.
        inductive (bool): Whether training and validation nodes are in graphs of their own.
        structure_channels (int, optional): Channels of CAT's embeddings of several graphs.
    """

    problem: Problem
    x: Features
    graph: Graph
    scaling: Scaling
    inductive: bool
    structure_channels: int | None

    def sample(self, nodes: Nodes) -> Sample:
        r"""Some nodes as a model meets them that was trained on the problem: in all of the graph,
        or in the graphs of a batch that hold them.

        Args:
            nodes (Nodes): The nodes.
        """
        if not self.inductive:
            return Sample(self.x, self.graph, nodes)
        return joined(graph_samples(self.x, self.graph, nodes, self.structure_channels))


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

    Nothing else has a say in it, where test nodes are least of all: they are not known here.

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
    inductive = _is_apart(graph, nodes, val)
    scaling = Scaling.of(rows_of(x, nodes.index) if inductive else x)
    x = scaling(x) if scale else x
    channels = structure_channels
    samples = [Sample(x, graph, nodes)]
    if inductive:
        samples = graph_samples(x, graph, nodes, channels)
    problem = Problem(samples, None, batch_graphs)
    arranged = Arranged(problem, x, graph, scaling, inductive, channels)
    if val is None:
        return arranged
    return replace(arranged, problem=replace(problem, val=arranged.sample(val)))


def _is_apart(graph: Graph, nodes: Nodes, val: Nodes | None) -> bool:
    if graph.num_graphs == 1 or val is None:
        return graph.num_graphs > 1
    shared = torch.isin(graph_numbers(graph, nodes.index), graph_numbers(graph, val.index))
    return not bool(shared.any())
