r"""What an epoch draws at random, and who trains on which of its batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import torch
from torch import Generator
from torch.nn import Parameter

from meanmax.scale.ranks import Job
from meanmax.train.files import Checkpoint

T = TypeVar("T")
LARGEST = 2**62


@final
@dataclass(frozen=True)
class Draws:
    r"""Draws the batches of an epoch from PyTorch's generator, the same on every replica.

    Args:
        job (Job, optional): The processes that train one model together, each on its share of the
            batches. (default: this process alone)
    """

    job: Job | None = None

    def generator(self) -> Generator:
        r"""A generator for one epoch, seeded from PyTorch's own; that of the first replica."""
        seed = int(torch.randint(LARGEST, ()))
        if self.job is not None:
            seed = int.from_bytes(self.job.handed(seed.to_bytes(8, "little")), "little")
        return Generator().manual_seed(seed)

    def share(self, batches: Sequence[T]) -> list[T]:
        r"""The batches of this replica; equally many on each, some twice where they do not go
        round.

        Args:
            batches (sequence): All batches of the epoch, at least one.
        """
        rank, size = (0, 1) if self.job is None else (self.job.rank, self.job.size)
        rounds = math.ceil(len(batches) / size)
        return [batches[(index * size + rank) % len(batches)] for index in range(rounds)]


@final
@dataclass(frozen=True, eq=False)
class Replicas:
    r"""Processes that hold the same model and train it on different batches: losses and gradients
    are averaged. It is a :class:`~meanmax.train.communicator.Ranks`, for training.

    Args:
        job (Job): The processes.
    """

    job: Job

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The means over all processes."""
        return [value / self.job.size for value in self.job.total(values)]

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Replaces every gradient by the mean over all processes."""
        self.job.share_gradients(parameters)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad /= self.job.size

    def agree(self, wish: bool) -> bool:
        r"""What the first process wishes."""
        return self.job.agree(wish)

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""The first process writes, with every one's generator."""
        self.job.write(checkpoint, state)

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""What was written, with this process's own generator."""
        return self.job.read(checkpoint)
