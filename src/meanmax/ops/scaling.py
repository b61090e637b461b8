r"""How each channel is scaled before its exponentials are taken.

All kernels work on numbers of order one: a feature :math:`z` of a channel enters as
:math:`\hat v = (z - \mathrm{centre}) / \mathrm{scale}` with :math:`|\hat v| \leq 1`, and its tilt
is measured from the channel's largest feature. What a channel needs for that is one column of a
small table per graph, :obj:`[num_graphs, len(Channel), channels]`.

The centre decides how much cancellation the averages suffer. Where the bulk of the features lies
close together and far from zero (for powers: from :math:`\mu`) it is their median; where the tilt
is so steep that only features near the top count, it is the top. Elsewhere it is zero
(:math:`\mu`), so that one outlier does not cost the others their digits. The bulk is judged by the
nodes that :func:`sample_nodes` picks.
"""

from __future__ import annotations

import math
import sys
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.ops.spec import FLOAT32, AggregationSpec, Precision

STEEP = 16.0
CONCENTRATED = 0.25
SAMPLE, SMALL_SAMPLE, FEW_GRAPHS = 32, 8, 64
STEEP_POWER = 100.0
RECENTRED_POWER = 8.0
LARGEST_FEATURE, SMALLEST_SPREAD = 1e12, 1e-25
# Times the bulk's spread, from where the gradients of weights that powers give take float64; and in
# float64 measure each row from its largest term
OUTLYING, FAR_OUTLYING = 64.0, 1e6
LARGEST_SPREAD = 3.4028235e38  # above it float32 rounds to infinity


class NotFiniteError(ValueError):
    r"""Features with NaN or infinite entries."""

    def __init__(self) -> None:
        super().__init__(
            "'x' must be finite (got NaN or infinite features); remove or impute them, e.g. with "
            "torch.nan_to_num"
        )


class TooExtremeError(ArithmeticError):
    r"""Raised where float32 would overflow or underflow on the way; float64 does not."""


class Channel(IntEnum):
    r"""The rows of the table."""

    TOP = 0
    r"""The largest feature."""
    CENTRE = 1
    r"""What is subtracted from features before they are averaged."""
    SCALE = 2
    r"""What they are divided by then: a power of two, so that nothing is rounded."""
    INV_SCALE = 3
    r"""Its inverse."""
    MU = 4
    r"""The origin :math:`\mu`, the same in all channels."""
    RANGE = 5
    r""":math:`y_{max}`, the distance from :math:`\mu` to the top; 1 where that is 0."""
    THETA = 6
    r"""The parameter."""
    STEEPNESS = 7
    r"""The derivative of the tilt in :math:`\hat v`, up to the node's own factor."""
    INV_RANGE = 8
    r"""The inverse of the range."""
    INV_THETA = 9
    r"""The inverse of the parameter; 1 where that is 0."""


def sample_nodes(pointer: Tensor) -> Tensor:
    r"""A few sources of each graph, evenly spaced, :obj:`[num_graphs, sample]`."""
    count = SAMPLE if pointer.numel() <= FEW_GRAPHS else SMALL_SAMPLE
    steps = (torch.arange(count, device=pointer.device) + 0.5) / count
    first, size = pointer[:-1, None], pointer.diff()[:, None]
    # A graph without nodes has no features either; what it borrows is never used.
    return (first + (steps * size).long()).clamp(max=int(pointer[-1]) - 1)


def recentre(xp: Any, average: Any, table: Any, spec: AggregationSpec) -> tuple[Any, Any]:
    r"""The point that the backward pass measures means and logarithms of tilts from.

    The backward pass cancels means against features, and less is left to cancel if both are
    measured from the average mean of the channel. For small powers this would lose precision, so
    they keep the centre.

    Args:
        xp (module): :mod:`numpy` or :mod:`torch`.
        average (array): The average of the rows' means, :obj:`[num_graphs, channels]`.
        table (array): The channel table.
        spec (AggregationSpec): What is computed.

    Returns:
        The point and, for powers, its share of the range, both :obj:`[num_graphs, channels]`.
    """
    if spec.kind == "softmax":
        return average, average
    steep = table[:, Channel.THETA] >= RECENTRED_POWER
    middle = xp.where(steep, average, 0.0)
    y = table[:, Channel.CENTRE] - table[:, Channel.MU] + table[:, Channel.SCALE] * middle
    return middle, xp.where(steep & (y > 0), y / table[:, Channel.RANGE], 1.0)


def check_range(bottom: float, top: float, dtype: object, limits: Precision) -> None:
    r"""Checks the smallest and the largest feature.

    Raises a :class:`ValueError` unless they and their difference are finite in :obj:`dtype`.
    """
    if not (math.isfinite(bottom) and math.isfinite(top)):
        raise NotFiniteError
    if top - bottom > (LARGEST_SPREAD if limits is FLOAT32 else sys.float_info.max):
        raise ValueError(
            f"The spread of 'x' must fit {dtype} (got features from {bottom:.3g} to {top:.3g}); "
            f"rescale them or pass float64"
        )


def is_extreme(bottom: float, top: float, limits: Precision) -> bool:
    r"""Whether float32 features are too large to leave room to compute in; the channel tables tell
    where they are too close together (:obj:`SMALLEST_SPREAD`).
    """
    return limits is FLOAT32 and max(-bottom, top) > LARGEST_FEATURE


def check_origin(mu: Any, smallest: Any) -> None:
    r"""Raises a :class:`ValueError` where an origin exceeds the smallest feature of its graph."""
    if bool((mu > smallest).any()):
        raise ValueError(
            f"'mu' must not exceed the smallest feature of its graph (got {float(mu.max()):.6g} "
            f"where the features begin at {float(smallest.min()):.6g})"
        )


def saturate(values: Tensor, dtype: torch.dtype, *, terms: int = 1) -> Tensor:
    r"""Casts to :obj:`dtype`; what exceeds its range becomes its largest finite number.

    If the values are going to be summed, :obj:`terms` is how many: each gets its share of the
    range, so that the sum stays finite too.
    """
    limit = torch.finfo(dtype).max / (1 if terms == 1 else 2 * terms)
    if limit <= torch.finfo(values.dtype).max:
        values = values.clamp(-limit, limit)
    return values.to(dtype)


def cast(values: Tensor, dtype: torch.dtype) -> Tensor:
    r"""Casts and saturates like :func:`saturate`, in the backward pass too, which leaves out the
    slope of the saturation. Only a float16 gradient becomes infinite beyond its range:
    :class:`torch.amp.GradScaler` waits for that.
    """
    if not values.requires_grad:
        return saturate(values, dtype)
    result: Tensor = _Cast.apply(values, dtype)  # type: ignore[no-untyped-call]
    return result


class _Cast(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, dtype: torch.dtype) -> Tensor:
        return saturate(values, dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, torch.dtype], output: Tensor) -> None:
        ctx.given, ctx.wanted = inputs[0].dtype, inputs[1]

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        (above,) = grad
        if ctx.given == torch.float16:
            return above.half(), None
        return saturate(above, ctx.given), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0].to(ctx.wanted)
