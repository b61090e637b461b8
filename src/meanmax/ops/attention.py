r"""Scores of edges as differentiable operations: per head, never per channel.

Edges are in CSR order throughout. The reference is plain autograd in float64.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.graph import Graph
from meanmax.ops.autograd import apply, refuse_second_order
from meanmax.ops.dispatch import select_attention, select_reduce
from meanmax.ops.reference import edge_targets
from meanmax.ops.torch import attention as plain


def attention(
    source: Tensor, target: Tensor, graph: Graph, slope: float, backend: str | None = None
) -> Tensor:
    r"""Softmax over each target's edges of :math:`\mathrm{LeakyReLU}(s_u + t_v)`.

    Args:
        source (Tensor): Scores of the sources, :obj:`[num_src, heads]`.
        target (Tensor): Scores of the targets, :obj:`[num_dst, heads]`.
        graph (Graph): The graph.
        slope (float): The slope of the LeakyReLU below zero.
        backend (str, optional): The backend's name.

    Returns:
        :obj:`[num_edges, heads]`.
    """
    module = select_attention(source, graph, backend)
    if module is None:
        return plain.attention(source.double(), target.double(), graph, slope).to(source.dtype)
    return apply(Attention, source, target, graph, slope, module)


def row_softmax(score: Tensor, graph: Graph, backend: str | None = None) -> Tensor:
    r"""Softmax of scores :obj:`[num_edges, heads]` over each target's edges."""
    module = select_attention(score, graph, backend)
    if module is None:
        return plain.row_softmax(score.double(), graph).to(score.dtype)
    return apply(RowSoftmax, score, graph, module)


def edge_dot(source: Tensor, target: Tensor, graph: Graph, backend: str | None = None) -> Tensor:
    r"""The inner product of both ends' vectors, :obj:`[num_edges, 1]`.

    Args:
        source (Tensor): Vectors of the sources, :obj:`[num_src, channels]`.
        target (Tensor): Vectors of the targets, :obj:`[num_dst, channels]`.
        graph (Graph): The graph.
        backend (str, optional): The backend's name.
    """
    module = select_reduce(source, graph, backend)
    if module is None:
        pairs = source.double()[graph.col.long()] * target.double()[edge_targets(graph)]
        return pairs.sum(dim=1, keepdim=True).to(source.dtype)
    return apply(EdgeDot, source, target, graph, module)


class Attention(Function):
    r"""Attention from scores of both ends."""

    @staticmethod
    def forward(
        ctx: Any, source: Tensor, target: Tensor, graph: Graph, slope: float, backend: Any
    ) -> Tensor:
        r"""Runs the backend."""
        alpha: Tensor = backend.attention(source, target, graph, slope)
        ctx.graph, ctx.slope, ctx.backend = graph, slope, backend
        ctx.save_for_backward(source, target, alpha)
        return alpha

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass."""
        source, target, alpha = ctx.saved_tensors
        with torch.no_grad():
            grads = ctx.backend.attention_backward(
                grad, alpha, source, target, ctx.graph, ctx.slope
            )
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, grad, source, target)
        return (*grads, None, None, None)


class RowSoftmax(Function):
    r"""Softmax of given scores."""

    @staticmethod
    def forward(ctx: Any, score: Tensor, graph: Graph, backend: Any) -> Tensor:
        r"""Runs the backend."""
        alpha: Tensor = backend.row_softmax(score, graph)
        ctx.graph, ctx.backend = graph, backend
        ctx.save_for_backward(alpha)
        return alpha

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass."""
        (alpha,) = ctx.saved_tensors
        with torch.no_grad():
            score_grad = ctx.backend.row_softmax_backward(grad, alpha, ctx.graph)
        grads: tuple[Tensor | None, ...] = (score_grad,)
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, grad, alpha)
        return (*grads, None, None)


class EdgeDot(Function):
    r"""Inner products along edges; their gradients are weighted sums over the same edges."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor, graph: Graph, backend: Any) -> Tensor:
        r"""Runs the backend."""
        ctx.graph, ctx.backend = graph, backend
        ctx.save_for_backward(source, target)
        out: Tensor = backend.edge_products(source, target, graph, 1)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's products with the gradient as weights."""
        source, target = ctx.saved_tensors
        with torch.no_grad():
            by_source, _ = ctx.backend.weighted_sum_backward(target, source, ctx.graph, grad, False)
            by_target = ctx.backend.weighted_sum(source, ctx.graph, grad)
        grads: tuple[Tensor | None, ...] = (by_source, by_target)
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, grad, source, target)
        return (*grads, None, None)
