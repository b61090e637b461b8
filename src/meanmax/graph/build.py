"""From edges in any order to a checked structure, with self-loops and normalised weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from meanmax.graph import checks
from meanmax.graph.checks import Normalize, as_index, as_sizes, is_sorted

LoopMode: TypeAlias = Literal["add", "replace"]


class Csr(NamedTuple):
    r"""Edges grouped by target, in their given order within a target."""

    rowptr: Tensor  # [num_dst + 1]
    col: Tensor  # the source of each edge, [num_edges]
    perm: Tensor | None  # the given position of each edge, [num_edges]; None if it is unchanged


class Csc(NamedTuple):
    r"""Edges grouped by source, in CSR order within a source."""

    colptr: Tensor  # [num_src + 1]
    row: Tensor  # the target of each edge, [num_edges]
    csc_to_csr: Tensor  # the CSR position of each edge, [num_edges]


def index_dtype(*sizes: int) -> torch.dtype:
    r"""The narrowest of int32 and int64 that counts up to each of :obj:`sizes`."""
    return torch.int32 if max(sizes) < 2**31 else torch.int64


def to_csr(src: Tensor, dst: Tensor, num_dst: int) -> Csr:
    r"""Groups edges by target; the result has the dtype of :obj:`src` and :obj:`dst`."""
    if is_sorted(dst):
        return Csr(pointer(dst, num_dst), src, None)
    if _on_cpu(dst) and counting_sort() is not None:
        one_row = dst.new_tensor([0, dst.numel()])
        rowptr, _, perm = _transpose(one_row, dst, num_dst)
    else:
        rowptr, perm = pointer(dst, num_dst), _stable_order(dst)
    return Csr(rowptr, src.index_select(0, perm), perm)


def to_csc(rowptr: Tensor, col: Tensor, num_src: int) -> Csc:
    r"""Transposes CSR to CSC; the result has the dtype of :obj:`rowptr` and :obj:`col`."""
    if _on_cpu(col) and counting_sort() is not None:
        return Csc(*_transpose(rowptr, col, num_src))
    csc_to_csr = _stable_order(col)
    return Csc(pointer(col, num_src), expand(rowptr).index_select(0, csc_to_csr), csc_to_csr)


def expand(ptr: Tensor) -> Tensor:
    r"""Returns the group of each element: :obj:`[0, 2, 5]` becomes :obj:`[0, 0, 1, 1, 1]`."""
    groups = torch.arange(ptr.numel() - 1, dtype=ptr.dtype, device=ptr.device)
    return groups.repeat_interleave(ptr.diff())


def ranges(starts: Tensor, sizes: Tensor) -> Tensor:
    r"""Joins ranges of numbers: starts :obj:`[4, 0]` of sizes :obj:`[2, 3]` become
    :obj:`[4, 5, 0, 1, 2]`, int64.
    """
    starts, sizes = starts.long(), sizes.long()
    ends = sizes.cumsum(0)
    shift = (starts - (ends - sizes)).repeat_interleave(sizes)
    return shift + torch.arange(shift.numel(), device=shift.device)


def pointer(index: Tensor, size: int) -> Tensor:
    r"""Returns where each group starts once sorted: :obj:`[0, 1, 0]` becomes :obj:`[0, 2, 3]`."""
    ptr = index.new_zeros(size + 1)
    ptr[1:] = torch.bincount(index, minlength=size).cumsum(0)
    return ptr


def _on_cpu(index: Tensor) -> bool:
    return index.is_cpu


def _stable_order(index: Tensor) -> Tensor:
    return index.sort(stable=True).indices.to(index.dtype)


@cache
def counting_sort() -> ModuleType | None:
    r"""The compiled counting sorts; :obj:`None` where numba does not import."""
    try:
        return import_module("meanmax.graph.counting_sort")
    except ImportError:
        return None


def _transpose(ptr: Tensor, index: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    compiled = counting_sort()
    assert compiled is not None
    new_ptr, group, order = (
        index.new_empty(size + 1),
        torch.empty_like(index),
        torch.empty_like(index),
    )
    compiled.transpose(*(t.numpy() for t in (ptr, index, new_ptr, group, order)))
    return new_ptr, group, order


def group_checked(edges: Tensor, num_src: int, num_dst: int) -> Csr | None:
    r"""Checks and groups edges in one compiled pass; :obj:`None` where that cannot be done, or
    where an index is no node.
    """
    compiled = counting_sort() if _on_cpu(edges) else None
    if compiled is None:
        return None
    dtype, size = index_dtype(num_src, num_dst, edges.size(1)), edges.size(1)
    rowptr = torch.empty(num_dst + 1, dtype=dtype)
    col, perm = torch.empty(size, dtype=dtype), torch.empty(size, dtype=dtype)
    src, dst = _as_array(edges)
    out = rowptr.numpy(), col.numpy(), perm.numpy()
    found = compiled.group_edges(src, dst, num_src, num_dst, *out)
    return None if found < 0 else Csr(rowptr, col, perm if found else None)


def _as_array(index: Tensor) -> Any:
    r"""A contiguous array of int32 or int64, for which the counting sorts are compiled."""
    if torch._C._functorch.is_functorch_wrapped_tensor(index):
        raise RuntimeError(
            "torch.func transforms what is made inside of it, and a graph cannot be built from "
            "that: make the graph, or the index, before"
        )
    return (index if index.itemsize >= 4 else index.int()).contiguous().numpy()


@final
@dataclass(frozen=True, eq=False)
class Structure:
    r"""Edges grouped by target, and the node ranges of the graphs they belong to."""

    num_src: int
    num_dst: int
    rowptr: Tensor  # the first edge of each target, [num_dst + 1]
    col: Tensor  # the source of each edge, [num_edges]
    perm: Tensor | None  # the given position of each edge, [num_edges]; None if it is unchanged
    src_ptr: Tensor  # the first source node of each graph, [num_graphs + 1]
    dst_ptr: Tensor  # the first target node of each graph, [num_graphs + 1]

    @cached_property
    def csc(self) -> Csc:
        r"""The same edges grouped by source, computed at first use."""
        return to_csc(self.rowptr, self.col, self.num_src)

    @cached_property
    def in_csr_order(self) -> Structure:
        r"""The same edges as if they had been given in CSR order, itself if they were."""
        if self.perm is None:
            return self
        ordered = replace(self, perm=None)
        ordered.__dict__["csc"] = self.csc
        return ordered

    @property
    def edge_index(self) -> Tensor:
        r"""Sources and targets of the edges in their given order."""
        ends = (self.col, expand(self.rowptr))
        return torch.stack([self.to_given_order(end).long() for end in ends])

    def to_graph_order(self, values: Tensor) -> Tensor:
        r"""Takes values of edges from their given order to CSR order."""
        return values if self.perm is None else values.index_select(0, self.perm)

    def to_given_order(self, values: Tensor) -> Tensor:
        r"""Takes values of edges from CSR order to their given order."""
        if self.perm is None:
            return values
        return torch.empty_like(values).index_copy(0, self.perm.long(), values)

    def to(self, device: torch.device | str) -> Structure:
        r"""Returns the structure on :obj:`device`, itself if it is there already."""
        rowptr = self.rowptr.to(device)
        if rowptr is self.rowptr:
            return self
        col, perm = self.col.to(device), None if self.perm is None else self.perm.to(device)
        src_ptr, dst_ptr = self.src_ptr.to(device), self.dst_ptr.to(device)
        moved = Structure(self.num_src, self.num_dst, rowptr, col, perm, src_ptr, dst_ptr)
        if "csc" in self.__dict__:
            moved.__dict__["csc"] = Csc(*(part.to(device) for part in self.csc))
        return moved


def as_batch(batch: Any) -> tuple[Tensor, Tensor] | None:
    r"""Returns the graph ids of source and target nodes."""
    if batch is None:
        return None
    if isinstance(batch, tuple):
        if len(batch) != 2:
            raise ValueError(
                "'batch' must be one vector of graph ids or a pair (batch_src, batch_dst) "
                f"(got a tuple of {len(batch)})"
            )
        return as_index(batch[0], "batch"), as_index(batch[1], "batch")
    ids = as_index(batch, "batch")
    return ids, ids


def find_sizes(
    given: Any, edges: Tensor, num_nodes: Any, batch: tuple[Tensor, Tensor] | None
) -> tuple[int, int]:
    r"""Returns :obj:`(num_src, num_dst)` from the first source that knows them: the argument, the
    batch vectors, the size of a PyG :obj:`EdgeIndex`, else the largest index.
    """
    if num_nodes is not None:
        return as_sizes(num_nodes)
    if batch is not None:
        return batch[0].numel(), batch[1].numel()
    if isinstance(given, EdgeIndex) and given.sparse_size() != (None, None):
        num_src, num_dst = given.get_sparse_size()
        return num_src, num_dst
    size = max(int(edges.max()) + 1, 0) if edges.numel() > 0 else 0
    checks.check_count(size, "edge_index")
    return size, size


def check_edges_within(src: Tensor, dst: Tensor, src_ptr: Tensor, dst_ptr: Tensor) -> None:
    r"""Raises if an edge joins nodes of different graphs."""
    if src_ptr.numel() <= 2:
        return
    src_graph = expand(src_ptr).index_select(0, src)
    dst_graph = expand(dst_ptr).index_select(0, dst)
    across = (src_graph != dst_graph).nonzero().view(-1)
    if across.numel() > 0:
        edge = int(across[0])
        raise ValueError(
            f"an edge must stay within one graph of the batch (got edge {int(src[edge])} -> "
            f"{int(dst[edge])} from graph {int(src_graph[edge])} to graph {int(dst_graph[edge])})"
        )


class EdgeList(NamedTuple):
    r"""Edges in some order, not yet checked."""

    edge_index: Any  # [2, num_edges]: sources, targets
    num_nodes: Any = None  # the number of nodes, or (num_src, num_dst)
    weight: Any = None  # [num_edges] or [num_edges, heads]
    batch: Any = None  # the graph id of each node, or a pair of vectors for sources and targets
    ptr: Any = None  # the first node of each graph, [num_graphs + 1], instead of 'batch'


def build(given: EdgeList, normalize: Any, self_loops: Any) -> tuple[Structure, Tensor | None]:
    r"""Checks edges, adds self-loops, normalises weights and groups all of it by target."""
    edges = checks.as_edge_index(given.edge_index)
    batch = as_batch(given.batch)
    num_src, num_dst = find_sizes(given.edge_index, edges, given.num_nodes, batch)
    loop_mode = checks.check_options(normalize, self_loops, num_src, num_dst)
    if loop_mode is None and normalize is None:
        csr = group_checked(edges, num_src, num_dst)
        if csr is not None:
            weight = checks.as_weight(given.weight, edges.size(1), edges.device)
            src_ptr, dst_ptr = _ranges(given.ptr, batch, (num_src, num_dst), edges.device)
            if not _stays_within(csr, src_ptr, dst_ptr):
                check_edges_within(edges[0].long(), edges[1].long(), src_ptr, dst_ptr)
            return _ordered(Structure(num_src, num_dst, *csr, src_ptr, dst_ptr), weight)
    checks.check_range(edges[0], num_src, "source")
    checks.check_range(edges[1], num_dst, "target")
    weight = checks.as_weight(given.weight, edges.size(1), edges.device)

    num_loops = 0 if loop_mode is None else num_dst
    dtype = index_dtype(num_src, num_dst, edges.size(1) + num_loops)
    src, dst = edges[0].to(dtype, copy=True), edges[1].to(dtype).contiguous()
    src, dst, weight = prepare_edges(src, dst, weight, num_dst, normalize, loop_mode)

    src_ptr, dst_ptr = _ranges(given.ptr, batch, (num_src, num_dst), edges.device)
    check_edges_within(src, dst, src_ptr, dst_ptr)
    csr = to_csr(src, dst, num_dst)
    return _ordered(Structure(num_src, num_dst, *csr, src_ptr, dst_ptr), weight)


def _stays_within(csr: Csr, src_ptr: Tensor, dst_ptr: Tensor) -> bool:
    compiled = counting_sort()
    if compiled is None or src_ptr.numel() <= 2:
        return True
    arrays = (tensor.numpy() for tensor in (csr.rowptr, csr.col, src_ptr, dst_ptr))
    return bool(compiled.stays_within(*arrays))


def _ordered(structure: Structure, weight: Tensor | None) -> tuple[Structure, Tensor | None]:
    return structure, None if weight is None else structure.to_graph_order(weight)


def build_from_csr(
    rowptr: Any, col: Any, num_src: int | None, weight: Any, *, copy: bool
) -> tuple[Structure, Tensor | None]:
    r"""Checks edges that are grouped by target already."""
    rowptr, col = as_index(rowptr, "rowptr"), as_index(col, "col")
    if col.dim() != 1:
        raise ValueError(f"'col' must be a vector (got shape {list(col.shape)})")
    checks.check_pointer(rowptr, col.numel(), "rowptr")
    num_dst = rowptr.numel() - 1
    num_src, _ = as_sizes(num_dst if num_src is None else num_src)
    checks.check_range(col, num_src, "source", "col")
    own = checks.as_weight(weight, col.numel(), col.device)
    if copy and own is weight is not None:
        own = weight.clone()
    dtype = index_dtype(num_src, num_dst, col.numel())
    rowptr, col = (index.to(dtype, copy=copy).contiguous() for index in (rowptr, col))
    src_ptr, dst_ptr = _ranges(None, None, (num_src, num_dst), col.device)
    return Structure(num_src, num_dst, rowptr, col, None, src_ptr, dst_ptr), own


def group_messages(index: Tensor, num_groups: int) -> Structure | None:
    r"""The edges from each message to its group, grouped in one compiled pass, CSC included;
    :obj:`None` where that cannot be done, or where an index is no group.
    """
    compiled = counting_sort() if _on_cpu(index) else None
    if compiled is None:
        return None
    size = index.numel()
    dtype = np.int32 if index_dtype(size, num_groups) == torch.int32 else np.int64
    rowptr, colptr = np.empty(num_groups + 1, dtype), np.arange(size + 1, dtype=dtype)
    perm, inverse, row = np.empty((3, size), dtype)
    found = compiled.group_messages(_as_array(index), num_groups, rowptr, perm, inverse, row)
    if found < 0:
        return None
    ptr, starts, group = (torch.from_numpy(array) for array in (rowptr, colptr, row))
    if not found:
        each = torch.from_numpy(colptr[:-1])
        return _of_messages(ptr, each, None, Csc(starts, group, each))
    order = torch.from_numpy(perm)
    return _of_messages(ptr, order, order, Csc(starts, group, torch.from_numpy(inverse)))


def group_sorted(ptr: Tensor, size: int) -> Structure:
    r"""The edges from each of :obj:`size` sorted messages to its group, from where groups start."""
    ptr = as_index(ptr, "ptr")
    checks.check_pointer(ptr, size, "rowptr")
    dtype = index_dtype(size, ptr.numel())
    rowptr = ptr.to(dtype, copy=True).contiguous()  # the caller's may change before backward
    colptr = torch.arange(size + 1, dtype=dtype, device=ptr.device)
    return _of_messages(rowptr, colptr[:-1], None, Csc(colptr, expand(rowptr), colptr[:-1]))


def group_nodes(ptr: Tensor, size: int) -> Structure:
    r"""The edges from each of :obj:`size` nodes to its graph, where nodes are sorted by graph: a
    batch of as many graphs, each with one target.
    """
    grouped = group_sorted(ptr, size)
    src_ptr = grouped.rowptr.long()
    dst_ptr = torch.arange(src_ptr.numel(), device=src_ptr.device)
    structure = replace(grouped, src_ptr=src_ptr, dst_ptr=dst_ptr)
    structure.__dict__["csc"] = grouped.csc
    return structure


def _of_messages(rowptr: Tensor, col: Tensor, perm: Tensor | None, csc: Csc) -> Structure:
    sizes = col.numel(), rowptr.numel() - 1
    src_ptr, dst_ptr = _ranges(None, None, sizes, col.device)
    structure = Structure(*sizes, rowptr, col, perm, src_ptr, dst_ptr)
    structure.__dict__["csc"] = csc
    return structure


def _ranges(
    ptr: Any, batch: tuple[Tensor, Tensor] | None, sizes: tuple[int, int], device: torch.device
) -> tuple[Tensor, Tensor]:
    r"""Returns :obj:`src_ptr` and :obj:`dst_ptr`."""
    if ptr is not None:
        ptr = as_index(ptr, "ptr").to(device, torch.int64, copy=True)
        checks.check_pointer(ptr, sizes[0], "ptr")
        return ptr, ptr
    if batch is None:
        # Twice as fast as torch.tensor, which counts on small graphs.
        ends = (torch.from_numpy(np.array([0, size], np.int64)) for size in sizes)
        src_ptr, dst_ptr = ends if device.type == "cpu" else (end.to(device) for end in ends)
        return src_ptr, dst_ptr
    same = batch[0] is batch[1] and sizes[0] == sizes[1]
    for ids, size in zip(batch[same:], sizes[same:], strict=True):
        checks.check_batch(ids, size)
    num_graphs = max((int(ids[-1]) + 1 for ids in batch if ids.numel() > 0), default=0)
    checks.check_count(num_graphs, "batch", "graphs")
    dst_ptr = pointer(batch[1].long(), num_graphs).to(device)
    src_ptr = dst_ptr if same else pointer(batch[0].long(), num_graphs).to(device)
    return src_ptr, dst_ptr


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
    r"""Adds self-loops and normalises weights, for a whole graph and for rows of one; see
    :func:`with_self_loops` and :func:`normalized`.
    """
    if loop_mode is not None:
        src, dst, weight = with_self_loops(src, dst, weight, num_dst, loop_mode, first)
    if normalize is not None:
        if weight is None:
            weight = torch.ones(src.numel(), device=src.device)
        weight = normalized(src, dst, weight, num_dst, normalize, to_sources)
    return src, dst, weight


def with_self_loops(
    src: Tensor, dst: Tensor, weight: Tensor | None, num_nodes: int, mode: LoopMode, first: int = 0
) -> tuple[Tensor, Tensor, Tensor | None]:
    r"""Gives each of the first :obj:`num_nodes` targets exactly one self-loop, placed after all
    other edges in node order, as :func:`torch_geometric.utils.add_remaining_self_loops` does.

    With :obj:`"add"` a node that has self-loops keeps the weight of the last one and others get
    weight 1; with :obj:`"replace"` all get weight 1. Target 0 is source :obj:`first`.
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
    result, with finite gradients. :obj:`to_sources` maps :math:`d^{-1/2}` of the targets to that of
    the sources, where the two are not the same nodes.
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
