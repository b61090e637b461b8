r"""The rows of other ranks that a rank's edges start from, and how they get there and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from meanmax.ops.scaling import NotFiniteError


class RankError(RuntimeError):
    r"""Another rank of the job has stopped, or does not answer."""


@contextmanager
def peers_needed() -> Iterator[None]:
    r"""Around a collective operation: its failure becomes a :class:`RankError`."""
    try:
        yield
    except RankError:
        raise
    except RuntimeError as error:
        reason = str(error).strip().splitlines()
        raise RankError(
            "another rank of this job has stopped or does not answer"
            + (f" ({reason[0][:160]})" if reason else "")
            + "; see its own message above, if it left one. MEANMAX_RANK_TIMEOUT=SECONDS gives "
            "slow ranks longer to answer"
        ) from error


@dataclass
class Traffic:
    r"""What was sent so far."""

    rows: int = 0  # rows sent to other ranks, forward and backward
    bytes: int = 0  # their size


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

    @classmethod
    def agree(
        cls, wanted: Tensor, receive_counts: tuple[int, ...], group: dist.ProcessGroup | None
    ) -> Halo:
        r"""The halo of a rank that needs rows of others. Every rank has to call it.

        Args:
            wanted (Tensor): The rows it needs, by their numbers at their owners, grouped by owner.
            receive_counts (tuple): How many of them come from each rank.
            group (ProcessGroup, optional): The ranks.
        """
        counts = torch.tensor(receive_counts)
        asked = torch.empty_like(counts)
        with peers_needed():
            dist.all_to_all_single(asked, counts, group=group)
            send_counts = tuple(asked.tolist())
            send = wanted.new_empty(sum(send_counts))
            dist.all_to_all_single(
                send, wanted, list(send_counts), list(receive_counts), group=group
            )
        return cls(send, send_counts, receive_counts, group)

    @property
    def num_received(self) -> int:
        r"""The size of the halo."""
        return sum(self.receive_counts)

    def gather(self, x: Tensor) -> Tensor:
        r"""Own rows, :obj:`[num_own, ...]`, followed by those of the halo; in the backward pass the
        gradients of halo rows go back to their owners, who add them up.
        """
        out: Tensor = Exchange.apply(x, self)  # type: ignore[no-untyped-call]
        return out

    def to(self, device: torch.device | str) -> Halo:
        r"""The halo with its indices on another device."""
        return replace(self, send=self.send.to(device))

    def swap(
        self, rows: Tensor, got: Tensor, sent: tuple[int, ...], received: tuple[int, ...]
    ) -> None:
        r"""Sends rows, grouped by receiver, and fills :obj:`got` with those of the other ranks,
        grouped by sender; the counts are for each rank.
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


def summed(values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    r"""The sum over ranks, in float64 on the way, equal to the last bit on all of them."""
    total = values.detach().to(torch.float64, copy=True)
    with peers_needed():
        dist.all_reduce(total, dist.ReduceOp.SUM, group=group)
    return total.to(values.dtype)


def minimum(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    r"""The smallest number that any rank holds, :obj:`[]`. Its gradient is that of all ranks
    together and is shared evenly among ties, as :func:`torch.amin` does on one.
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
