r"""The graph isomorphism layer."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import Module, Parameter, Sequential

from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.conv import Aggr, Conv, LayerAggregation, with_bias
from meanmax.nn.linear import Features, Linear, as_dense


@final
class GINConv(Conv):
    r"""The layer of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ with any aggregator.

    .. math::
        h'_v = \mathrm{MLP} \big(
        (1 + \epsilon) h_v + \mathrm{AGG}_{u \in \mathcal{N}(v)}(h_u) \big)

    With :obj:`aggr=None` the aggregation is the sum, weighted on a weighted graph, and the layer
    is PyG's :class:`GINConv` with the same :obj:`nn`. A polynomial or softmax given by name takes
    its :obj:`form="sum"` form, so that it starts from the sum, which the layer is about, and
    not from the mean.

    Args:
        nn (torch.nn.Module): The MLP. If its first module is a :class:`~meanmax.nn.Linear`
            and the aggregation is linear, sparse features stay sparse.
        aggr (str or LearnableAggregation, optional): As in :class:`GCNConv`; :obj:`None` is the
            sum. (default: :obj:`None`)
        eps (float, optional): The start value of :math:`\epsilon`. (default: :obj:`0.0`)
        train_eps (bool, optional): Whether :math:`\epsilon` is learned. (default: :obj:`False`)

    Example:
        >>> layer = GINConv(torch.nn.Linear(8, 4), aggr="lp")
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> layer(torch.randn(3, 8), graph).shape
        torch.Size([3, 4])
    """

    eps: Tensor
    needs_own = True

    def __init__(
        self, nn: Module, *, aggr: Aggr = None, eps: float = 0.0, train_eps: bool = False
    ) -> None:
        super().__init__()
        self.nn = nn
        self.aggr = LayerAggregation(aggr, form="sum")
        self.initial_eps = float(eps)
        if train_eps:
            self.eps = Parameter(torch.full((1,), self.initial_eps))
        else:
            self.register_buffer("eps", torch.full((1,), self.initial_eps))

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the other parameters back to their start values."""
        super().reset_parameters()
        with torch.no_grad():
            self.eps.fill_(self.initial_eps)

    def send(self, x: Features) -> Features:
        r"""The features; sparse ones through the MLP's first map if that commutes."""
        first = self._commuting(x)
        return x if first is None else first.without_bias(x)

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph as it is."""
        return graph.prepared()

    def receive(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> Tensor:
        r"""Aggregates, adds the targets' own term, and runs the MLP; see :meth:`Conv.receive`."""
        dense = as_dense(sent)
        h: Tensor = self.aggr(dense, graph)
        if own is not None:
            h = h + (1 + self.eps) * (dense if own is sent else as_dense(own))
        first = self._commuting(x)
        if first is None:
            out: Tensor = self.nn(h)
            return out
        assert isinstance(self.nn, Sequential)
        h = with_bias(h, first.bias)
        for module in list(self.nn)[1:]:
            h = module(h)
        return h

    def _commuting(self, x: Features | None) -> Linear | None:
        r"""The MLP's first map, if features are sparse and it commutes with the aggregation."""
        if not isinstance(x, SparseFeatures) or not self.aggr.is_linear:
            return None
        if isinstance(self.nn, Sequential) and len(self.nn) and isinstance(self.nn[0], Linear):
            return self.nn[0]
        return None

    def extra_repr(self) -> str:
        r"""The start of epsilon and whether it is learned."""
        return f"eps={self.initial_eps}, train_eps={isinstance(self.eps, Parameter)}"
