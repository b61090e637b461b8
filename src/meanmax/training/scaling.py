r"""Features on a common scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from meanmax.layers.linear import Features


@dataclass(frozen=True, eq=False)
class Scaling:
    r"""Dense features minus :obj:`mean`, divided by :obj:`scale`; sparse ones divided by the sum of
    their row's magnitudes.

    Args:
        mean (Tensor): Of every feature over the nodes that were trained on.
        scale (Tensor): Their standard deviation, 1 where it is 0.
    """

    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, x: Features) -> Scaling:
        r"""The scaling of these features."""
        if not isinstance(x, Tensor):
            return cls(torch.zeros(x.size(1)), torch.ones(x.size(1)))
        deviation = x.double().std(dim=0, correction=0)
        mean = x.double().mean(dim=0)
        # A constant column comes out as rounding noise, not as zero.
        constant = deviation <= 1e-7 * mean.abs()
        return cls(mean.float(), torch.where(constant, 1.0, deviation).float())

    def __call__(self, x: Features) -> Features:
        r"""Scales features."""
        if isinstance(x, Tensor):
            return (x - self.mean) / self.scale
        row = torch.arange(x.size(0)).repeat_interleave(x.graph.rowptr.diff().long())
        total = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, row, x.value.abs())
        return x.with_value(x.value / total[row])
