r"""What layers with attention share."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops import attention
from meanmax.ops.edge_weight import (row_totals, with_heads)
from meanmax.ops.scaling import NotFiniteError


def scores(h: Tensor, *vectors: Tensor) -> tuple[Tensor, ...]:
    r"""The scores of every node and head, :math:`a \cdot h`, for each of some vectors :math:`a`.

    One product with a block-diagonal matrix: no product per node, head and channel is formed, and
    the gradient of :obj:`h` is one array.

    Args:
        h (Tensor): :obj:`[num_nodes, heads, channels]`.
        vectors (Tensor): :obj:`[1, heads, channels]` each.
    """
    heads = h.size(1)
    diagonal = torch.eye(heads, dtype=h.dtype, device=h.device).unsqueeze(1)  # [heads, 1, heads]
    blocks = [(vector[0].to(h.dtype).unsqueeze(2) * diagonal).flatten(0, 1) for vector in vectors]
    return (h.flatten(1) @ torch.cat(blocks, dim=1)).chunk(len(vectors), dim=1)


def with_own_loops(graph: Graph) -> Graph:
    r"""The graph with self-loops in place of those it has, remembered; between different sources
    and targets, as in PyG, between the first ones of both.
    """
    if graph.num_src == graph.num_dst:
        return graph.prepared(None, "replace")
    if "own_loops" in graph.cache:
        known: Graph = graph.cache["own_loops"]
        return known
    with torch.inference_mode(False):
        edges, weight = graph.edge_index, graph.edge_weight
        keep = edges[0] != edges[1]
        shared = torch.arange(min(graph.num_src, graph.num_dst), device=graph.device)
        if weight is not None:
            weight = torch.cat([weight[keep], weight.new_ones(len(shared), *weight.shape[1:])])
        edges = torch.cat([edges[:, keep], shared.expand(2, -1)], dim=1)
        looped = Graph.from_edge_index(edges, (graph.num_src, graph.num_dst), weight).prepared()
    if weight is None or not weight.requires_grad:
        graph.cache["own_loops"] = looped
    return looped


def attended(source: Tensor, target: Tensor | None, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge in CSR order, :obj:`[num_edges, heads]`; 1 in sum per target. The
    graph's weights play no part in it.

    Args:
        source (Tensor): Scores of sources, :obj:`[num_src, heads]`.
        target (Tensor, optional): Scores of targets, zeros if they have no features.
        graph (Graph): The graph, with :obj:`edge_index` in CSR order.
        slope (float): The slope of the LeakyReLU.
    """
    if not bool(torch.isfinite(source.detach()).all()):
        raise NotFiniteError
    if target is None:
        target = source.new_zeros(graph.num_dst, source.size(1))
    alpha: Tensor = per_edge_attention(source, target, graph, slope)
    return alpha


@torch.compiler.disable  # type: ignore[untyped-decorator]
def per_edge_attention(source: Tensor, target: Tensor, graph: Graph, slope: float) -> Tensor:
    r"""The kernel, in float32 at least."""
    if source.dtype not in (torch.float32, torch.float64):
        source, target = source.float(), target.float()
    with torch.autocast(source.device.type, enabled=False):
        return attention(graph.sources(source), target, graph.local, slope)


def reweighted(alpha: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Attention times weights, if there are any, and 1 in sum over each target again, or 0."""
    if weight is None:
        return alpha
    alpha = alpha * with_heads(weight).to(alpha.dtype)
    total = row_totals(graph, alpha)
    share = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    return alpha * share.repeat_interleave(graph.rowptr.diff(), 0, output_size=graph.num_edges)


def combine_heads(out: Tensor, concat: bool) -> Tensor:
    r"""Heads side by side or their mean."""
    return out.flatten(1) if concat else out.mean(dim=1)
