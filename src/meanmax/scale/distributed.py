r"""A graph of which every process holds a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from meanmax.scale.collectives import Halo
from meanmax.scale.reduce import (minimum, summed)
from meanmax.graph import Graph
from meanmax.graph.checks import (Normalize, SelfLoops, as_weight, check_options)
from meanmax.graph.compress import expand
from meanmax.graph.weights import (normalized, with_self_loops)


@final
class DistributedGraph(Graph):
    r"""The rows of a graph that one rank owns, in place of a whole :class:`~meanmax.Graph`.

    Functions of the core, aggregators, layers and models take it with the features of the rank's
    own nodes, and give what they would give for these nodes on the whole graph: the rows that edges
    need from other ranks come by one exchange, :math:`\mu` is the minimum over all ranks, and
    gradients of borrowed rows go back to their owners. Every rank has to make the same calls in the
    same order. Gradients of parameters are those of the rank's own rows: sum them over ranks.

    No maximum is exchanged: which one an exponential is measured from cancels out, and that of the
    rows at hand is never worse than that of the whole graph.

    Args:
        part (Graph): Own nodes as targets, own nodes followed by the halo as sources.
        halo (Halo): Where the halo's rows come from.

    Attributes:
        num_src (int): The number of own nodes, as :obj:`num_dst` and :obj:`num_nodes`.
        halo (Halo): Where the halo's rows come from.
    """

    def __init__(self, part: Graph, halo: Halo) -> None:
        if part.num_src != part.num_dst + halo.num_received:
            raise ValueError(
                f"'part' must have the {part.num_dst} own nodes and the {halo.num_received} nodes "
                f"of the halo as sources (got {part.num_src})"
            )
        if part.num_graphs != 1:
            raise ValueError(f"'part' must be of one graph (got a batch of {part.num_graphs})")
        super().__init__(part._structure, part.weight)
        self.num_src = part.num_dst
        self.halo = halo
        self._part = part

    @property
    def local(self) -> Graph:
        r"""Own nodes as targets, own nodes and the halo as sources."""
        return self._part

    def sources(self, x: Tensor) -> Tensor:
        r"""Own rows, and those of the halo after them."""
        return self.halo.gather(x)

    def minimum(self, x: Tensor) -> Tensor | None:
        r"""The smallest feature of all ranks, with its gradient."""
        return minimum(x, self.halo.group)

    def total(self, x: Tensor) -> Tensor:
        r"""The sum over the nodes of all ranks."""
        return summed(x.detach().sum(dim=0, dtype=torch.float64), self.halo.group).to(x.dtype)

    def with_weight(self, weight: Tensor | Sequence[float] | None) -> DistributedGraph:
        r"""The same part with other weights of its edges."""
        if weight is not None:
            weight = as_weight(weight, self.num_edges, self.device)
        return DistributedGraph(self._part.with_weight(weight), self.halo)

    def to(self, device: torch.device | str) -> DistributedGraph:
        r"""The part on another device."""
        part = self._part.to(device)
        return self if part is self._part else DistributedGraph(part, self.halo.to(device))

    def _prepare(self, normalize: Normalize | None, self_loops: SelfLoops) -> DistributedGraph:
        part = self._part.prepared()
        mode = check_options(normalize, self_loops, self.num_dst, self.num_dst)
        if mode is None and normalize is None:
            return self if part is self._part else DistributedGraph(part, self.halo)
        src, dst, weight = part.col, expand(part.rowptr), part.weight
        if mode is not None:
            src, dst, weight = with_self_loops(src, dst, weight, self.num_dst, mode)
        if normalize is not None:
            weight = torch.ones(len(src), device=src.device) if weight is None else weight
            args = (src, dst, weight, self.num_dst, normalize)
            weight = normalized(*args, sources=self.halo.gather)
        ends = torch.stack([src, dst])
        part = Graph.from_edge_index(ends, (part.num_src, self.num_dst), weight).prepared()
        return DistributedGraph(part, self.halo)

    def __reduce__(self) -> tuple[Any, ...]:
        r"""A part belongs to its process."""
        raise TypeError("a DistributedGraph belongs to its process and cannot be pickled or copied")

    def __repr__(self) -> str:
        r"""Own nodes, the halo and the edges."""
        return (
            f"DistributedGraph(num_nodes={self.num_dst}, halo={self.halo.num_received}, "
            f"num_edges={self.num_edges}, weighted={self.weight is not None})"
        )
