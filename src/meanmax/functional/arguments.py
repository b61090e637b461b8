r"""What every function of the core takes: checked once, brought to the kernels' shapes."""

from __future__ import annotations

import math
from typing import NamedTuple, SupportsFloat

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.edge_weight import (own_weight, with_heads)
from meanmax.ops.spec import (LOWER_BOUND, PARAMETER)
from meanmax.ops.scaling import NotFiniteError

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
    return max(-low, high)


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
        raise ValueError(f"'weight' must be a floating-point tensor (got {got})")
    _check_heads(weight, graph, features, "weight")
    weight = weight.to(dtype)
    _check_range(weight, "weight")
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
