r"""The two orders of transforming and aggregating."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from meanmax.graph import (Graph, SparseFeatures)
from meanmax.nn.conv import Order
from meanmax.nn.linear import (Features, as_dense)
from meanmax.nn.neighbourhood import Neighbourhood


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
