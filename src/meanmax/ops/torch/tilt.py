r"""The tilt of every source."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.ops.spec import Form
from meanmax.ops.scaling import Channel
from meanmax.ops.torch.table import NodeTable


def centred(x: Tensor, nodes: NodeTable) -> Tensor:
    r""":math:`\hat v`, the features in units of their channel."""
    return (x - nodes.src(Channel.CENTRE)) * nodes.src(Channel.INV_SCALE)


def relative_log(x: Tensor, nodes: NodeTable) -> Tensor:
    r""":math:`\log(y / y_{max})`, accurate at both ends; at the origin :math:`-\log y_{max}`.

    The value at the origin makes the derivative of :math:`y^\alpha` in :math:`\alpha` vanish
    there, in the features' own unit.
    """
    span = nodes.src(Channel.RANGE)
    below_top = (x - nodes.src(Channel.TOP)) / span
    y = x - nodes.src(Channel.MU)
    far = (torch.where(y > 0, y, 1.0) / span).clamp(min=_tiny(x)).log()
    return torch.where((below_top > -0.5) & (y > 0), below_top.clamp(min=-0.5).log1p(), far)


def power_tilt(x: Tensor, nodes: NodeTable, logarithm: Tensor) -> Tensor:
    r""":math:`(y / y_{max})^\theta` with :math:`0^0 = 1`; exact for :math:`\theta = 1`."""
    theta = nodes.src(Channel.THETA)
    y = x - nodes.src(Channel.MU)
    tilt = torch.where(theta == 1, y / nodes.src(Channel.RANGE), (theta * logarithm).exp())
    return torch.where(y > 0, tilt, (theta == 0).to(x.dtype))


def tilt_of(x: Tensor, nodes: NodeTable, form: Form, floor: float) -> Tensor:
    r""":math:`T`; for powers at least :obj:`floor` above the origin.

    A sum of exactly 0 then tells that all neighbours sit at the origin.
    """
    if form.kind == "softmax":
        below_top = (x - nodes.src(Channel.TOP)) * nodes.src(Channel.INV_SCALE)
        return below_top.mul_(nodes.src(Channel.STEEPNESS)).exp_()
    tilt = power_tilt(x, nodes, relative_log(x, nodes))
    return torch.where(x > nodes.src(Channel.MU), tilt.clamp_(min=floor), tilt)


def power_slope(x: Tensor, nodes: NodeTable, tilt: Tensor) -> Tensor:
    r""":math:`T / (y / y_{max})`; at the origin 1 for :math:`\theta = 1` and 0 otherwise."""
    y = x - nodes.src(Channel.MU)
    ratio = (torch.where(y > 0, y, 1.0) / nodes.src(Channel.RANGE)).clamp(min=_tiny(x))
    at_origin = (nodes.src(Channel.THETA) == 1).to(x.dtype)
    return torch.where(y > 0, tilt / ratio, at_origin)


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny
