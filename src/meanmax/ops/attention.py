r"""Scores of edges as differentiable operations: per head, never per channel.

Edges are in CSR order throughout. The reference is plain autograd in float64.
"""

from __future__ import annotations

from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import first_order
from meanmax.ops.dispatch import select_backend
from meanmax.ops.reference import edge_targets
from meanmax.ops.torch import reduce as plain


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
    module = select_backend(source, graph, backend)
    if module is None:
        return plain.attention(source.double(), target.double(), graph, slope).to(source.dtype)

    def run(source: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        alpha = module.reduce.attention(source, target, graph, slope)
        return alpha, alpha

    return first_order(
        run,
        lambda grad, _, source, target, alpha: module.reduce.attention_backward(
            grad, alpha, source, target, graph, slope
        ),
        source,
        target,
    )


def row_softmax(score: Tensor, graph: Graph, backend: str | None = None) -> Tensor:
    r"""Softmax of scores :obj:`[num_edges, heads]` over each target's edges."""
    module = select_backend(score, graph, backend)
    if module is None:
        return plain.row_softmax(score.double(), graph).to(score.dtype)

    def run(score: Tensor) -> tuple[Tensor, ...]:
        alpha = module.reduce.row_softmax(score, graph)
        return alpha, alpha

    return first_order(
        run,
        lambda grad, _, score, alpha: (module.reduce.row_softmax_backward(grad, alpha, graph),),
        score,
    )


def edge_dot(source: Tensor, target: Tensor, graph: Graph, backend: str | None = None) -> Tensor:
    r"""The inner product of both ends' vectors, :obj:`[num_edges, 1]`.

    Args:
        source (Tensor): Vectors of the sources, :obj:`[num_src, channels]`.
        target (Tensor): Vectors of the targets, :obj:`[num_dst, channels]`.
        graph (Graph): The graph.
        backend (str, optional): The backend's name.
    """
    module = select_backend(source, graph, backend)
    if module is None:
        pairs = source.double()[graph.col.long()] * target.double()[edge_targets(graph)]
        return pairs.sum(dim=1, keepdim=True).to(source.dtype)

    def pull_back(
        grad: Tensor, _: tuple[bool, ...], source: Tensor, target: Tensor
    ) -> tuple[Tensor, ...]:
        # Weighted sums over the same edges, with the gradient as weights.
        by_source, _ = module.reduce.weighted_sum_backward(target, source, graph, grad, False)
        return by_source, module.reduce.weighted_sum(source, graph, grad)

    return first_order(
        lambda source, target: (module.reduce.edge_products(source, target, graph, 1),),
        pull_back,
        source,
        target,
    )
