r"""Sum and maximum over neighbours as differentiable operations: the ends of the path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.graph import Graph
from meanmax.ops.autograd import (apply, refuse_second_order)
from meanmax.ops.edge_weight import own_weight
from meanmax.ops.reference import (edge_targets, row_max, row_sum)
from meanmax.ops.dispatch import select_ends


def weighted_sum(
    x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None = None
) -> Tensor:
    r""":math:`\sum_u a_{vu} z_u`; the arguments are those of :func:`tilted_aggregate`."""
    module = select_ends(x, graph, backend)
    if module is None:
        a = _per_channel(x, graph, weight)
        edges = a * x.double()[graph.col]
        return row_sum(edges, edge_targets(graph), graph.num_dst).to(x.dtype)
    return apply(WeightedSum, x, weight, graph, module)


def neighbour_max(
    x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None = None
) -> Tensor:
    r"""The largest :math:`z_u` with :math:`a_{vu} > 0`, 0 where there is none."""
    module = select_ends(x, graph, backend)
    if module is None:
        present = _per_channel(x, graph, weight) > 0
        edges = x.double()[graph.col].masked_fill(~present, -torch.inf)
        return row_max(edges, edge_targets(graph), graph.num_dst).to(x.dtype)
    return apply(NeighbourMax, x, weight, graph, module)


class WeightedSum(Function):
    r"""The linear product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, graph: Graph, backend: Any) -> Tensor:
        r"""Runs the backend."""
        ctx.graph, ctx.backend = graph, backend
        ctx.save_for_backward(x, weight)
        out: Tensor = backend.weighted_sum(x, graph, weight)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass."""
        x, weight = ctx.saved_tensors
        with torch.no_grad():
            grads = ctx.backend.weighted_sum_backward(
                grad, x, ctx.graph, weight, ctx.needs_input_grad[1]
            )
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, grad, x, weight)
        return (*grads, None, None)


class NeighbourMax(Function):
    r"""The maximum; its gradient is shared evenly among ties."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, graph: Graph, backend: Any) -> Tensor:
        r"""Runs the backend."""
        out, ties = backend.neighbour_max(x, graph, weight)
        ctx.graph, ctx.backend = graph, backend
        ctx.save_for_backward(x, weight, out, ties)
        result: Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass; weights only decide who is a neighbour."""
        x, weight, out, ties = ctx.saved_tensors
        with torch.no_grad():
            dx = ctx.backend.neighbour_max_backward(grad, x, ctx.graph, weight, out, ties)
        dw = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        grads: tuple[Tensor | None, ...] = (dx, dw)
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, grad, x, weight)
        return (*grads, None, None)


def _per_channel(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    edge = (own_weight(graph, x) if weight is None else weight).double()
    return edge.repeat_interleave(x.size(1) // edge.size(1), dim=1)
