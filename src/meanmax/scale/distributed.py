r"""A graph of which every process holds a part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.build import expand
from meanmax.graph.checks import Normalize, SelfLoops, as_weight, check_options
from meanmax.graph.weights import normalized, with_self_loops
from meanmax.nn.linear import Features
from meanmax.scale.collectives import Halo, minimum, summed
from meanmax.scale.cutting import Piece, tensor
from meanmax.scale.parts_folder import Manifest, PartsError, StoredPart, read_manifest, read_part
from meanmax.scale.ranks import Job
from meanmax.train import LabeledNodes, Sample
from meanmax.train.problem import Scaling


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


@dataclass(frozen=True, eq=False)
class Part:
    r"""One rank's part of a data set.

    Args:
        manifest (Manifest): What the parts have in common.
        stored (StoredPart): What was read.
        graph (DistributedGraph): The rank's rows of the graph.
    """

    manifest: Manifest
    stored: StoredPart
    graph: DistributedGraph

    @property
    def scaling(self) -> Scaling:
        r"""The whole data set's."""
        return self.stored.scaling

    def sample(self, name: str, *, scale: bool) -> Sample:
        r"""Own nodes that train, validate or test. Losses of all ranks add up to the mean over all
        such nodes.

        Args:
            name (str): :obj:`"train"`, :obj:`"val"` or :obj:`"test"`.
            scale (bool): Whether features are brought to a common scale.
        """
        x = self._scaled if scale else self.stored.x
        index = self.stored.split[name]
        target = self._targets()[index]
        return Sample(
            x, self.graph, LabeledNodes(index, target, max(1, self.manifest.counts[name]))
        )

    @cached_property
    def _scaled(self) -> Features:
        r"""Once for all samples, which layers remember things by."""
        return self.scaling(self.stored.x)

    def _targets(self) -> Tensor:
        y = self.stored.y
        if y.dim() == 2 and y.size(1) == 1:  # one label of 0 and 1 is two classes
            return torch.nan_to_num(y[:, 0], nan=-1.0).long()
        return y


def open_part(folder: Path, job: Job) -> Part:
    r"""Reads this rank's part.

    Args:
        folder (Path): What :func:`~meanmax.scale.parts_folder.write_parts` has written.
        job (Job): The processes.
    """
    manifest = read_manifest(folder)
    if manifest.parts != job.size:
        raise PartsError(
            f"{folder} holds {manifest.parts} parts, one for each process, but {job.size} "
            f"processes were started: torchrun --nproc-per-node {manifest.parts} ..."
        )
    said = json.dumps(asdict(manifest), sort_keys=True).encode()
    if job.handed(said) != said:
        raise PartsError(
            f"{folder} is not the same here as where the first process runs: copy one and the same "
            f"folder of parts to every machine"
        )
    stored = read_part(folder, job.rank, manifest)
    job.wait()  # reading may take one of them much longer than another
    return Part(manifest, stored, distributed_graph(stored.piece, job, stored.weight))


def distributed_graph(piece: Piece, job: Job, weight: Tensor | None = None) -> DistributedGraph:
    r"""The graph of a piece that is at hand, without a folder.

    Args:
        piece (Piece): What the rank holds.
        job (Job): The processes.
        weight (Tensor, optional): Weights of the piece's edges. (default: :obj:`None`)
    """
    halo = Halo(tensor(piece.send), piece.send_counts, piece.receive_counts, job.group)
    num_src = len(piece.nodes) + len(piece.halo)
    rows = Graph.from_csr(tensor(piece.rowptr), tensor(piece.col), num_src=num_src, weight=weight)
    return DistributedGraph(rows, halo)
