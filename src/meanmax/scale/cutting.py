r"""A graph cut into parts: whose rows, whose edges, and which rows each part borrows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from meanmax.graph import Graph

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Piece:
    r"""What one rank holds of a graph. Sources are its own nodes, then its halo.

    Args:
        nodes (ndarray): The own nodes' numbers in the whole graph, ascending.
        halo (ndarray): The borrowed nodes' numbers, grouped by owner, ascending in each group.
        rowptr (ndarray): The first edge of each own node.
        col (ndarray): The source of each edge, in the order of the whole graph, int32 where the
            whole graph's are.
        send (ndarray): Own rows that others borrow, grouped by borrower.
        send_counts (tuple): How many go to each rank.
        receive_counts (tuple): How many come from each rank.
    """

    nodes: Index
    halo: Index
    rowptr: Index
    col: Index
    send: Index
    send_counts: tuple[int, ...]
    receive_counts: tuple[int, ...]


class Cut:
    r"""A graph and the rank of each of its nodes.

    Args:
        graph (Graph): The whole graph.
        part (Tensor): The rank of each node, :obj:`[num_nodes]`.
        num_parts (int): The number of ranks; one may be left without nodes.
    """

    def __init__(self, graph: Graph, part: Tensor, num_parts: int) -> None:
        if part.shape != (graph.num_nodes,):
            raise ValueError(
                f"'part' must hold the rank of each of {graph.num_nodes} nodes "
                f"(got shape {list(part.shape)})"
            )
        if graph.num_graphs != 1:
            raise ValueError(f"only one graph can be cut (got a batch of {graph.num_graphs})")
        if part.numel() and not 0 <= int(part.min()) <= int(part.max()) < num_parts:
            raise ValueError(f"'part' must hold ranks from 0 to {num_parts - 1}")
        self.num_parts = num_parts
        self.part = part.numpy().astype(np.int64)
        self.rowptr = graph.rowptr.numpy().astype(np.int64)
        self.col = graph.col.numpy()

    @cached_property
    def owned(self) -> list[Index]:
        r"""The nodes of each rank, ascending."""
        order = np.argsort(self.part, kind="stable")
        ends = np.cumsum(np.bincount(self.part, minlength=self.num_parts))
        return list(np.split(order, ends[:-1]))

    @cached_property
    def position(self) -> Index:
        r"""The place of each node among those of its rank."""
        found = np.empty(len(self.part), np.int64)
        for nodes in self.owned:
            found[nodes] = np.arange(len(nodes))
        return found

    @cached_property
    def halos(self) -> list[Index]:
        r"""What each rank borrows."""
        return [self._halo(rank) for rank in range(self.num_parts)]

    def piece(self, rank: int) -> Piece:
        r"""What one rank holds."""
        nodes, halo = self.owned[rank], self.halos[rank]
        rowptr = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(np.diff(self.rowptr)[nodes], out=rowptr[1:])
        lent = [other[self.part[other] == rank] for other in self.halos]
        return Piece(
            nodes=nodes,
            halo=halo,
            rowptr=rowptr,
            col=self._local(self.col[self.edges(rank)], rank).astype(self.col.dtype),
            send=self.position[np.concatenate(lent)],
            send_counts=tuple(map(len, lent)),
            receive_counts=tuple(np.bincount(self.part[halo], minlength=self.num_parts).tolist()),
        )

    def edges(self, rank: int) -> Index:
        r"""Where a rank's edges stand in CSR order of the whole graph."""
        nodes = self.owned[rank]
        counts = np.diff(self.rowptr)[nodes]
        first = np.repeat(self.rowptr[nodes] - np.cumsum(counts) + counts, counts)
        return first + np.arange(len(first))

    def _halo(self, rank: int) -> Index:
        sources = np.unique(self.col[self.edges(rank)]).astype(np.int64)
        borrowed = sources[self.part[sources] != rank]
        halo: Index = borrowed[np.argsort(self.part[borrowed], kind="stable")]
        return halo

    def _local(self, sources: npt.NDArray[np.int32], rank: int) -> Index:
        r"""Where sources stand among the rank's own nodes and its halo."""
        found = self.position[sources]
        halo = self.halos[rank]
        outside = np.flatnonzero(self.part[sources] != rank)
        order = np.argsort(halo)
        place = np.searchsorted(halo[order], sources[outside])
        found[outside] = len(self.owned[rank]) + order[place]
        return found


def tensor(values: npt.NDArray[np.int64]) -> Tensor:
    r"""An index as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(values))
