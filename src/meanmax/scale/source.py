r"""One graph to learn from, in memory or on disk, in one form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph
from meanmax.nn.linear import Features, as_dense
from meanmax.scale.edges import PASS_BYTES, Array, BatchingError, CsrEdges
from meanmax.scale.features import FeatureRows, ScaledRows, rows_of
from meanmax.scale.folder import ROLES, GraphFolder
from meanmax.scale.inference import MEMORY, ExactSample
from meanmax.train import LabeledNodes, Sample
from meanmax.train.problem import Scaling


@dataclass(frozen=True, eq=False)
class Source:
    r"""A graph with features, labels and a split.

    Args:
        x (FeatureRows): Features as they are.
        edges (CsrEdges): The graph.
        y (ndarray): Labels.
        split (Split): Which nodes train, validate and test.
        class_names (tuple): The names of classes, or of labels.
        part_ptr (ndarray, optional): The first node of each part, where nodes are grouped.
        whole (tuple, optional): Features and graph, where they are in memory.
        memory (int): Bytes that the arrays of a block may take, for graphs on disk.
        scratch (Path, optional): A folder for hidden layers of graphs on disk.
    """

    x: FeatureRows
    edges: CsrEdges
    y: Array
    split: Split
    class_names: tuple[str, ...]
    part_ptr: Array | None = None
    whole: tuple[Features, Graph] | None = None
    memory: int = MEMORY
    scratch: Path | None = None

    @classmethod
    def of_dataset(cls, dataset: Dataset, split: Split) -> Source:
        r"""A data set in memory."""
        graph = dataset.graph()
        edges, whole = CsrEdges.of(graph), (dataset.x, graph)
        y, names = dataset.y.numpy(), dataset.class_names
        return cls(rows_of(dataset.x), edges, y, split, names, whole=whole)

    @classmethod
    def of_folder(
        cls, folder: GraphFolder, *, memory: int = MEMORY, scratch: Path | None = None
    ) -> Source:
        r"""A graph folder with the split that it holds."""
        split = folder.split
        if split is None or split.train.numel() == 0:
            raise BatchingError(
                f"{folder.path} says of no node that it is for training: write the folder with a "
                f"split"
            )
        names = folder.manifest.class_names
        return cls(
            folder.x,
            folder.edges,
            folder.y,
            split,
            names,
            folder.part_ptr,
            memory=memory,
            scratch=scratch,
        )

    @property
    def num_features(self) -> int:
        r"""Channels of the features."""
        return self.x.shape[1]

    def scaling(self) -> Scaling:
        r"""The scale of all nodes, found a block of rows at a time."""
        if self.whole is not None:
            return Scaling.of(self.whole[0])
        size, channels = self.x.shape
        if self.x.is_sparse:
            return Scaling(True, torch.zeros(channels), torch.ones(channels))
        mean = self._mean(torch.zeros(channels, dtype=torch.float64), 1)
        deviation = self._mean(mean, 2).sqrt()
        constant = deviation <= 1e-7 * mean.abs()
        return Scaling(False, mean.float(), torch.where(constant, 1.0, deviation).float())

    def scaled(self, scaling: Scaling | None) -> FeatureRows:
        r"""Features on a scale."""
        if scaling is None:
            return self.x
        if self.whole is not None:
            return rows_of(scaling(self.whole[0]))
        return ScaledRows(self.x, scaling)

    def sample(self, nodes: LabeledNodes, x: FeatureRows) -> Sample:
        r"""Some nodes in the whole graph: in memory, or computed layer by layer.

        Args:
            nodes (LabeledNodes): The nodes.
            x (FeatureRows): What :meth:`scaled` gave.
        """
        if self.whole is not None:
            return Sample(x.read(0, x.shape[0]), self.whole[1], nodes)
        return ExactSample(x, self.edges, nodes, memory=self.memory, scratch=self.scratch)

    def labels(self) -> tuple[Array, dict[str, Tensor]]:
        r"""The labels of training and validation nodes, one after the other, and their places."""
        both = torch.cat([self.split.train, self.split.val])
        places = torch.split(torch.arange(len(both)), [len(self.split.train), len(self.split.val)])
        return np.asarray(self.y[both.numpy()]), dict(zip(ROLES[:2], places, strict=True))

    def _mean(self, centre: Tensor, power: int) -> Tensor:
        r"""The mean of a power of features less a centre, in float64."""
        size, channels = self.x.shape
        step, total = max(1, PASS_BYTES // (32 * channels)), torch.zeros_like(centre)
        for first in range(0, size, step):
            rows = as_dense(self.x.read(first, min(first + step, size))).double()
            total += (rows - centre).pow(power).sum(dim=0)
        return total / size
