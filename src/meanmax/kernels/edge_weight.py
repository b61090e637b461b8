r"""The weights of a graph in the shape the kernels take."""

from __future__ import annotations

from torch import Tensor

from meanmax.graph import Graph


def own_weight(graph: Graph, like: Tensor) -> Tensor:
    r"""The graph's weights as :obj:`[num_edges, heads]`, ones if it has none."""
    if graph.weight is None:
        return like.new_ones(graph.num_edges, 1)
    return graph.weight.reshape(graph.num_edges, -1).to(like.dtype)
