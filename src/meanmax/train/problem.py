r"""What is learned from and validated on: nodes in their graphs (one graph, or several in batches),
or whole graphs in batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import scipy.sparse
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from meanmax.graph import Graph, SparseFeatures
from meanmax.graph.build import ranges
from meanmax.graph.views import edges_of
from meanmax.names import METRICS, USUAL_METRIC, Level, Task
from meanmax.nn import NodeModel, Trainable, fit_structure
from meanmax.nn.linear import Features, as_dense
from meanmax.nn.model import Field
from meanmax.train.metrics import compute, evaluate, is_defined
from meanmax.train.settings import Settings


@dataclass(frozen=True, eq=False)
class Objective:
    r"""What training minimizes on nodes, and what they are scored by; see :meth:`of`."""

    metric: str | None = None  # None for the usual one of the task
    class_weight: Tensor | None = None  # of each class in the cross-entropy
    mean: float = 0.0  # of training targets; a model's output is standardized in regression
    scale: float = 1.0  # their standard deviation

    @classmethod
    def of(cls, settings: Settings, nodes: LabeledNodes, num_classes: int) -> Objective:
        r"""The objective of training nodes. Balanced weights are :math:`n / (k \, n_c)` for a class
        with :math:`n_c` of the :math:`n` nodes, where :math:`k` classes occur.
        """
        settings.check_task(nodes.task)
        mean, scale, weight = 0.0, 1.0, None
        if nodes.task == "regression":
            values = nodes.target.double()
            mean, scale = float(values.mean()), float(values.std(correction=0))
            if not scale > 1e-12 * abs(mean):
                raise ValueError(
                    f"training nodes all have the target {mean:g}: there is nothing to learn"
                )
        elif settings.class_weight is not None:
            count = torch.bincount(nodes.target, minlength=num_classes).double()
            present = count > 0
            balanced = len(nodes.target) / (present.sum() * count)
            weight = torch.where(present, balanced, 1.0)  # others have no part in training
        return cls(settings.metric, weight, mean, scale)


@dataclass(frozen=True, eq=False)
class LabeledNodes:
    r"""Nodes, or whole graphs, with their targets. The losses of all parts add up to the mean."""

    index: Tensor  # the nodes or graphs: rows of the model's output, int64
    target: Tensor  # classes, int64, or 0/1 for each label, float, in rows; or numbers, float
    total: int | None = None  # the number of nodes of all parts, if these are one of several
    objective: Objective = Objective()

    @property
    def task(self) -> Task:
        r"""One class, several labels, or a number for each."""
        if self.target.dim() == 2:
            return "multilabel"
        return "regression" if self.target.is_floating_point() else "multiclass"

    @property
    def metric(self) -> str:
        r"""The name of the score."""
        return self.objective.metric or USUAL_METRIC[self.task]

    @property
    def is_counted(self) -> bool:
        r"""Whether the score is a ratio of counts, which can be summed over parts."""
        return self.metric in ("accuracy", "micro_f1")

    def loss(self, out: Tensor) -> Tensor:
        r"""Cross-entropy of classes, binary cross-entropy of labels, or the squared error of
        standardized numbers.
        """
        out = out[self.index]
        how = "mean" if self.total is None else "sum"
        if self.task == "multiclass":
            weight = self.objective.class_weight
            weight = None if weight is None else weight.to(out)
            loss, terms = cross_entropy(out, self.target, weight, reduction=how), self.total
        elif self.task == "regression":
            target = (self.target.double() - self.objective.mean) / self.objective.scale
            loss, terms = mse_loss(out[:, 0], target.to(out), reduction=how), self.total
        else:
            target = self.target.to(out.dtype)
            loss = binary_cross_entropy_with_logits(out, target, reduction=how)
            terms = None if self.total is None else self.total * target.size(1)
        return loss if terms is None else loss / terms

    @torch.no_grad()
    def score(self, out: Tensor) -> float:
        r"""The metric: in :math:`[0, 1]` for classes and labels."""
        if self.is_counted:
            return score_of(*self.hits(out))
        return compute(self.metric, self.predictions(out), self.target, self.task)

    def metrics(self, out: Tensor) -> dict[str, float]:
        r"""All metrics that fit the task, NaN for those that are not defined for these nodes."""
        return evaluate(self.predictions(out), self.target, self.task)

    def predictions(self, out: Tensor) -> Tensor:
        r"""The output for these nodes: logits, or numbers in the units of the target."""
        out = out.detach()[self.index]
        if self.task != "regression":
            return out
        return out[:, 0].double() * self.objective.scale + self.objective.mean

    def check_metric(self, name: str) -> None:
        r"""Raises a :class:`ValueError` if the metric is not defined for these nodes."""
        if not (self.is_counted or is_defined(self.metric, self.target, self.task)):
            kinds = {"multiclass": "class", "multilabel": "labels", "regression": "target"}
            others = {
                "multiclass": "accuracy or balanced_accuracy",
                "multilabel": "micro_f1",
                "regression": "mse or mae",
            }
            raise ValueError(
                f"{METRICS[self.metric].label} is not defined for the {name} nodes, which all have "
                f"the same {kinds[self.task]}: choose another metric, such as {others[self.task]} "
                f"(with compare, --metric {others[self.task].partition(' ')[0]}), or other {name} "
                f"nodes"
            )

    @torch.no_grad()
    def hits(self, out: Tensor) -> tuple[int, int]:
        r"""Two counts whose ratio is the accuracy or micro-F1, also when each is summed over parts:
        correct nodes and all nodes; for labels, twice the true positives, and the predicted plus
        the true ones.
        """
        out = out[self.index]
        if self.target.dim() == 1:
            return int((out.argmax(dim=1) == self.target).sum()), len(self.target)
        return _label_hits(out > 0, self.target > 0.5)


def score_of(hits: float, out_of: float) -> float:
    r"""The ratio of two counts; 0 if both are 0."""
    return hits / out_of if out_of else 0.0


def micro_f1(found: Tensor, true: Tensor) -> float:
    r"""The F1 score over all nodes and labels, bool, :obj:`[num_nodes, num_labels]`."""
    return score_of(*_label_hits(found, true))


def _label_hits(found: Tensor, true: Tensor) -> tuple[int, int]:
    return 2 * int((found & true).sum()), int(found.sum()) + int(true.sum())


@dataclass(frozen=True, eq=False)
class Sample:
    r"""A graph with features, and the nodes, or the graphs of a batch, whose loss is taken."""

    x: Features
    graph: Graph  # one graph, or a batch
    nodes: LabeledNodes
    structure: Tensor | None = None  # CAT's embeddings, if they are fitted to the graph

    def output(self, model: Trainable) -> Tensor:
        r"""The model's output for every node, or graph."""
        if self.structure is None:
            return model(self.x, self.graph)
        return model(self.x, self.graph, structure=self.structure)


@dataclass(frozen=True, eq=False)
class TrainingProblem:
    r"""Samples to learn from and one to validate on."""

    samples: Sequence[Sample]  # one, or several of which each epoch draws new batches
    val: Sample | None = None
    batch_graphs: int = 2  # samples, or graphs, per batch
    level: Level = "node"  # "graph": the one sample is a collection, drawn from graph by graph

    def batches(self) -> Iterator[Sample]:
        r"""The batches of one epoch, in an order drawn from PyTorch's generator. Those of a
        collection are of about equal size, so that none is left with a single graph.
        """
        if self.level == "graph" and (count := len(self.samples[0].nodes.index)) > 1:
            number = -(-count // self.batch_graphs)
            for part in torch.randperm(count).tensor_split(number):
                yield of_graphs(self.samples[0], part)
            return
        if len(self.samples) == 1:
            yield self.samples[0]
            return
        order = torch.randperm(len(self.samples)).tolist()
        for first in range(0, len(order), self.batch_graphs):
            yield joined([self.samples[i] for i in order[first : first + self.batch_graphs]])


def of_graphs(sample: Sample, numbers: Tensor) -> Sample:
    r"""The graphs of a collection at some places of :obj:`sample.nodes`, with their targets."""
    nodes = sample.nodes
    graphs = nodes.index[numbers]
    own = replace(nodes, index=torch.arange(len(graphs)), target=nodes.target[numbers])
    if nodes.objective.class_weight is not None:
        # Weights add up to their number over all graphs, and not in each batch.
        own = replace(own, total=len(graphs))
    rows = nodes_of(sample.graph, graphs)
    return Sample(rows_of(sample.x, rows), sample.graph.select(graphs), own)


def nodes_of(batch: Graph, graphs: Tensor) -> Tensor:
    r"""The nodes of some graphs of a batch, graph by graph, int64."""
    first = batch.dst_ptr[graphs]
    return ranges(first, batch.dst_ptr[graphs + 1] - first)


def joined(samples: Sequence[Sample]) -> Sample:
    r"""One sample of a batch of graphs."""
    if len(samples) == 1:
        return samples[0]
    offsets = torch.tensor([0] + [sample.graph.num_nodes for sample in samples[:-1]]).cumsum(0)
    index = [sample.nodes.index + offset for sample, offset in zip(samples, offsets, strict=True)]
    structures = [sample.structure for sample in samples if sample.structure is not None]
    return Sample(
        _stacked([sample.x for sample in samples]),
        Graph.batch([sample.graph for sample in samples]),
        replace(
            samples[0].nodes,
            index=torch.cat(index),
            target=torch.cat([sample.nodes.target for sample in samples]),
        ),
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
    x: Features, graph: Graph, nodes: LabeledNodes, channels: int | None = None
) -> list[Sample]:
    r"""A sample for each graph of a batch that holds some of the nodes. The channels are those of
    the structural embeddings that CAT fits to each graph; :obj:`None` for other backbones.
    """
    own = graph_numbers(graph, nodes.index)
    samples = []
    for number in torch.unique(own).tolist():
        first, end = graph.dst_ptr[number : number + 2].tolist()
        rowptr = graph.rowptr[first : end + 1]
        edges = slice(int(rowptr[0]), int(rowptr[-1]))
        weight = None if graph.weight is None else graph.weight[edges]
        csr = rowptr - rowptr[0], graph.col[edges] - first
        part = Graph.from_csr(*csr, edge_weight=weight, copy=False)
        inside = own == number
        target = replace(nodes, index=nodes.index[inside] - first, target=nodes.target[inside])
        structure = None if channels is None else fit_structure(part, channels)
        samples.append(Sample(rows_of(x, torch.arange(first, end)), part, target, structure))
    return samples


def graph_numbers(graph: Graph, index: Tensor) -> Tensor:
    r"""The number of the graph of each of some nodes in a batch, int64."""
    return torch.bucketize(index, graph.dst_ptr[1:], right=True)


def rows_of(x: Features, index: Tensor) -> Features:
    r"""The features of some nodes."""
    if isinstance(x, Tensor):
        return x[index]
    index = index.to(x.device)
    entries = edges_of(x.graph, index)
    count = (x.graph.rowptr[index + 1] - x.graph.rowptr[index]).long()
    rowptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    graph = Graph.from_csr(rowptr, x.graph.col[entries], num_src=x.size(1), copy=False)
    return SparseFeatures(graph, x.value[entries])


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FieldSample(Sample):
    r"""A sample of which a model computes only the receptive field of its nodes.

    Few nodes have labels, and with two layers their outputs depend only on the neighbours of their
    neighbours: the outputs and all gradients are those of the whole graph, for a fraction of the
    work. :obj:`graph` is still the whole graph, for the model's extra loss.
    """

    field: Field
    field_x: Features  # of the field's nodes

    def output(self, model: Trainable) -> Tensor:
        r"""The model's output for the nodes of the sample, in ascending order."""
        assert isinstance(model, NodeModel)
        return model.on_field(self.field_x, self.field, structure=self.structure)


def restrict_to_field(problem: TrainingProblem, model: Trainable) -> TrainingProblem:
    r"""The problem with samples restricted to the receptive field of their nodes, where that saves
    work: on one graph, with a :class:`~meanmax.NodeModel`.
    """
    if not isinstance(model, NodeModel) or len(problem.samples) != 1:
        return problem
    val = None if problem.val is None else _restricted(problem.val, model)
    return replace(problem, samples=[_restricted(problem.samples[0], model)], val=val)


def _restricted(sample: Sample, model: NodeModel) -> Sample:
    values = sample.x if isinstance(sample.x, Tensor) else sample.x.value
    if type(sample) is not Sample or values.requires_grad:  # learned features change in each step
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


Scale: TypeAlias = bool | str  # one of meanmax.train.settings.SCALES


@dataclass(frozen=True, eq=False)
class Scaling:
    r"""Divides the features of a node by the sum of their magnitudes (:obj:`by_rows`), or
    standardizes every feature. Sparse features stay sparse: they are not centred.
    """

    by_rows: bool
    mean: Tensor  # of every feature; 0 where it is not subtracted
    scale: Tensor  # the standard deviation, 1 where it is 0

    @classmethod
    def of(cls, x: Features, scale: Scale = True) -> Scaling:
        r"""The scaling of these features. :obj:`True` is :obj:`"standard"` for dense features and
        :obj:`"rows"` for sparse ones, and so is :obj:`False`, with which nothing is scaled.
        """
        dense = isinstance(x, Tensor)
        if scale == "rows" or (isinstance(scale, bool) and not dense):
            return cls.of_rows(x.size(1))
        if isinstance(x, Tensor):
            x64 = x.double()
            return cls.of_moments(x64.mean(dim=0), x64.std(dim=0, correction=0), x.dtype)
        value, column = x.value.double(), x.graph.col.long()
        zeros = torch.zeros(x.size(1), dtype=torch.float64)
        mean = zeros.index_add(0, column, value) / x.size(0)
        missing = x.size(0) - torch.bincount(column, minlength=x.size(1))
        square = (missing * mean.square()).index_add(0, column, (value - mean[column]).square())
        found = cls.of_moments(mean, (square / x.size(0)).sqrt(), x.dtype)
        return replace(found, mean=torch.zeros_like(found.mean))

    @classmethod
    def of_rows(cls, channels: int) -> Scaling:
        r"""The scaling of rows."""
        return cls(True, torch.zeros(channels), torch.ones(channels))

    @classmethod
    def of_moments(cls, mean: Tensor, deviation: Tensor, dtype: torch.dtype) -> Scaling:
        r"""The scaling of features with this mean and deviation, float64."""
        # The deviation of a constant column is rounding noise, not zero.
        constant = deviation <= 1e-7 * mean.abs()
        return cls(False, mean.to(dtype), torch.where(constant, 1.0, deviation).to(dtype))

    def __call__(self, x: Features) -> Features:
        r"""Scales features."""
        if isinstance(x, Tensor):
            if not self.by_rows:
                return (x - self.mean) / self.scale
            total = x.abs().sum(dim=1, keepdim=True)
            return x / torch.where(total > 0, total, 1.0)
        if not self.by_rows:
            if bool((self.mean != 0).any()):
                return (as_dense(x) - self.mean) / self.scale
            return x.with_value(x.value / self.scale[x.graph.col.long()])
        row = torch.arange(x.size(0)).repeat_interleave(x.graph.rowptr.diff().long())
        total = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, row, x.value.abs())
        return x.with_value(x.value / torch.where(total > 0, total, 1.0)[row])
