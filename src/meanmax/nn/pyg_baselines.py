r"""A stack of PyTorch Geometric's own layers, with the interface of our models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final
from weakref import WeakKeyDictionary

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Linear, Module, ModuleList, ReLU, Sequential
from torch_geometric.nn.aggr import Aggregation, PowerMeanAggregation, SoftmaxAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.conv import as_graph, check_features, check_positive, check_rate
from meanmax.nn.linear import Features, fast_dropout
from meanmax.nn.model import ACTIVATIONS, Activation, LayerStack
from meanmax.nn.registry import BACKBONES, check_heads, find_backbone

EdgeForm: TypeAlias = Literal["normalized", "looped", "plain"]

_DENSE: WeakKeyDictionary[SparseFeatures, Tensor] = WeakKeyDictionary()


def dense(x: Features, dtype: torch.dtype) -> Tensor:
    r"""The features as a dense tensor. That of sparse features is cached as long as they live,
    unless they carry a gradient.
    """
    if isinstance(x, Tensor):
        return x
    if x.value.requires_grad:
        return x.to_dense().to(dtype)
    if x not in _DENSE or _DENSE[x].dtype != dtype:
        with torch.inference_mode(False):  # what is cached may be trained with later
            _DENSE[x] = x.to_dense().to(dtype)
    return _DENSE[x]


def edges_of(graph: Graph, edges: EdgeForm, dtype: torch.dtype) -> tuple[Tensor, ...]:
    r"""What a layer takes after the features: with :obj:`"normalized"` the edges and weights of
    GCN, with :obj:`"looped"` the edges with replaced self-loops, with :obj:`"plain"` the edges.

    Cached with the graph, unless the result depends on weights that carry a gradient.
    """
    normalized = edges == "normalized"
    if normalized and graph.weight is not None and graph.weight.dim() != 1:
        raise ValueError(
            f"PyG's GCNConv takes one weight per edge (got {graph.weight.size(1)}): pass "
            f"graph.with_weight(graph.edge_weight.mean(1)), or graph.with_weight(None)"
        )

    def make() -> tuple[Tensor, ...]:
        index = graph.edge_index
        if normalized:
            weight = None if graph.edge_weight is None else graph.edge_weight.to(dtype)
            return tuple(gcn_norm(index, weight, graph.num_nodes, dtype=dtype))
        if edges == "looped":
            index = add_self_loops(remove_self_loops(index)[0], num_nodes=graph.num_nodes)[0]
        return (index,)

    if normalized and graph.has_learned_weight:
        return make()
    return graph.cached(("pyg", edges, dtype if normalized else None), make)


@final
class PyGBaseline(LayerStack):
    r"""Layers of PyTorch Geometric one after the other, made by :func:`build_pyg_baseline`.

    .. math::
        H^{(k)} = \sigma \big( \mathrm{layer}_k(\mathrm{dropout}(H^{(k-1)})) \big)

    where the last layer has no activation. Its methods are those of
    :class:`~meanmax.nn.NodeModel`, so that both are trained and measured in the same way. What
    PyG does at every call is done once for each graph: GCN's normalisation and GAT's self-loops.
    Sparse features are made dense, once, since PyG's layers take no others.

    Args:
        layers (sequence): PyG's layers.
        in_channels (int): Channels of the input.
        activation (str): What hidden layers end with.
        dropout (float): Dropout of each layer's input.
        edges (str): Which edges layers are called with: :obj:`"normalized"`, :obj:`"looped"` or
            :obj:`"plain"`; see :func:`~meanmax.nn.pyg_baselines.edges_of`.
    """

    def __init__(
        self,
        layers: Sequence[Module],
        *,
        in_channels: int,
        activation: Activation,
        dropout: float,
        edges: EdgeForm,
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
            for name, parameter in self.aggregation_of(layer).named_parameters()
        }

    def extra_loss(self, graph: Graph) -> Tensor | None:
        r"""Nothing is added to the loss."""
        return None

    def aggregation_of(self, layer: Module) -> Module:
        r"""The aggregation of a layer."""
        found = layer.aggr_module
        assert isinstance(found, Module)
        return found

    def _run(self, x: Features, given: Any, structure: Tensor | None) -> list[Tensor]:
        if structure is not None:
            raise ValueError("'structure' is for backbone 'cat' of build_model: leave it out")
        if isinstance(given, Graph) and not given.is_local:
            raise ValueError(
                "PyTorch Geometric's layers need the whole graph in one process (got a part of it)"
            )
        graph = as_graph(given, x, None)
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


@dataclass(frozen=True)
class PyGLayerPlan:
    r"""What a layer of a baseline is built from."""

    in_channels: int
    out_channels: int  # all heads together
    hidden: int  # the width of hidden layers, for layers that have an MLP
    heads: int
    dropout: float  # of attention
    aggr: Aggregation | None  # None for the layer's own

    @property
    def sizes(self) -> tuple[int, int]:
        r"""Input channels, and output channels of one head."""
        return self.in_channels, self.out_channels // self.heads

    @property
    def options(self) -> dict[str, Any]:
        r"""The aggregation as an argument, if there is one: PyG takes None for no aggregation."""
        return {} if self.aggr is None else {"aggr": self.aggr}


def pna(graph: Graph) -> Callable[[PyGLayerPlan], Module]:
    r"""Builds layers of Principal Neighbourhood Aggregation for the degrees of a graph."""
    if graph.num_edges == 0:
        raise ValueError(
            "baseline 'pna' divides by the mean log-degree, but the graph has no edges: use "
            "another baseline, or add edges"
        )
    degrees = torch.bincount(graph.rowptr.diff().long())
    aggregators = ["mean", "min", "max", "std"]
    scalers = ["identity", "amplification", "attenuation"]
    return lambda plan: pyg.PNAConv(*plan.sizes, aggregators, scalers, deg=degrees)


def _gat(plan: PyGLayerPlan) -> Any:
    options = {"dropout": plan.dropout, "add_self_loops": False, **plan.options}
    return pyg.GATConv(*plan.sizes, plan.heads, **options)


def _gin(plan: PyGLayerPlan) -> Any:
    first, last = Linear(plan.in_channels, plan.hidden), Linear(plan.hidden, plan.out_channels)
    return pyg.GINConv(Sequential(first, ReLU(), last), train_eps=True, **plan.options)


LAYERS: dict[str, Callable[[PyGLayerPlan], Module]] = {
    "gcn": lambda plan: pyg.GCNConv(*plan.sizes, normalize=False, **plan.options),
    "gat": _gat,
    "sage": lambda plan: pyg.SAGEConv(*plan.sizes, **plan.options),
    "gin": _gin,
}
r"""How the layer of each backbone is built."""

# GCNConv and GATConv do not prepare edges here, since they would do it again at every call.
EDGES: dict[str, EdgeForm] = {"gcn": "normalized", "gat": "looped", "sage": "plain", "gin": "plain"}
r"""Which edges it is called with."""

AGGREGATORS: dict[str, type[Aggregation]] = {
    "pyg-softmax": SoftmaxAggregation,
    "pyg-powermean": PowerMeanAggregation,
}
r"""The learned aggregation of a baseline's first layer."""

PYG_BASELINES: Final = (*AGGREGATORS, "pna")
r"""What :func:`build_pyg_baseline` knows."""


def build_pyg_baseline(
    backbone: str,
    baseline: str,
    in_channels: int,
    hidden: int,
    out_channels: int,
    layers: int = 2,
    heads: int | None = None,
    dropout: float = 0.5,
    *,
    graph: Graph,
) -> PyGBaseline:
    r"""Builds a model of PyTorch Geometric's own layers, with the depth, widths, activation and
    dropout that :func:`~meanmax.nn.build_model` gives its models.

    The baselines :obj:`"pyg-softmax"` and :obj:`"pyg-powermean"` have PyG's
    :class:`SoftmaxAggregation` or :class:`PowerMeanAggregation`, learned, in the first layer; the
    others keep the layer's own aggregation. :obj:`"pna"` has :class:`PNAConv` in all layers, with
    mean, min, max and std, each as it is, amplified and attenuated by the degree. Between its
    layers stands a ReLU.

    Everything else is PyG's too. The power mean clamps messages and means to
    :math:`[10^{-4}, 100]`: negative messages count as :math:`10^{-4}` and get no gradient. A GAT
    has one parameter for all its heads. Only GCN takes the graph's weights into account. PNA forms
    messages of twice its input's channels for every edge, which is slow where features are many.

    Args:
        backbone (str): :obj:`"gcn"`, :obj:`"gat"`, :obj:`"sage"` or :obj:`"gin"`; :obj:`"pna"`
            takes any and ignores it.
        baseline (str): One of :obj:`PYG_BASELINES`.
        in_channels, hidden, out_channels, layers, dropout: See :func:`~meanmax.nn.build_model`.
        heads (int, optional): Heads of the hidden layers of :obj:`"gat"`; :obj:`"pna"` ignores
            it. (default: :obj:`8` of :obj:`"gat"`)
        graph (Graph): The graph, or the batch of graphs, to train on; PNA scales by its degrees.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1], [1, 0]])
        >>> build_pyg_baseline("gcn", "pyg-softmax", 1433, 64, 7, graph=graph).learned()
        {'layers.0.t': tensor(1.)}
    """
    if baseline not in PYG_BASELINES:
        listed = ", ".join(repr(known) for known in PYG_BASELINES)
        raise ValueError(f"unknown baseline {baseline!r}: 'baseline' must be one of {listed}")
    find_backbone(backbone)
    if baseline != "pna" and backbone not in LAYERS:
        listed = ", ".join(repr(known) for known in LAYERS)
        raise ValueError(
            f"PyG has no layer for backbone {backbone!r}, so there is no {baseline!r} of it: use "
            f"one of {listed}, or baseline 'pna', which has layers of its own"
        )
    check_positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels, layers=layers)
    rate = check_rate(dropout)
    if not isinstance(graph, Graph):
        raise ValueError(
            f"'graph' must be a meanmax.Graph (got {type(graph).__name__}); make one with "
            f"Graph.from_edge_index(edge_index, num_nodes)"
        )
    if baseline == "pna":
        make, count = pna(graph), 1
    else:
        make, count = LAYERS[backbone], check_heads(backbone, heads, hidden, layers)
    plans = [
        PyGLayerPlan(
            in_channels=hidden if index else in_channels,
            out_channels=out_channels if index == layers - 1 else hidden,
            hidden=hidden,
            heads=1 if index == layers - 1 else count,
            dropout=rate,
            aggr=None if index or baseline == "pna" else AGGREGATORS[baseline](learn=True),
        )
        for index in range(layers)
    ]
    return PyGBaseline(
        [make(plan) for plan in plans],
        in_channels=in_channels,
        activation="relu" if baseline == "pna" else BACKBONES[backbone].activation,
        dropout=rate,
        edges="plain" if baseline == "pna" else EDGES[backbone],
    )
