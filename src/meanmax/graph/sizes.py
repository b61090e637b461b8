"""How many nodes a graph has, and which range of them belongs to each graph of a batch."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric import EdgeIndex

from meanmax.graph.checks import (as_index, as_sizes, check_batch)
from meanmax.graph.compress import (expand, pointer)


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
    size = int(edges.max()) + 1 if edges.numel() > 0 else 0
    return max(size, 0), max(size, 0)


def ranges_of_batch(batch: tuple[Tensor, Tensor], sizes: tuple[int, int]) -> tuple[Tensor, Tensor]:
    r"""Returns :obj:`src_ptr` and :obj:`dst_ptr` of sorted graph ids."""
    for ids, size in zip(batch, sizes, strict=True):
        check_batch(ids, size)
    num_graphs = max((int(ids[-1]) + 1 for ids in batch if ids.numel() > 0), default=0)
    src_ptr, dst_ptr = (pointer(ids.long(), num_graphs) for ids in batch)
    return src_ptr, dst_ptr


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
