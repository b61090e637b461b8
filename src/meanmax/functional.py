r"""The functional core: aggregations as pure functions of features, graph and parameter."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import NamedTuple, SupportsFloat

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops import AggregationSpec, neighbour_max, tilted_aggregate, weighted_sum
from meanmax.ops.autograd import own_weight, row_totals, with_heads
from meanmax.ops.scaling import LARGEST_FEATURE, NotFiniteError, saturate
from meanmax.ops.spec import (
    LOWER_BOUND,
    PARAMETER,
    Form,
    Shift,
    Sign,
    check_choice,
    precision_of,
)

HALF = (torch.float16, torch.bfloat16)


class Features(NamedTuple):
    r"""Features as the kernels take them, and the way back.

    Args:
        flat (Tensor): :obj:`[num_src, heads * channels]`, float32 or float64, contiguous.
        heads (int): The number of heads, 1 if the features have none.
        trailing (tuple): The shape after the node dimension.
        dtype (torch.dtype): What the result is cast to.
    """

    flat: Tensor
    heads: int
    trailing: tuple[int, ...]
    dtype: torch.dtype

    def restore(self, out: Tensor) -> Tensor:
        r"""Gives an output of the kernels the shape and dtype of the features."""
        return out.view(out.size(0), *self.trailing).to(self.dtype)


def as_features(x: Tensor, graph: Graph) -> Features:
    r"""Checks :obj:`x` against the graph.

    Half-precision features are computed in float32; the result is float32 under autocast, as for
    PyTorch's own reductions, and half precision elsewhere.
    """
    if not isinstance(graph, Graph):
        raise ValueError(
            f"'graph' must be a meanmax.Graph (got {type(graph).__name__}); make one with "
            f"Graph.from_edge_index(edge_index, num_nodes)"
        )
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"'x' must be a floating-point tensor (got {got})")
    if not 1 <= x.dim() <= 3 or x.size(0) != graph.num_src:
        raise ValueError(
            f"'x' must be [num_src, channels] or [num_src, heads, channels] with "
            f"num_src={graph.num_src} (got {list(x.shape)})"
        )
    dtype = x.dtype
    if dtype in HALF:
        x = x.float()
        dtype = torch.float32 if torch.is_autocast_enabled(x.device.type) else dtype
    heads = x.size(1) if x.dim() == 3 else 1
    flat = x.reshape(x.size(0), math.prod(x.shape[1:])).contiguous()
    return Features(flat, heads, tuple(x.shape[1:]), dtype)


def check_finite(x: Tensor) -> float:
    r"""The largest magnitude among features; a :class:`ValueError` unless all are finite."""
    if x.numel() == 0:
        return 0.0
    low, high = (float(end) for end in x.detach().aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NotFiniteError
    return builtins.max(-low, high)


def as_parameter(value: float | Tensor, features: Features, kind: str) -> Tensor:
    r"""Checks a parameter's domain and spreads it over the channels, :obj:`[channels]`.

    A scalar serves all; otherwise the shape broadcasts against the features' own: :obj:`[channels]`
    per channel, :obj:`[heads, 1]` per head (or :obj:`[heads]` where that is no number of
    channels), :obj:`[heads, channels]` for both.
    """
    name, lowest = PARAMETER[kind], LOWER_BOUND[kind]
    like = features.flat
    theta = _as_number(value, name)
    theta = theta.to(device=like.device, dtype=like.dtype)
    low, high = (math.nan, math.nan) if theta.numel() == 0 else theta.detach().aminmax()
    if not (lowest <= float(low) and float(high) < math.inf):
        got = f"{float(low):.6g}" if theta.numel() == 1 else f"values from {low:.6g} to {high:.6g}"
        raise ValueError(
            f"'{name}' must be finite and at least {lowest:g} (got {got}); "
            f"for the limit use meanmax.functional.max"
        )
    shape = features.trailing or (1,)
    if theta.dim() == 1 and len(shape) == 2 and theta.numel() == shape[0] != shape[1]:
        theta = theta.unsqueeze(1)
    try:
        return theta.expand(shape).reshape(-1)
    except RuntimeError:
        raise ValueError(
            f"'{name}' must be a number or broadcast to {list(shape)}, the features' shape per "
            f"node (got shape {list(theta.shape)})"
        ) from None


def as_weight(weight: Tensor | None, graph: Graph, features: Features) -> Tensor | None:
    r"""Checks weights given to a call; returns them in CSR order, :obj:`[num_edges, heads]`.

    :obj:`None` stands for the graph's own, unless those carry a gradient.
    """
    dtype = features.flat.dtype
    if weight is None:
        own = graph.weight
        if own is None:
            return None
        _check_heads(own, graph, features, "graph.weight")
        if torch.finfo(own.dtype).max > torch.finfo(dtype).max:
            _check_range(own.to(dtype), "graph.weight")
        return own_weight(graph, features.flat) if own.requires_grad else None
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        got = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise ValueError(f"'edge_weight' must be a floating-point tensor (got {got})")
    _check_heads(weight, graph, features, "edge_weight")
    weight = weight.to(dtype)
    _check_range(weight, "edge_weight")
    return graph.to_graph_order(with_heads(weight)).contiguous()


def _check_range(weight: Tensor, name: str) -> None:
    if weight.numel() == 0:
        return
    low, high = (float(end) for end in weight.detach().aminmax())
    if not (low >= 0 and high < math.inf):
        raise ValueError(
            f"'{name}' must be finite and non-negative "
            f"(got values from {low:.6g} to {high:.6g} as {weight.dtype})"
        )


def as_origin(mu: float | Tensor | None, graph: Graph, features: Features) -> Tensor | None:
    r"""Checks an origin given to a call; returns one per graph."""
    if mu is None:
        return None
    like = features.flat
    origin = _as_number(mu, "mu")
    if origin.numel() not in (1, graph.num_graphs) or not bool(torch.isfinite(origin).all()):
        got = origin.tolist() if origin.numel() <= 4 else f"shape {list(origin.shape)}"
        raise ValueError(
            f"'mu' must be one finite number, or one for each of the {graph.num_graphs} graphs "
            f"(got {got})"
        )
    return origin.reshape(-1).expand(graph.num_graphs).to(device=like.device, dtype=like.dtype)


def _as_number(value: object, name: str) -> Tensor:
    if isinstance(value, Tensor) and not value.is_complex() and value.dtype != torch.bool:
        return value
    if isinstance(value, SupportsFloat) and not isinstance(value, bool | Tensor):
        return torch.tensor(float(value), dtype=torch.float64)
    raise ValueError(f"'{name}' must be a real number or tensor (got {value!r})")


def _check_heads(weight: Tensor, graph: Graph, features: Features, name: str) -> None:
    heads = weight.size(1) if weight.dim() == 2 else 1
    if weight.dim() not in (1, 2) or weight.size(0) != graph.num_edges:
        raise ValueError(
            f"'{name}' must be [num_edges] or [num_edges, heads] with num_edges="
            f"{graph.num_edges} (got {list(weight.shape)})"
        )
    if heads not in (1, features.heads):
        raise ValueError(
            f"'{name}' has {heads} heads but 'x' has {features.heads}; pass features as "
            f"[num_src, heads, channels]"
        )


Rule = Callable[[Tensor, Graph, Tensor | None, str | None], Tensor]


def sum(
    x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The weighted sum over neighbours, :math:`\sum_u a_{vu} z_u`.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph.
        edge_weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        backend (str, optional): The backend. (default: see :class:`meanmax.use_backend`)
    """
    out: Tensor = _end(x, graph, edge_weight, backend, weighted_sum)
    return out


def mean(
    x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The weighted mean over neighbours, :math:`\sum_u a_{vu} z_u / \sum_u a_{vu}`.

    It is 0 where there is no weight. The arguments are those of :func:`sum`.
    """
    out: Tensor = _end(x, graph, edge_weight, backend, _weighted_mean)
    return out


def max(
    x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The maximum over neighbours of positive weight, 0 where there is none.

    The gradient is shared evenly among ties. The arguments are those of :func:`sum`.
    """
    out: Tensor = _end(x, graph, edge_weight, backend, neighbour_max)
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


@torch.compiler.disable  # type: ignore[untyped-decorator]
def tilted(
    x: Tensor,
    graph: Graph,
    theta: float | Tensor,
    spec: AggregationSpec,
    *,
    edge_weight: Tensor | None,
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""Checks the arguments, aggregates, and gives the result the features' shape."""
    check_choice("sign", sign, ("shift", "abs"))
    features = as_features(x, graph)
    parameter = as_parameter(theta, features, spec.kind)
    edge = as_weight(edge_weight, graph, features)
    flat = features.flat
    origin = as_origin(mu, graph, features)
    if origin is None and spec.has_mu and sign == "shift" and not graph.holds_all_nodes:
        origin = as_origin(graph.minimum(flat), graph, features)
    if sign == "abs":
        if origin is not None:
            raise ValueError("'mu' has no meaning with sign='abs', where it is 0 (leave it out)")
        flat, origin = flat.abs(), flat.new_zeros(graph.num_graphs)
    with torch.autocast(flat.device.type, enabled=False):
        out = tilted_aggregate(
            graph.sources(flat), graph.local, parameter, edge, origin, spec, backend
        )
    return features.restore(out)


def lp(
    x: Tensor,
    graph: Graph,
    p: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    shift: Shift = "consistent",
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""The weighted Lp norm over neighbours, from their weighted sum to their maximum.

    .. math::
        \mathrm{out}_v = \Big( \sum_{u \in \mathcal{N}(v)} a_{vu} (z_u - \mu)^p \Big)^{1/p}
        + \mu A_v^{1/p}, \qquad A_v = \sum_u a_{vu},

    with :math:`\mu` the minimum of the graph's features. At :math:`p = 1` it is the weighted sum,
    as :math:`p \to \infty` the maximum. As printed (Eq. 7 of the paper, :obj:`shift="paper"`) it
    adds :math:`\mu`, which is the weighted sum at :math:`p = 1` only where :math:`A_v = 1`. In
    between it is monotone in :math:`p` where :math:`A_v = 1`.

    A row without weight gives 0; one whose neighbours all sit at :math:`\mu` gives the shift.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph; in a batch each graph has its own :math:`\mu`.
        p (float or Tensor): The parameter, at least 1: one for all, or what broadcasts to the
            features' shape per node (:obj:`[channels]`, :obj:`[heads, 1]`).
        edge_weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        shift (str, optional): :obj:`"consistent"` or :obj:`"paper"`.
            (default: :obj:`"consistent"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 6). (default: :obj:`"shift"`)
        mu (float or Tensor, optional): :math:`\mu`, one or one per graph, at most the minimum.
            (default: the minimum)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=4)
        >>> x = torch.tensor([[1.0], [2.0], [4.0], [0.0]])
        >>> lp(x, graph, 1.0)[3], lp(x, graph, 100.0)[3]
        (tensor([7.]), tensor([4.]))
    """
    spec = AggregationSpec("lp", shift=shift)
    out: Tensor = tilted(
        x, graph, p, spec, edge_weight=edge_weight, sign=sign, mu=mu, backend=backend
    )
    return out


def polynomial(
    x: Tensor,
    graph: Graph,
    alpha: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    form: Form = "weighted",
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""The polynomial mean over neighbours, from their weighted mean to their maximum.

    .. math::
        \mathrm{out}_v = \frac{\sum_u a_{vu} (z_u - \mu)^{\alpha + 1}}
        {\sum_u a_{vu} (z_u - \mu)^{\alpha}} + \mu,

    with :math:`\mu` the minimum of the graph's features. At :math:`\alpha = 0` it is the weighted
    mean, as :math:`\alpha \to \infty` the maximum, monotone in between. With
    :obj:`form="sum"` all of it is multiplied by :math:`A_v = \sum_u a_{vu}`: the weighted
    *sum* at :math:`\alpha = 0`, as a linear layer has it, and :math:`A_v \max` in the limit.

    A row without weight gives 0; one whose neighbours all sit at :math:`\mu` gives :math:`\mu`.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph; in a batch each graph has its own :math:`\mu`.
        alpha (float or Tensor): The parameter, at least 0: one for all, or what broadcasts to the
            features' shape per node (:obj:`[channels]`, :obj:`[heads, 1]`).
        edge_weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        form (str, optional): :obj:`"weighted"` or :obj:`"sum"`; :obj:`"paper"` (Eq. 12) is
            the same as :obj:`"weighted"`. (default: :obj:`"weighted"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 11). (default: :obj:`"shift"`)
        mu (float or Tensor, optional): :math:`\mu`, one or one per graph, at most the minimum.
            (default: the minimum)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=4)
        >>> x = torch.tensor([[1.0], [2.0], [6.0], [0.0]])
        >>> polynomial(x, graph, 0.0)[3], polynomial(x, graph, 100.0)[3]
        (tensor([3.]), tensor([6.]))
    """
    spec = AggregationSpec("polynomial", form=form)
    out: Tensor = tilted(
        x, graph, alpha, spec, edge_weight=edge_weight, sign=sign, mu=mu, backend=backend
    )
    return out


def softmax(
    x: Tensor,
    graph: Graph,
    gamma: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    form: Form = "weighted",
    backend: str | None = None,
) -> Tensor:
    r"""The softmax-weighted mean over neighbours, from their weighted mean to their maximum.

    .. math::
        \mathrm{out}_v = \frac{\sum_u a_{vu} e^{\gamma z_u} z_u}{\sum_u a_{vu} e^{\gamma z_u}}

    At :math:`\gamma = 0` it is the weighted mean, as :math:`\gamma \to \infty` the maximum,
    monotone in between. With :obj:`form="sum"` it is multiplied by
    :math:`A_v = \sum_u a_{vu}`: the weighted *sum* at :math:`\gamma = 0`, as a linear layer has
    it, and :math:`A_v \max` in the limit. As printed (Eq. 15 of the paper,
    :obj:`form="paper"`) the denominator has no weight; with normalised weights it then
    divides by the degree twice, and neither end of the path holds.

    A row without weight gives 0.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph.
        gamma (float or Tensor): The parameter, at least 0: one for all, or what broadcasts to the
            features' shape per node (:obj:`[channels]`, :obj:`[heads, 1]`).
        edge_weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        form (str, optional): :obj:`"weighted"`, :obj:`"sum"` or :obj:`"paper"`.
            (default: :obj:`"weighted"`)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=5)
        >>> x = torch.tensor([[0.0], [1.0], [2.0], [0.0], [1000.0]])
        >>> softmax(x, graph, 1.0)[3]
        tensor([1.5752])
    """
    spec = AggregationSpec("softmax", form=form)
    out: Tensor = tilted(x, graph, gamma, spec, edge_weight=edge_weight, backend=backend)
    return out


__all__ = ["lp", "max", "mean", "polynomial", "softmax", "sum"]
