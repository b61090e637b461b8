r"""What the kernels derive from a graph once: numpy views, blocks of work, sums of weights."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.autograd import own_weight
from meanmax.ops.numba.gather import permute_rows, weight_sums
from meanmax.ops.scaling import sample_nodes
from meanmax.ops.spec import precision_of

Array = npt.NDArray[Any]
NUM_BLOCKS = 64
ROW_COST = 4  # a row costs about as much as this many edges


def blocks_of(cost: Array, bounds: Array, number: int = NUM_BLOCKS) -> Array:
    r"""Cuts rows into blocks of equal cost, none of which spans two graphs.

    The cut does not depend on the number of threads, and neither does anything that is summed
    over blocks.

    Args:
        cost (ndarray): Cumulative cost before each row, one longer than there are rows.
        bounds (ndarray): First row of each graph, one longer than there are graphs.
        number (int, optional): How many blocks, or one more for each graph after the first.

    Returns:
        Rows :obj:`(first, last, graph)`, int64.
    """
    goals = np.linspace(cost[0], cost[-1], number + 1)[1:-1]
    cuts = np.unique(np.concatenate([bounds, np.searchsorted(cost, goals)]))
    first, last = cuts[:-1], cuts[1:]
    graph = np.searchsorted(bounds, first, side="right") - 1
    return np.ascontiguousarray(np.stack([first, last, graph], axis=1), dtype=np.int64)


class Sums(NamedTuple):
    r"""What a row's weights add up to.

    Args:
        total (ndarray): The sums, :obj:`[num_dst, heads]`.
        delicate (ndarray): Rows with weights that the common shift is not safe for.
        extreme (bool): Whether some weight needs a wider dtype.
    """

    total: Array
    delicate: Array
    extreme: bool


class Weights:
    r"""Edge weights, and what is derived from them when it is first needed.

    Args:
        edge (ndarray): Weights in CSR order, :obj:`[num_edges, heads]`.
        plan (Plan): The graph's plan.
    """

    def __init__(self, edge: Array, plan: Plan) -> None:
        self.edge = edge
        self._plan = plan

    @cached_property
    def transposed(self) -> Array:
        r"""The weights in CSC order."""
        plan, moved = self._plan, np.empty_like(self.edge)
        permute_rows(plan.source_blocks, plan.colptr, plan.csc_to_csr, self.edge, moved)
        return moved

    @property
    def total(self) -> Array:
        r"""The sums of each row."""
        return self._sums.total

    @property
    def delicate(self) -> Array:
        r"""Rows with weights that the common shift is not safe for."""
        return self._sums.delicate

    @property
    def extreme(self) -> bool:
        r"""Whether some weight needs a wider dtype."""
        return self._sums.extreme

    @cached_property
    def _sums(self) -> Sums:
        plan, edge = self._plan, self.edge
        total = np.empty((plan.num_dst, edge.shape[1]), edge.dtype)
        delicate = np.empty(plan.num_dst, np.bool_)
        limits = precision_of(edge.dtype.name)
        bounds = np.array(
            [limits.smallest_weight, limits.largest_weight, limits.least_weight], edge.dtype
        )
        extreme = np.zeros(len(plan.row_blocks), np.bool_)
        weight_sums(plan.row_blocks, plan.rowptr, edge, bounds, total, delicate, extreme)
        return Sums(total, delicate, bool(extreme.any()))


class Plan:
    r"""Numpy views and blocks of a graph. Made by :func:`plan_of`, which remembers it."""

    def __init__(self, graph: Graph) -> None:
        self.num_src, self.num_dst = graph.num_src, graph.num_dst
        self.rowptr, self.col = graph.rowptr.numpy(), graph.col.numpy()
        self._graph_parts = graph
        self.src_bounds, self.dst_bounds = graph.src_ptr.numpy(), graph.dst_ptr.numpy()
        self.row_blocks = blocks_of(_edge_cost(self.rowptr), self.dst_bounds)
        self.node_blocks = blocks_of(np.arange(self.num_src + 1), self.src_bounds)
        self.sample = sample_nodes(graph.src_ptr).numpy()
        self._weights: dict[torch.dtype, Weights] = {}

    @cached_property
    def colptr(self) -> Array:
        r"""First edge of each source, CSC."""
        return self._graph_parts.colptr.numpy()

    @cached_property
    def row(self) -> Array:
        r"""Target of each edge in CSC order."""
        return self._graph_parts.row.numpy()

    @cached_property
    def csc_to_csr(self) -> Array:
        r"""The position in CSR order of each edge in CSC order."""
        return self._graph_parts.csc_to_csr.numpy()

    @cached_property
    def source_blocks(self) -> Array:
        r"""Blocks of sources of equal cost in the transposed graph."""
        return blocks_of(_edge_cost(self.colptr), self.src_bounds)

    def weights(self, given: Tensor | None, dtype: torch.dtype) -> Weights:
        r"""The weights a call uses: those :obj:`given`, or the graph's own, remembered."""
        if given is not None:
            return Weights(given.detach().to(dtype).contiguous().numpy(), self)
        if dtype not in self._weights:
            edge = own_weight(self._graph_parts, torch.empty(0, dtype=dtype))
            self._weights[dtype] = Weights(edge.detach().contiguous().numpy(), self)
        return self._weights[dtype]


def plan_of(graph: Graph) -> Plan:
    r"""The graph's plan, made at first use."""
    if "numba_plan" not in graph.cache:
        graph.cache["numba_plan"] = Plan(graph)
    plan: Plan = graph.cache["numba_plan"]
    return plan


def _edge_cost(pointer: Array) -> Array:
    return pointer.astype(np.int64) + ROW_COST * np.arange(len(pointer))
