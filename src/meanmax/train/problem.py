r"""What a model is trained and validated on: one graph, or several in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import scipy.sparse
import torch
from torch import Tensor

from meanmax.graph import (Graph, SparseFeatures)
from meanmax.nn.linear import Features
from meanmax.nn.models_init import Trainable
from meanmax.train.nodes import Nodes


@dataclass(frozen=True, eq=False)
class Sample:
    r"""A graph with features and the nodes that count.

    Args:
        x (Tensor or SparseFeatures): Features.
        graph (Graph): The graph as it is, or a batch.
        nodes (Nodes): The nodes that the loss is taken over, with their targets.
        structure (Tensor, optional): CAT's embeddings of the nodes, where they are fitted.
            (default: :obj:`None`)
    """

    x: Features
    graph: Graph
    nodes: Nodes
    structure: Tensor | None = None

    def output(self, model: Trainable) -> Tensor:
        r"""The model's output for every node."""
        if self.structure is None:
            return model(self.x, self.graph)
        return model(self.x, self.graph, structure=self.structure)


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Samples to learn from and one to validate on.

    Args:
        samples (sequence): One sample, or several that are drawn into batches anew each epoch.
        val (Sample, optional): What the best epoch is chosen by.
        batch_graphs (int, optional): How many samples make a batch. (default: :obj:`2`)
    """

    samples: Sequence[Sample]
    val: Sample | None = None
    batch_graphs: int = 2

    def batches(self) -> Iterator[Sample]:
        r"""The batches of one epoch, in an order drawn from PyTorch's generator."""
        if len(self.samples) == 1:
            yield self.samples[0]
            return
        order = torch.randperm(len(self.samples)).tolist()
        for first in range(0, len(order), self.batch_graphs):
            yield joined([self.samples[i] for i in order[first : first + self.batch_graphs]])


def joined(samples: Sequence[Sample]) -> Sample:
    r"""Samples side by side as one batch, in which each graph stays apart from the others."""
    if len(samples) == 1:
        return samples[0]
    offsets = torch.tensor([0] + [sample.graph.num_nodes for sample in samples[:-1]]).cumsum(0)
    index = [sample.nodes.index + offset for sample, offset in zip(samples, offsets, strict=True)]
    structures = [sample.structure for sample in samples if sample.structure is not None]
    return Sample(
        _stacked([sample.x for sample in samples]),
        Graph.batch([sample.graph for sample in samples]),
        Nodes(torch.cat(index), torch.cat([sample.nodes.target for sample in samples])),
        torch.cat(structures) if structures else None,
    )


def _stacked(parts: Sequence[Features]) -> Features:
    dense = [part for part in parts if isinstance(part, Tensor)]
    if len(dense) == len(parts):
        return torch.cat(dense)
    sparse = [
        part.to_scipy() if isinstance(part, SparseFeatures) else scipy.sparse.csr_array(part)
        for part in parts
    ]
    return SparseFeatures.from_scipy(scipy.sparse.vstack(sparse, format="csr"))
