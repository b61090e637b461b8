"""From edges in any order to a checked structure and its weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from meanmax.graph import checks
from meanmax.graph.compress import (index_dtype, to_csr)
from meanmax.graph.sizes import (as_batch, check_edges_within, find_sizes, ranges_of_batch)
from meanmax.graph.structure import Structure
from meanmax.graph.weights import (normalized, with_self_loops)


class EdgeList(NamedTuple):
    r"""Edges in some order, not yet checked."""

    edge_index: Any
    """[2, num_edges]: sources, targets."""
    num_nodes: Any = None
    """The number of nodes, or (num_src, num_dst)."""
    weight: Any = None
    """[num_edges] or [num_edges, heads]"""
    batch: Any = None
    """The graph id of each node, or a pair of such vectors for sources and targets."""
    ptr: Any = None
    """[num_graphs + 1], the first node of each graph, instead of 'batch'."""


def build(given: EdgeList, normalize: Any, self_loops: Any) -> tuple[Structure, Tensor | None]:
    r"""Checks edges, adds self-loops, normalises weights and groups all of it by target.

    Args:
        given (EdgeList): The edges.
        normalize (str, optional): :obj:`"sym"`, :obj:`"row"` or :obj:`None`.
        self_loops (bool or str): :obj:`False`, :obj:`True`, :obj:`"add"` or :obj:`"replace"`.
    """
    edges = checks.as_edge_index(given.edge_index)
    batch = as_batch(given.batch)
    num_src, num_dst = find_sizes(given.edge_index, edges, given.num_nodes, batch)
    loop_mode = checks.check_options(normalize, self_loops, num_src, num_dst)
    checks.check_range(edges[0], num_src, "source")
    checks.check_range(edges[1], num_dst, "target")
    weight = given.weight
    if weight is not None:
        weight = checks.as_weight(weight, edges.size(1), edges.device)

    num_loops = 0 if loop_mode is None else num_dst
    dtype = index_dtype(num_src, num_dst, edges.size(1) + num_loops)
    src, dst = edges[0].to(dtype, copy=True), edges[1].to(dtype).contiguous()
    if loop_mode is not None:
        src, dst, weight = with_self_loops(src, dst, weight, num_dst, loop_mode)
    if normalize is not None:
        if weight is None:
            weight = torch.ones(src.numel(), device=src.device)
        weight = normalized(src, dst, weight, num_dst, normalize)

    src_ptr, dst_ptr = _ranges(given.ptr, batch, (num_src, num_dst), edges.device)
    check_edges_within(src, dst, src_ptr, dst_ptr)
    rowptr, col, perm = to_csr(src, dst, num_dst)
    structure = Structure(num_src, num_dst, rowptr, col, perm, src_ptr, dst_ptr)
    return structure, None if weight is None else structure.to_graph_order(weight)


def build_from_csr(
    rowptr: Any, col: Any, num_src: int | None, weight: Any
) -> tuple[Structure, Tensor | None]:
    r"""Checks edges that are grouped by target already.

    Args:
        rowptr (Tensor): The first edge of each target, :obj:`[num_dst + 1]`.
        col (Tensor): The source of each edge, :obj:`[num_edges]`.
        num_src (int, optional): The number of sources; :obj:`None` means as many as targets.
        weight (Tensor, optional): The weight of each edge.
    """
    rowptr, col = checks.as_index(rowptr, "rowptr"), checks.as_index(col, "col")
    if col.dim() != 1:
        raise ValueError(f"'col' must be a vector (got shape {list(col.shape)})")
    checks.check_pointer(rowptr, col.numel(), "rowptr")
    num_dst = rowptr.numel() - 1
    num_src, _ = checks.as_sizes(num_dst if num_src is None else num_src)
    checks.check_range(col, num_src, "source", "col")
    if weight is not None:
        weight = checks.as_weight(weight, col.numel(), col.device)
    dtype = index_dtype(num_src, num_dst, col.numel())
    rowptr, col = rowptr.to(dtype).contiguous(), col.to(dtype).contiguous()
    src_ptr, dst_ptr = _ranges(None, None, (num_src, num_dst), col.device)
    return Structure(num_src, num_dst, rowptr, col, None, src_ptr, dst_ptr), weight


def _ranges(
    ptr: Any,
    batch: tuple[Tensor, Tensor] | None,
    sizes: tuple[int, int],
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    if ptr is not None:
        ptr = checks.as_index(ptr, "ptr").to(device, torch.int64)
        checks.check_pointer(ptr, sizes[0], "ptr")
        return ptr, ptr
    if batch is not None:
        src_ptr, dst_ptr = ranges_of_batch(batch, sizes)
        return src_ptr.to(device), dst_ptr.to(device)
    return torch.tensor([0, sizes[0]], device=device), torch.tensor([0, sizes[1]], device=device)
