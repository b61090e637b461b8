r"""The graph isomorphism layer."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax.graph import Graph
from meanmax.nn.conv import Aggr, Neighbourhood, Pair, as_graph, as_pair
from meanmax.nn.linear import Features, Linear, as_dense


@final
class GINConv(Module):
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
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"max"`, an aggregator, or :obj:`None` for the sum.
            (default: :obj:`None`)
        eps (float, optional): The start value of :math:`\epsilon`. (default: :obj:`0.0`)
        train_eps (bool, optional): Whether :math:`\epsilon` is learned. (default: :obj:`False`)
    """

    eps: Tensor

    def __init__(
        self, nn: Module, *, aggr: Aggr = None, eps: float = 0.0, train_eps: bool = False
    ) -> None:
        super().__init__()
        self.nn = nn
        self.aggr = Neighbourhood(aggr, form="sum")
        self.initial_eps = float(eps)
        if train_eps:
            self.eps = Parameter(torch.full((1,), self.initial_eps))
        else:
            self.register_buffer("eps", torch.full((1,), self.initial_eps))

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the other parameters back to their start."""
        for module in self.nn.modules():
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
        if self.aggr.learned is not None:
            self.aggr.learned.reset_parameters()
        with torch.no_grad():
            self.eps.fill_(self.initial_eps)

    def forward(
        self, x: Features | Pair, graph: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        r"""Runs the layer.

        Args:
            x (Tensor, SparseFeatures or tuple): :obj:`[num_nodes, channels]`, or a pair for
                sources and targets.
            graph (Graph or Tensor): The graph as it is, or PyG's :obj:`edge_index`.
            edge_weight (Tensor, optional): Weights in place of the graph's own, in the order of
                its edges. (default: :obj:`None`)
        """
        graph = as_graph(graph, x, edge_weight).prepared()
        source, target = as_pair(x, None, graph)
        if not isinstance(source, Tensor):
            first = self._first_linear()
            if first is not None and target is source:
                h = first.without_bias(source)
                h = self._gather(h, h, graph)
                return self._rest(h if first.bias is None else h + first.bias)
        target = None if target is None else as_dense(target)
        out: Tensor = self.nn(self._gather(as_dense(source), target, graph))
        return out

    def _gather(self, source: Tensor, target: Tensor | None, graph: Graph) -> Tensor:
        out: Tensor = self.aggr(source, graph)
        return out if target is None else out + (1 + self.eps) * target

    def _first_linear(self) -> Linear | None:
        r"""The MLP's first map, if it commutes with the aggregation."""
        if self.aggr.is_linear and isinstance(self.nn, torch.nn.Sequential) and len(self.nn):
            first = self.nn[0]
            return first if isinstance(first, Linear) else None
        return None

    def _rest(self, h: Tensor) -> Tensor:
        assert isinstance(self.nn, torch.nn.Sequential)
        for module in list(self.nn)[1:]:
            h = module(h)
        return h

    def extra_repr(self) -> str:
        r"""The start of epsilon and whether it is learned."""
        return f"eps={self.initial_eps}, train_eps={isinstance(self.eps, Parameter)}"
