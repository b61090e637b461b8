r"""What a rank trains with: its part of the graph, of the features and of the labels."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from meanmax.scale.cutting import (Piece, tensor)
from meanmax.scale.parts_folder import (Manifest, PartsError, StoredPart, read_manifest, read_part)
from meanmax.scale.distributed import DistributedGraph
from meanmax.scale.collectives import Halo
from meanmax.scale.ranks import Job
from meanmax.graph import Graph
from meanmax.nn.linear import Features
from meanmax.train import (Nodes, Sample)
from meanmax.train.scaling import Scaling


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
        return Sample(x, self.graph, Nodes(index, target, max(1, self.manifest.counts[name])))

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
