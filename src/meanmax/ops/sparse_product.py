r"""The product of sparse rows with a matrix as a differentiable operation, dropout included."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.graph import SparseFeatures
from meanmax.ops.autograd import (apply, refuse_second_order)
from meanmax.ops.dropout import Drop
from meanmax.ops.ends import weighted_sum
from meanmax.ops.dispatch import numba_serves


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
            value = x.stored.to(matrix.dtype)
            return apply(SparseProduct, matrix, value, x.graph, x.pending, dropout)
    return weighted_sum(matrix, x.graph, x.value.to(matrix.dtype).unsqueeze(1))


class SparseProduct(Function):
    r"""The product, and its backward pass with the same entries dropped."""

    @staticmethod
    def forward(
        ctx: Any, matrix: Tensor, value: Tensor, graph: Any, drop: Drop, backend: Any
    ) -> Tensor:
        r"""Runs the backend."""
        ctx.graph, ctx.drop, ctx.backend = graph, drop, backend
        ctx.save_for_backward(matrix, value)
        out: Tensor = backend.product(matrix, value, graph, drop.rate, drop.seed)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass."""
        matrix, value = ctx.saved_tensors
        with torch.no_grad():
            grads = ctx.backend.product_backward(
                grad, matrix, value, ctx.graph, ctx.drop.rate, ctx.drop.seed,
                ctx.needs_input_grad[:2],
            )  # fmt: skip
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, grad, matrix, value)
        return (*grads, None, None, None)
