r"""A stack of PyTorch Geometric's own layers, with the interface of our models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from meanmax.graph import Graph
from meanmax.nn.conv import (as_graph, check_features)
from meanmax.nn.linear import (Features, fast_dropout)
from meanmax.nn.registry import Activation
from meanmax.nn.model import ACTIVATIONS
from meanmax.nn.peer_inputs import (Edges, dense, edges_of)


@final
class PeerModel(Module):
    r"""Layers of PyTorch Geometric one after the other, made by :func:`build_peer`.

    .. math::
        H^{(k)} = \sigma \big( \mathrm{layer}_k(\mathrm{dropout}(H^{(k-1)})) \big)

    where the last layer has no activation. Its methods are those of
    :class:`~meanmax.nn.models_init.NodeModel`, so that both are trained and measured alike. What PyG would
    do at every call is done once for each graph: the normalisation of GCN, the self-loops of GAT.
    Sparse features are made dense, once, as PyG's layers take no others.

    Args:
        layers (sequence): PyG's layers.
        in_channels (int): Channels of the input.
        activation (str): What hidden layers end with.
        dropout (float): Dropout of each layer's input.
        edges (str): Which edges layers are called with: :obj:`"normalized"`, :obj:`"looped"` or
            :obj:`"plain"`; see :func:`~meanmax.nn.peer_inputs.edges_of`.
    """

    def __init__(
        self,
        layers: Sequence[Module],
        *,
        in_channels: int,
        activation: Activation,
        dropout: float,
        edges: Edges,
    ) -> None:
        super().__init__()
        self.layers = ModuleList(layers)
        self.in_channels = in_channels
        self.activation = activation
        self.dropout = dropout
        self.edges = edges

    def reset_parameters(self) -> None:
        r"""Draws new weights everywhere and sets aggregators back to their start."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(
        self, x: Features, graph: Graph | Tensor, *, structure: Tensor | None = None
    ) -> Tensor:
        r"""The output of every node, before any softmax, :obj:`[num_nodes, out_channels]`.

        Args:
            x (Tensor or SparseFeatures): :obj:`[num_nodes, in_channels]`.
            graph (Graph or Tensor): The graph as it is, without self-loops or normalisation added.
                PyG's :obj:`edge_index` is prepared anew at each call.
            structure (Tensor, optional): Not for these models. (default: :obj:`None`)
        """
        if isinstance(graph, Graph) and not graph.is_whole:
            raise ValueError(
                "PyTorch Geometric's layers need the whole graph in one process (got a part of it)"
            )
        return self._run(x, graph, structure)[-1]

    def hidden(self, x: Features, graph: Graph, *, structure: Tensor | None = None) -> list[Tensor]:
        r"""What every hidden layer ends with, :obj:`[num_nodes, hidden]` each; the arguments are
        those of :meth:`forward`.
        """
        return self._run(x, graph, structure)[:-1]

    @torch.no_grad()
    def embed(
        self, x: Features, graph: Graph | Tensor, *, structure: Tensor | None = None
    ) -> Tensor:
        r"""The last hidden embedding of every node, without dropout and without gradient; the
        output itself if there is one layer.
        """
        training = self.training
        self.eval()
        try:
            return self._run(x, graph, structure)[-2:][0]
        finally:
            self.train(training)

    def maxness(
        self, x: Features, graph: Graph | Tensor, *, structure: Tensor | None = None
    ) -> dict[str, Tensor]:
        r"""Nothing, as it is not defined for all of them. Maxness places an aggregation between
        the mean and the max of the same messages. PyG's power mean clamps the messages, PNA puts
        several aggregations side by side, and PyG's softmax sees messages that GCN or GAT has
        multiplied by its weights: a number would not mean what it means for our aggregators.
        """
        return {}

    def learned(self) -> dict[str, Tensor]:
        r"""The parameters of the aggregators: :obj:`"layers.0.t"` of a softmax,
        :obj:`"layers.0.p"` of a power mean.
        """
        return {
            f"layers.{index}.{name}": parameter.detach().clone().squeeze()
            for index, layer in enumerate(self.layers)
            for name, parameter in _aggregation(layer).named_parameters()
        }

    def aggregator_parameters(self) -> list[Parameter]:
        r"""What the aggregators learn, for an optimiser of their own."""
        return [
            parameter for layer in self.layers for parameter in _aggregation(layer).parameters()
        ]

    def other_parameters(self) -> list[Parameter]:
        r"""All other parameters."""
        aggregators = {id(parameter) for parameter in self.aggregator_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in aggregators]

    def extra_loss(self, graph: Graph) -> Tensor | None:
        r"""Nothing is added to the loss."""
        return None

    def _run(self, x: Features, graph: Graph | Tensor, structure: Tensor | None) -> list[Tensor]:
        if structure is not None:
            raise ValueError("'structure' is for backbone 'cat' of build_model: leave it out")
        graph = as_graph(graph, x, None)
        dtype = next(self.parameters()).dtype
        h = dense(check_features(x, self.in_channels, graph.num_nodes), dtype)
        edges = edges_of(graph, self.edges, dtype)
        outs: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            h = layer(fast_dropout(h, self.dropout, self.training), *edges)
            if index < len(self.layers) - 1:
                h = ACTIVATIONS[self.activation](h)
            outs.append(h)
        return outs

    def extra_repr(self) -> str:
        r"""Activation, dropout and edges."""
        return f"activation={self.activation!r}, dropout={self.dropout}, edges={self.edges!r}"


def _aggregation(layer: Module) -> Module:
    found = layer.aggr_module
    assert isinstance(found, Module)
    return found
