r"""Dropout as a differentiable operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.graph import SparseFeatures
from meanmax.ops.autograd import first_order, weighted_sum
from meanmax.ops.dispatch import numba_serves
from meanmax.ops.library import operation


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
    if torch.compiler.is_compiling() and x.is_cpu:
        return seeded_dropout(x, torch.randint(2**63 - 1, ()), rate)
    if torch.compiler.is_compiling() or not numba_serves(x):
        return torch.nn.functional.dropout(x, rate)
    return Drop.draw(rate)(x)


@dataclass(frozen=True)
class Drop:
    r"""A dropout whose mask is fixed: it may be applied later, with the same mask each time.

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
        r"""Applies it on the CPU: the mask is numba's, whatever backend is chosen since."""
        out: Tensor = _Dropout.apply(x, self.rate, self.seed)  # type: ignore[no-untyped-call]
        return out


@operation("Tensor x, Tensor seed, float rate", lambda x, *_: (x.shape, x.dtype))
def seeded_dropout(x: Tensor, seed: Tensor, rate: float) -> Tensor:
    r"""Dropout whose mask follows from a seed drawn before: compiled code draws it, so that it is
    known where numbers are random.
    """
    if numba_serves(x):
        return Drop(rate, int(seed))(x)
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(int(seed))) >= rate
    return x * kept / (1 - rate)


class _Dropout(Function):
    r"""Computes its mask again in the backward pass; differentiable any number of times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, seed: int) -> Tensor:
        from meanmax.ops.numba.dropout import masked

        ctx.rate, ctx.seed = rate, seed
        return torch.from_numpy(masked(x.detach().contiguous().numpy(), seed, rate))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return Drop(ctx.rate, ctx.seed)(grads[0]), None, None


def sparse_product(x: SparseFeatures, matrix: Tensor) -> Tensor:
    r""":math:`x M`, differentiable in the matrix and in the stored values.

    Where numba computes and there are many more entries than columns, entries that a pending
    dropout would set to 0 are skipped instead, forward and backward.

    Args:
        x (SparseFeatures): :obj:`[num_nodes, num_features]`, perhaps with a :class:`Drop` pending.
        matrix (Tensor): :obj:`[num_features, channels]`, float32 or float64.
    """
    if isinstance(x.pending, Drop) and numba_serves(matrix) and x.device == matrix.device:
        from meanmax.ops.numba import dropout

        if dropout.is_tall(x.graph, matrix.size(1)):
            drop = (x.graph, x.pending.rate, x.pending.seed)
            return first_order(
                lambda matrix, value: (dropout.product(matrix, value, *drop),),
                lambda grad, needs, matrix, value: dropout.product_backward(
                    grad, matrix, value, *drop, needs
                ),
                matrix,
                x.stored.to(matrix.dtype),
            )
    return weighted_sum(matrix, x.graph, x.value.to(matrix.dtype).unsqueeze(1))
