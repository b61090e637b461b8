r"""The functional core: aggregations as pure functions of features, graph and parameter."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, SupportsFloat

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.checks import check_floats, not_a_graph
from meanmax.ops import neighbour_max, tilted_aggregate, weighted_sum
from meanmax.ops.autograd import own_weight, row_totals, summed_weights, with_heads
from meanmax.ops.library import Result, operation
from meanmax.ops.scaling import LARGEST_FEATURE, SMALLEST_SPREAD, NotFiniteError, cast
from meanmax.ops.spec import (
    FLOAT32,
    LOWER_BOUND,
    PARAMETER,
    AggregationSpec,
    Form,
    Kind,
    Shift,
    Sign,
    check_choice,
    precision_of,
)

__all__ = ["lp", "max", "mean", "polynomial", "softmax", "sum"]


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

    Example:
        >>> graph = Graph.from_edge_index([[0, 1], [2, 2]], num_nodes=3)
        >>> sum(torch.tensor([[1.0], [3.0], [0.0]]), graph)[2]
        tensor([4.])
    """
    return _reduce(x, graph, edge_weight, backend, "sum")


def mean(
    x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The weighted mean over neighbours, :math:`\sum_u a_{vu} z_u / \sum_u a_{vu}`.

    It is 0 where there is no weight: in all functions a row whose weights are all 0 in the dtype of
    the features. Any larger weight counts, however small. The arguments are those of :func:`sum`.

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1], [0, 0]], num_nodes=2)
        >>> x = torch.tensor([[1.0], [4.0]])
        >>> mean(x, graph, edge_weight=torch.tensor([1e-40, 2e-40]))
        tensor([[3.0000],
                [0.0000]])

    Example:
        >>> graph = Graph.from_edge_index([[0, 1], [2, 2]], num_nodes=3)
        >>> mean(torch.tensor([[1.0], [3.0], [0.0]]), graph)[2]
        tensor([2.])
    """
    return _reduce(x, graph, edge_weight, backend, "mean")


def max(
    x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None, backend: str | None = None
) -> Tensor:
    r"""The maximum over neighbours of positive weight, 0 where there is none.

    The gradient is shared evenly among ties. The arguments are those of :func:`sum`.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1], [2, 2]], num_nodes=3)
        >>> max(torch.tensor([[1.0], [3.0], [0.0]]), graph)[2]
        tensor([3.])
    """
    return _reduce(x, graph, edge_weight, backend, "max")


def lp(
    x: Tensor,
    graph: Graph,
    p: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    shift: Shift = "consistent",
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    signed: bool = False,
    beta: float | Tensor | None = None,
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
        signed (bool, optional): Whether :obj:`p` is any number :math:`\theta` with
            :math:`p = 1 + |\theta|`. A negative one aggregates :math:`-z` and negates the result,
            so that it goes from the weighted sum to the *minimum*. At 0 the derivative is the mean
            of both sides. (default: :obj:`False`)
        beta (float or Tensor, optional): :math:`\beta` in :math:`A_v^\beta
            \big( (\sum_u a_{vu} (z_u - \mu)^p / A_v)^{1/p} + \mu \big)`: at 0 a mean and at 1 a sum
            at :math:`p = 1`; one for all, or what broadcasts as :obj:`p` does.
            (default: :math:`1/p`)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=4)
        >>> x = torch.tensor([[1.0], [2.0], [4.0], [0.0]])
        >>> lp(x, graph, 1.0)[3], lp(x, graph, 100.0)[3]
        (tensor([7.]), tensor([4.]))
    """
    given = signed, beta, mu, backend
    return aggregate(x, graph, p, edge_weight, "lp", "weighted", shift, sign, *given)


def polynomial(
    x: Tensor,
    graph: Graph,
    alpha: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    form: Form = "weighted",
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    signed: bool = False,
    beta: float | Tensor | None = None,
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
        x, graph, edge_weight, mu, backend: As in :func:`lp`.
        alpha (float or Tensor): The parameter, at least 0; shapes as in :func:`lp`.
        form (str, optional): :obj:`"weighted"` or :obj:`"sum"`; :obj:`"paper"` (Eq. 12) is
            the same as :obj:`"weighted"`. (default: :obj:`"weighted"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 11). (default: :obj:`"shift"`)
        signed (bool, optional): Whether :obj:`alpha` is any number :math:`\theta` with
            :math:`\alpha = |\theta|`; a negative one leads to the minimum, see :func:`lp`.
            (default: :obj:`False`)
        beta (float or Tensor, optional): Multiplies the weighted form by :math:`A_v^\beta`: 0 is
            :obj:`form="weighted"`, 1 is :obj:`form="sum"`. (default: :obj:`None`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=4)
        >>> x = torch.tensor([[1.0], [2.0], [6.0], [0.0]])
        >>> polynomial(x, graph, 0.0)[3], polynomial(x, graph, 100.0)[3]
        (tensor([3.]), tensor([6.]))
    """
    given = signed, beta, mu, backend
    return aggregate(x, graph, alpha, edge_weight, "polynomial", form, "consistent", sign, *given)


def softmax(
    x: Tensor,
    graph: Graph,
    gamma: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    form: Form = "weighted",
    signed: bool = False,
    beta: float | Tensor | None = None,
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
        x, graph, edge_weight, backend: As in :func:`lp`.
        gamma (float or Tensor): The parameter, at least 0; shapes as in :func:`lp`.
        form (str, optional): :obj:`"weighted"`, :obj:`"sum"` or :obj:`"paper"`.
            (default: :obj:`"weighted"`)
        signed (bool, optional): Whether :obj:`gamma` may be negative, which leads to the minimum.
            (default: :obj:`False`)
        beta (float or Tensor, optional): Multiplies the weighted form by :math:`A_v^\beta`: 0 is
            :obj:`form="weighted"`, 1 is :obj:`form="sum"`. (default: :obj:`None`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=5)
        >>> x = torch.tensor([[0.0], [1.0], [2.0], [0.0], [1000.0]])
        >>> softmax(x, graph, 1.0)[3]
        tensor([1.5752])
        >>> softmax(x, graph, -1.0, signed=True)[3]
        tensor([0.4248])
    """
    given = signed, beta, None, backend
    return aggregate(x, graph, gamma, edge_weight, "softmax", form, "consistent", "shift", *given)


def _traceable(x: Tensor, *arguments: Any) -> tuple[Any, ...]:
    r"""Arguments for compiled code, where operations take tensors and run without autocast."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    if half and torch.is_autocast_enabled(x.device.type):
        x = x.float()
    given = (
        torch.full((), one, dtype=torch.float64)
        if isinstance(one, int | float) and not isinstance(one, bool)
        else one
        for one in arguments
    )
    return (x, *given)


def _result(x: Tensor, graph: Graph, *_: Any) -> Result:
    return (graph.num_dst, *x.shape[1:]), x.dtype


@operation(
    "Tensor x, Graph graph, Edges? edge_weight, str? backend, str rule",
    _result,
    before=_traceable,
)
def _reduce(
    x: Tensor, graph: Graph, edge_weight: Tensor | None, backend: str | None, rule: str
) -> Tensor:
    flat, heads, dtype = _as_features(x, graph)
    edge = _as_weight(edge_weight, graph, flat, heads)
    z = graph.sources(flat)
    size, (least, most) = _largest_size(z), _weight_range(graph, edge)
    run = RULES[rule]
    if rule == "mean" and _is_extreme_mean(_smallest_size(z, graph, size), least, most, z.dtype):
        run = _tilted_mean
    wide = size > LARGEST_FEATURE or most > FLOAT32.largest_weight
    if wide and flat.dtype == torch.float32:
        z, edge = cast(z, torch.float64), None if edge is None else cast(edge, torch.float64)
    out = _without_autocast(run, z, graph.local, edge, backend)
    return _restore(out if out.dtype == flat.dtype else cast(out, flat.dtype), x, dtype)


def _largest_size(x: Tensor) -> float:
    r"""The largest magnitude of the features; refuses any that are not finite."""
    low, high = (end.item() for end in x.detach().aminmax()) if x.numel() else (0.0, 0.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NotFiniteError
    return builtins.max(-low, high)


def _smallest_size(x: Tensor, graph: Graph, size: float) -> float:
    r"""The largest magnitude of the features in the graph of a batch where that is smallest;
    :obj:`size` is that of all.
    """
    if graph.num_graphs == 1 or not x.numel() or len(graph.src_ptr) < 2:
        return size
    nodes = x.detach().abs().amax(dim=1)  # vector_norm takes five times as long
    of_graph = torch.segment_reduce(nodes, "max", offsets=graph.src_ptr.long(), initial=0.0)
    present = of_graph[of_graph > 0]
    return float(present.amin()) if len(present) else 0.0


def _weight_range(graph: Graph, weight: Tensor | None) -> tuple[float, float]:
    r"""The smallest positive and the largest weight."""
    if weight is not None:
        return _positive_range(weight)
    if "positive_weight_range" not in graph.cache:
        own = graph.weight
        graph.cache["positive_weight_range"] = (1.0, 1.0) if own is None else _positive_range(own)
    known: tuple[float, float] = graph.cache["positive_weight_range"]
    return known


def _positive_range(weight: Tensor) -> tuple[float, float]:
    weight = weight.detach()
    if not weight.numel():
        return 1.0, 1.0
    low, high = (end.item() for end in weight.aminmax())
    if low == 0 < high:
        low = torch.where(weight > 0, weight, high).amin().item()
    return low, high


def _is_extreme_mean(size: float, least: float, most: float, dtype: torch.dtype) -> bool:
    r"""Whether a sum divided by the weights' sum would lose what the mean keeps."""
    limits = precision_of(torch.empty(0, dtype=dtype))
    outside = least < limits.smallest_weight or most > limits.largest_weight
    return outside or 0 < least * size < torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def _tilted_mean(x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None) -> Tensor:
    r"""The mean as a softmax at :math:`\gamma = 0`, which copes with weights of any size."""
    spec = _spec("softmax", "weighted", "consistent")
    return tilted_aggregate(x, graph, x.new_zeros(x.size(1)), weight, None, spec, backend)


def _weighted_mean(x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None) -> Tensor:
    out = weighted_sum(x, graph, weight, backend)
    if weight is None:
        # Rows without weight have a sum of 0, and no gradient reaches anything through them.
        divisor = _own_divisor(graph, x)
        return (out.view(len(out), divisor.size(1), -1) / divisor.unsqueeze(2)).view_as(out)
    total = row_totals(graph, weight).repeat_interleave(x.size(1) // weight.size(1), dim=1)
    return torch.where(total > 0, out / torch.where(total > 0, total, 1.0), 0.0)


def _own_divisor(graph: Graph, x: Tensor) -> Tensor:
    r"""The sums of the graph's weights, 1 where they are 0, :obj:`[num_dst, heads]`; cached."""
    key = "mean_divisor", x.dtype
    if key not in graph.cache:
        with torch.inference_mode(False):
            total = row_totals(graph, own_weight(graph, x.detach()))
            graph.cache[key] = torch.where(total > 0, total, 1.0)
    divisor: Tensor = graph.cache[key]
    return divisor


RULES: dict[str, Callable[[Tensor, Graph, Tensor | None, str | None], Tensor]] = {
    "sum": weighted_sum,
    "mean": _weighted_mean,
    "max": neighbour_max,
}


@operation(
    "Tensor x, Graph graph, Tensor theta, Edges? edge_weight, str kind, str form, str shift, "
    "str sign, Tensor? mu, str? backend",
    _result,
    before=_traceable,
)
def tilted(
    x: Tensor,
    graph: Graph,
    theta: float | Tensor,
    edge_weight: Tensor | None,
    kind: Kind,
    form: Form,
    shift: Shift,
    sign: Sign,
    mu: float | Tensor | None,
    backend: str | None,
) -> Tensor:
    r"""What :func:`lp`, :func:`polynomial` and :func:`softmax` share: checks the arguments,
    aggregates, and gives the result the features' shape.
    """
    spec = _spec(kind, form, shift)
    flat, heads, dtype = _as_features(x, graph)
    parameter = _as_parameter(theta, flat, tuple(x.shape[1:]), kind)
    edge = _as_weight(edge_weight, graph, flat, heads)
    origin = None
    if sign != "shift":
        check_choice("sign", sign, ("shift", "abs"))
        if mu is not None:
            raise ValueError("'mu' has no meaning with sign='abs', where it is 0 (leave it out)")
        flat, origin = flat.abs(), flat.new_zeros(graph.num_graphs)
    elif mu is not None:
        origin = _as_origin(mu, graph, flat)
    elif spec.has_mu and not graph.holds_all_nodes:
        origin = _as_origin(graph.minimum(flat), graph, flat)
    arguments = graph.sources(flat), graph.local, parameter, edge, origin, spec, backend
    return _restore(_without_autocast(tilted_aggregate, *arguments), x, dtype)


_spec = lru_cache(AggregationSpec)


def aggregate(
    x: Tensor,
    graph: Graph,
    theta: float | Tensor,
    edge_weight: Tensor | None,
    kind: Kind,
    form: Form,
    shift: Shift,
    sign: Sign,
    signed: bool,
    beta: float | Tensor | None,
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r""":func:`tilted`, or :func:`extended` where that is asked for."""
    if not signed and beta is None:
        return tilted(x, graph, theta, edge_weight, kind, form, shift, sign, mu, backend)
    given = kind, form, shift, sign, signed, beta, mu, backend
    return extended(x, graph, theta, edge_weight, *given)


@operation(
    "Tensor x, Graph graph, Tensor theta, Edges? edge_weight, str kind, str form, str shift, "
    "str sign, bool signed, Tensor? beta, Tensor? mu, str? backend",
    _result,
    before=_traceable,
)
def extended(
    x: Tensor,
    graph: Graph,
    theta: float | Tensor,
    edge_weight: Tensor | None,
    kind: Kind,
    form: Form,
    shift: Shift,
    sign: Sign,
    signed: bool,
    beta: float | Tensor | None,
    mu: float | Tensor | None,
    backend: str | None,
) -> Tensor:
    r""":func:`tilted` towards the minimum too, and between mean and sum."""
    check_extension(kind, form, shift, sign, signed=signed, scaled=beta is not None)
    if signed and mu is not None:
        raise ValueError(
            "'mu' has no meaning with signed=True, where both ends count: leave it out"
        )
    strength = _as_number(theta, PARAMETER[kind])
    if strength.device != x.device and strength.dim():
        strength = strength.to(x.device)
    if strength.dim() == 1 and x.dim() == 3 and strength.numel() == x.size(1) != x.size(2):
        strength = strength.unsqueeze(1)  # [heads, 1]
    flat, _, dtype = _as_features(x, graph)
    if edge_weight is not None:
        check_floats(edge_weight, "edge_weight")
    wide = flat.dtype
    if wide == torch.float32 and _is_beyond(flat, graph, _weight_range(graph, edge_weight)):
        wide = torch.float64
    # Gradients from several places meet in these, and saturate together.
    x, strength = cast(x, wide), cast(strength, wide)
    edge_weight = None if edge_weight is None else cast(edge_weight, wide)
    given = form, shift, sign, mu, backend
    if signed:
        out, strength = _signed(x, graph, strength, edge_weight, kind, *given)
    else:
        out = tilted(x, graph, strength, edge_weight, kind, *given)
    if beta is None:
        return cast(out, dtype)
    exponent = cast(_as_number(beta, "beta").to(x.device), torch.float64)
    if not bool(torch.isfinite(exponent).all()):
        raise ValueError(f"'beta' must be finite (got {beta!r})")
    if exponent.dim() == 1 and x.dim() == 3 and exponent.numel() == x.size(1) != x.size(2):
        exponent = exponent.unsqueeze(1)
    if kind == "lp":
        exponent = exponent - 1 / strength.to(x.device)
    total = _totals(x, graph, edge_weight)
    factor = torch.where(total > 0, total, 1.0).double() ** exponent
    return cast(out * cast(factor, wide), dtype)


def _is_beyond(x: Tensor, graph: Graph, weights: tuple[float, float]) -> bool:
    r"""Whether a power of the weights' sum, or an aggregate before it, may not fit float32."""
    (least, most), size = weights, _largest_size(x)
    beyond = least < FLOAT32.smallest_weight or most > FLOAT32.largest_weight
    small = 0 < _smallest_size(x, graph, size) * builtins.min(least, 1.0) < SMALLEST_SPREAD
    return beyond or small or size > LARGEST_FEATURE


def _signed(
    x: Tensor, graph: Graph, theta: Tensor, edge_weight: Tensor | None, kind: Kind, *given: Any
) -> tuple[Tensor, Tensor]:
    r"""The aggregate towards the maximum where :obj:`theta` is positive, and towards the minimum
    where it is negative; and the parameter of the formula.
    """
    lowest = LOWER_BOUND[kind]
    below, at_zero = theta.detach() < 0, theta.detach() == 0
    strength = lowest + torch.where(below, -theta, theta)

    def towards(side: int, own: Tensor, theta: Tensor) -> Tensor:
        mu = None if own is x else graph.minimum(side * x)  # of all channels
        form, shift, sign, _, backend = given
        arguments = kind, form, shift, sign, mu, backend
        return side * tilted(side * own, graph, theta, edge_weight, *arguments)

    # At 0 both are the linear end, and the derivative is the mean of theirs.
    both = theta.requires_grad and bool(at_zero.any())
    if not both and not bool(below.any()):
        return tilted(x, graph, strength, edge_weight, kind, *given), strength
    if not both and bool(below.all()):
        return towards(-1, x, strength), strength
    below, at_zero = below.to(x.device), at_zero.to(x.device)
    if kind == "softmax":  # it has no mu, which features of different signs would share
        side = torch.where(below, -1.0, 1.0).to(x.dtype)
        return side * tilted(side * x, graph, strength, edge_weight, kind, *given), strength
    if not both and below.dim() == 1 and x.dim() == 2 and x.itemsize >= 4:
        places = below.logical_not().nonzero().view(-1), below.nonzero().view(-1)
        up, down = (
            towards(side, x[:, place], strength[place.to(strength.device)])
            for side, place in zip((1, -1), places, strict=True)
        )
        return torch.cat([up, down], dim=1)[:, torch.cat(places).argsort()], strength
    up = towards(1, x, strength)
    other = torch.where(theta.detach() == 0, -theta, strength - lowest) + lowest
    down = towards(-1, x, other)
    return torch.where(at_zero, (up + down) / 2, torch.where(below, down, up)), strength


def _totals(x: Tensor, graph: Graph, edge_weight: Tensor | None) -> Tensor:
    r"""The sums :math:`A_v` of the weights, :obj:`[num_dst, 1]` or :obj:`[num_dst, heads, 1]`."""
    heads = x.shape[1:-1] if x.dim() == 3 else ()
    if edge_weight is None:
        total = summed_weights(graph)
        return total if x.dim() < 3 else total.unsqueeze(-1)
    ones = x.new_ones(graph.num_src, *heads, 1)
    return sum(ones, graph, edge_weight=edge_weight)


def check_extension(
    kind: Kind, form: Form, shift: Shift, sign: Sign, *, signed: bool, scaled: bool
) -> None:
    r"""Raises a :class:`ValueError` for options that contradict :obj:`signed` or :obj:`beta`."""
    if scaled and kind != "lp" and form != "weighted":
        raise ValueError(
            f"'beta' takes the place of 'form' (got form={form!r}): leave one of them out; beta=1 "
            f"is form='sum'"
        )
    if shift == "paper" or form == "paper":
        name = "shift" if shift == "paper" else "form"
        raise ValueError(f"{name}='paper' has neither signed=True nor 'beta': leave it out")
    if signed and sign == "abs":
        raise ValueError("sign='abs' has no minimum to go to: leave out signed=True")


def _without_autocast(rule: Callable[..., Tensor], x: Tensor, *arguments: object) -> Tensor:
    if not torch.is_autocast_enabled(x.device.type):
        return rule(x, *arguments)
    with torch.autocast(x.device.type, enabled=False):
        return rule(x, *arguments)


def _restore(out: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:
    r"""Gives an output of the kernels the shape of the features, and the dtype."""
    if x.dim() != 2:
        out = out.view(out.size(0), *x.shape[1:])
    return out if out.dtype == dtype else cast(out, dtype)


def _as_features(x: Tensor, graph: Graph) -> tuple[Tensor, int, torch.dtype]:
    r"""Checks :obj:`x` against the graph.

    Half-precision features are computed in float32; the result is float32 under autocast, as for
    PyTorch's own reductions, and half precision elsewhere.

    Returns:
        Features as the kernels take them, :obj:`[num_src, heads * channels]`, contiguous, float32
        or float64; the number of heads, 1 without heads; the dtype of the result.
    """
    if not isinstance(graph, Graph):
        raise not_a_graph(graph)
    check_floats(x, "x")
    if not 1 <= x.dim() <= 3 or x.size(0) != graph.num_src:
        raise ValueError(
            f"'x' must be [num_src, channels] or [num_src, heads, channels] with "
            f"num_src={graph.num_src} (got {list(x.shape)})"
        )
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32 if torch.is_autocast_enabled(x.device.type) else dtype
        x = cast(x, torch.float32)
    heads = x.size(1) if x.dim() == 3 else 1
    if x.dim() != 2:
        x = x.reshape(x.size(0), math.prod(x.shape[1:]))
    return x if x.is_contiguous() else x.contiguous(), heads, dtype


def _as_parameter(
    value: float | Tensor, like: Tensor, trailing: tuple[int, ...], kind: str
) -> Tensor:
    r"""Checks a parameter's domain and spreads it over the channels, :obj:`[channels]`.

    A scalar serves all; otherwise the shape broadcasts against the features' own: :obj:`[channels]`
    per channel, :obj:`[heads, 1]` per head (or :obj:`[heads]` where that is no number of
    channels), :obj:`[heads, channels]` for both.
    """
    name, lowest = PARAMETER[kind], LOWER_BOUND[kind]
    theta = _as_number(value, name)
    if theta.dtype != like.dtype or theta.device != like.device:
        theta = _in_dtype(theta.to(like.device), like)
    if theta.numel() == 1:
        low = high = theta.item()
    else:
        ends = theta.detach().aminmax() if theta.numel() else (math.nan, math.nan)
        low, high = (float(end) for end in ends)
    if not lowest <= low <= high < math.inf:
        got = f"{low:.6g}" if theta.numel() == 1 else f"values from {low:.6g} to {high:.6g}"
        raise ValueError(
            f"'{name}' must be finite and at least {lowest:g} (got {got}); "
            f"for the limit use meanmax.functional.max"
        )
    shape = trailing or (1,)
    if theta.dim() == 1 and len(shape) == 2 and theta.numel() == shape[0] != shape[1]:
        theta = theta.unsqueeze(1)
    if theta.shape == shape and len(shape) == 1:
        return theta
    try:
        theta = theta.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"'{name}' must be a number or broadcast to {list(shape)}, the features' shape per "
            f"node (got shape {list(theta.shape)})"
        ) from None
    return theta if len(shape) == 1 else theta.reshape(-1)


def _as_weight(weight: Tensor | None, graph: Graph, flat: Tensor, heads: int) -> Tensor | None:
    r"""Checks weights given to a call; returns them in CSR order, :obj:`[num_edges, heads]`.

    :obj:`None` stands for the graph's own, unless those carry a gradient.
    """
    if weight is None:
        own = graph.weight
        if own is None:
            return None
        _check_heads(own, graph, heads, "graph.weight")
        if own.itemsize > flat.itemsize:
            low, high = torch.tensor(_own_range(graph), dtype=flat.dtype)
            _check_range(low, high, "graph.weight")
        return own_weight(graph, flat) if own.requires_grad else None
    check_floats(weight, "edge_weight")
    _check_heads(weight, graph, heads, "edge_weight")
    weight = _in_dtype(weight, flat)
    if weight.numel():
        _check_range(*weight.detach().aminmax(), "edge_weight")
    return graph.to_graph_order(with_heads(weight)).contiguous()


def _in_dtype(values: Tensor, like: Tensor) -> Tensor:
    r"""Casts to the dtype of :obj:`like`; the gradient of half precision saturates."""
    half = values.dtype in (torch.float16, torch.bfloat16)
    return cast(values, like.dtype) if half else values.to(like.dtype)


def _own_range(graph: Graph) -> tuple[float, float]:
    r"""The smallest and the largest weight of a graph, (1, 1) without weights; cached."""
    if "weight_range" not in graph.cache:
        own, found = graph.weight, (1.0, 1.0)
        if own is not None and own.numel():
            low, high = own.detach().aminmax()
            found = low.item(), high.item()
        graph.cache["weight_range"] = found
    known: tuple[float, float] = graph.cache["weight_range"]
    return known


def _check_range(low: Tensor, high: Tensor, name: str) -> None:
    if not (low >= 0 and high < math.inf):
        raise ValueError(
            f"'{name}' must be finite and non-negative "
            f"(got values from {low:.6g} to {high:.6g} as {low.dtype})"
        )


def _as_origin(mu: float | Tensor, graph: Graph, like: Tensor) -> Tensor:
    r"""Checks an origin; returns one per graph."""
    origin = _as_number(mu, "mu")
    if origin.numel() not in (1, graph.num_graphs) or not bool(torch.isfinite(origin).all()):
        got = origin.tolist() if origin.numel() <= 4 else f"shape {list(origin.shape)}"
        raise ValueError(
            f"'mu' must be one finite number, or one for each of the {graph.num_graphs} graphs "
            f"(got {got})"
        )
    return cast(origin.reshape(-1).to(like.device), like.dtype).expand(graph.num_graphs)


def _as_number(value: object, name: str) -> Tensor:
    if isinstance(value, Tensor) and not value.is_complex() and value.dtype != torch.bool:
        if value.is_floating_point():
            check_floats(value, name)
        return value
    if isinstance(value, SupportsFloat) and not isinstance(value, bool | Tensor):
        return torch.tensor(float(value), dtype=torch.float64)
    raise ValueError(f"'{name}' must be a real number or tensor (got {value!r})")


def _check_heads(weight: Tensor, graph: Graph, heads: int, name: str) -> None:
    own_heads = weight.size(1) if weight.dim() == 2 else 1
    if weight.dim() not in (1, 2) or weight.size(0) != graph.num_edges:
        raise ValueError(
            f"'{name}' must be [num_edges] or [num_edges, heads] with num_edges="
            f"{graph.num_edges} (got {list(weight.shape)})"
        )
    if own_heads not in (1, heads):
        raise ValueError(
            f"'{name}' has {own_heads} heads but 'x' has {heads}; pass features as "
            f"[num_src, heads, channels]"
        )
