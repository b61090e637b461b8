r"""What every layer takes: features and a graph, checked once."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from meanmax.graph import (Graph, SparseFeatures)
from meanmax.ops.spec import check_choice
from meanmax.nn.linear import Features

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
