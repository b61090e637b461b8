r"""Sums and minima over all ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from meanmax.scale.failures import peers_needed
from meanmax.ops.scaling import NotFiniteError


def summed(values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    r"""The sum over ranks, in float64 on the way, equal to the last bit on all of them.

    Args:
        values (Tensor): Of one shape on all ranks.
        group (ProcessGroup, optional): The ranks.
    """
    total = values.detach().to(torch.float64, copy=True)
    with peers_needed():
        dist.all_reduce(total, dist.ReduceOp.SUM, group=group)
    return total.to(values.dtype)


def minimum(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    r"""The smallest number that any rank holds, :obj:`[]`. Its gradient is that of all ranks
    together and is shared evenly among ties, as :func:`torch.amin` does on one.

    Args:
        x (Tensor): Features of own nodes; they may be empty.
        group (ProcessGroup, optional): The ranks.
    """
    out: Tensor = Minimum.apply(x, group)  # type: ignore[no-untyped-call]
    return out


class Minimum(Function):
    r"""The minimum over ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        r"""The smallest of all ranks' smallest; 0 if no rank has any."""
        lowest = x.detach().amin() if x.numel() else x.new_tensor(torch.inf)
        if x.numel() and not bool(torch.isfinite(lowest)):
            raise NotFiniteError
        with peers_needed():
            dist.all_reduce(lowest, dist.ReduceOp.MIN, group=group)
        lowest = torch.where(torch.isfinite(lowest), lowest, 0.0)
        ctx.group = group
        ctx.save_for_backward(x, lowest)
        return lowest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        r"""Every tie's share."""
        x, lowest = ctx.saved_tensors
        ties = x == lowest
        both = summed(torch.stack([grads[0].double(), ties.sum().double()]), ctx.group)
        share = both[0] / both[1].clamp(min=1)
        return ties.to(x.dtype) * share.to(x.dtype), None
