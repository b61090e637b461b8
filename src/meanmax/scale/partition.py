r"""Parts with few edges between them, by METIS."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.scale.errors import (PartitionError, check_parts)

MOST = 2**31 - 1  # METIS counts nodes and edges in 32 bits


def assign_metis(graph: Graph, parts: int, *, seed: int = 0) -> Tensor:
    r"""Divides nodes into parts of about equally many nodes with few edges between them, by
    `METIS <https://doi.org/10.1137/S1064827595287997>`_.

    The graph is taken as undirected, without weights, multiple edges and self-loops. No part is
    empty. The same seed gives the same parts.

    Args:
        graph (Graph): The graph.
        parts (int): The number of parts.
        seed (int, optional): Draws the order in which METIS sees the nodes; 0 is the order that
            they have. (default: :obj:`0`)

    Returns:
        The part of every node, int64, :obj:`[num_nodes]`.
    """
    parts = check_parts(parts, graph.num_nodes)
    if parts == 1:
        return torch.zeros(graph.num_nodes, dtype=torch.int64)
    metis = _pymetis()
    # METIS's own seed does nothing to the k-way scheme: the order of nodes is what varies.
    order = _order(graph.num_nodes, seed)
    matrix = _undirected(graph)[order][:, order] if seed else _undirected(graph)
    if matrix.nnz == 0:  # nothing to cut, and METIS would leave parts empty
        return torch.arange(graph.num_nodes) * parts // graph.num_nodes
    pointer, neighbour = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    found = metis.part_graph(parts, metis.CSRAdjacency(pointer, neighbour))
    part = torch.empty(graph.num_nodes, dtype=torch.int64)
    part[torch.from_numpy(order)] = torch.tensor(found.vertex_part, dtype=torch.int64)
    return _without_empty(part, parts)


def _pymetis() -> ModuleType:
    try:
        import pymetis
    except ImportError as error:
        raise PartitionError(
            "METIS needs the package pymetis, which is not there: pip install 'meanmax[scale]'; or "
            "divide by 'blocks' of consecutive nodes, which works without"
        ) from error
    return pymetis  # type: ignore[no-any-return, unused-ignore]


def _order(size: int, seed: int) -> np.ndarray:
    if seed < 0:
        raise PartitionError(f"'seed' must not be negative (got {seed})")
    return np.random.default_rng(seed).permutation(size) if seed else np.arange(size)


def _undirected(graph: Graph) -> Any:
    r"""The undirected graph as a matrix, each neighbour once and none oneself."""
    rowptr, col = graph.rowptr.cpu().numpy(), graph.col.cpu().numpy()
    size = graph.num_nodes
    if 2 * graph.num_edges > MOST:
        raise PartitionError(
            f"METIS counts edges in 32 bits: {graph.num_edges:,} are too many; divide by 'blocks'"
        )
    matrix = scipy.sparse.csr_array((np.ones(len(col), np.int8), col, rowptr), shape=(size, size))
    both = (matrix + matrix.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    return both


def _without_empty(part: Tensor, parts: int) -> Tensor:
    r"""METIS may leave parts empty on tiny or loose graphs: each takes a node of the largest."""
    sizes = torch.bincount(part, minlength=parts)
    for empty in (sizes == 0).nonzero().view(-1).tolist():
        largest = int(sizes.argmax())
        moved = int((part == largest).nonzero()[-1])
        part[moved] = empty
        sizes[largest] -= 1
        sizes[empty] += 1
    return part
