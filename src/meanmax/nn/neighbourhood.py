r"""The aggregation step of a layer: its own linear one, the maximum, or a learned one."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.nn import Module

from meanmax import functional
from meanmax.aggr import (LpAggregation, PolynomialAggregation, SoftmaxAggregation)
from meanmax.aggr.base import LearnableAggregation
from meanmax.aggr.maxness import maxness
from meanmax.graph import Graph
from meanmax.ops.spec import Normalize

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
        normalize (str, optional): The form of a polynomial or softmax given by name.
            (default: :obj:`"weighted"`)

    Attributes:
        learned (LearnableAggregation, optional): The aggregator, if it has a parameter.
    """

    def __init__(
        self,
        aggr: Aggr,
        *,
        heads: int | None = None,
        normalize: Normalize = "weighted",
    ) -> None:
        super().__init__()
        self.learned: LearnableAggregation | None = None
        self.is_max = aggr == "max"
        if aggr == "none":
            aggr = None
        if isinstance(aggr, LearnableAggregation):
            self.learned = aggr
        elif aggr is not None and not self.is_max:
            self.learned = _by_name(aggr, heads, normalize)

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
            out = self.learned(x, graph, weight=weight)
        elif self.is_max:
            out = functional.max(x, graph, weight=weight)
        else:
            out = functional.sum(x, graph, weight=weight)
        return out

    @torch.no_grad()
    def maxness(self, x: Tensor, graph: Graph, weight: Tensor | None = None) -> Tensor:
        r"""Where between mean (0) and max (1) it stands on its input, per channel."""
        if self.learned is not None:
            return maxness(self.learned, x, graph, weight=weight)
        return x.new_full(x.shape[1:], 1.0 if self.is_max else 0.0)

    def extra_repr(self) -> str:
        r"""The aggregation, where it has no parameter to show itself."""
        return "" if self.learned is not None else ("max" if self.is_max else "weighted sum")


def _by_name(name: object, heads: int | None, normalize: Normalize) -> LearnableAggregation:
    if name not in CLASSES:
        listed = ", ".join(repr(known) for known in AGGREGATORS)
        raise ValueError(
            f"'aggr' must be None (the layer's own), one of {listed}, or an aggregator such as "
            f"meanmax.LpAggregation() (got {name!r})"
        )
    options: dict[str, Any] = {} if heads is None else {"per": "head", "heads": heads}
    if name != "lp":
        options["normalize"] = normalize
    return CLASSES[name](**options)
