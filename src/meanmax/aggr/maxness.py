r"""Where an aggregator stands between mean and max on its input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from meanmax import functional
from meanmax.graph import Graph
from meanmax.graph.checks import check_floats

if TYPE_CHECKING:
    from meanmax.aggr.base import LearnableAggregation

ROUNDING = 1e-10


@torch.no_grad()
def maxness(
    aggr: LearnableAggregation, x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None
) -> Tensor:
    r"""How far the aggregator has moved from mean (0) to max (1) on its input, per channel.

    .. math::
        \frac{1}{|V|} \sum_{v \in V} \frac{\mathrm{out}_v - \mathrm{mean}_v}
        {\mathrm{max}_v - \mathrm{mean}_v}, \qquad V = \{ v : \mathrm{max}_v > \mathrm{mean}_v \},

    all three with the weights divided by their sum over the neighbours, so that
    :math:`A_v = 1`. The parameter alone does not say it: :math:`\gamma = 5` is near the mean on
    features that differ by 0.01 and near the maximum on features that differ by 10.

    It lies in :math:`[0, 1]`, and with :obj:`signed=True` in :math:`[-1, 1]`: below the mean, the
    share of the way to the minimum counts as negative. Where :math:`A_v = 1`, both forms of
    :obj:`shift` are the same, and :obj:`form="sum"` is the same as :obj:`"weighted"`. With
    :obj:`sign="abs"` mean and maximum are those of :math:`|z|`. The printed softmax
    (:obj:`form="paper"`) is measured as it is: it divides by the number of neighbours once more,
    and its value may lie anywhere.

    Computed in float64, without gradient and without running hooks. Nodes whose maximum and mean
    agree up to rounding (:math:`10^{-10}` of the largest :math:`|z|`) do not count.

    Args:
        aggr (LpAggregation, PolynomialAggregation or SoftmaxAggregation): The aggregator.
        x, graph, edge_weight: As in :meth:`~meanmax.SoftmaxAggregation.aggregate`.

    Returns:
        :obj:`[channels]` or :obj:`[heads, channels]`; NaN where :math:`V` is empty.

    Example:
        >>> import torch
        >>> from meanmax import SoftmaxAggregation
        >>> graph = Graph.from_edge_index([[0, 1, 2], [0, 0, 0]], num_nodes=3)
        >>> x = torch.tensor([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0]])
        >>> maxness(SoftmaxAggregation(1.0), x, graph)
        tensor([0.5752,    nan])
    """
    check_floats(x, "x")
    wide = x.double()
    edge_weight = _normalized(edge_weight, graph)
    # No hooks: one may ask for the maxness of what it sees.
    out = aggr.evaluate(wide, graph, edge_weight)
    if aggr.sign == "abs":
        wide = wide.abs()
    mean = functional.mean(wide, graph, edge_weight=edge_weight)
    gap = functional.max(wide, graph, edge_weight=edge_weight) - mean
    scale = wide.abs().amax() if wide.numel() > 0 else 0.0
    counts = gap > ROUNDING * scale
    if getattr(aggr, "signed", False):
        to_min = mean + functional.max(-wide, graph, edge_weight=edge_weight)
        gap = torch.where(out < mean, to_min, gap)
    share = torch.where(counts, (out - mean) / torch.where(counts, gap, 1.0), 0.0)
    return (graph.mean(share) / graph.mean(counts.double())).to(x.dtype)


def _normalized(weight: Tensor | None, graph: Graph) -> Tensor:
    r"""Weights in the order of :obj:`edge_index` that sum to 1 at each target, or to 0."""
    if weight is None:
        weight = graph.edge_weight
    if weight is None:
        weight = torch.ones(graph.num_edges, device=graph.device)
    weight = weight.double()
    target = graph.edge_index[1]
    total = weight.new_zeros(graph.num_dst, *weight.shape[1:]).index_add(0, target, weight)
    return weight / torch.where(total > 0, total, 1.0)[target]
