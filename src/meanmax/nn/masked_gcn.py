r"""The masked graph convolutional layer."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax.graph import Graph
from meanmax.ops.edge_weight import summed_weights
from meanmax.nn.conv import (Order, as_graph, check_features, check_order, check_positive, check_rate)
from meanmax.nn.linear import (Features, Linear, dropout)
from meanmax.nn.mask import (sparse_spread, spread)
from meanmax.nn.neighbourhood import (Aggr, Neighbourhood)
from meanmax.nn.order import ordered


@final
class MaskedGCNConv(Module):
    r"""The layer of "Masked Graph Convolutional Network" (Yang et al., IJCAI 2019) with any
    aggregator: each node sends of each channel only the share that its neighbourhood agrees on.

    .. math::
        H' = \mathrm{AGG}(\hat A, (m \circ H) W) + b, \qquad
        m_i = \exp \Big( - \frac{1}{\sigma^2 d_i}
        \sum_{j \in \mathcal{N}(i)} \hat A_{ij} (h_i - h_j)^2 \Big)

    elementwise, with :math:`\hat A` and :math:`d_i` as in the GCN, self-loops included, and
    :math:`\log \sigma^2` learned per channel from 0 on. The sum is expanded to
    :math:`h_i^2 \hat A 1 - 2 h_i (\hat A h)_i + (\hat A h^2)_i`, one product with :math:`\hat A`.

    .. note::
        The original paper comes without code. The degree in the exponent and the start of
        :math:`\sigma` follow a public implementation by others. The mask is computed before
        dropout, which is therefore the layer's own; on weighted graphs :math:`d_i` sums weights.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"max"`, an aggregator, or :obj:`None` for the weighted sum.
            (default: :obj:`None`)
        order (str, optional): :obj:`"transform-first"` or :obj:`"aggregate-first"`.
            (default: :obj:`"transform-first"`)
        dropout (float, optional): Dropout of the masked input. (default: :obj:`0.0`)
        bias (bool, optional): Whether :math:`b` is added. (default: :obj:`True`)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        aggr: Aggr = None,
        order: Order = "transform-first",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_positive(in_channels=in_channels, out_channels=out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.order = check_order(order)
        self.dropout = check_rate(dropout)
        self.lin = Linear(in_channels, out_channels, bias=False, init="glorot")
        self.aggr = Neighbourhood(aggr)
        self.log_variance = Parameter(torch.zeros(in_channels))
        self.bias = Parameter(torch.zeros(out_channels)) if bias else None

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the other parameters back to their start."""
        self.lin.reset_parameters()
        if self.aggr.learned is not None:
            self.aggr.learned.reset_parameters()
        torch.nn.init.zeros_(self.log_variance)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: Features, graph: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        r"""Runs the layer; the arguments are those of :meth:`GCNConv.forward`."""
        graph = as_graph(graph, x, edge_weight)
        x = check_features(x, self.in_channels, graph.num_nodes)
        if graph.weight is not None and graph.weight.dim() == 2:
            raise ValueError("Masked GCN takes one weight per edge (got weights per head)")
        around = graph.around_sources
        degree = summed_weights(around.prepared(None, True))
        masked = self._masked(x, around.prepared("sym", True), degree)
        masked = dropout(masked, self.dropout, self.training)
        graph = graph.prepared("sym", True)
        out = ordered(masked, graph, self.lin, self.aggr, self.order)
        return out if self.bias is None else out + self.bias

    def _masked(self, x: Features, graph: Graph, degree: Tensor) -> Features:
        inverse = torch.exp(-self.log_variance)
        learned = graph.weight is not None and graph.weight.requires_grad
        if not isinstance(x, Tensor) and (learned or x.value.requires_grad):
            x = x.to_dense()  # the sparse sum has no gradient
        if isinstance(x, Tensor):
            return x * torch.exp(-spread(x, graph, degree) * inverse)
        channel = x.graph.col.long()
        mask = torch.exp(-sparse_spread(x, graph, degree) * inverse[channel])
        return x.with_value(x.value * mask)

    def extra_repr(self) -> str:
        r"""Channels, order and dropout."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order!r}, dropout={self.dropout}"
        )
