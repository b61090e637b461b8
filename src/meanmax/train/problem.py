r"""What a model is trained and validated on: one graph, or several in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import scipy.sparse
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from meanmax.graph import Graph, SparseFeatures
from meanmax.graph.views import edges_of
from meanmax.nn import NodeModel, Trainable, fit_structure
from meanmax.nn.linear import Features, as_dense
from meanmax.nn.receptive_field import Field


@dataclass(frozen=True, eq=False)
class LabeledNodes:
    r"""Nodes with their targets.

    Args:
        index (Tensor): The nodes, int64.
        target (Tensor): Classes, int64, or 0/1 for each label, float; one row for each.
        total (int, optional): How many nodes the loss is the mean over, if these are some of them:
            the losses of all parts add up to it. (default: these)
    """

    index: Tensor
    target: Tensor
    total: int | None = None

    def loss(self, out: Tensor) -> Tensor:
        r"""Cross-entropy of classes, or binary cross-entropy of labels."""
        out = out[self.index]
        how = "mean" if self.total is None else "sum"
        if self.target.dim() == 1:
            loss, terms = cross_entropy(out, self.target, reduction=how), self.total
        else:
            target = self.target.to(out.dtype)
            loss = binary_cross_entropy_with_logits(out, target, reduction=how)
            terms = None if self.total is None else self.total * target.size(1)
        return loss if terms is None else loss / terms

    def score(self, out: Tensor) -> float:
        r"""The accuracy of classes, or the micro-F1 of labels, in :math:`[0, 1]`."""
        return score_of(*self.hits(out))

    @torch.no_grad()
    def hits(self, out: Tensor) -> tuple[int, int]:
        r"""Two counts whose ratio is the score, also when each is summed over parts: right nodes
        and all of them; for labels twice those found and true, and the found plus the true.
        """
        out = out[self.index]
        if self.target.dim() == 1:
            return int((out.argmax(dim=1) == self.target).sum()), len(self.target)
        return _label_hits(out > 0, self.target > 0.5)


def score_of(hits: float, out_of: float) -> float:
    r"""The ratio; 0 where there is nothing to find."""
    return hits / out_of if out_of else 0.0


def micro_f1(found: Tensor, true: Tensor) -> float:
    r"""The F1 score over all nodes and labels together; 0 where there is nothing to find.

    Args:
        found (Tensor): Bool, :obj:`[num_nodes, num_labels]`.
        true (Tensor): The same.
    """
    return score_of(*_label_hits(found, true))


def _label_hits(found: Tensor, true: Tensor) -> tuple[int, int]:
    return 2 * int((found & true).sum()), int(found.sum()) + int(true.sum())


@dataclass(frozen=True, eq=False)
class Sample:
    r"""A graph with features and the nodes that count.

    Args:
        x (Tensor or SparseFeatures): Features.
        graph (Graph): The graph as it is, or a batch.
        nodes (LabeledNodes): The nodes that the loss is taken over, with their targets.
        structure (Tensor, optional): CAT's embeddings of the nodes, where they are fitted.
            (default: :obj:`None`)
    """

    x: Features
    graph: Graph
    nodes: LabeledNodes
    structure: Tensor | None = None

    def output(self, model: Trainable) -> Tensor:
        r"""The model's output for every node."""
        if self.structure is None:
            return model(self.x, self.graph)
        return model(self.x, self.graph, structure=self.structure)


@dataclass(frozen=True, eq=False)
class TrainingProblem:
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
        LabeledNodes(torch.cat(index), torch.cat([sample.nodes.target for sample in samples])),
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


def graph_samples(
    x: Features, graph: Graph, nodes: LabeledNodes, structure_channels: int | None = None
) -> list[Sample]:
    r"""A sample for each graph of a batch that holds some of the nodes.

    Args:
        x (Tensor or SparseFeatures): Features of all nodes.
        graph (Graph): The batch.
        nodes (LabeledNodes): The nodes that count, with their targets.
        structure_channels (int, optional): Channels of CAT's embeddings, which are fitted to each
            graph; :obj:`None` for other backbones. (default: :obj:`None`)
    """
    own = graph_numbers(graph, nodes.index)
    samples = []
    for number in torch.unique(own).tolist():
        first, part = _one_graph(graph, number)
        inside = own == number
        target = LabeledNodes(nodes.index[inside] - first, nodes.target[inside])
        structure = None
        if structure_channels is not None:
            structure = fit_structure(part, structure_channels)
        own_x = rows_of(x, torch.arange(first, first + part.num_nodes))
        samples.append(Sample(own_x, part, target, structure))
    return samples


def graph_numbers(graph: Graph, index: Tensor) -> Tensor:
    r"""The number of the graph in a batch that each of some nodes belongs to, int64.

    Args:
        graph (Graph): The batch.
        index (Tensor): The nodes, int64.
    """
    return torch.bucketize(index, graph.dst_ptr[1:], right=True)


def rows_of(x: Features, index: Tensor) -> Features:
    r"""The features of some nodes.

    Args:
        x (Tensor or SparseFeatures): Features of all nodes.
        index (Tensor): The nodes, int64.
    """
    if isinstance(x, Tensor):
        return x[index]
    index = index.to(x.device)
    entries = edges_of(x.graph, index)
    count = x.graph.rowptr.diff()[index].long()
    rowptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    graph = Graph.from_csr(rowptr, x.graph.col[entries], num_src=x.size(1))
    return SparseFeatures(graph, x.value[entries])


def _one_graph(graph: Graph, number: int) -> tuple[int, Graph]:
    r"""The first node of a graph in a batch, and the graph."""
    first, end = (int(bound) for bound in graph.dst_ptr[number : number + 2])
    rowptr = graph.rowptr[first : end + 1]
    edges = slice(int(rowptr[0]), int(rowptr[-1]))
    weight = None if graph.weight is None else graph.weight[edges]
    return first, Graph.from_csr(rowptr - rowptr[0], graph.col[edges] - first, edge_weight=weight)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FieldSample(Sample):
    r"""A sample of which a model computes only the rows that its nodes need.

    Few nodes have labels, and with two layers only their neighbours' neighbours have a say: the
    output at these nodes and all gradients are those of the whole graph, for a fraction of the
    work. The graph stays the whole one, for what a model's extra loss makes of it.

    Args:
        field (Field): What the nodes depend on.
        field_x (Tensor or SparseFeatures): The features of the field's nodes.
    """

    field: Field
    field_x: Features

    def output(self, model: Trainable) -> Tensor:
        r"""The model's output for the nodes of the sample, ascending."""
        assert isinstance(model, NodeModel)  # the one it was restrict_to_field for
        return model.on_field(self.field_x, self.field, structure=self.structure)


def restrict_to_field(problem: TrainingProblem, model: Trainable) -> TrainingProblem:
    r"""The problem with samples cut down, where that spares work: one graph, and a model that knows
    how.

    Args:
        problem (TrainingProblem): The problem.
        model (Trainable): The model that it is for.
    """
    if not isinstance(model, NodeModel) or len(problem.samples) != 1:
        return problem
    val = None if problem.val is None else _restricted(problem.val, model)
    return replace(problem, samples=[_restricted(problem.samples[0], model)], val=val)


def _restricted(sample: Sample, model: NodeModel) -> Sample:
    if type(sample) is not Sample or _has_gradient(sample.x):
        return sample
    index = sample.nodes.index
    if index.dtype != torch.int64 or index.device != sample.graph.device:
        return sample
    rows, place = torch.unique(index, return_inverse=True)
    if not len(rows) or int(rows[0]) < 0 or int(rows[-1]) >= sample.graph.num_nodes:
        return sample
    field = model.field(sample.graph, rows)
    if field is None:
        return sample
    whole = len(field.nodes) == sample.graph.num_nodes
    return FieldSample(
        sample.x,
        sample.graph,
        replace(sample.nodes, index=place),
        sample.structure,
        field=field,
        field_x=sample.x if whole else rows_of(sample.x, field.nodes),
    )


def _has_gradient(x: Features) -> bool:
    r"""Whether features are learned: each step needs them anew."""
    return x.requires_grad if isinstance(x, Tensor) else x.value.requires_grad


@dataclass(frozen=True, eq=False)
class Scaling:
    r"""Dense features minus :obj:`mean`, divided by :obj:`scale`; sparse ones divided by the sum of
    their row's magnitudes. What was fitted to one kind makes the other one of that kind.

    Args:
        sparse (bool): Whether the features were sparse.
        mean (Tensor): Of every feature over the nodes that were trained on.
        scale (Tensor): Their standard deviation, 1 where it is 0.
    """

    sparse: bool
    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, x: Features) -> Scaling:
        r"""The scaling of these features."""
        if not isinstance(x, Tensor):
            return cls(True, torch.zeros(x.size(1)), torch.ones(x.size(1)))
        deviation = x.double().std(dim=0, correction=0)
        mean = x.double().mean(dim=0)
        # A constant column comes out as rounding noise, not as zero.
        constant = deviation <= 1e-7 * mean.abs()
        return cls(False, mean.to(x.dtype), torch.where(constant, 1.0, deviation).to(x.dtype))

    def __call__(self, x: Features) -> Features:
        r"""Scales features."""
        if not self.sparse:
            return (as_dense(x) - self.mean) / self.scale
        if isinstance(x, Tensor):
            x = SparseFeatures.from_dense(x, x.dtype)
        row = torch.arange(x.size(0)).repeat_interleave(x.graph.rowptr.diff().long())
        total = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, row, x.value.abs())
        return x.with_value(x.value / total[row])
