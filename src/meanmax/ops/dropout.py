r"""Dropout as a differentiable operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.ops.autograd import apply
from meanmax.ops.dispatch import numba_serves


def dropout(x: Tensor, rate: float) -> Tensor:
    r"""Sets each number to 0 with probability :obj:`rate` and divides the others by
    :math:`1 - \mathrm{rate}`.

    Its randomness comes from PyTorch's generator: :func:`torch.manual_seed` repeats it. Where
    numba computes, the mask is a hash of one number drawn from there, many times faster than
    :func:`torch.nn.functional.dropout` and with no mask kept; elsewhere it is that function.

    Args:
        x (Tensor): Numbers in any shape.
        rate (float): The probability, in :math:`[0, 1)`.
    """
    if not numba_serves(x):
        return torch.nn.functional.dropout(x, rate)
    return Drop.draw(rate)(x)


@dataclass(frozen=True)
class Drop:
    r"""A dropout that is drawn, and may be done later: the same mask each time.

    Args:
        rate (float): The probability of a number to become 0, in :math:`[0, 1)`.
        seed (int): What the mask is a hash of.
    """

    rate: float
    seed: int

    @classmethod
    def draw(cls, rate: float) -> Drop:
        r"""Takes a seed from PyTorch's generator."""
        return cls(rate, int(torch.randint(2**63 - 1, ())))

    def __call__(self, x: Tensor) -> Tensor:
        r"""Does it, on the CPU: the mask is numba's, whatever backend is chosen since."""
        return apply(Dropout, x, self.rate, self.seed)


class Dropout(Function):
    r"""Dropout that computes its mask anew in the backward pass; differentiable any number of
    times.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, seed: int) -> Tensor:
        r"""Masks and scales."""
        from meanmax.ops.numba.dropout_dropout import masked

        ctx.rate, ctx.seed = rate, seed
        return torch.from_numpy(masked(x.detach().contiguous().numpy(), seed, rate))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        r"""The same mask and scale for the gradient."""
        return apply(Dropout, grads[0], ctx.rate, ctx.seed), None, None
