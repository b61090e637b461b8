r"""Tilted means: the softmax and the polynomial."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from meanmax.ops.scaling import (Channel, recentre)
from meanmax.ops.torch.sparse import (product, transposed_product)
from meanmax.ops.torch.state import State
from meanmax.ops.torch.tilt import (centred, power_slope, power_tilt, relative_log, tilt_of)


class Pieces(NamedTuple):
    r"""Gradients of one pass over the rows that are not recomputed.

    Args:
        x (Tensor): Of the features.
        theta (Tensor): Of the parameter, float64.
        direct (Tensor): What reaches the origin other than through the features, per graph.
        left (Tensor): The rows' factors for the gradient of the weights.
        whole (Tensor): What every weight of a row gets besides, per channel.
    """

    x: Tensor
    theta: Tensor
    direct: Tensor
    left: Tensor
    whole: Tensor


def mean_ratio(state: State, tilt: Tensor) -> Tensor:
    r"""The tilted mean in units of the channel; overwrites :obj:`tilt`."""
    value = product(tilt.mul_(centred(state.x, state.nodes)), state.graph, state.weight)
    return torch.where(state.below > 0, value / _nonzero(state.below), 0.0)


def mean_output(state: State) -> Tensor:
    r"""The aggregate of every row; :math:`\mu` where all neighbours sit there."""
    nodes = state.nodes
    mean = nodes.dst(Channel.CENTRE) + nodes.dst(Channel.SCALE) * state.ratio
    mean = torch.where(state.below > 0, mean, nodes.dst(Channel.MU))
    if state.form.times_weight:
        mean = mean * state.total
    return torch.where(state.total > 0, mean, 0.0)


def mean_backward(state: State, grad: Tensor) -> Pieces:
    r"""Two products with the transpose, measured from each channel's average mean."""
    nodes, x, form = state.nodes, state.x, state.form
    factor = state.total if form.times_weight else (state.total > 0).to(x.dtype)
    counted = nodes.sum_dst((state.below > 0).to(x.dtype)).clamp(min=1)
    average = (nodes.sum_dst(state.ratio) / counted).to(x.dtype)
    middle, log_middle = recentre(average, nodes.table, form)
    q = torch.where(state.below > 0, factor * grad / _nonzero(state.below), 0.0)
    carried = transposed_product(q, state.graph, state.weight)
    bent = transposed_product(
        q * (state.ratio - nodes.spread_dst(middle)), state.graph, state.weight
    )
    away = centred(x, nodes) - nodes.spread_src(middle)
    moved = away * carried - bent
    scale = nodes.table[:, Channel.SCALE].double()
    if form.kind == "softmax":
        tilt = tilt_of(x, nodes, form, 0.0)
        slope = torch.where(tilt > 0, nodes.src(Channel.STEEPNESS) * moved, 0.0)
        dx = tilt * (carried + slope)
        theta = (nodes.sum_src(tilt * moved * away) * scale**2).sum(0)
    else:
        logarithm = relative_log(x, nodes)
        tilt = power_tilt(x, nodes, logarithm)
        slope = nodes.src(Channel.THETA) * power_slope(x, nodes, tilt)
        at_origin = x <= nodes.src(Channel.MU)
        slope = torch.where(at_origin & (nodes.src(Channel.THETA) != 1), 0.0, slope)
        dx = tilt * carried + nodes.src(Channel.STEEPNESS) * slope * moved
        logarithm = logarithm - nodes.spread_src(log_middle)
        theta = (nodes.sum_src(tilt * moved * logarithm) * scale).sum(0)
    limit = torch.finfo(x.dtype).max
    return Pieces(
        dx.clamp_(-limit, limit),
        theta,
        nodes.sum_dst(factor * grad).sum(1),
        q * nodes.dst(Channel.SCALE),
        grad * mean_output(state) / _nonzero(state.total) if form.times_weight else grad * 0,
    )


def _nonzero(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)
