"""The structure of a graph without its weights, shared by graphs that differ in weights alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from meanmax.graph.compress import (Csc, expand, to_csc)


@final
@dataclass(frozen=True, eq=False)
class Structure:
    r"""Edges grouped by target, and the node ranges of the graphs they belong to.

    Args:
        num_src (int): The number of source nodes.
        num_dst (int): The number of target nodes.
        rowptr (Tensor): The first edge of each target, :obj:`[num_dst + 1]`.
        col (Tensor): The source of each edge, :obj:`[num_edges]`.
        perm (Tensor, optional): The given position of each edge, :obj:`[num_edges]`, or
            :obj:`None` if edges were given in this order.
        src_ptr (Tensor): The first source node of each graph, :obj:`[num_graphs + 1]`.
        dst_ptr (Tensor): The first target node of each graph, :obj:`[num_graphs + 1]`.
    """

    num_src: int
    num_dst: int
    rowptr: Tensor
    col: Tensor
    perm: Tensor | None
    src_ptr: Tensor
    dst_ptr: Tensor

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
        moved = replace(
            self,
            rowptr=rowptr,
            col=self.col.to(device),
            perm=None if self.perm is None else self.perm.to(device),
            src_ptr=self.src_ptr.to(device),
            dst_ptr=self.dst_ptr.to(device),
        )
        if "csc" in self.__dict__:
            moved.__dict__["csc"] = Csc(*(part.to(device) for part in self.csc))
        return moved
