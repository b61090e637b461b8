r"""Operations of the backends as differentiable functions: tilted aggregates, sum and maximum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from meanmax.graph import Graph
from meanmax.ops.dispatch import select_backend
from meanmax.ops.library import Result, TracedGraph, operation
from meanmax.ops.reference import edge_targets, graph_minimum, reference, row_max, row_sum
from meanmax.ops.scaling import TooExtremeError, cast, check_origin, check_range, saturate
from meanmax.ops.spec import AggregationSpec, precision_of


class Gradients(NamedTuple):
    r"""The gradients of a tilted aggregate."""

    x: Tensor  # of the features, finite; where mu is their minimum, its part is included
    theta: Tensor  # of the parameter, float64, [channels]
    weight: Tensor | None  # of the edge weights in CSR order, if they were asked for
    mu: Tensor | None  # of the origin, float64, [num_graphs], if the form has one


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


def _totals(graph: TracedGraph) -> Result:
    return (graph.num_dst, *(graph.trailing or (1,))), graph.dtype


@operation("Graph graph", _totals, shared=True)
def summed_weights(graph: Graph) -> Tensor:
    r"""The sums of each target's weights, :obj:`[num_dst, heads]`; cached if without gradient."""
    if "summed_weights" in graph.cache:
        known: Tensor = graph.cache["summed_weights"]
        return known
    with torch.inference_mode(False):
        like = torch.empty(0, device=graph.device) if graph.weight is None else graph.weight
        total = row_totals(graph, own_weight(graph, like))
    if not total.requires_grad:
        graph.cache["summed_weights"] = total
    return total


class _Kernel(Function):
    r"""A function whose gradient is analytic, of first order and of reverse mode only."""

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> None:
        raise RuntimeError(
            "meanmax's kernels have no forward-mode derivative: use backward() or "
            "torch.autograd.grad, or backend='reference', which is slow but plain PyTorch"
        )


class _FirstOrder(_Kernel):
    @staticmethod
    def forward(ctx: Any, run: Any, pull_back: Any, *inputs: Tensor | None) -> Tensor:
        out, *kept = run(*inputs)
        ctx.pull_back = pull_back
        ctx.save_for_backward(*inputs, *kept)
        result: Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if not torch.is_grad_enabled():
            return (None, None, *ctx.pull_back(*grad, needs, *saved))
        with torch.no_grad():
            grads = ctx.pull_back(*grad, needs, *saved)
        return (None, None, *refuse_second_order(grads, *grad, *saved))


def first_order(
    run: Callable[..., tuple[Tensor, ...]],
    pull_back: Callable[..., tuple[Tensor | None, ...]],
    *inputs: Tensor | None,
) -> Tensor:
    r"""Runs an operation that has an analytic gradient but no second derivative.

    :obj:`run`: takes the inputs; returns the output and tensors to keep for the gradient.
    :obj:`pull_back`: takes the output's gradient, which inputs need a gradient, the inputs and what
    was kept; returns the gradients of the inputs.
    """
    out: Tensor = _FirstOrder.apply(run, pull_back, *inputs)  # type: ignore[no-untyped-call]
    return out


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


def refuse_second_order(
    grads: tuple[Tensor | None, ...], *sources: Tensor | None
) -> tuple[Tensor | None, ...]:
    r"""Gradients, computed from :obj:`sources`, that raise a clear error when differentiated."""
    apply: Any = _FirstOrderOnly.apply
    return tuple(None if grad is None else apply(grad, *sources) for grad in grads)


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
        return first_order(
            lambda x, *_: (x.new_zeros(graph.num_dst, x.size(1)),),
            lambda _, needs, *saved: tuple(
                torch.zeros_like(value) if need else None
                for value, need in zip(saved, needs, strict=True)
            ),
            x, theta, weight, mu,
        )  # fmt: skip
    if module is not None:
        out: Tensor = _TiltedAggregate.apply(x, theta, weight, mu, graph, spec, module)  # type: ignore[no-untyped-call]
        return out
    weight = own_weight(graph, x) if weight is None else weight
    low, high = x.detach().aminmax()
    check_range(float(low), float(high), x.dtype, precision_of(x))
    if mu is not None and spec.has_mu:
        check_origin(mu, graph_minimum(x.detach(), graph))
    wide, theta, weight = (cast(value, torch.float64) for value in (x, theta, weight))
    mu = None if mu is None else cast(mu, torch.float64)
    return cast(reference(wide, graph, theta, weight, mu, spec), x.dtype)


class _TiltedAggregate(_Kernel):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, theta: Tensor, weight: Tensor | None, mu: Tensor | None, graph: Graph,
        spec: AggregationSpec, backend: Any,
    ) -> Tensor:  # fmt: skip
        # The printed softmax subtracts gamma * z terms that do not cancel row by row.
        ctx.wide = spec.unit_denominator and x.dtype == torch.float32
        ctx.backend, ctx.mu_is_minimum, ctx.num_graphs = backend, mu is None, graph.num_graphs
        # Saved to notice in-place changes of what the state shares memory with.
        ctx.save_for_backward(x, theta, weight, mu)
        if not ctx.wide:
            try:
                out: Tensor
                out, ctx.state = backend.forward(x, graph, theta, weight, mu, spec)
                return out
            except TooExtremeError:
                ctx.wide = True
        weight, mu = (None if value is None else value.double() for value in (weight, mu))
        out, ctx.state = backend.forward(x.double(), graph, theta.double(), weight, mu, spec)
        return saturate(out, x.dtype)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        (above,), inputs, needs = grad, ctx.saved_tensors, ctx.needs_input_grad
        with torch.no_grad():
            found = ctx.backend.backward(
                ctx.state,
                above.double() if ctx.wide else above,
                need_weight=needs[2],
                mu_is_minimum=ctx.mu_is_minimum,
            )
            # The parameter and the origin are usually one for all: their gradients will be summed.
            terms = (1, above.size(1), 1, ctx.num_graphs)
            grads: tuple[Tensor | None, ...] = tuple(
                None
                if not need or value is None
                else value
                if value is found.x and not ctx.wide
                else saturate(value, given.dtype, terms=n)
                for value, given, need, n in zip(found, inputs, needs, terms, strict=False)
            )
        if torch.is_grad_enabled():
            grads = refuse_second_order(grads, above, *inputs)
        return (*grads, None, None, None)


def weighted_sum(
    x: Tensor, graph: Graph, weight: Tensor | None, backend: str | None = None
) -> Tensor:
    r""":math:`\sum_u a_{vu} z_u`; the arguments are those of :func:`tilted_aggregate`."""
    module = select_backend(x, graph, backend)
    if module is None:
        edges = _per_channel(x, graph, weight) * cast(x, torch.float64)[graph.col]
        return cast(row_sum(edges, edge_targets(graph), graph.num_dst), x.dtype)
    return first_order(
        lambda x, weight: (module.reduce.weighted_sum(x, graph, weight),),
        lambda grad, needs, x, weight: module.reduce.weighted_sum_backward(
            grad, x, graph, weight, needs[1]
        ),
        x,
        weight,
    )


def neighbour_max(
    x: Tensor,
    graph: Graph,
    weight: Tensor | None,
    backend: str | None = None,
    *,
    zero_is_tie: bool = False,
) -> Tensor:
    r"""The largest :math:`z_u` with :math:`a_{vu} > 0`, 0 where there is none; its gradient is
    shared evenly among ties. With :obj:`zero_is_tie` a maximum of 0 has one tie more, which takes
    its share: :meth:`torch.Tensor.scatter_reduce_`, which starts from zeros, counts those too.
    """
    module = select_backend(x, graph, backend)
    if module is None:
        present = _per_channel(x, graph, weight) > 0
        edges = x.double()[graph.col].masked_fill(~present, -torch.inf)
        return row_max(edges, edge_targets(graph), graph.num_dst).to(x.dtype)

    def run(x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        out, ties = module.reduce.neighbour_max(x, graph, weight)
        return out, out, ties + (out == 0) if zero_is_tie else ties

    def pull_back(
        grad: Tensor, needs: tuple[bool, ...], x: Tensor, weight: Tensor, *kept: Tensor
    ) -> tuple[Tensor | None, ...]:
        dx = module.reduce.neighbour_max_backward(grad, x, graph, weight, *kept)
        # Weights only decide who is a neighbour.
        return dx, torch.zeros_like(weight) if needs[1] else None

    return first_order(run, pull_back, x, weight)


def _per_channel(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    edge = cast(own_weight(graph, x) if weight is None else weight, torch.float64)
    return edge.repeat_interleave(x.size(1) // edge.size(1), dim=1)
