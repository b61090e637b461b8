r"""The rows of other ranks that a rank's edges start from, and how they get there and back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from meanmax.scale.failures import peers_needed


@dataclass
class Traffic:
    r"""What was sent so far.

    Args:
        rows (int): Rows sent to other ranks, forward and backward.
        bytes (int): Their size.
    """

    rows: int = 0
    bytes: int = 0


@final
@dataclass(frozen=True, eq=False)
class Halo:
    r"""Which rows a rank sends and how many it gets. The halo is the nodes of other ranks that
    edges to its own nodes start from, grouped by the rank that owns them.

    Args:
        send (Tensor): Own rows that others need, grouped by who needs them, int64. A row that two
            ranks need is there twice.
        send_counts (tuple): How many of them go to each rank.
        receive_counts (tuple): How many rows come from each rank.
        group (ProcessGroup, optional): The ranks; all if :obj:`None`. (default: :obj:`None`)
        traffic (Traffic): What was sent so far.
    """

    send: Tensor
    send_counts: tuple[int, ...]
    receive_counts: tuple[int, ...]
    group: dist.ProcessGroup | None = None
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def num_received(self) -> int:
        r"""The size of the halo."""
        return sum(self.receive_counts)

    def gather(self, x: Tensor) -> Tensor:
        r"""Own rows followed by those of the halo; in the backward pass the gradients of halo rows
        go back to their owners, who add them up.

        Args:
            x (Tensor): Own rows, :obj:`[num_own, ...]`.
        """
        out: Tensor = Exchange.apply(x, self)  # type: ignore[no-untyped-call]
        return out

    def to(self, device: torch.device | str) -> Halo:
        r"""The halo with its indices on another device."""
        return replace(self, send=self.send.to(device))

    def swap(
        self, rows: Tensor, got: Tensor, sent: tuple[int, ...], received: tuple[int, ...]
    ) -> None:
        r"""Sends rows to all ranks and takes what they send.

        Args:
            rows (Tensor): Grouped by receiver.
            got (Tensor): Where to put what comes, grouped by sender.
            sent (tuple): How many go to each rank.
            received (tuple): How many come from each.
        """
        with peers_needed():
            dist.all_to_all_single(got, rows, list(received), list(sent), group=self.group)
        self.traffic.rows += len(rows)
        self.traffic.bytes += rows.numel() * rows.element_size()


class Exchange(Function):
    r"""Rows to those who need them, gradients back to where rows came from."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, halo: Halo) -> Tensor:
        r"""Appends the halo."""
        ctx.halo, ctx.num_own = halo, len(x)
        rows = x.detach().index_select(0, halo.send)
        out = x.new_empty(len(x) + halo.num_received, *x.shape[1:])
        out[: len(x)] = x
        halo.swap(rows, out[len(x) :], halo.send_counts, halo.receive_counts)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        r"""Adds what others did with own rows to what was done with them here."""
        halo, (grad,) = ctx.halo, grads
        outer = grad[ctx.num_own :].contiguous()
        got = grad.new_empty(len(halo.send), *grad.shape[1:])
        halo.swap(outer, got, halo.receive_counts, halo.send_counts)
        return grad[: ctx.num_own].clone().index_add_(0, halo.send, got), None
