r"""What an epoch draws at random: from PyTorch's generator, the same on every replica."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Generator

T = TypeVar("T")
LARGEST = 2**62


@dataclass(frozen=True)
class Replicas:
    r"""The processes that train one model together, each on its share of the batches.

    Args:
        rank (int, optional): The number of this one. (default: :obj:`0`)
        world (int, optional): How many there are. (default: :obj:`1`)
    """

    rank: int = 0
    world: int = 1

    def generator(self) -> Generator:
        r"""A generator for one epoch, seeded from PyTorch's own.

        With several replicas it is seeded by that of the first, and PyTorch's own is set anew, to
        another state on each: dropout then differs between replicas, and the state of the first
        alone is enough to go on from.
        """
        seed = torch.randint(LARGEST, ())
        if self.world > 1:
            dist.broadcast(seed, 0)
            torch.manual_seed(int(seed) + 1 + self.rank)
        return Generator().manual_seed(int(seed))

    def share(self, batches: Sequence[T]) -> list[T]:
        r"""The batches of this replica; equally many on each, some twice where they do not go
        round.
        """
        rounds = math.ceil(len(batches) / self.world)
        return [batches[(i * self.world + self.rank) % len(batches)] for i in range(rounds)]
