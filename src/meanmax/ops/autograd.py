r"""The one differentiable operation that all aggregators are."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.graph import Graph
from meanmax.ops.dispatch import select_backend, select_reduce
from meanmax.ops.reference import edge_targets, graph_minimum, reference, row_max, row_sum
from meanmax.ops.scaling import TooExtremeError, check_features, origin_of, saturate
from meanmax.ops.spec import AggregationSpec


class Gradients(NamedTuple):
    r"""The gradients of an aggregation.

    Args:
        x (Tensor): Of the features. Where :math:`\mu` is their minimum, its part is included.
        theta (Tensor): Of the parameter, float64, :obj:`[channels]`.
        weight (Tensor, optional): Of the edge weights in CSR order, if they were asked for.
        mu (Tensor, optional): Of the origin, float64, :obj:`[num_graphs]`, if the form has one.
    """

    x: Tensor
    theta: Tensor
    weight: Tensor | None
    mu: Tensor | None


def own_weight(graph: Graph, like: Tensor) -> Tensor:
    r"""The graph's weights as :obj:`[num_edges, heads]`, ones if it has none."""
    if graph.weight is None:
        return like.new_ones(graph.num_edges, 1)
    return with_heads(graph.weight).to(like.dtype)


def with_heads(weight: Tensor) -> Tensor:
    r"""Gives weights per edge a heads dimension if they have none."""
    return weight.unsqueeze(1) if weight.dim() == 1 else weight


def row_totals(graph: Graph, weight: Tensor) -> Tensor:
    r"""The sum of each row's weights, :obj:`[num_dst, heads]`, differentiable."""
    rows = torch.arange(graph.num_dst, device=weight.device)
    target = rows.repeat_interleave(graph.rowptr.diff(), output_size=graph.num_edges)
    return weight.new_zeros(graph.num_dst, weight.size(1)).index_add(0, target, weight)


def summed_weights(graph: Graph) -> Tensor:
    r"""The sums of each target's weights, :obj:`[num_dst, heads]`; without gradient, remembered."""
    if "summed_weights" in graph.cache:
        known: Tensor = graph.cache["summed_weights"]
        return known
    with torch.inference_mode(False):
        like = torch.empty(0, device=graph.device) if graph.weight is None else graph.weight
        total = row_totals(graph, own_weight(graph, like))
    if not total.requires_grad:
        graph.cache["summed_weights"] = total
    return total


def tilted_aggregate(
    x: Tensor,
    graph: Graph,
    theta: Tensor,
    weight: Tensor | None,
    mu: Tensor | None,
    spec: AggregationSpec,
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
        spec (AggregationSpec): What to compute.
        backend (str, optional): The backend's name. (default: the one chosen by
            :mod:`meanmax.ops.dispatch`)
    """
    module = select_backend(x, graph, backend)
    if x.numel() == 0 or graph.num_edges == 0:
        return apply(EmptyAggregate, x, theta, weight, mu, graph.num_dst)
    if module is None:
        weight = own_weight(graph, x) if weight is None else weight
        low, high = x.detach().aminmax(dim=0, keepdim=True)
        check_features(high, low)
        if mu is not None:
            origin_of(graph_minimum(x.detach(), graph).unsqueeze(1), mu, spec)
        return reference(x, graph, theta, weight, mu, spec).to(x.dtype)
    return apply(TiltedAggregate, x, theta, weight, mu, graph, spec, module)


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
        spec: AggregationSpec,
        backend: Any,
    ) -> Tensor:
        r"""Runs the backend and keeps its state; in float64 where float32 has no room."""
        # The printed softmax subtracts gamma * z terms that do not cancel row by row.
        ctx.wide = spec.unit_denominator and x.dtype == torch.float32
        try:
            out, ctx.state = _run(backend, ctx.wide, x, graph, theta, weight, mu, spec)
        except TooExtremeError:
            ctx.wide = True
            out, ctx.state = _run(backend, True, x, graph, theta, weight, mu, spec)
        ctx.backend, ctx.mu_is_minimum, ctx.num_graphs = backend, mu is None, graph.num_graphs
        # Saved to notice in-place changes of what the state shares memory with.
        ctx.save_for_backward(x, theta, weight, mu)
        return saturate(out, x.dtype) if ctx.wide else out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        r"""Runs the backend's backward pass."""
        inputs = ctx.saved_tensors
        needs = ctx.needs_input_grad[:4]
        with torch.no_grad():
            grads = ctx.backend.backward(
                ctx.state,
                grad.double() if ctx.wide else grad,
                need_weight=needs[2],
                mu_is_minimum=ctx.mu_is_minimum,
            )
            # The parameter and the origin are usually one for all: their gradients will be summed.
            terms = (1, grad.size(1), 1, ctx.num_graphs)
            wanted = tuple(
                saturate(value, given.dtype, terms=n, in_place=True)
                if need and value is not None
                else None
                for value, given, need, n in zip(grads, inputs, needs, terms, strict=True)
            )
        if torch.is_grad_enabled():
            wanted = refuse_second_order(wanted, grad, *inputs)
        return (*wanted, None, None, None)


def _run(
    backend: Any, wide: bool, x: Tensor, graph: Graph, theta: Tensor, weight: Tensor | None,
    mu: Tensor | None, spec: AggregationSpec,
) -> tuple[Tensor, Any]:  # fmt: skip
    if wide:
        x, theta = x.double(), theta.double()
        weight = None if weight is None else weight.double()
        mu = None if mu is None else mu.double()
    out, state = backend.forward(x, graph, theta, weight, mu, spec)
    return out, state


def refuse_second_order(
    grads: tuple[Tensor | None, ...], *sources: Tensor | None
) -> tuple[Tensor | None, ...]:
    r"""Gives first-order gradients that raise a clear error when they are differentiated.

    Args:
        grads (tuple): The gradients.
        sources: The tensors they were computed from.
    """
    return tuple(None if g is None else apply(_FirstOrderOnly, g, *sources) for g in grads)


class _FirstOrderOnly(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, *sources: Any) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> None:
        raise RuntimeError(
            "meanmax's aggregators have no second derivative (double backward): call backward "
            "without create_graph=True, or use backend='reference', which is slow but "
            "differentiable any number of times"
        )


def weighted_sum(
    x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None = None
) -> Tensor:
    r""":math:`\sum_u a_{vu} z_u`; the arguments are those of :func:`tilted_aggregate`."""
    module = select_reduce(x, graph, backend)
    if module is None:
        a = _per_channel(x, graph, weight)
        edges = a * x.double()[graph.col]
        return row_sum(edges, edge_targets(graph), graph.num_dst).to(x.dtype)
    return apply(WeightedSum, x, weight, graph, module)


def neighbour_max(
    x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None = None
) -> Tensor:
    r"""The largest :math:`z_u` with :math:`a_{vu} > 0`, 0 where there is none."""
    module = select_reduce(x, graph, backend)
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
