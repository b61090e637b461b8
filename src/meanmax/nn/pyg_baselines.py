r"""A stack of PyTorch Geometric's own layers, with the interface of our models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
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
from meanmax.graph.checks import not_a_graph
from meanmax.nn.conv import as_graph, check_features, check_positive, check_rate
from meanmax.nn.linear import Features, fast_dropout
from meanmax.nn.model import ACTIVATIONS, Activation, GraphInput, LayerStack
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
        layers, activation, dropout: As in :class:`~meanmax.nn.NodeModel`.
        in_channels (int): Channels of the input.
        edges (str): Which edges layers are called with; see
            :func:`~meanmax.nn.pyg_baselines.edges_of`.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model = build_pyg_baseline("sage", "pyg-softmax", 8, 16, 2, graph=graph)
        >>> model(torch.randn(3, 8), graph).shape
        torch.Size([3, 2])
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
        self, x: Features, graph: GraphInput, *, structure: Tensor | None = None
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
class PyGLayer:
    r"""How the layers of a baseline are built and called."""

    layer: Callable[..., Module]  # takes the channels of the input and of one head's output, and
    takes: tuple[str, ...]  # these arguments
    edges: EdgeForm  # the edges it is called with


def _pna(graph: Graph) -> PyGLayer:
    r"""Principal Neighbourhood Aggregation for the degrees of a graph."""
    if graph.num_edges == 0:
        raise ValueError(
            "baseline 'pna' divides by the mean log-degree, but the graph has no edges: use "
            "another baseline, or add edges"
        )
    degrees = torch.bincount(graph.rowptr.diff().long())
    aggregators = ["mean", "min", "max", "std"]
    scalers = ["identity", "amplification", "attenuation"]
    layer = partial(pyg.PNAConv, aggregators=aggregators, scalers=scalers, deg=degrees)
    return PyGLayer(layer, (), "plain")


def _gin(in_channels: int, out_channels: int, *, hidden: int, **aggr: Aggregation) -> Any:
    mlp = Sequential(Linear(in_channels, hidden), ReLU(), Linear(hidden, out_channels))
    return pyg.GINConv(mlp, train_eps=True, **aggr)


# GCNConv and GATConv do not prepare edges here, since they would do it again at every call.
LAYERS: dict[str, PyGLayer] = {
    "gcn": PyGLayer(partial(pyg.GCNConv, normalize=False), (), "normalized"),
    "gat": PyGLayer(partial(pyg.GATConv, add_self_loops=False), ("heads", "dropout"), "looped"),
    "sage": PyGLayer(pyg.SAGEConv, (), "plain"),
    "gin": PyGLayer(_gin, ("hidden",), "plain"),
    "gen": PyGLayer(partial(pyg.GENConv, aggr="mean", norm=None), (), "plain"),
}
r"""The layer of each backbone."""

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
        backbone (str): :obj:`"gcn"`, :obj:`"gat"`, :obj:`"sage"`, :obj:`"gin"` or :obj:`"gen"`;
            :obj:`"pna"` takes any and ignores it.
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
        raise not_a_graph(graph)
    is_pna = baseline == "pna"
    kind = _pna(graph) if is_pna else LAYERS[backbone]
    count = 1 if is_pna else check_heads(backbone, heads, hidden, layers)
    built = []
    widths = [in_channels, *[hidden] * (layers - 1), out_channels]
    for index, (before, width) in enumerate(pairwise(widths)):
        own_heads = 1 if index == layers - 1 else count
        known = {"hidden": hidden, "heads": own_heads, "dropout": rate}
        arguments: dict[str, Any] = {name: known[name] for name in kind.takes}
        if index == 0 and not is_pna:  # in PyG, aggr=None is no aggregation
            arguments["aggr"] = AGGREGATORS[baseline](learn=True)
        built.append(kind.layer(before, width // own_heads, **arguments))
    return PyGBaseline(
        built,
        in_channels=in_channels,
        activation="relu" if is_pna else BACKBONES[backbone].activation,
        dropout=rate,
        edges=kind.edges,
    )
