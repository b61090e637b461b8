r"""Sum, mean and maximum: the ends that the aggregators connect."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from meanmax.functional.arguments import (as_features, as_weight, check_finite)
from meanmax.graph import Graph
from meanmax.ops import (neighbour_max, weighted_sum)
from meanmax.ops.edge_weight import (own_weight, row_totals)
from meanmax.ops.precision import precision_of
from meanmax.ops.scaling import (LARGEST_FEATURE, saturate)

Rule = Callable[[Tensor, Graph, Tensor | None, str | None], Tensor]


def sum(
    x: Tensor, graph: Graph, *, weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The weighted sum over neighbours, :math:`\sum_u a_{vu} z_u`.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph.
        weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        backend (str, optional): The backend. (default: see :class:`meanmax.use_backend`)
    """
    out: Tensor = _end(x, graph, weight, backend, weighted_sum)
    return out


def mean(
    x: Tensor, graph: Graph, *, weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The weighted mean over neighbours, :math:`\sum_u a_{vu} z_u / \sum_u a_{vu}`.

    It is 0 where there is no weight. The arguments are those of :func:`sum`.
    """
    out: Tensor = _end(x, graph, weight, backend, _weighted_mean)
    return out


def max(
    x: Tensor, graph: Graph, *, weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The maximum over neighbours of positive weight, 0 where there is none.

    The gradient is shared evenly among ties. The arguments are those of :func:`sum`.
    """
    out: Tensor = _end(x, graph, weight, backend, neighbour_max)
    return out


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _end(x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None, rule: Rule) -> Tensor:
    features = as_features(x, graph)
    flat, edge = features.flat, as_weight(weight, graph, features)
    flat = graph.sources(flat)
    wide = flat.dtype == torch.float32 and _may_overflow(flat, graph, edge)
    if wide:
        flat, edge = flat.double(), None if edge is None else edge.double()
    with torch.autocast(flat.device.type, enabled=False):
        out = rule(flat, graph.local, edge, backend)
    return features.restore(saturate(out, features.flat.dtype) if wide else out)


def _may_overflow(x: Tensor, graph: Graph, weight: Tensor | None) -> bool:
    r"""Whether sums of these features need float64; also refuses features that are not finite."""
    largest = check_finite(x)
    edge = graph.weight if weight is None else weight
    if edge is None or edge.numel() == 0:
        return largest > LARGEST_FEATURE
    if weight is not None:
        heaviest = float(weight.detach().amax())
    else:
        heaviest = _own_largest(graph.cache, edge)
    return largest > LARGEST_FEATURE or heaviest > precision_of("float32").largest_weight


def _own_largest(cache: dict[str, float], weight: Tensor) -> float:
    if "largest_weight" not in cache:
        cache["largest_weight"] = float(weight.detach().amax())
    return cache["largest_weight"]


def _weighted_mean(x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None) -> Tensor:
    out = weighted_sum(x, graph, weight, backend)
    edge = own_weight(graph, x) if weight is None else weight
    total = row_totals(graph, edge).repeat_interleave(x.size(1) // edge.size(1), dim=1)
    return torch.where(total > 0, out / torch.where(total > 0, total, 1.0), 0.0)
