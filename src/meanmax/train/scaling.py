r"""Features on a common scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from meanmax.graph import SparseFeatures
from meanmax.nn.linear import (Features, as_dense)


@dataclass(frozen=True, eq=False)
class Scaling:
    r"""Dense features minus :obj:`mean`, divided by :obj:`scale`; sparse ones divided by the sum of
    their row's magnitudes. What was fitted to one kind makes the other one of that kind.

    Args:
        sparse (bool): Whether the features were sparse.
        mean (Tensor): Of every feature over the nodes that were trained on.
        scale (Tensor): Their standard deviation, 1 where it is 0.
    """

    sparse: bool
    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, x: Features) -> Scaling:
        r"""The scaling of these features."""
        if not isinstance(x, Tensor):
            return cls(True, torch.zeros(x.size(1)), torch.ones(x.size(1)))
        deviation = x.double().std(dim=0, correction=0)
        mean = x.double().mean(dim=0)
        # A constant column comes out as rounding noise, not as zero.
        constant = deviation <= 1e-7 * mean.abs()
        return cls(False, mean.to(x.dtype), torch.where(constant, 1.0, deviation).to(x.dtype))

    def __call__(self, x: Features) -> Features:
        r"""Scales features."""
        if not self.sparse:
            return (as_dense(x) - self.mean) / self.scale
        if isinstance(x, Tensor):
            x = SparseFeatures.from_dense(x, x.dtype)
        row = torch.arange(x.size(0)).repeat_interleave(x.graph.rowptr.diff().long())
        total = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, row, x.value.abs())
        return x.with_value(x.value / total[row])
