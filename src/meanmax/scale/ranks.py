r"""The processes of a job that :obj:`torchrun` has started."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import Parameter

from meanmax.scale.collectives import peers_needed, summed
from meanmax.train.checkpoint import Checkpoint, CheckpointError

PATIENCE = 45.0
SETUP = timedelta(hours=6)


class LaunchError(RuntimeError):
    r"""The command was not started in the way that it needs."""


@dataclass(frozen=True, eq=False)
class Job:
    r"""Processes that hold parts of one graph. It is a
    :class:`~meanmax.train.loop.Communicator`, for training.

    Args:
        rank (int): The number of this process.
        size (int): How many there are.
        group (ProcessGroup): They, for messages that are answered within 45 seconds, or what
            the variable :obj:`MEANMAX_RANK_TIMEOUT` says.
    """

    rank: int
    size: int
    group: dist.ProcessGroup

    @property
    def is_first(self) -> bool:
        r"""Whether this one writes files and talks."""
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

    def agree(self, wish: bool) -> bool:
        r"""What the first process wishes."""
        flag = torch.tensor([float(wish)])
        with peers_needed():
            dist.broadcast(flag, 0, group=self.group)
        return bool(flag)

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""The first process writes what all have in common, and every one's generator."""
        states = [torch.empty_like(state["generator"]) for _ in range(self.size)]
        with peers_needed():
            dist.all_gather(states, state["generator"], group=self.group)
        if self.is_first:
            checkpoint.write({**state, "generator": torch.stack(states)})

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""What the first process finds on its disk, handed to all."""
        packed, refusal = io.BytesIO(), ""
        if self.is_first:
            try:
                if (found := checkpoint.read()) is not None:
                    torch.save(found, packed)
            except CheckpointError as error:
                refusal = str(error)
        if said := self.handed(refusal.encode()):
            raise CheckpointError(said.decode())
        content = self.handed(packed.getvalue())
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

    def handed(self, content: bytes) -> bytes:
        r"""The first process's bytes; the others' are ignored."""
        size = torch.tensor([len(content)])
        with peers_needed():
            dist.broadcast(size, 0, group=self.group)
            data = torch.empty(int(size), dtype=torch.uint8)
            if self.is_first:
                data = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else data
            dist.broadcast(data, 0, group=self.group)
        return bytes(data.numpy())

    def wait(self) -> None:
        r"""Waits until all are here, for hours if need be: one of them may be cutting a graph."""
        with peers_needed():
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
    """
    rank, size = (os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))
    if rank is None or size is None:
        raise LaunchError(
            "this has to be started by torchrun, once for each part of the graph: "
            "torchrun --nproc-per-node 2 -m meanmax train --distributed ..."
        )
    with peers_needed():
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
