r"""Batches of training nodes with neighbours drawn at random."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from meanmax.scale.draws import (LARGEST, Draws)
from meanmax.scale.edges_errors import BatchingError
from meanmax.scale.rows import Rows
from meanmax.scale.sampling import NeighbourSampler
from meanmax.train import (Nodes, Problem, Sample)


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighbourProblem(Problem):
    r"""Trains on a few training nodes at a time, with neighbours drawn anew each time. The loss is
    taken over those nodes alone.

    Args:
        x (Rows): Features.
        sampler (NeighbourSampler): Draws neighbours; as many hops as the model has layers, or more.
        nodes (Nodes): Training nodes.
        batch_size (int, optional): The most training nodes in a batch; batches are of about equal
            size. (default: :obj:`512`)
        draws (Draws, optional): Draws batches. (default: for this process alone)
    """

    samples: Sequence[Sample] = ()
    x: Rows
    sampler: NeighbourSampler
    nodes: Nodes
    batch_size: int = 512
    draws: Draws = field(default_factory=Draws)

    def __post_init__(self) -> None:
        r"""Checks the batch size."""
        if self.batch_size < 1:
            raise BatchingError(f"'batch_size' must be 1 or more (got {self.batch_size})")

    def batches(self) -> Iterator[Sample]:
        r"""The batches of one epoch, in an order drawn from PyTorch's generator."""
        generator = self.draws.generator()
        order = torch.randperm(len(self.nodes.index), generator=generator)
        drawn = torch.tensor_split(order, math.ceil(len(order) / self.batch_size))
        seeds = torch.randint(LARGEST, (len(drawn),), generator=generator).tolist()
        for chosen, seed in self.draws.share(list(zip(drawn, seeds, strict=True))):
            yield self.sample(chosen, seed)

    def sample(self, chosen: torch.Tensor, seed: int) -> Sample:
        r"""The batch of some training nodes.

        Args:
            chosen (Tensor): Their places among the training nodes.
            seed (int): What neighbours are drawn with.
        """
        drawn = self.sampler.sample(self.nodes.index[chosen].numpy(), seed)
        nodes = Nodes(torch.arange(len(chosen)), self.nodes.target[chosen])
        return Sample(self.x.gather(drawn.nodes), drawn.graph, nodes)
