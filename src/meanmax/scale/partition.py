r"""Parts with few edges between them, by METIS."""

from __future__ import annotations

import operator
from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.build import expand


class PartitionError(ValueError):
    r"""A graph that cannot be partitioned as requested; the message says what to do."""


def check_parts(parts: int, num_nodes: int) -> int:
    r"""The number of parts, at least one and at most one for each node."""
    try:
        count = operator.index(parts)
    except TypeError:
        count = 0
    if count < 1 or isinstance(parts, bool):
        raise PartitionError(f"'parts' must be a whole number from 1 on (got {parts!r})")
    if count > max(num_nodes, 1):
        raise PartitionError(
            f"{num_nodes:,} nodes cannot make {count:,} parts, none of them empty: ask for at most "
            f"{num_nodes:,}"
        )
    return count


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
    try:
        import pymetis
    except ImportError as error:
        raise PartitionError(
            "METIS needs the package pymetis, which is not there: pip install 'meanmax[scale]'; or "
            "divide by 'blocks' of consecutive nodes, which works without"
        ) from error
    if seed < 0:
        raise PartitionError(f"'seed' must not be negative (got {seed})")
    order, matrix = np.arange(graph.num_nodes), _undirected(graph)
    if seed:  # METIS's own seed does nothing to the k-way scheme: the order of nodes is what varies
        order = np.random.default_rng(seed).permutation(graph.num_nodes)
        matrix = matrix[order][:, order]
    if matrix.nnz == 0:  # nothing to cut, and METIS would leave parts empty
        return torch.arange(graph.num_nodes) * parts // graph.num_nodes
    pointer, neighbour = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    found = pymetis.part_graph(parts, pymetis.CSRAdjacency(pointer, neighbour))
    part = torch.empty(graph.num_nodes, dtype=torch.int64)
    part[torch.from_numpy(order)] = torch.tensor(found.vertex_part, dtype=torch.int64)
    return _without_empty(part, parts)


def _undirected(graph: Graph) -> Any:
    r"""The undirected graph as a matrix, each neighbour once, without self-loops."""
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
    r"""METIS may leave parts empty on small or disconnected graphs: each gets a node of the largest
    part.
    """
    sizes = torch.bincount(part, minlength=parts)
    for empty in (sizes == 0).nonzero().view(-1).tolist():
        largest = int(sizes.argmax())
        moved = int((part == largest).nonzero()[-1])
        part[moved] = empty
        sizes[largest] -= 1
        sizes[empty] += 1
    return part


ROW_COST = 4  # a row costs about as much as this many edges


def assign_blocks(graph: Graph, parts: int) -> Tensor:
    r"""Divides nodes into blocks of consecutive ones with about equally many incoming edges.

    Every part has at least one node, as long as there are as many nodes as parts.

    Args:
        graph (Graph): The graph; where sources and targets differ, its targets are divided.
        parts (int): The number of parts.

    Returns:
        The part of every node, int64, :obj:`[num_nodes]`.

    Example:
        >>> graph = Graph.from_edge_index([[1, 2, 3, 0], [0, 0, 0, 1]], num_nodes=4)
        >>> assign_blocks(graph, 2)
        tensor([0, 0, 1, 1])
    """
    bounds = block_bounds(graph.rowptr.cpu().numpy(), parts)
    sizes = torch.from_numpy(np.diff(bounds))
    return torch.arange(len(sizes)).repeat_interleave(sizes)


def block_bounds(rowptr: npt.NDArray[np.integer], parts: int) -> npt.NDArray[np.int64]:
    r"""The first node of each block and, last, the number of nodes, :obj:`[parts + 1]`."""
    num_nodes = len(rowptr) - 1
    parts = check_parts(parts, num_nodes)
    bounds = np.empty(parts + 1, np.int64)
    bounds[0], bounds[-1] = 0, num_nodes

    def cost(node: int) -> int:
        r"""Of all nodes before this one."""
        return int(rowptr[node]) - int(rowptr[0]) + ROW_COST * node

    for index in range(1, parts):
        goal = cost(num_nodes) * index / parts
        found = bisect_left(range(num_nodes), goal, key=cost)
        if found and goal - cost(found - 1) < cost(found) - goal:
            found -= 1
        # One node for this part at least, and one for each of those that follow.
        bounds[index] = min(max(found, bounds[index - 1] + 1), num_nodes - (parts - index))
    return bounds


def edge_cut(graph: Graph, part: Tensor) -> int:
    r"""The number of edges between different parts; an undirected edge, which points both ways,
    counts twice.

    Args:
        graph (Graph): The graph.
        part (Tensor): The part of every node, :obj:`[num_nodes]`.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> edge_cut(graph, torch.tensor([0, 0, 1]))
        2
    """
    if part.shape != (graph.num_nodes,):
        raise PartitionError(
            f"'part' must hold the part of each of {graph.num_nodes} nodes (got {list(part.shape)})"
        )
    source = part.index_select(0, graph.col)
    target = part.index_select(0, expand(graph.rowptr))
    return int(torch.count_nonzero(source != target))
