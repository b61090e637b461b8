r"""The graphs of a batch taken apart, each with its own features and nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import (Graph, SparseFeatures)
from meanmax.graph.views import edges_of
from meanmax.nn import fit_structure
from meanmax.nn.linear import Features
from meanmax.train.nodes import Nodes
from meanmax.train.problem import Sample


def graph_samples(
    x: Features, graph: Graph, nodes: Nodes, structure_channels: int | None = None
) -> list[Sample]:
    r"""A sample for each graph of a batch that holds some of the nodes.

    Args:
        x (Tensor or SparseFeatures): Features of all nodes.
        graph (Graph): The batch.
        nodes (Nodes): The nodes that count, with their targets.
        structure_channels (int, optional): Channels of CAT's embeddings, which are fitted to each
            graph; :obj:`None` for other backbones. (default: :obj:`None`)
    """
    own = graph_numbers(graph, nodes.index)
    samples = []
    for number in torch.unique(own).tolist():
        first, part = _one_graph(graph, number)
        inside = own == number
        target = Nodes(nodes.index[inside] - first, nodes.target[inside])
        structure = None
        if structure_channels is not None:
            structure = fit_structure(part, structure_channels)
        own_x = rows_of(x, torch.arange(first, first + part.num_nodes))
        samples.append(Sample(own_x, part, target, structure))
    return samples


def graph_numbers(graph: Graph, index: Tensor) -> Tensor:
    r"""The number of the graph in a batch that each of some nodes belongs to, int64.

    Args:
        graph (Graph): The batch.
        index (Tensor): The nodes, int64.
    """
    return torch.bucketize(index, graph.dst_ptr[1:], right=True)


def rows_of(x: Features, index: Tensor) -> Features:
    r"""The features of some nodes.

    Args:
        x (Tensor or SparseFeatures): Features of all nodes.
        index (Tensor): The nodes, int64.
    """
    if isinstance(x, Tensor):
        return x[index]
    index = index.to(x.device)
    entries = edges_of(x.graph, index)
    count = x.graph.rowptr.diff()[index].long()
    rowptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    graph = Graph.from_csr(rowptr, x.graph.col[entries], num_src=x.size(1))
    return SparseFeatures(graph, x.value[entries])


def _one_graph(graph: Graph, number: int) -> tuple[int, Graph]:
    r"""The first node of a graph in a batch, and the graph."""
    first, end = (int(bound) for bound in graph.dst_ptr[number : number + 2])
    rowptr = graph.rowptr[first : end + 1]
    edges = slice(int(rowptr[0]), int(rowptr[-1]))
    weight = None if graph.weight is None else graph.weight[edges]
    return first, Graph.from_csr(rowptr - rowptr[0], graph.col[edges] - first, weight=weight)
