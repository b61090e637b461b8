r"""The GraphSAGE layer."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn import Module
from torch.nn.functional import normalize as l2_normalize
from torch.nn.functional import relu

from meanmax.graph import Graph
from meanmax.nn.conv import (
    Aggr,
    Neighbourhood,
    Order,
    Pair,
    as_graph,
    as_pair,
    check_order,
    check_positive,
    ordered,
)
from meanmax.nn.linear import Features, Linear


@final
class SAGEConv(Module):
    r"""The layer of `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ with any aggregator.

    .. math::
        h'_v = W_1 \, \mathrm{AGG}_{u \in \mathcal{N}(v)}(h_u) + W_2 h_v + b

    With :obj:`aggr=None` the aggregation is the mean. :obj:`pool=True` sends every node through
    :math:`h_u \leftarrow \mathrm{ReLU}(W_p h_u + b_p)` before it is aggregated, the paper's pooling
    with :obj:`aggr="max"`. These are PyG's :class:`SAGEConv` with the same parameters
    (:obj:`pool` is called :obj:`project` there).

    Neighbours carry the weight :math:`1 / |\mathcal{N}(v)|`, or their share of the summed weights
    on a weighted graph, which PyG's layer ignores. So :math:`A_v = 1`: every aggregator contains
    the mean, and Lp lies between mean and maximum.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"max"`, an aggregator, or :obj:`None` for the mean.
            (default: :obj:`None`)
        order (str, optional): :obj:`"aggregate-first"` as in the paper, or
            :obj:`"transform-first"`. (default: :obj:`"aggregate-first"`)
        pool (bool, optional): Whether a dense layer with ReLU comes before the aggregation.
            (default: :obj:`False`)
        root_weight (bool, optional): Whether :math:`W_2 h_v` is added. (default: :obj:`True`)
        normalize (bool, optional): Whether the output is divided by its length.
            (default: :obj:`False`)
        bias (bool, optional): Whether :math:`b` is added. (default: :obj:`True`)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        aggr: Aggr = None,
        order: Order = "aggregate-first",
        pool: bool = False,
        root_weight: bool = True,
        normalize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_positive(in_channels=in_channels, out_channels=out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.order = check_order(order)
        self.normalize = normalize
        self.lin = Linear(in_channels, in_channels) if pool else None
        self.lin_l = Linear(in_channels, out_channels, bias=bias)
        self.lin_r = Linear(in_channels, out_channels, bias=False) if root_weight else None
        self.aggr = Neighbourhood(aggr)

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the aggregator's parameter back to its start."""
        for linear in (self.lin, self.lin_l, self.lin_r):
            if linear is not None:
                linear.reset_parameters()
        if self.aggr.learned is not None:
            self.aggr.learned.reset_parameters()

    def forward(
        self, x: Features | Pair, graph: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        r"""Runs the layer.

        Args:
            x (Tensor, SparseFeatures or tuple): :obj:`[num_nodes, in_channels]`, or a pair for
                sources and targets.
            graph (Graph or Tensor): The graph as it is, or PyG's :obj:`edge_index`.
            edge_weight (Tensor, optional): Weights in place of the graph's own, in the order of
                its edges. (default: :obj:`None`)
        """
        graph = as_graph(graph, x, edge_weight)
        source, target = as_pair(x, self.in_channels, graph)
        if self.lin is not None:
            source = relu(self.lin(source))
        out = ordered(source, graph.prepared("row"), self._weigh, self.aggr, self.order)
        if self.lin_l.bias is not None:
            out = out + self.lin_l.bias
        if self.lin_r is not None and target is not None:
            out = out + self.lin_r(target)
        return l2_normalize(out, dim=-1) if self.normalize else out

    def _weigh(self, x: Features) -> Tensor:
        return self.lin_l.without_bias(x)

    def extra_repr(self) -> str:
        r"""Channels, order and pooling."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order!r}, "
            f"pool={self.lin is not None}, root_weight={self.lin_r is not None}, "
            f"normalize={self.normalize}"
        )
