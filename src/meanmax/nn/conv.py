r"""What every layer takes: features and a graph, checked once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypeAlias, final, get_args

import torch
from torch import Tensor
from torch.nn import Module

from meanmax import functional
from meanmax.aggr import LpAggregation, PolynomialAggregation, SoftmaxAggregation
from meanmax.aggr.base import LearnableAggregation
from meanmax.aggr.maxness import maxness
from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.linear import Features, as_dense
from meanmax.ops.spec import Form, check_choice

Order: TypeAlias = Literal["transform-first", "aggregate-first"]
Pair: TypeAlias = tuple[Features, Features | None]


def check_order(order: Order) -> Order:
    r"""The order, if it is one."""
    check_choice("order", order, get_args(Order))
    return order


def check_positive(**sizes: object) -> None:
    r"""A :class:`ValueError` unless all are positive integers."""
    for name, size in sizes.items():
        try:
            fine = operator.index(size) > 0 and not isinstance(size, bool)  # type: ignore[arg-type]
        except TypeError:
            fine = False
        if not fine:
            raise ValueError(f"'{name}' must be a positive integer (got {size!r})")


def check_rate(rate: float, name: str = "dropout") -> float:
    r"""A probability of dropout."""
    number: object = rate  # numpy has kinds of its own
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 <= float(number) < 1:
        raise ValueError(f"'{name}' must be in [0, 1) (got {rate!r})")
    return float(rate)


def as_graph(graph: Graph | Tensor, x: Features | Pair, edge_weight: Tensor | None) -> Graph:
    r"""A graph, made from an :obj:`edge_index` if that is what was given.

    Args:
        graph (Graph or Tensor): The graph, or PyG's :obj:`edge_index`. A graph remembers what
            layers derive from it, an :obj:`edge_index` is prepared anew at each call.
        x (Tensor, SparseFeatures or tuple): The features, for the number of nodes.
        edge_weight (Tensor, optional): Weights in the order of the edges.
    """
    for part in x if isinstance(x, tuple) else (x,):
        if part is not None or not isinstance(x, tuple):
            check_kind(part)
    if isinstance(graph, Graph):
        return graph if edge_weight is None else graph.with_weight(edge_weight)
    if not isinstance(graph, Tensor):
        raise ValueError(
            f"'graph' must be a meanmax.Graph or an edge_index tensor (got {type(graph).__name__})"
        )
    source, target = x if isinstance(x, tuple) else (x, x)
    if target is None:
        raise ValueError("an edge_index with features of sources alone has no number of targets: "
                         "pass a meanmax.Graph")  # fmt: skip
    return Graph.from_edge_index(graph, (source.size(0), target.size(0)), edge_weight)


def check_features(x: object, channels: int | None, nodes: int, name: str = "x") -> Features:
    r"""Features of the right width (any if :obj:`None`), one row for each node."""
    found = check_kind(x, name)
    if len(found.shape) != 2 or found.size(0) != nodes or channels not in (None, found.size(1)):
        raise ValueError(
            f"'{name}' must be [{nodes}, {'any' if channels is None else channels}], the graph's "
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
    return x


def as_pair(x: Features | Pair, channels: int | None, graph: Graph) -> Pair:
    r"""Features of sources and of targets, from one set for both or from a pair as in PyG."""
    if not isinstance(x, tuple):
        own = check_features(x, channels, graph.num_src)
        return own, own if graph.num_src == graph.num_dst else None
    source = check_features(x[0], channels, graph.num_src, "x[0]")
    if x[1] is None:
        return source, None
    return source, check_features(x[1], channels, graph.num_dst, "x[1]")


CLASSES: dict[object, type[LpAggregation | PolynomialAggregation | SoftmaxAggregation]] = {
    "lp": LpAggregation,
    "poly": PolynomialAggregation,
    "softmax": SoftmaxAggregation,
}
AGGREGATORS = (*(str(name) for name in CLASSES), "max")
Aggr: TypeAlias = Literal["lp", "poly", "softmax", "max"] | LearnableAggregation | None


@final
class Neighbourhood(Module):
    r"""Aggregates features over a graph in the way that a layer was asked for.

    Args:
        aggr (str, LearnableAggregation or None): :obj:`"lp"`, :obj:`"poly"` or :obj:`"softmax"`
            with their default start values, :obj:`"max"`, an aggregator, or :obj:`None` for the
            weighted sum.
        heads (int, optional): How many heads have a parameter of their own; :obj:`None` for one
            parameter in all. (default: :obj:`None`)
        form (str, optional): The form of a polynomial or softmax given by name.
            (default: :obj:`"weighted"`)

    Attributes:
        learned (LearnableAggregation, optional): The aggregator, if it has a parameter.
    """

    def __init__(
        self,
        aggr: Aggr,
        *,
        heads: int | None = None,
        form: Form = "weighted",
    ) -> None:
        super().__init__()
        self.learned: LearnableAggregation | None = None
        self.is_max = aggr == "max"
        if aggr == "none":
            aggr = None
        if isinstance(aggr, LearnableAggregation):
            self.learned = aggr
        elif aggr is not None and not self.is_max:
            self.learned = _by_name(aggr, heads, form)

    @property
    def is_linear(self) -> bool:
        r"""Whether it commutes with a linear map of the features."""
        return self.learned is None and not self.is_max

    def forward(self, x: Tensor, graph: Graph, weight: Tensor | None = None) -> Tensor:
        r"""Aggregates.

        Args:
            x (Tensor): :obj:`[num_src, channels]` or :obj:`[num_src, heads, channels]`.
            graph (Graph): The graph.
            weight (Tensor, optional): Weights of edges in the order of :obj:`graph.edge_index`.
                (default: the graph's own)
        """
        out: Tensor
        if self.learned is not None:
            out = self.learned(x, graph, edge_weight=weight)
        elif self.is_max:
            out = functional.max(x, graph, edge_weight=weight)
        else:
            out = functional.sum(x, graph, edge_weight=weight)
        return out

    @torch.no_grad()
    def maxness(self, x: Tensor, graph: Graph, weight: Tensor | None = None) -> Tensor:
        r"""Where between mean (0) and max (1) it stands on its input, per channel."""
        if self.learned is not None:
            return maxness(self.learned, x, graph, edge_weight=weight)
        return x.new_full(x.shape[1:], 1.0 if self.is_max else 0.0)

    def extra_repr(self) -> str:
        r"""The aggregation, where it has no parameter to show itself."""
        return "" if self.learned is not None else ("max" if self.is_max else "weighted sum")


def _by_name(name: object, heads: int | None, form: Form) -> LearnableAggregation:
    if name not in CLASSES:
        listed = ", ".join(repr(known) for known in AGGREGATORS)
        raise ValueError(
            f"'aggr' must be None (the layer's own), one of {listed}, or an aggregator such as "
            f"meanmax.LpAggregation() (got {name!r})"
        )
    options: dict[str, Any] = {} if heads is None else {"per": "head", "heads": heads}
    if name != "lp":
        options["form"] = form
    return CLASSES[name](**options)


def ordered(
    x: Features,
    graph: Graph,
    transform: Callable[[Features], Tensor],
    aggr: Neighbourhood,
    order: Order,
) -> Tensor:
    r"""Transforms and aggregates.

    A linear aggregation commutes with a linear transform, so sparse features are then transformed
    first in any case; a nonlinear one over sparse features themselves makes them dense.

    Args:
        x (Tensor or SparseFeatures): The features.
        graph (Graph): The prepared graph.
        transform (callable): A linear map without bias.
        aggr (Neighbourhood): The aggregation.
        order (str): Which comes first.
    """
    sparse_and_linear = isinstance(x, SparseFeatures) and aggr.is_linear
    if order == "transform-first" or sparse_and_linear:
        first: Tensor = aggr(transform(x), graph)
        return first
    return transform(aggr(as_dense(x), graph))
