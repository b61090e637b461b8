r"""What the layers share: how they are called, how they aggregate, and the names of aggregators."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal, TypeAlias, final, get_args

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn import MessagePassing

from meanmax import functional
from meanmax.aggr import AGGREGATIONS
from meanmax.aggr.base import LearnableAggregation
from meanmax.aggr.maxness import maxness
from meanmax.graph import Graph, SparseFeatures
from meanmax.graph.checks import check_floats
from meanmax.names import LEARNED, STORED_OPTION_NAMES, aggregator_name
from meanmax.nn.linear import Features, LazyParameters, Linear, as_dense
from meanmax.ops.library import from_edge_index, traced
from meanmax.ops.spec import Form, check_choice

Order: TypeAlias = Literal["transform-first", "aggregate-first"]
Pair: TypeAlias = tuple[Features, Features | None]
Channels: TypeAlias = int | tuple[int, int]  # of all nodes, or of sources and of targets

Aggr: TypeAlias = str | LearnableAggregation | None  # a name is one of meanmax.names


def make_aggregator(
    aggr: Aggr, options: Mapping[str, Any], heads: int | None, channels: int, form: Form
) -> Aggr:
    r"""The aggregator of one layer of a model: a copy of an object, or one made by name."""
    if isinstance(aggr, LearnableAggregation):
        if options:
            raise ValueError(
                f"'aggr_options' is for aggregators given by name (got {dict(options)} with an "
                f"object): pass them to {type(aggr).__name__} itself"
            )
        found = {"layer": 1, "head": heads or 1, "channel": channels}[aggr.per]
        count = aggr.raw.numel()
        if aggr.per != "layer" and count not in (found, channels // (heads or 1)):
            raise ValueError(
                f"the aggregator has {count} parameters, one per {aggr.per}, but a layer has "
                f"{found}: give it by name with aggr_options={{'per': {aggr.per!r}}}, which fits "
                f"every layer"
            )
        return copy.deepcopy(aggr)
    name = aggregator_name(aggr)
    if name not in LEARNED:
        if options:
            raise ValueError(
                f"'aggr_options' has no effect with aggr={aggr!r} (got {dict(options)}): leave it "
                f"out, or choose one of {', '.join(repr(name) for name in LEARNED)}"
            )
        return "max" if name == "max" else None
    return aggregator_of(name, options, heads, channels, form)


def aggregator_of(
    name: str, options: Mapping[str, Any], heads: int | None, channels: int | None, form: Form
) -> LearnableAggregation:
    r"""A learnable aggregator by its name, with one parameter, or one for each of the heads."""
    arguments = {STORED_OPTION_NAMES.get(key, key): value for key, value in options.items()}
    start = [arguments.pop("start")] if "start" in arguments else []  # its first argument
    if "form" in LEARNED[name] and arguments.get("beta") is None:
        arguments.setdefault("form", form)
    per = arguments.setdefault("per", "layer" if heads is None else "head")
    if name == "spread":
        per = arguments["per"] = "channel"
    if per == "head" and heads is None:
        arguments["per"] = "layer"
    elif per == "head":
        arguments["heads"] = heads
    elif per == "channel":
        if channels is None:
            raise ValueError(
                f"aggr={name!r} needs the number of channels for a parameter of each: pass "
                f"channels= to a readout, meanmax.{AGGREGATIONS[name].__name__}(channels=...) to a "
                f"layer, or use meanmax.build_model"
            )
        arguments["channels"] = channels
    try:
        return AGGREGATIONS[name](*start, **arguments)
    except TypeError as error:
        kind = AGGREGATIONS[name].__name__
        raise ValueError(f"the options do not fit {kind}: {error}") from None


@final
class LayerAggregation(Module):
    r"""The aggregation of a layer. A learnable one given by name has its default start value, one
    parameter for each of :obj:`heads` if that is given, and the given form if it is a polynomial
    or softmax; :obj:`"linear"` and :obj:`None` are the weighted sum.
    """

    def __init__(self, aggr: Aggr, *, heads: int | None = None, form: Form = "weighted") -> None:
        super().__init__()
        self.learned: LearnableAggregation | None = None
        if isinstance(aggr, LearnableAggregation):
            self.learned, self.is_max = aggr, False
            return
        name = aggregator_name(aggr)
        self.is_max = name == "max"
        if name in LEARNED:
            self.learned = aggregator_of(name, {}, heads, None, form)

    @property
    def is_linear(self) -> bool:
        r"""Whether it commutes with a linear map of the features."""
        return self.learned is None and not self.is_max

    @property
    def is_scaled(self) -> bool:
        r"""Whether it multiplies by a power of the sum of the weights, which must not be 1 then."""
        return getattr(self.learned, "beta", None) is not None

    def forward(self, x: Tensor, graph: Graph, edge_weight: Tensor | None = None) -> Tensor:
        r"""Aggregates."""
        fixed = functional.max if self.is_max else functional.sum
        out: Tensor = (self.learned or fixed)(x, graph, edge_weight=edge_weight)
        return out

    @torch.no_grad()
    def maxness(self, x: Tensor, graph: Graph, edge_weight: Tensor | None = None) -> Tensor:
        r"""Where between mean (0) and max (1) it stands on its input, per channel."""
        if self.learned is not None:
            return maxness(self.learned, x, graph, edge_weight=edge_weight)
        return x.new_full(x.shape[1:], 1.0 if self.is_max else 0.0)

    def extra_repr(self) -> str:
        r"""The aggregation, if it has no parameter to show."""
        return "" if self.learned is not None else ("max" if self.is_max else "weighted sum")


class Conv(LazyParameters, MessagePassing):  # type: ignore[misc]
    r"""Base of the layers.

    :meth:`forward` has three steps. Exact inference on graphs that do not fit into memory runs the
    same steps one by one: :meth:`send` for all nodes, then :meth:`receive` for blocks of rows.

    It is a :class:`~torch_geometric.nn.MessagePassing` only so that PyG's tools, such as
    :func:`~torch_geometric.nn.to_hetero`, recognise a layer over edges.
    """

    needs_own = False
    r"""Whether :meth:`receive` takes what the targets themselves send."""

    takes_pair = False
    r"""Whether :obj:`in_channels` may be a pair, for sources and for targets."""

    aggr: LayerAggregation
    in_channels: Channels = -1

    def __init__(self) -> None:
        super().__init__(aggr=None)

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the other parameters back to their start values."""
        for module in self.modules():
            reset = getattr(module, "reset_parameters", None)
            if module is not self and reset is not None:
                reset()
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("att_"):
                torch.nn.init.xavier_uniform_(parameter)
            elif not isinstance(parameter, torch.nn.UninitializedParameter):
                torch.nn.init.zeros_(parameter)

    def forward(
        self, x: Features | Pair, edge_index: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        r"""Runs the layer.

        Args:
            x (Tensor, SparseFeatures or tuple): :obj:`[num_nodes, in_channels]`, or a pair for
                sources and targets where the layer allows it.
            edge_index (Graph or Tensor): The graph, or PyG's :obj:`edge_index`.
            edge_weight (Tensor, optional): Weights in place of the graph's own, in the order of
                its edges. (default: :obj:`None`)
        """
        graph = as_graph(edge_index, x, edge_weight)
        source, target = self.features(x, graph)
        sent, own = self.send_both(source, target)
        return self.receive(sent, own, target, self.prepare(graph))

    def features(self, x: Features | Pair, graph: Graph) -> Pair:
        r"""The features of sources and of targets, checked. Where the aggregation may change
        places with a linear map, both are of one kind, dense or sparse.
        """
        (width, target_width), target = as_pair(self.in_channels), None
        if isinstance(x, tuple):
            source = check_features(x[0], width, graph.num_src, "x[0]")
            if x[1] is not None:
                target = check_features(x[1], target_width, graph.num_dst, "x[1]")
        else:
            source = check_features(x, width, graph.num_src)
            if graph.num_src == graph.num_dst:
                target = check_features(x, target_width, graph.num_dst)
        mixed = isinstance(source, Tensor) != isinstance(target, Tensor)
        if self.aggr.is_linear and mixed:
            return as_dense(source), None if target is None else as_dense(target)
        return source, target

    def send_both(self, source: Features, target: Features | None) -> Pair:
        r"""What sources send and, if it is needed, what targets would send."""
        sent = self.send(source)
        if not self.needs_own or target is None:
            return sent, None
        return sent, sent if target is source else self.send(target)

    def send(self, x: Features) -> Features:
        r"""What nodes send to their neighbours, each computed from the node's own row."""
        raise NotImplementedError

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph with the self-loops and weights that the layer aggregates over."""
        raise NotImplementedError

    def receive(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> Tensor:
        r"""The output of the targets on the result of :meth:`prepare`, from the results of
        :meth:`send` for sources (:obj:`sent`) and, if :attr:`needs_own`, for targets (:obj:`own`),
        and from the targets' features :obj:`x`, if they have any.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return Module.__repr__(self)


class OrderedConv(Conv):
    r"""A layer with one linear map, before or after the aggregation.

    A linear aggregation commutes with it, so sparse features are then transformed first in any
    case; a nonlinear aggregation of sparse features makes them dense.
    """

    lin: Linear | None
    bias: Parameter | None

    def __init__(self, in_channels: Channels, out_channels: int, order: Order) -> None:
        super().__init__()
        self.in_channels = check_channels(in_channels, self.takes_pair, out_channels=out_channels)
        self.out_channels = out_channels
        check_choice("order", order, get_args(Order))
        self.order = order

    def transform(self, x: Features) -> Tensor:
        r"""The linear map, without bias."""
        assert self.lin is not None
        return self.lin.without_bias(x)

    def transforms_first(self, x: Features | None) -> bool:
        r"""Whether the map of these features comes before the aggregation."""
        sparse_and_linear = isinstance(x, SparseFeatures) and self.aggr.is_linear
        return self.order == "transform-first" or sparse_and_linear

    def send(self, x: Features) -> Features:
        r"""The features, transformed if that comes first."""
        return self.transform(x) if self.transforms_first(x) else x

    def aggregate_in_order(self, sent: Features, x: Features | None, graph: Graph) -> Tensor:
        r"""The aggregation of what was sent, transformed if that comes last."""
        out: Tensor = self.aggr(as_dense(sent), graph)
        return out if self.transforms_first(x) else self.transform(out)

    def receive(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> Tensor:
        r"""Aggregates and adds the bias; see :meth:`Conv.receive`."""
        return with_bias(self.aggregate_in_order(sent, x, graph), self.bias)


def square_features(x: Features | Pair, channels: Channels, graph: Graph, layer: str) -> Features:
    r"""Features of nodes that are sources and targets; a pair is refused as in PyG's GCNConv,
    unless it is the same features twice.
    """
    if isinstance(x, tuple):
        if x[0] is not x[1]:
            raise ValueError(
                f"{layer} needs the same nodes as sources and targets (got a pair of features): "
                f"use SAGEConv, GATConv or GINConv between different nodes"
            )
        x = x[0]
    return check_features(x, as_pair(channels)[0], graph.num_nodes)


def with_bias(out: Tensor, bias: Parameter | None) -> Tensor:
    r"""The output plus the bias, if there is one."""
    return out if bias is None else out + bias


def check_positive(**sizes: object) -> None:
    r"""A :class:`ValueError` unless all are positive integers."""
    for name, size in sizes.items():
        if not _is_positive(size):
            raise ValueError(f"'{name}' must be a positive integer (got {size!r})")


def _is_positive(size: object) -> bool:
    try:
        return operator.index(size) > 0 and not isinstance(size, bool)  # type: ignore[arg-type]
    except TypeError:
        return False


def check_channels(in_channels: Channels, takes_pair: bool, **sizes: object) -> Channels:
    r"""The channels of a layer's input, -1 where the first call determines them."""
    check_positive(**sizes)
    pair: Any = tuple(in_channels) if isinstance(in_channels, tuple | list) else None
    fine = all(part == -1 or _is_positive(part) for part in pair or (in_channels,))
    if not fine or (pair is not None and (len(pair) != 2 or not takes_pair)):
        owner = "or" if takes_pair else "SAGEConv and GATConv take"
        raise ValueError(
            f"'in_channels' must be a positive integer, or -1 to take it from the first input; "
            f"{owner} a pair of these for sources and targets (got {in_channels!r})"
        )
    return in_channels if pair is None else pair


def as_pair(channels: Channels) -> tuple[int, int]:
    r"""The channels of sources and of targets."""
    return channels if isinstance(channels, tuple) else (channels, channels)


def check_rate(rate: float, name: str = "dropout") -> float:
    r"""A probability of dropout."""
    number: object = rate  # numpy has number types of its own
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 <= float(number) < 1:
        raise ValueError(f"'{name}' must be in [0, 1) (got {rate!r})")
    return float(rate)


def as_graph(graph: Graph | Tensor, x: Features | Pair, edge_weight: Tensor | None) -> Graph:
    r"""A graph, made from an :obj:`edge_index` if that was given."""
    for part in x if isinstance(x, tuple) else (x,):
        if part is not None or not isinstance(x, tuple):
            check_kind(part)
    if isinstance(graph, Graph):
        if torch.compiler.is_compiling():
            graph = traced(graph) or graph
        return graph if edge_weight is None else graph.with_weight(edge_weight)
    if not isinstance(graph, Tensor):
        raise ValueError(
            f"the graph must be a meanmax.Graph or an edge_index (got {type(graph).__name__})"
        )
    source, target = x if isinstance(x, tuple) else (x, x)
    if target is None:
        raise ValueError("an edge_index with features of sources alone has no number of targets: "
                         "pass a meanmax.Graph")  # fmt: skip
    return from_edge_index(graph, (source.size(0), target.size(0)), edge_weight)


def check_features(x: object, channels: int, nodes: int, name: str = "x") -> Features:
    r"""Features of the right width (any if -1), one row for each node."""
    found = check_kind(x, name)
    if len(found.shape) != 2 or found.size(0) != nodes or channels not in (-1, found.size(1)):
        raise ValueError(
            f"'{name}' must be [{nodes}, {'any' if channels == -1 else channels}], the graph's "
            f"nodes by the layer's input channels (got {list(found.shape)})"
        )
    return found


def check_kind(x: object, name: str = "x") -> Features:
    r"""Features, dense or sparse, of a floating-point type."""
    if x is None:
        raise ValueError(
            f"'{name}' is None, but this layer needs features for each node; a graph without any "
            f"can use torch.eye(num_nodes) or the nodes' degrees"
        )
    if not isinstance(x, Tensor | SparseFeatures):
        raise ValueError(
            f"'{name}' must be a tensor or meanmax.SparseFeatures (got {type(x).__name__})"
        )
    if isinstance(x, Tensor) and x.layout != torch.strided:
        raise ValueError(
            f"'{name}' is a tensor of layout {x.layout}: wrap it with "
            f"meanmax.SparseFeatures.from_torch(x), once, before training"
        )
    if not x.dtype.is_floating_point:
        raise ValueError(f"'{name}' must be floating-point (got {x.dtype}): pass x.float()")
    if isinstance(x, Tensor):
        check_floats(x, name)
    return x
