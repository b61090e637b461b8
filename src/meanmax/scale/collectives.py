r"""The processes of a job that :obj:`torchrun` has started, and their collective operations."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.nn import Parameter

from meanmax.ops.scaling import NotFiniteError
from meanmax.train.checkpoint import Checkpoint, CheckpointError

PATIENCE = 45.0
SETUP = timedelta(hours=6)


class LaunchError(RuntimeError):
    r"""The command was not started in the way that it needs."""


class RankError(RuntimeError):
    r"""Another rank of the job has stopped, or does not answer."""


@contextmanager
def collective_errors() -> Iterator[None]:
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


@dataclass(frozen=True, eq=False)
class Job:
    r"""Processes that hold parts of one graph. It is a
    :class:`~meanmax.train.loop.Communicator`, for training. Messages in its group have to be
    answered within 45 seconds, or as many as the variable :obj:`MEANMAX_RANK_TIMEOUT` has.
    """

    rank: int  # the number of this process
    size: int  # the number of processes
    group: dist.ProcessGroup

    @property
    def is_first(self) -> bool:
        r"""Whether this process writes files and prints."""
        return self.rank == 0

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The sums over all processes."""
        found: list[float] = summed(torch.tensor(values, dtype=torch.float64), self.group).tolist()
        return found

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Replaces every gradient by the sum over all processes, in one message."""
        grads = [p.grad for p in parameters if p.grad is not None]
        if not grads:
            return
        flat = torch.cat([grad.detach().reshape(-1).double() for grad in grads])
        sums = torch.split(summed(flat, self.group), [grad.numel() for grad in grads])
        for grad, total in zip(grads, sums, strict=True):
            grad.copy_(total.view_as(grad))

    def agree(self, decision: bool) -> bool:
        r"""The decision of the first process."""
        flag = torch.tensor([float(decision)])
        with collective_errors():
            dist.broadcast(flag, 0, group=self.group)
        return bool(flag)

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""The first process writes the common state, and the generators of all processes."""
        states = [torch.empty_like(state["generator"]) for _ in range(self.size)]
        with collective_errors():
            dist.all_gather(states, state["generator"], group=self.group)
        if self.is_first:
            checkpoint.write({**state, "generator": torch.stack(states)})

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""The checkpoint that the first process reads, sent to all."""
        packed, failure = io.BytesIO(), ""
        if self.is_first:
            try:
                if (found := checkpoint.read()) is not None:
                    torch.save(found, packed)
            except CheckpointError as error:
                failure = str(error)
        if message := self.broadcast_bytes(failure.encode()):
            raise CheckpointError(message.decode())
        content = self.broadcast_bytes(packed.getvalue())
        if not content:
            return None
        state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        states = state["generator"]
        if states.dim() != 2 or len(states) != self.size:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} was not written by {self.size} processes: delete or "
                f"move it to start over"
            )
        return {**state, "generator": states[self.rank].clone()}

    def broadcast_bytes(self, content: bytes) -> bytes:
        r"""The bytes of the first process, sent to all; those of the others are ignored."""
        size = torch.tensor([len(content)])
        with collective_errors():
            dist.broadcast(size, 0, group=self.group)
            data = torch.empty(int(size), dtype=torch.uint8)
            if self.is_first:
                data = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else data
            dist.broadcast(data, 0, group=self.group)
        return bytes(data.numpy())

    def wait(self) -> None:
        r"""Waits until all processes arrive, for hours if necessary: one of them may be
        partitioning a graph.
        """
        with collective_errors():
            dist.barrier()


class Replicas(Job):
    r"""Processes that hold the same model and train it on different batches: losses and gradients
    are averaged.
    """

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The means over all processes."""
        return [value / self.size for value in super().total(values)]

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Replaces every gradient by the mean over all processes."""
        super().share_gradients(parameters)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad /= self.size


@contextmanager
def joined_job(backend: str | None = None) -> Iterator[Job]:
    r"""Joins the job that this process belongs to, and leaves it at the end.

    Args:
        backend (str, optional): As :func:`torch.distributed.init_process_group` takes it.
            (default: gloo, and nccl for tensors on a GPU where there is one)

    Example:
        >>> with joined_job() as job: # doctest: +IGNORE_EXCEPTION_DETAIL
        ...     print(job.rank)
        Traceback (most recent call last):
        LaunchError: this has to be started by torchrun, once for each part of the graph
    """
    rank, size = (os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))
    if rank is None or size is None:
        raise LaunchError(
            "this has to be started by torchrun, once for each part of the graph: "
            "torchrun --nproc-per-node 2 -m meanmax train --distributed ..."
        )
    with collective_errors():
        usual = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend or usual, timeout=SETUP)
        group = dist.new_group(timeout=_patience())
    try:
        yield Job(int(rank), int(size), group)
    finally:
        dist.destroy_process_group()


def _patience() -> timedelta:
    given = os.environ.get("MEANMAX_RANK_TIMEOUT")
    try:
        seconds = PATIENCE if given is None else float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < SETUP.total_seconds():
        raise LaunchError(f"MEANMAX_RANK_TIMEOUT must be a number of seconds (got {given!r})")
    return timedelta(seconds=seconds)


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
    """

    send: Tensor  # own rows that others need, int64, grouped by receiver; some more than once
    send_counts: tuple[int, ...]  # how many of them go to each rank
    receive_counts: tuple[int, ...]  # how many rows come from each rank
    group: dist.ProcessGroup | None = None  # the ranks; all if None
    traffic: Traffic = field(default_factory=Traffic)

    @classmethod
    def agree(
        cls, wanted: Tensor, receive_counts: tuple[int, ...], group: dist.ProcessGroup | None
    ) -> Halo:
        r"""The halo of a rank that wants rows of others, by their numbers at their owners, grouped
        by owner. Every rank has to call it.
        """
        counts = torch.tensor(receive_counts)
        asked = torch.empty_like(counts)
        with collective_errors():
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
        gradients of halo rows are returned to their owners and added up there.
        """
        out: Tensor = _Exchange.apply(x, self)  # type: ignore[no-untyped-call]
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
        with collective_errors():
            dist.all_to_all_single(got, rows, list(received), list(sent), group=self.group)
        self.traffic.rows += len(rows)
        self.traffic.bytes += rows.numel() * rows.element_size()


class _Exchange(Function):
    r"""Sends rows to the ranks that need them, and gradients back to the owners of rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, halo: Halo) -> Tensor:
        ctx.halo, ctx.num_own = halo, len(x)
        rows = x.detach().index_select(0, halo.send)
        out = x.new_empty(len(x) + halo.num_received, *x.shape[1:])
        out[: len(x)] = x
        halo.swap(rows, out[len(x) :], halo.send_counts, halo.receive_counts)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        halo, (grad,) = ctx.halo, grads
        outer = grad[ctx.num_own :].contiguous()
        got = grad.new_empty(len(halo.send), *grad.shape[1:])
        halo.swap(outer, got, halo.receive_counts, halo.send_counts)
        return grad[: ctx.num_own].clone().index_add_(0, halo.send, got), None


def summed(values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    r"""The sum over ranks, in float64 on the way, equal to the last bit on all of them."""
    total = values.detach().to(torch.float64, copy=True)
    with collective_errors():
        dist.all_reduce(total, dist.ReduceOp.SUM, group=group)
    return total.to(values.dtype)


def minimum(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    r"""The smallest number that any rank holds, :obj:`[]`. Its gradient is summed over all ranks
    and shared evenly among ties, as :func:`torch.amin` does in one process.
    """
    out: Tensor = _Minimum.apply(x, group)  # type: ignore[no-untyped-call]
    return out


class _Minimum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        lowest = x.detach().amin() if x.numel() else x.new_tensor(torch.inf)
        if x.numel() and not bool(torch.isfinite(lowest)):
            raise NotFiniteError
        with collective_errors():
            dist.all_reduce(lowest, dist.ReduceOp.MIN, group=group)
        lowest = torch.where(torch.isfinite(lowest), lowest, 0.0)
        ctx.group = group
        ctx.save_for_backward(x, lowest)
        return lowest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x, lowest = ctx.saved_tensors
        ties = x == lowest
        both = summed(torch.stack([grads[0].double(), ties.sum().double()]), ctx.group)
        share = both[0] / both[1].clamp(min=1)
        return ties.to(x.dtype) * share.to(x.dtype), None
