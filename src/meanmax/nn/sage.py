r"""The GraphSAGE layer."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn.functional import normalize as l2_normalize
from torch.nn.functional import relu

from meanmax.graph import Graph
from meanmax.nn.conv import Aggr, Channels, LayerAggregation, Order, OrderedConv, as_pair, with_bias
from meanmax.nn.linear import Features, Linear


@final
class SAGEConv(OrderedConv):
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
        in_channels (int or tuple): Channels of the input, or those of sources and of targets; -1
            takes them from the first input.
        out_channels, bias: As in :class:`GCNConv`.
        aggr (str or LearnableAggregation, optional): As in :class:`GCNConv`; :obj:`None` is the
            mean. (default: :obj:`None`)
        order (str, optional): :obj:`"aggregate-first"` as in the paper, or
            :obj:`"transform-first"`. (default: :obj:`"aggregate-first"`)
        pool (bool, optional): Whether a dense layer with ReLU comes before the aggregation.
            (default: :obj:`False`)
        root_weight (bool, optional): Whether :math:`W_2 h_v` is added. (default: :obj:`True`)
        normalize (bool, optional): Whether the output is divided by its length.
            (default: :obj:`False`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> SAGEConv(8, 4, aggr="softmax")(torch.randn(3, 8), graph).shape
        torch.Size([3, 4])
    """

    takes_pair = True

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        *,
        aggr: Aggr = None,
        order: Order = "aggregate-first",
        pool: bool = False,
        root_weight: bool = True,
        normalize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order)
        source, target = as_pair(self.in_channels)
        if pool and source == -1:
            raise ValueError("pool=True needs the input channels: -1 cannot be used with it")
        self.normalize = normalize
        self.lin = Linear(source, source) if pool else None
        self.lin_l = Linear(source, out_channels, bias=bias)
        self.lin_r = Linear(target, out_channels, bias=False) if root_weight else None
        self.aggr = LayerAggregation(aggr)

    def transform(self, x: Features) -> Tensor:
        r"""The linear map of neighbours, without bias."""
        return self.lin_l.without_bias(x)

    def transforms_first(self, x: Features | None) -> bool:
        r"""Whether the map of these features comes before the aggregation; pooling makes sparse
        ones dense.
        """
        return super().transforms_first(x if self.lin is None else None)

    def send(self, x: Features) -> Features:
        r"""The features, pooled and transformed if that comes first."""
        sent = x if self.lin is None else relu(self.lin(x))
        return self.transform(sent) if self.transforms_first(x) else sent

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph with weights that sum to 1 at each target, or as it is for an aggregator with
        :obj:`beta`, which normalises by itself.
        """
        return graph.prepared(None if self.aggr.is_scaled else "row")

    def receive(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> Tensor:
        r"""Aggregates and adds the targets' own term; see :meth:`Conv.receive`."""
        out = with_bias(self.aggregate_in_order(sent, x, graph), self.lin_l.bias)
        if self.lin_r is not None and x is not None:
            out = out + self.lin_r(x)
        return l2_normalize(out, dim=-1) if self.normalize else out

    def extra_repr(self) -> str:
        r"""Channels, order and pooling."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order!r}, "
            f"pool={self.lin is not None}, root_weight={self.lin_r is not None}, "
            f"normalize={self.normalize}"
        )
