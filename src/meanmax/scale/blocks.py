r"""Parts of consecutive nodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.scale.errors import check_parts

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
    r"""The first node of each block and, last, the number of nodes, :obj:`[parts + 1]`.

    Args:
        rowptr (ndarray): The first edge of each node, :obj:`[num_nodes + 1]`; may be mapped from
            a file.
        parts (int): The number of blocks.
    """
    num_nodes = len(rowptr) - 1
    parts = check_parts(parts, num_nodes)
    bounds = np.empty(parts + 1, np.int64)
    bounds[0], bounds[-1] = 0, num_nodes
    total = int(rowptr[-1]) - int(rowptr[0]) + ROW_COST * num_nodes
    for index in range(1, parts):
        goal = total * index / parts
        found = _first_reaching(rowptr, goal)
        # One node for this part at least, and one for each of those that follow.
        bounds[index] = min(max(found, bounds[index - 1] + 1), num_nodes - (parts - index))
    return bounds


def _first_reaching(rowptr: npt.NDArray[np.integer], goal: float) -> int:
    r"""The first node whose cumulative cost is nearest to :obj:`goal`, by bisection."""
    start, low, high = int(rowptr[0]), 0, len(rowptr) - 1
    while low < high:
        middle = (low + high) // 2
        if int(rowptr[middle]) - start + ROW_COST * middle < goal:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    below, above = (int(rowptr[n]) - start + ROW_COST * n for n in (low - 1, low))
    return low - 1 if goal - below < above - goal else low
