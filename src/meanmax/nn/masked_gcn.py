r"""The masked graph convolutional layer."""

from __future__ import annotations

from typing import final

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax import functional
from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.conv import (
    Aggr,
    Neighbourhood,
    Order,
    as_graph,
    check_features,
    check_order,
    check_positive,
    check_rate,
    ordered,
)
from meanmax.nn.linear import Features, Linear, dropout
from meanmax.ops.autograd import own_weight, summed_weights

COLUMNS = 128


def spread(x: Tensor, graph: Graph, degree: Tensor) -> Tensor:
    r""":math:`\frac{1}{d_i} \sum_j \hat A_{ij} (x_i - x_j)^2` of every node and channel.

    Measured from the channel's mean, which changes nothing but leaves less to cancel; what
    rounding leaves below 0 is 0.

    Args:
        x (Tensor): :obj:`[num_nodes, channels]`.
        graph (Graph): With weights :math:`\hat A`.
        degree (Tensor): :math:`d`, :obj:`[num_nodes, 1]`.
    """
    total = summed_weights(graph).to(x.dtype)
    centred = x - graph.total(x) / graph.total(x.new_ones(x.size(0), 1)).clamp(min=1)
    both = functional.sum(torch.cat([centred, centred * centred], dim=1), graph)
    first, second = both.chunk(2, dim=1)
    whole = centred * (centred * total - 2 * first) + second
    return whole.clamp(min=0) / _divisor(degree).to(x.dtype)


def sparse_spread(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    r"""The same at the places that sparse features store, :obj:`[stored]`, without gradient.

    It stays the same while features and graph do, and is remembered with the graph.
    """
    remembered = graph.cache.get("sparse_spread")
    if remembered is None or remembered[0] is not x.value or remembered[1] is not x.graph:
        with torch.inference_mode(False):
            remembered = (x.value, x.graph, _sparse_spread(x, graph, degree))
        graph.cache["sparse_spread"] = remembered
    found: Tensor = remembered[2]
    return found


@torch.no_grad()
def _sparse_spread(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    if not graph.is_whole:
        return _spread_by_columns(x, graph, degree)
    features = x.to(torch.float64).to_scipy()
    weight = own_weight(graph, torch.empty(0, dtype=torch.float64))
    adjacency = SparseFeatures(graph, weight.squeeze(1)).to_scipy()
    row = np.repeat(np.arange(len(features.indptr) - 1), np.diff(features.indptr))
    total, column, value = np.asarray(adjacency.sum(axis=1)), features.indices, features.data
    squared = scipy.sparse.csr_array((value**2, column, features.indptr), features.shape)
    first = _at(adjacency @ features, row, column)
    second = _at(adjacency @ squared, row, column)
    whole = value * (value * total[row] - 2 * first) + second
    found = torch.from_numpy(np.maximum(whole, 0) / _divisor(degree).double().cpu().numpy()[row, 0])
    return found.to(x.device, x.dtype)


def _spread_by_columns(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    r"""The same where some neighbours' features are elsewhere: some dense columns at a time."""
    wide = x.to(torch.float64)
    row = torch.repeat_interleave(torch.arange(x.size(0)), x.graph.rowptr.diff().long())
    column, found = x.graph.col.long(), torch.zeros_like(wide.value)
    for first in range(0, x.size(1), COLUMNS):
        inside = (column >= first) & (column < first + COLUMNS)
        at = (row[inside], column[inside] - first)
        dense = wide.value.new_zeros(x.size(0), min(COLUMNS, x.size(1) - first))
        dense[at] = wide.value[inside]
        found[inside] = spread(dense, graph, degree)[at]
    return found.to(x.dtype)


def _divisor(degree: Tensor) -> Tensor:
    r"""Degrees, and 1 where there is no edge and so nothing to divide."""
    return degree.where(degree > 0, 1.0)


def _at(matrix: scipy.sparse.csr_array, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    if not len(row):  # scipy would give an array of objects
        return np.zeros(0)
    entries: np.ndarray = np.asarray(matrix[row, column]).reshape(-1)
    return entries


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
