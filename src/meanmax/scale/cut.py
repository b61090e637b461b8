r"""What a partition costs."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.compress import expand
from meanmax.scale.errors import PartitionError


def edge_cut(graph: Graph, part: Tensor) -> int:
    r"""The number of edges between different parts; an undirected edge, which points both ways,
    counts twice.

    Args:
        graph (Graph): The graph.
        part (Tensor): The part of every node, :obj:`[num_nodes]`.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> edge_cut(graph, torch.tensor([0, 0, 1]))
        2
    """
    if part.shape != (graph.num_nodes,):
        raise PartitionError(
            f"'part' must hold the part of each of {graph.num_nodes} nodes (got {list(part.shape)})"
        )
    source = part.index_select(0, graph.col)
    target = part.index_select(0, expand(graph.rowptr))
    return int(torch.count_nonzero(source != target))
