r"""The layer of a model that does not use the graph."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn import Module

from meanmax.graph import Graph
from meanmax.nn.conv import as_graph, check_features, check_positive
from meanmax.nn.linear import Features, Linear


@final
class DenseLayer(Module):
    r"""A linear map of each node's own features, which ignores the edges.

    .. math::
        h'_v = W h_v + b

    It is called like the layers of :mod:`meanmax.nn`, so that the same model without the graph can
    stand beside them.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output.

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> DenseLayer(8, 4)(torch.randn(3, 8), graph).shape
        torch.Size([3, 4])
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        check_positive(in_channels=in_channels, out_channels=out_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.lin = Linear(in_channels, out_channels)

    def reset_parameters(self) -> None:
        r"""Draws new weights."""
        self.lin.reset_parameters()

    def forward(self, x: Features, edge_index: Graph | Tensor) -> Tensor:
        r"""Maps :obj:`[num_nodes, in_channels]` to :obj:`[num_nodes, out_channels]`; sparse
        features stay sparse. Of the graph, only the number of nodes is checked.
        """
        nodes = as_graph(edge_index, x, None).num_dst
        out: Tensor = self.lin(check_features(x, self.in_channels, nodes))
        return out
