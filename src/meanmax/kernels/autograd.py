r"""The one differentiable operation that all aggregators are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from meanmax.graph import Graph
from meanmax.kernels.edge_weight import own_weight
from meanmax.kernels.form import Form
from meanmax.kernels.reference import reference
from meanmax.kernels.select import select_backend


def tilted_aggregate(
    x: Tensor,
    graph: Graph,
    theta: Tensor,
    weight: Tensor | None,
    mu: Tensor | None,
    form: Form,
    backend: str | None = None,
) -> Tensor:
    r"""Aggregates :obj:`x` over :obj:`graph` on the backend that serves it.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]`, float32 or float64.
        graph (Graph): The graph.
        theta (Tensor): The parameter of every channel, :obj:`[channels]`.
        weight (Tensor, optional): Edge weights in CSR order, :obj:`[num_edges, weight_heads]`;
            the graph's own if :obj:`None`.
        mu (Tensor, optional): The origin of every graph, :obj:`[num_graphs]`; the minimum of its
            features, with its gradient, if :obj:`None`.
        form (Form): What to compute.
        backend (str, optional): The backend's name. (default: the one chosen by
            :mod:`meanmax.kernels.select`)
    """
    module = select_backend(x, graph, backend)
    if x.numel() == 0 or graph.num_edges == 0:
        return apply(EmptyAggregate, x, theta, weight, mu, graph.num_dst)
    if module is None:
        weight = own_weight(graph, x) if weight is None else weight
        return reference(x, graph, theta, weight, mu, form).to(x.dtype)
    if form.unit_denominator and x.dtype == torch.float32:
        # The printed softmax subtracts gamma * z terms that do not cancel row by row.
        wide = (None if t is None else t.double() for t in (x, theta, weight, mu))
        return apply(TiltedAggregate, *wide, graph, form, module).to(x.dtype)
    return apply(TiltedAggregate, x, theta, weight, mu, graph, form, module)


def apply(function: type[Function], *args: Any) -> Tensor:
    r"""Runs an autograd function that has one output."""
    out: Tensor = function.apply(*args)  # type: ignore[no-untyped-call]
    return out


class EmptyAggregate(Function):
    r"""No edges or no features: zeros forward, zeros backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *inputs: Any) -> Tensor:
        r"""Returns zeros for every target."""
        *others, num_dst = inputs
        ctx.save_for_backward(x, *others)
        zeros: Tensor = x.new_zeros(num_dst, x.size(1))
        return zeros

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        r"""Returns zeros for every input that wants a gradient."""
        wanted = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return (*(torch.zeros_like(t) if need else None for t, need in wanted), None)


class TiltedAggregate(Function):
    r"""Forward and backward pass of one backend as an autograd function."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        theta: Tensor,
        weight: Tensor | None,
        mu: Tensor | None,
        graph: Graph,
        form: Form,
        backend: Any,
    ) -> Tensor:
        r"""Runs the backend and keeps its state."""
        out: Tensor
        out, ctx.state = backend.forward(x, graph, theta, weight, mu, form)
        ctx.backend, ctx.mu_is_minimum = backend, mu is None
        # Saved to notice in-place changes of what the state shares memory with.
        ctx.save_for_backward(x, theta, weight, mu)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass."""
        inputs = ctx.saved_tensors
        need_x, need_theta, need_weight, need_mu = ctx.needs_input_grad[:4]
        with torch.no_grad():
            grads = ctx.backend.backward(
                ctx.state, grad, need_weight=need_weight, mu_is_minimum=ctx.mu_is_minimum
            )
        wanted: tuple[Tensor | None, ...] = (
            grads.x if need_x else None,
            grads.theta.to(inputs[1].dtype) if need_theta else None,
            grads.weight.to(inputs[2].dtype) if need_weight else None,
            grads.mu.to(inputs[3].dtype) if need_mu and grads.mu is not None else None,
        )
        if torch.is_grad_enabled():
            wanted = refuse_second_order(wanted, grad)
        return (*wanted, None, None, None)


def refuse_second_order(
    grads: tuple[Tensor | None, ...], grad: Tensor
) -> tuple[Tensor | None, ...]:
    r"""Gives first-order gradients that raise a clear error when they are differentiated."""
    return tuple(None if g is None else apply(_FirstOrderOnly, g, grad) for g in grads)


class _FirstOrderOnly(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, value: Tensor, grad: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Any) -> tuple[None, None]:
        raise RuntimeError(
            "meanmax's aggregators have no second derivative (double backward): call backward "
            "without create_graph=True, or use backend='reference', which is slow but "
            "differentiable any number of times"
        )
