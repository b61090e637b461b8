r"""Softmax over the edges of each target on the torch backend; nothing wider than the heads."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.reference import edge_targets, row_max, row_sum


def attention(source: Tensor, target: Tensor, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge, :obj:`[num_edges, heads]`."""
    score = source[graph.col.long()] + target[edge_targets(graph)]
    return row_softmax(torch.nn.functional.leaky_relu(score, slope), graph)


def attention_backward(
    grad: Tensor, alpha: Tensor, source: Tensor, target: Tensor, graph: Graph, slope: float
) -> tuple[Tensor, Tensor]:
    r"""The gradients of the scores of sources and of targets."""
    rows, col = edge_targets(graph), graph.col.long()
    bent = torch.where(source[col] + target[rows] > 0, 1.0, slope)
    edge = row_softmax_backward(grad, alpha, graph) * bent
    return row_sum(edge, col, graph.num_src), row_sum(edge, rows, graph.num_dst)


def row_softmax(score: Tensor, graph: Graph) -> Tensor:
    r"""The softmax of scores over the edges of each target."""
    rows = edge_targets(graph)
    weight = (score - row_max(score.detach(), rows, graph.num_dst)[rows]).exp()
    return weight / row_sum(weight, rows, graph.num_dst)[rows]


def row_softmax_backward(grad: Tensor, alpha: Tensor, graph: Graph) -> Tensor:
    r"""The gradient of the scores."""
    rows = edge_targets(graph)
    mean = row_sum(alpha * grad, rows, graph.num_dst)
    return alpha * (grad - mean[rows])
