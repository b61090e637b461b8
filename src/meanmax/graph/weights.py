"""Self-loops and normalisation, with plain differentiable operations on edges in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from meanmax.graph.checks import Normalize

LoopMode: TypeAlias = Literal["add", "replace"]


def prepare_edges(
    src: Tensor,
    dst: Tensor,
    weight: Tensor | None,
    num_dst: int,
    normalize: Normalize | None,
    loop_mode: LoopMode | None,
    *,
    first: int = 0,
    to_sources: Callable[[Tensor], Tensor] = lambda values: values,
) -> tuple[Tensor, Tensor, Tensor | None]:
    r"""Adds self-loops and normalises weights, for a whole graph and for rows of one.

    Args:
        src (Tensor): The source of each edge.
        dst (Tensor): The target of each edge.
        weight (Tensor, optional): The weight of each edge, :obj:`[num_edges]` or
            :obj:`[num_edges, heads]`.
        num_dst (int): The number of target nodes.
        normalize (str, optional): :obj:`"sym"`, :obj:`"row"` or :obj:`None`.
        loop_mode (str, optional): See :func:`with_self_loops`; :obj:`None` keeps edges as they are.
        first (int, optional): The number of target 0 among the sources. (default: :obj:`0`)
        to_sources (callable, optional): See :func:`normalized`.
    """
    if loop_mode is not None:
        src, dst, weight = with_self_loops(src, dst, weight, num_dst, loop_mode, first=first)
    if normalize is not None:
        if weight is None:
            weight = torch.ones(src.numel(), device=src.device)
        weight = normalized(src, dst, weight, num_dst, normalize, to_sources)
    return src, dst, weight


def with_self_loops(
    src: Tensor,
    dst: Tensor,
    weight: Tensor | None,
    num_nodes: int,
    mode: LoopMode,
    *,
    first: int = 0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    r"""Gives every node exactly one self-loop, placed after all other edges in node order, as
    :func:`torch_geometric.utils.add_remaining_self_loops` does.

    Args:
        src (Tensor): The source of each edge.
        dst (Tensor): The target of each edge.
        weight (Tensor, optional): The weight of each edge, :obj:`[num_edges]` or
            :obj:`[num_edges, heads]`.
        num_nodes (int): The number of targets that get a self-loop.
        mode (str): With :obj:`"add"` a node that has self-loops keeps the weight of the last one
            and others get weight 1; with :obj:`"replace"` all get weight 1.
        first (int, optional): The number of target 0 among the sources. (default: :obj:`0`)
    """
    is_loop = src == dst + first
    others = (~is_loop).nonzero().view(-1)
    nodes = torch.arange(num_nodes, dtype=src.dtype, device=src.device)
    new_src = torch.cat([src.index_select(0, others), nodes + first])
    new_dst = torch.cat([dst.index_select(0, others), nodes])
    if weight is None:
        return new_src, new_dst, None

    loop_weight = weight.new_ones(num_nodes, *weight.shape[1:])
    if mode == "add":
        positions = is_loop.nonzero().view(-1)
        last = positions.new_full((num_nodes,), -1)
        last = last.scatter_reduce(0, dst.index_select(0, positions).long(), positions, "amax")
        looped = (last >= 0).nonzero().view(-1)
        loop_weight = loop_weight.index_copy(0, looped, weight.index_select(0, last[looped]))
    return new_src, new_dst, torch.cat([weight.index_select(0, others), loop_weight])


def normalized(
    src: Tensor,
    dst: Tensor,
    weight: Tensor,
    num_dst: int,
    normalize: Normalize,
    to_sources: Callable[[Tensor], Tensor] = lambda values: values,
) -> Tensor:
    r"""Divides weights by their sums :math:`d_v = \sum_u a_{vu}` over each target, for each head:

    .. math::
        a_{vu} / \sqrt{d_v d_u} \quad (\texttt{"sym"}) \qquad
        a_{vu} / d_v \quad (\texttt{"row"})

    The first is :func:`torch_geometric.nn.conv.gcn_conv.gcn_norm`. Where a sum is zero so is the
    result, with finite gradients.

    Args:
        src (Tensor): The source of each edge.
        dst (Tensor): The target of each edge.
        weight (Tensor): The weight of each edge, :obj:`[num_edges]` or :obj:`[num_edges, heads]`.
        num_dst (int): The number of target nodes.
        normalize (str): :obj:`"sym"` or :obj:`"row"`.
        to_sources (callable, optional): Maps :math:`d^{-1/2}` of the targets to that of the
            sources, where the two are not the same nodes. (default: they are)
    """
    degree = weight.new_zeros(num_dst, *weight.shape[1:]).index_add(0, dst, weight)
    if normalize == "row":
        return weight / degree.where(degree > 0, 1).index_select(0, dst)
    scale = inverse_root(degree)
    return to_sources(scale).index_select(0, src) * weight * scale.index_select(0, dst)


def inverse_root(degree: Tensor) -> Tensor:
    r""":math:`d^{-1/2}`, and 0 where :math:`d` is 0."""
    positive = degree > 0
    return degree.where(positive, 1).pow(-0.5).where(positive, 0)
