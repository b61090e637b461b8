r"""The masked graph convolutional layer."""

from __future__ import annotations

from typing import final

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter

from meanmax import functional
from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.conv import (
    Aggr,
    LayerAggregation,
    Order,
    OrderedConv,
    Pair,
    as_graph,
    check_rate,
    square_features,
)
from meanmax.nn.linear import Features, Linear, dropout
from meanmax.ops.autograd import own_weight, summed_weights
from meanmax.ops.library import operation

COLUMNS = 128


def spread(x: Tensor, own: Tensor, graph: Graph, degree: Tensor) -> Tensor:
    r""":math:`\frac{1}{d_i} \sum_j \hat A_{ij} (x_i - x_j)^2` of every target and channel.

    Measured from the channel's mean, which changes nothing but leaves less to cancel; what
    rounding leaves below 0 is 0.
    """
    total, mean = summed_weights(graph).to(x.dtype), graph.mean(x)
    centred = x - mean
    own = centred if own is x else own - mean
    both = functional.sum(torch.cat([centred, centred * centred], dim=1), graph)
    first, second = both.chunk(2, dim=1)
    whole = own * (own * total - 2 * first) + second
    return whole.clamp(min=0) / degree.to(x.dtype)


def sparse_spread(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    r"""The same at the places that sparse features store, :obj:`[stored]`, without gradient.

    It stays the same while features and graph do, and is cached with the graph.
    """
    if torch.compiler.is_compiling():
        return _stored_spread(x.value, x.graph, graph, degree)
    cached = graph.cache.get("sparse_spread")
    if cached is None or cached[0] is not x.value or cached[1] is not x.graph:
        with torch.inference_mode(False):
            cached = (x.value, x.graph, _sparse_spread(x, graph, degree))
        graph.cache["sparse_spread"] = cached
    found: Tensor = cached[2]
    return found


@operation(
    "Tensor value, Graph features, Graph graph, Tensor degree",
    lambda value, *_: (value.shape, value.dtype),
    shared=True,
)
def _stored_spread(value: Tensor, features: Graph, graph: Graph, degree: Tensor) -> Tensor:
    return sparse_spread(SparseFeatures(features, value), graph, degree)


@torch.no_grad()
def _sparse_spread(x: SparseFeatures, graph: Graph, degree: Tensor) -> Tensor:
    if not graph.is_local:
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
    found = torch.from_numpy(np.maximum(whole, 0) / degree.double().cpu().numpy()[row, 0])
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
        found[inside] = spread(dense, dense, graph, degree)[at]
    return found.to(x.dtype)


def _at(matrix: scipy.sparse.csr_array, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    if not len(row):  # scipy would give an array of objects
        return np.zeros(0)
    entries: np.ndarray = np.asarray(matrix[row, column]).reshape(-1)
    return entries


@final
class MaskedGCNConv(OrderedConv):
    r"""The layer of "Masked Graph Convolutional Network" (Yang et al., IJCAI 2019) with any
    aggregator: each node scales every channel it sends by how well its neighbourhood agrees on it.

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
        in_channels, out_channels, aggr, order, bias: As in :class:`GCNConv`.
        dropout (float, optional): Dropout of the masked input. (default: :obj:`0.0`)

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> MaskedGCNConv(8, 4, aggr="poly")(torch.randn(3, 8), graph).shape
        torch.Size([3, 4])
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
        super().__init__(in_channels, out_channels, order)
        self.dropout = check_rate(dropout)
        self.lin = Linear(in_channels, out_channels, bias=False, init="glorot")
        self.aggr = LayerAggregation(aggr)
        self.log_variance = (
            UninitializedParameter() if in_channels == -1 else Parameter(torch.zeros(in_channels))
        )
        self.bias = Parameter(torch.zeros(out_channels)) if bias else None

    def forward(
        self, x: Features | Pair, edge_index: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        r"""Runs the layer; the arguments are those of :meth:`GCNConv.forward`."""
        graph = as_graph(edge_index, x, edge_weight)
        nodes = square_features(x, self.in_channels, graph, "MaskedGCNConv")
        if graph.weight is not None and graph.weight.dim() == 2:
            raise ValueError("Masked GCN takes one weight per edge (got weights per head)")
        masked = self.mask(nodes, nodes, graph.around_sources)
        masked = dropout(masked, self.dropout, self.training)
        return self.receive(self.send(masked), None, masked, self.prepare(graph))

    def materialize(self, name: str, shape: tuple[int, ...]) -> None:
        r"""Gives a lazy parameter its shape."""
        super().materialize(name, shape)
        self.in_channels = shape[0]

    def mask(self, x: Features, own: Features, graph: Graph) -> Features:
        r"""The share of their features that targets send, :math:`m \circ H`, from the features
        :obj:`x` of the sources and :obj:`own` of the targets on the graph as it is. The two are the
        same object if all targets are sources; else both are dense.
        """
        if isinstance(self.log_variance, UninitializedParameter):
            self.materialize("log_variance", (x.size(1),))
            torch.nn.init.zeros_(self.log_variance)
        degree, graph = summed_weights(graph.prepared(None, True)), self.prepare(graph)
        degree = degree.where(degree > 0, 1.0)  # without edges there is nothing to divide
        inverse = torch.exp(-self.log_variance)
        if isinstance(x, SparseFeatures):
            if not (graph.has_learned_weight or x.value.requires_grad):
                exponent = -sparse_spread(x, graph, degree) * inverse[x.graph.col.long()]
                return x.with_value(x.value * torch.exp(exponent))
            x = own = x.to_dense()  # the sparse sum has no gradient
        assert isinstance(own, Tensor)
        return own * torch.exp(-spread(x, own, graph, degree) * inverse)

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph with self-loops and the weights :math:`\hat A`."""
        return graph.prepared("sym", True)

    def extra_repr(self) -> str:
        r"""Channels, order and dropout."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order!r}, dropout={self.dropout}"
        )
