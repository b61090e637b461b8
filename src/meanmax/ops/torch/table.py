r"""The channel table, looked up for sources or for targets."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.scaling import Channel


class NodeTable:
    r"""Spreads the channel table over nodes: one row for all where there is one graph.

    Args:
        table (Tensor): :obj:`[num_graphs, len(Channel), channels]`.
        graph (Graph): The graph.
    """

    def __init__(self, table: Tensor, graph: Graph) -> None:
        self.table = table
        self.src_graph = graph_of(graph.src_ptr, graph.num_src)
        self.dst_graph = graph_of(graph.dst_ptr, graph.num_dst)

    def src(self, channel: Channel) -> Tensor:
        r"""The row :obj:`channel` for every source, or one that broadcasts over them."""
        return self.spread_src(self.table[:, channel])

    def dst(self, channel: Channel) -> Tensor:
        r"""The row :obj:`channel` for every target, or one that broadcasts over them."""
        return self.spread_dst(self.table[:, channel])

    def spread_src(self, values: Tensor) -> Tensor:
        r"""Takes one row per graph to its sources."""
        return values if values.size(0) == 1 else values[self.src_graph]

    def spread_dst(self, values: Tensor) -> Tensor:
        r"""Takes one row per graph to its targets."""
        return values if values.size(0) == 1 else values[self.dst_graph]

    def sum_src(self, values: Tensor) -> Tensor:
        r"""Sums over the sources of each graph, in float64."""
        return _sum_by(values, self.src_graph, self.table.size(0))

    def sum_dst(self, values: Tensor) -> Tensor:
        r"""Sums over the targets of each graph, in float64."""
        return _sum_by(values, self.dst_graph, self.table.size(0))


def graph_of(pointer: Tensor, num_nodes: int) -> Tensor:
    r"""The graph of every node."""
    graphs = torch.arange(pointer.numel() - 1, device=pointer.device)
    return graphs.repeat_interleave(pointer.diff(), output_size=num_nodes)


def _sum_by(values: Tensor, owner: Tensor, num_graphs: int) -> Tensor:
    if num_graphs == 1:
        return values.sum(dim=0, keepdim=True, dtype=torch.float64)
    total = values.new_zeros(num_graphs, values.size(1), dtype=torch.float64)
    return total.index_add_(0, owner, values.double())
