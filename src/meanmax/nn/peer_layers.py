r"""The layers that peers are made of: PyTorch Geometric's, by the name of our backbone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn.aggr import Aggregation, PowerMeanAggregation, SoftmaxAggregation

from meanmax.graph import Graph
from meanmax.nn.peer_inputs import Edges


@dataclass(frozen=True)
class PeerPlan:
    r"""What a layer of a peer is built from.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output, all heads together.
        hidden (int): The width of hidden layers, for layers that have an MLP.
        heads (int): The number of heads.
        dropout (float): Dropout of attention.
        aggr (Aggregation, optional): The aggregation; :obj:`None` for the layer's own.
    """

    in_channels: int
    out_channels: int
    hidden: int
    heads: int
    dropout: float
    aggr: Aggregation | None

    @property
    def options(self) -> dict[str, Any]:
        r"""The aggregation as an argument, if there is one: PyG takes None for no aggregation."""
        return {} if self.aggr is None else {"aggr": self.aggr}


def pna(graph: Graph) -> Callable[[PeerPlan], Module]:
    r"""Builds layers of Principal Neighbourhood Aggregation for the degrees of a graph.

    Args:
        graph (Graph): The graph or batch; how many of its nodes have which in-degree is what the
            scalers are made from.
    """
    if graph.num_edges == 0:
        raise ValueError(
            "peer 'pna' divides by the mean log-degree, but the graph has no edges: use another "
            "peer, or add edges"
        )
    degrees = torch.bincount(graph.rowptr.diff().long())

    def make(plan: PeerPlan) -> Module:
        layer: Module = pyg.PNAConv(
            plan.in_channels,
            plan.out_channels,
            aggregators=["mean", "min", "max", "std"],
            scalers=["identity", "amplification", "attenuation"],
            deg=degrees,
        )
        return layer

    return make


def _gcn(plan: PeerPlan) -> Module:
    sizes = (plan.in_channels, plan.out_channels)
    layer: Module = pyg.GCNConv(*sizes, normalize=False, **plan.options)
    return layer


def _gat(plan: PeerPlan) -> Module:
    sizes = (plan.in_channels, plan.out_channels // plan.heads, plan.heads)
    layer: Module = pyg.GATConv(*sizes, dropout=plan.dropout, add_self_loops=False, **plan.options)
    return layer


def _sage(plan: PeerPlan) -> Module:
    layer: Module = pyg.SAGEConv(plan.in_channels, plan.out_channels, **plan.options)
    return layer


def _gin(plan: PeerPlan) -> Module:
    mlp = Sequential(
        Linear(plan.in_channels, plan.hidden), ReLU(), Linear(plan.hidden, plan.out_channels)
    )
    layer: Module = pyg.GINConv(mlp, train_eps=True, **plan.options)
    return layer


LAYERS: dict[str, Callable[[PeerPlan], Module]] = {
    "gcn": _gcn,
    "gat": _gat,
    "sage": _sage,
    "gin": _gin,
}
r"""How the layer of each backbone is built."""

# GCNConv and GATConv are told not to prepare edges, as they would do it anew at every call.
EDGES: dict[str, Edges] = {"gcn": "normalized", "gat": "looped", "sage": "plain", "gin": "plain"}
r"""Which edges it is called with."""

AGGREGATORS: dict[str, type[Aggregation]] = {
    "pyg-softmax": SoftmaxAggregation,
    "pyg-powermean": PowerMeanAggregation,
}
r"""The learned aggregation of a peer's first layer."""
