r"""A graph of which every process holds a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph
from meanmax.graph.build import expand, prepare_edges
from meanmax.graph.checks import Normalize, SelfLoops, check_options
from meanmax.nn.linear import Features
from meanmax.scale.collectives import Halo, Job, minimum, summed
from meanmax.scale.edges import Array, CsrEdges, FolderError
from meanmax.scale.folder import (
    ROLES,
    GraphFolder,
    is_graph_folder,
    open_folder,
    read_manifest,
    write_folder,
)
from meanmax.scale.partition import edge_cut
from meanmax.train import LabeledNodes, Sample
from meanmax.train.problem import Scaling


@final
class DistributedGraph(Graph):
    r"""The rows of a graph that one rank owns, in place of a whole :class:`~meanmax.Graph`.

    Functions of the core, aggregators, layers and models accept it with the features of the rank's
    own nodes, and return what they would return for these nodes on the whole graph. The rows that
    edges need from other ranks are fetched in one exchange, :math:`\mu` is the minimum over all
    ranks, and gradients of halo rows are returned to their owners. Every rank has to make the same
    calls in the same order. Gradients of parameters are those of the rank's own rows: sum them over
    ranks.

    No maximum is exchanged: the one that is subtracted in exponents cancels out, and the maximum of
    the rank's own rows works as well as that of the whole graph.

    :obj:`num_src`, :obj:`num_dst` and :obj:`num_nodes` are the number of own nodes.

    Args:
        part (Graph): Own nodes as targets, own nodes followed by the halo as sources.
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
        self.num_src, self.halo, self._part = part.num_dst, halo, part

    holds_all_nodes = False

    @property
    def local(self) -> Graph:
        r"""Own nodes as targets, own nodes and the halo as sources."""
        return self._part

    def sources(self, x: Tensor) -> Tensor:
        r"""Own rows, and those of the halo after them."""
        return self.halo.gather(x)

    def minimum(self, x: Tensor) -> Tensor:
        r"""The smallest feature of all ranks, with its gradient."""
        return minimum(x, self.halo.group)

    def mean(self, x: Tensor) -> Tensor:
        r"""The mean over the nodes of all ranks."""
        own = x.detach().sum(dim=0, dtype=torch.float64)
        total = summed(torch.cat([own.view(-1), own.new_tensor([len(x)])]), self.halo.group)
        return (total[:-1] / total[-1].clamp(min=1)).view_as(own).to(x.dtype)

    def with_weight(self, edge_weight: Tensor | Sequence[float] | None) -> DistributedGraph:
        r"""The same part with other weights of its edges."""
        return DistributedGraph(self._part.with_weight(edge_weight), self.halo)

    def to(self, device: torch.device | str) -> DistributedGraph:
        r"""The part on another device."""
        part = self._part.to(device)
        return self if part is self._part else DistributedGraph(part, self.halo.to(device))

    def _prepare(self, normalize: Normalize | None, self_loops: SelfLoops) -> DistributedGraph:
        part = self._part.prepared()
        mode = check_options(normalize, self_loops, self.num_dst, self.num_dst)
        if mode is not None or normalize is not None:
            src, dst, weight = prepare_edges(
                part.col, expand(part.rowptr), part.weight, self.num_dst, normalize, mode,
                to_sources=self.halo.gather,
            )  # fmt: skip
            edges, sizes = torch.stack([src, dst]), (part.num_src, self.num_dst)
            part = Graph.from_edge_index(edges, sizes, weight).prepared()
        return self if part is self._part else DistributedGraph(part, self.halo)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a DistributedGraph belongs to its process and cannot be pickled or copied")

    def __repr__(self) -> str:
        return (
            f"DistributedGraph(num_nodes={self.num_dst}, halo={self.halo.num_received}, "
            f"num_edges={self.num_edges}, weighted={self.weight is not None})"
        )


@dataclass(frozen=True)
class Partition:
    r"""Facts about a graph folder whose nodes are grouped into parts, one for each rank."""

    data: str  # the name of the data set
    origin: dict[str, Any]  # hashes and names of data and split, which identify the partition
    parts: int  # the number of parts
    method: str  # how the nodes were assigned
    num_nodes: int  # of the whole graph
    num_edges: int
    cut_edges: int  # between nodes of different parts
    num_features: int
    sparse: bool  # whether the features are
    weighted: bool  # whether edges have weights
    class_names: list[str]  # the classes, or the labels
    counts: dict[str, int]  # how many nodes train, validate and test

    @classmethod
    def of(cls, folder: GraphFolder) -> Partition:
        r"""The facts of an open folder."""
        manifest, about = folder.manifest, folder.manifest.about
        if not {"part_ptr", *ROLES} <= set(folder.arrays) or "method" not in about:
            raise FolderError(
                f"{folder.path} is not divided into parts for processes: run `meanmax partition`"
            )
        return cls(
            data=manifest.name,
            origin=about["origin"],
            parts=folder.num_parts,
            method=about["method"],
            num_nodes=manifest.num_nodes,
            num_edges=manifest.num_edges,
            cut_edges=about["cut_edges"],
            num_features=manifest.num_features,
            sparse="x" not in folder.arrays,
            weighted="weight" in folder.arrays,
            class_names=list(manifest.class_names),
            counts={role: len(folder.arrays[role]) for role in ROLES},
        )


def is_partition(path: str | Path) -> bool:
    r"""Whether the folder at a path was written by :func:`write_partition`, or by an earlier
    version of it.
    """
    folder = Path(path)
    if not is_graph_folder(folder):
        return False
    try:
        manifest = read_manifest(folder)
    except FolderError:
        return (folder / "part-00000").is_dir()
    return "method" in manifest.about and "part_ptr" in manifest.arrays


def write_partition(
    path: Path,
    dataset: Dataset,
    split: Split,
    part: Tensor,
    num_parts: int,
    *,
    origin: dict[str, Any],
    method: str,
) -> Partition:
    r"""Writes a data set as a graph folder whose nodes are grouped into parts, all at once or not
    at all; see :func:`~meanmax.scale.write_folder`.

    Args:
        path, dataset, split, part: The folder, and the data of one graph with its parts.
        num_parts (int): The number of parts, one for each rank.
        origin (dict): What distinguishes this partition from others.
        method (str): How the nodes were assigned.
    """
    about = {"origin": origin, "method": method, "cut_edges": edge_cut(dataset.graph(), part)}
    scaling = Scaling.of(dataset.x)
    folder = write_folder(
        path, dataset, part=part, num_parts=num_parts, split=split, about=about, scaling=scaling
    )
    return Partition.of(folder)


def halo_nodes(column: Array, part_ptr: Array, rank: int) -> Array:
    r"""The nodes of other ranks among sources, ascending and so grouped by rank."""
    first, last = part_ptr[rank], part_ptr[rank + 1]
    nodes: Array = np.unique(column[(column < first) | (column >= last)]).astype(np.int64)
    return nodes


def rank_sizes(folder: GraphFolder) -> list[dict[str, int]]:
    r"""How many nodes and edges every rank holds, and how many rows it gets and sends per layer."""
    pointer, edges = np.asarray(folder.part_ptr), folder.edges
    columns = [edges.rows(*bounds).column for bounds in pairwise(pointer.tolist())]
    halos = [halo_nodes(column, pointer, rank) for rank, column in enumerate(columns)]
    sizes = {
        "rank": range(len(columns)),
        "nodes": np.diff(pointer).tolist(),
        "edges": map(len, columns),
        "halo": map(len, halos),
        "sent": np.sum([np.diff(np.searchsorted(halo, pointer)) for halo in halos], 0).tolist(),
    }
    return [dict(zip(sizes, row, strict=True)) for row in zip(*sizes.values(), strict=True)]


def distributed_graph(edges: CsrEdges, part_ptr: Array, job: Job) -> DistributedGraph:
    r"""This rank's rows of a graph whose nodes are grouped by part; :obj:`part_ptr` is the first
    node of each. Every rank has to call it: they agree on which rows each sends.
    """
    pointer = np.asarray(part_ptr)
    first, last = int(pointer[job.rank]), int(pointer[job.rank + 1])
    rows = edges.rows(first, last)
    if len(rows.column) and not 0 <= rows.column.min() <= rows.column.max() < edges.num_nodes:
        raise FolderError(f"the edges of part {job.rank} lead from nodes that do not exist")
    borrowed = halo_nodes(rows.column, pointer, job.rank)
    inside = (rows.column >= first) & (rows.column < last)
    outside = last - first + np.searchsorted(borrowed, rows.column)
    column = np.where(inside, rows.column - first, outside).astype(edges.col.dtype)
    bounds = np.searchsorted(borrowed, pointer)
    wanted = borrowed - np.repeat(pointer[:-1], np.diff(bounds))  # their numbers at their owners
    halo = Halo.agree(torch.from_numpy(wanted), tuple(np.diff(bounds).tolist()), job.group)
    weight = None if rows.weight is None else torch.from_numpy(rows.weight)
    csr = (torch.from_numpy(rows.pointer), torch.from_numpy(column))
    size = last - first + len(borrowed)
    graph = Graph.from_csr(*csr, num_src=size, edge_weight=weight, copy=False)
    return DistributedGraph(graph, halo)


@dataclass(frozen=True, eq=False)
class Part:
    r"""One rank's part of a data set; :func:`open_part` reads it."""

    manifest: Partition  # facts about the whole
    graph: DistributedGraph  # the rank's rows of the graph
    x: Features  # of own nodes
    y: Tensor  # their labels
    split: dict[str, Tensor]  # own nodes that train, validate and test, by their place here
    scaling: Scaling  # how the whole data set's features are standardised

    def sample(self, name: str, *, scale: bool | str) -> Sample:
        r"""Own nodes for :obj:`"train"`, :obj:`"val"` or :obj:`"test"`, with features standardised
        or not. Losses of all ranks add up to the mean over all such nodes.
        """
        x, y, index = self._scaled if scale else self.x, self.y, self.split[name]
        if y.dim() == 2 and y.size(1) == 1:  # one label of 0 and 1 is two classes
            y = torch.nan_to_num(y[:, 0], nan=-1.0).long()
        total = max(1, self.manifest.counts[name])
        return Sample(x, self.graph, LabeledNodes(index, y[index], total))

    @cached_property
    def _scaled(self) -> Features:
        r"""One object for all samples, since layers cache by it."""
        return self.scaling(self.x)


def open_part(path: Path, job: Job) -> Part:
    r"""Reads this rank's part of what :func:`write_partition` has written, and no other rows."""
    folder = open_folder(path)
    facts = Partition.of(folder)
    if facts.parts != job.size:
        raise FolderError(
            f"{path} holds {facts.parts} parts, one for each process, but {job.size} processes "
            f"were started: torchrun --nproc-per-node {facts.parts} ..."
        )
    content = folder.manifest.text().encode()
    if job.broadcast_bytes(content) != content:
        raise FolderError(
            f"{path} is not the same here as where the first process runs: copy one and the same "
            f"folder to every machine"
        )
    pointer = np.asarray(folder.part_ptr)
    first, last = int(pointer[job.rank]), int(pointer[job.rank + 1])
    x, y = folder.x.read(first, last), torch.from_numpy(np.array(folder.y[first:last]))
    split = {}
    for role in ROLES:
        nodes = np.asarray(folder.arrays[role])
        split[role] = torch.from_numpy(nodes[(nodes >= first) & (nodes < last)] - first)
    scaling = Scaling.of_rows(facts.num_features)
    if not facts.sparse:
        names = ("feature_mean", "feature_scale")
        scaling = Scaling(False, *(torch.from_numpy(np.array(folder.arrays[n])) for n in names))
    job.wait()  # reading may take one rank much longer than another
    graph = distributed_graph(folder.unchecked_edges, pointer, job)
    return Part(facts, graph, x, y, split, scaling)
