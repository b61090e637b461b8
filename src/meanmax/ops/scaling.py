r"""How each channel is scaled before its exponentials are taken.

All kernels work on numbers of order one: a feature :math:`z` of a channel enters as
:math:`\hat v = (z - \mathrm{centre}) / \mathrm{scale}` with :math:`|\hat v| \leq 1`, and its tilt
is measured from the channel's largest feature. What a channel needs for that is one column of a
small table per graph.
"""

from __future__ import annotations

import math
from enum import IntEnum

import torch
from torch import Tensor

from meanmax.ops.spec import AggregationSpec

STEEP = 16.0
CONCENTRATED = 0.25
SAMPLE, SMALL_SAMPLE, FEW_GRAPHS = 32, 8, 64
STEEP_POWER = 100.0
RECENTRED_POWER = 8.0
LARGEST_FEATURE, SMALLEST_SPREAD = 1e12, 1e-25


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


def channel_table(
    high: Tensor, low: Tensor, mu: Tensor, theta: Tensor, spec: AggregationSpec, sample: Tensor
) -> Tensor:
    r"""The table :obj:`[num_graphs, len(Channel), channels]`.

    The centre decides how much cancellation the averages suffer. Where the bulk of the features
    lies close together and far from zero (for powers: from :math:`\mu`) it is their median; where
    the tilt is so steep that only features near the top count, it is the top. Elsewhere it is
    zero (:math:`\mu`), so that one outlier does not cost the others their digits.

    Args:
        high (Tensor): Largest feature per graph and channel, :obj:`[num_graphs, channels]`.
        low (Tensor): Smallest feature per graph and channel.
        mu (Tensor): The origin per graph, :obj:`[num_graphs]`.
        theta (Tensor): The parameter per channel, :obj:`[channels]`.
        spec (AggregationSpec): What is computed.
        sample (Tensor): Features of some nodes of each graph, as :func:`sample_nodes` picks them,
            :obj:`[num_graphs, sample, channels]`.
    """
    origin = mu.unsqueeze(1).expand_as(high)
    theta = theta.expand_as(high)
    ordered = sample.sort(dim=1).values
    quarter, half, three = (ordered[:, sample.size(1) * k // 4] for k in (1, 2, 3))
    base = torch.zeros_like(high) if spec.kind == "softmax" else origin
    concentrated = three - quarter < CONCENTRATED * (half - base).abs()
    steep = theta * high.abs() > STEEP if spec.kind == "softmax" else theta >= STEEP_POWER
    centre = torch.where(steep, high, torch.where(concentrated, half, base))
    scale = _next_power_of_two(torch.maximum((high - centre).abs(), (low - centre).abs()))
    span = high - origin
    span = torch.where(span > 0, span, 1.0)
    slope = theta * scale if spec.kind == "softmax" else scale / span
    slope = slope.clamp(max=torch.finfo(high.dtype).max)
    inverse = 1 / torch.where(theta > 0, theta, 1.0)
    table = (high, centre, scale, 1 / scale, origin, span, theta, slope, 1 / span, inverse)
    return torch.stack(table, dim=1)


def sample_nodes(pointer: Tensor) -> Tensor:
    r"""A few sources of each graph, evenly spaced, :obj:`[num_graphs, sample]`."""
    count = SAMPLE if pointer.numel() <= FEW_GRAPHS else SMALL_SAMPLE
    steps = (torch.arange(count, device=pointer.device) + 0.5) / count
    first, size = pointer[:-1, None], pointer.diff()[:, None]
    # A graph without nodes has no features either; what it borrows is never used.
    return (first + (steps * size).long()).clamp(max=int(pointer[-1]) - 1)


def too_narrow(table: Tensor) -> bool:
    r"""Whether some range is so small that its inverse is not a number; no tilt is safe then."""
    return not bool(torch.isfinite(table[:, Channel.INV_RANGE]).all())


def recentre(average: Tensor, table: Tensor, spec: AggregationSpec) -> tuple[Tensor, Tensor]:
    r"""The point that the backward pass measures means and logarithms of tilts from.

    It cancels means against features, and less is left to cancel if both are measured from the
    average mean of the channel. Small powers weigh features of very different size, which that
    would cost digits; they keep the centre.

    Args:
        average (Tensor): The average of the rows' means, :obj:`[num_graphs, channels]`.
        table (Tensor): The channel table.
        spec (AggregationSpec): What is computed.

    Returns:
        The point and, for powers, its relative logarithm, both :obj:`[num_graphs, channels]`.
    """
    if spec.kind == "softmax":
        return average, torch.zeros_like(average)
    steep = table[:, Channel.THETA] >= RECENTRED_POWER
    middle = torch.where(steep, average, 0.0)
    y = table[:, Channel.CENTRE] - table[:, Channel.MU] + table[:, Channel.SCALE] * middle
    ratio = torch.where(steep & (y > 0), y / table[:, Channel.RANGE], 1.0)
    return middle, ratio.log()


def check_features(high: Tensor, low: Tensor) -> None:
    r"""Raises a :class:`ValueError` unless the features are finite and their spread is."""
    if not bool((torch.isfinite(high) & torch.isfinite(low)).all()):
        raise NotFiniteError
    if high.numel() and not bool(torch.isfinite(high.amax() - low.amin())):
        raise ValueError(
            f"The spread of 'x' must fit {high.dtype} (got features from {low.amin():.3g} to "
            f"{high.amax():.3g}); rescale them or pass float64"
        )


def check_magnitude(high: Tensor, low: Tensor) -> None:
    r"""Raises :class:`TooExtremeError` for float32 features that leave no room to compute in."""
    if high.dtype != torch.float32 or high.numel() == 0:
        return
    top, bottom = float(high.amax()), float(low.amin())
    if max(abs(top), abs(bottom)) > LARGEST_FEATURE or 0 < top - bottom < SMALLEST_SPREAD:
        raise TooExtremeError


def origin_of(low: Tensor, mu: Tensor | None, spec: AggregationSpec) -> Tensor:
    r"""The origin of every graph: :obj:`mu`, or the minimum of its features."""
    if not spec.has_mu:
        return low.new_zeros(low.size(0))
    smallest = low.amin(dim=1) if low.size(1) else low.new_zeros(low.size(0))
    if mu is None:
        return smallest
    if bool((mu > smallest).any()):
        raise ValueError(
            f"'mu' must not exceed the smallest feature of its graph (got {mu.max().item():.6g} "
            f"where the features begin at {smallest.min().item():.6g})"
        )
    return mu.detach().to(low.dtype)


def saturate(
    values: Tensor, dtype: torch.dtype, *, terms: int = 1, in_place: bool = False
) -> Tensor:
    r"""Casts to :obj:`dtype`; what exceeds its range becomes its largest finite number.

    If the values are going to be summed, :obj:`terms` is how many: each gets its share of the
    range, so that the sum stays finite too. With :obj:`in_place` the values must be nobody else's.
    """
    limit = torch.finfo(dtype).max / (1 if terms == 1 else 2 * terms)
    return (values.clamp_ if in_place else values.clamp)(-limit, limit).to(dtype)


def _next_power_of_two(values: Tensor) -> Tensor:
    exponent = torch.frexp(torch.where(values > 0, values, 0.5))[1]
    # Its inverse must be a normal number too.
    largest = int(-math.log2(torch.finfo(values.dtype).tiny))
    return torch.ldexp(torch.ones_like(values), exponent.clamp(-largest, largest))
