r"""The graph convolutional layer."""

from __future__ import annotations

from typing import final

import torch
from torch.nn import Parameter

from meanmax.graph import Graph
from meanmax.nn.conv import Aggr, LayerAggregation, Order, OrderedConv, Pair, square_features
from meanmax.nn.linear import Features, Linear


@final
class GCNConv(OrderedConv):
    r"""The layer of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_ with any aggregator.

    .. math::
        H' = \mathrm{AGG}(\hat A, H W) + b, \qquad
        \hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}

    With :obj:`aggr=None` the aggregation is :math:`\hat A H W`, and the layer is PyG's
    :class:`GCNConv` with the same parameters, on weighted and directed graphs too (degrees are
    summed incoming weights, a node's own self-loop is kept).

    The paper writes the transform after the aggregation, its authors' code before it; both are
    here. For the linear layer they are equal.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"max"`, an aggregator, or :obj:`None` for the weighted sum. An
            aggregator given to several layers is shared by them. (default: :obj:`None`)
        order (str, optional): :obj:`"transform-first"` or :obj:`"aggregate-first"`.
            (default: :obj:`"transform-first"`)
        add_self_loops (bool, optional): Whether nodes without a self-loop get one.
            (default: :obj:`True`)
        normalize (bool, optional): Whether weights are normalised to :math:`\hat A`.
            (default: :obj:`True`)
        bias (bool, optional): Whether :math:`b` is added. (default: :obj:`True`)

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> GCNConv(8, 4, aggr="softmax")(torch.randn(3, 8), graph).shape
        torch.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        aggr: Aggr = None,
        order: Order = "transform-first",
        add_self_loops: bool = True,
        normalize: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order)
        self.add_self_loops = add_self_loops
        self.normalize = normalize
        self.lin = Linear(in_channels, out_channels, bias=False, init="glorot")
        self.aggr = LayerAggregation(aggr)
        self.bias = Parameter(torch.zeros(out_channels)) if bias else None

    def features(self, x: Features | Pair, graph: Graph) -> Pair:
        r"""The features of the nodes, checked."""
        nodes = square_features(x, self.in_channels, graph, "GCNConv")
        return nodes, nodes

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph with self-loops and the weights :math:`\hat A`."""
        return graph.prepared("sym" if self.normalize else None, self.add_self_loops)

    def extra_repr(self) -> str:
        r"""What changes the result."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order!r}, "
            f"add_self_loops={self.add_self_loops}, normalize={self.normalize}"
        )
