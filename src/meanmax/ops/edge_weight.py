r"""The weights of a graph in the shape the kernels take."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import Graph


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
