r"""Training of a classifier on a graph that is read in batches, or spread over processes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph
from meanmax.names import METRICS, PYG_BASELINES, USUAL_METRIC, Task
from meanmax.nn.linear import Features, as_dense
from meanmax.scale.batches import Batches
from meanmax.scale.collectives import Job, Replicas
from meanmax.scale.distributed import Part
from meanmax.scale.edges import PASS_BYTES, Array, BatchingError, CsrEdges
from meanmax.scale.features import FeatureRows, MappedRows, SparseRows, row_ranges, rows_of
from meanmax.scale.folder import ROLES, GraphFolder
from meanmax.scale.inference import MEMORY, ExactSample, exact_rows
from meanmax.scale.sampling import Draws
from meanmax.train import (
    Checkpoint,
    LabeledNodes,
    NodeClassifier,
    Sample,
    Settings,
    TrainingProblem,
    evaluate,
)
from meanmax.train.fit import TrainingData
from meanmax.train.inputs import as_targets, class_names_of
from meanmax.train.loop import SINGLE_PROCESS, OnEpoch
from meanmax.train.problem import Objective, Scaling


@dataclass(frozen=True, eq=False)
class Source:
    r"""A graph with features, labels and a split, from a data set or a graph folder."""

    x: FeatureRows  # not scaled
    edges: CsrEdges
    y: Array
    split: Split
    class_names: tuple[str, ...]  # of classes, or of labels
    part_ptr: Array | None = None  # the first node of each part, where nodes are grouped
    whole: tuple[Features, Graph] | None = None  # features and graph, where they are in memory
    memory: int = MEMORY  # bytes that the arrays of a block may take, for graphs on disk
    scratch: Path | None = None  # a folder for hidden layers of graphs on disk

    @classmethod
    def of_dataset(cls, dataset: Dataset, split: Split) -> Source:
        r"""A data set in memory."""
        if dataset.y.dim() == 1 and dataset.y.is_floating_point():
            raise BatchingError(
                f"the targets of '{dataset.name}' are numbers, but only classes and labels can be "
                f"learned in batches: train on the whole graph"
            )
        graph = dataset.graph()
        labels = (dataset.y.numpy(), split, dataset.class_names)
        return cls(rows_of(dataset.x), CsrEdges.of(graph), *labels, whole=(dataset.x, graph))

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
        given = (folder.x, folder.edges, folder.y, split, folder.manifest.class_names)
        return cls(*given, part_ptr=folder.part_ptr, memory=memory, scratch=scratch)

    @property
    def num_features(self) -> int:
        r"""Channels of the features."""
        return self.x.shape[1]

    def scaling(self) -> Scaling:
        r"""The scale of all nodes, found a block of rows at a time."""
        if self.whole is not None:
            return Scaling.of(self.whole[0])
        if isinstance(self.x, SparseRows):
            return Scaling.of_rows(self.num_features)
        mean = self._mean(torch.zeros(self.num_features, dtype=torch.float64), 1)
        return Scaling.of_moments(mean, self._mean(mean, 2).sqrt(), torch.float32)

    def scaled(self, scaling: Scaling | None) -> FeatureRows:
        r"""Features on a scale."""
        if scaling is None:
            return self.x
        if self.whole is not None:
            return rows_of(scaling(self.whole[0]))
        return MappedRows(self.x, scaling)

    def sample(self, nodes: LabeledNodes, x: FeatureRows) -> Sample:
        r"""Some nodes in the whole graph: in memory, or computed layer by layer. The features are
        those of :meth:`scaled`.
        """
        if self.whole is not None:
            return Sample(x.read(0, x.shape[0]), self.whole[1], nodes)
        return ExactSample(x, self.edges, nodes, memory=self.memory, scratch=self.scratch)

    def labels(self) -> tuple[Array, dict[str, Tensor]]:
        r"""The labels of training and validation nodes, one after the other, and their places."""
        both = torch.cat([self.split.train, self.split.val])
        train, val = torch.arange(len(both)).tensor_split([len(self.split.train)])
        return np.asarray(self.y[both.numpy()]), {"train": train, "val": val}

    def _mean(self, centre: Tensor, power: int) -> Tensor:
        r"""The mean of a power of features minus a centre, in float64."""
        size, total = self.x.shape[0], torch.zeros_like(centre)
        for some in row_ranges(size, 32 * self.num_features, PASS_BYTES):
            rows = as_dense(self.x.read(*some)).double()
            total += (rows - centre).pow(power).sum(dim=0)
        return total / size


def fit_batches(
    classifier: NodeClassifier,
    source: Source,
    batches: Batches,
    *,
    job: Job | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> NodeClassifier:
    r"""Trains a classifier in batches of one graph.

    Validation is exact: on the whole graph, layer by layer if it is on disk.

    Args:
        classifier (NodeClassifier): The classifier; afterwards it is fitted.
        source (Source): The graph.
        batches (Batches): How batches are made.
        job (Job, optional): Processes that each take a share of the batches and average gradients;
            all end with the same model. (default: this process alone)
        on_epoch (callable, optional): Called after each epoch. (default: :obj:`None`)
        checkpoint (Checkpoint, optional): The file that keeps the state of training, from which
            an interrupted run is resumed. (default: :obj:`None`)
    """
    _check_divisible(classifier, "graph", "batches")
    if source.whole is None and batches.kind == "clusters":  # METIS would have to read all of it
        batches = replace(batches, cut="blocks")
    scaling = source.scaling()
    x = source.scaled(scaling if classifier.scale else None)
    names = class_names_of(source.class_names, source.y.ndim)
    values, places = source.labels()
    targets = as_targets(values, places["train"], len(values), names)
    settings, own = classifier.settings(), targets.nodes(places["train"], "train")
    if job is not None:
        _check_counted(settings, own.task, "torchrun")
    objective = Objective.of(settings, own, len(targets.classes))
    nodes = {
        role: replace(
            targets.nodes(place, role), index=getattr(source.split, role), objective=objective
        )
        for role, place in places.items()
        if len(place)
    }
    problem = batches.problem(
        x,
        source.edges,
        nodes["train"],
        source.sample(nodes["val"], x) if "val" in nodes else None,
        layers=settings.layers or 2,
        part_ptr=source.part_ptr,
        draws=Draws(job),
    )
    data = TrainingData(
        problem=problem,
        graph=Graph.from_edge_index([[0, 1], [1, 0]], 2),
        num_features=source.num_features,
        classes=targets.classes,
        class_names=names,
        task=nodes["train"].task,
        scaling=scaling,
    )
    communicator = SINGLE_PROCESS if job is None else Replicas(job.rank, job.size, job.group)
    return classifier.fit_data(
        data, communicator=communicator, on_epoch=on_epoch, checkpoint=checkpoint
    )


def exact_scores(classifier: NodeClassifier, source: Source) -> dict[str, float | None]:
    r"""The scores on training, validation and test nodes by the classifier's metric, in
    :math:`[0, 1]`, from one exact inference; :obj:`None` where there are no nodes, or where the
    metric is not defined.
    """
    x = source.scaled(classifier.scaling_ if classifier.fitted_params_["scale"] else None)
    sets = [getattr(source.split, role) for role in ROLES]
    args = (classifier.model_, x, source.edges, torch.cat(sets))
    out = exact_rows(*args, memory=source.memory, scratch=source.scratch)
    scores: dict[str, float | None] = dict.fromkeys(ROLES)
    objective = Objective(classifier.fitted_params_["metric"])
    places = torch.split(torch.arange(len(out)), [len(nodes) for nodes in sets])
    for role, nodes, place in zip(ROLES, sets, places, strict=True):
        values = torch.from_numpy(np.asarray(source.y[nodes.numpy()]))
        values = values if classifier.multilabel_ else values.reshape(-1).long()
        if len(nodes):
            score = LabeledNodes(place, values, objective=objective).score(out)
            scores[role] = None if math.isnan(score) else score
    return scores


def fit_parts(
    classifier: NodeClassifier,
    part: Part,
    job: Job,
    *,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> dict[str, float | None]:
    r"""Trains a classifier on a graph of which each rank holds a part.

    All ranks end with the same model. It is the one that a single process would learn from the
    whole graph, up to rounding and up to dropout, which every rank draws for its own nodes.

    Args:
        classifier, on_epoch, checkpoint: As in :func:`fit_batches`; the first rank writes.
        part (Part): This rank's part.
        job (Job): The ranks.

    Returns:
        The scores on all training, validation and test nodes, in :math:`[0, 1]`; :obj:`None` where
        there are no nodes.
    """
    _check_divisible(classifier, "graph in one process", "--distributed")
    manifest = part.manifest
    samples = {name: part.sample(name, scale=classifier.scale) for name in ROLES}
    if manifest.counts["train"] == 0:
        raise ValueError(f"the split of '{manifest.data}' has no training nodes")
    settings, task = classifier.settings(), samples["train"].nodes.task
    _check_counted(settings, task, "--distributed")
    if settings.class_weight is not None:
        raise BatchingError(
            f"class_weight={settings.class_weight!r} needs the labels of all parts in one process: "
            f"leave it out, or train without --distributed"
        )
    names = class_names_of(manifest.class_names, part.y.dim())
    val = samples["val"] if manifest.counts["val"] else None
    data = TrainingData(
        problem=TrainingProblem([samples["train"]], val),
        graph=part.graph,
        num_features=manifest.num_features,
        classes=np.arange(len(names)),
        class_names=names,
        task=task,
        scaling=part.scaling,
        num_nodes=manifest.num_nodes,
    )
    classifier.fit_data(data, communicator=job, on_epoch=on_epoch, checkpoint=checkpoint)
    return {
        name: evaluate(classifier.model_, sample, job)[1] if manifest.counts[name] else None
        for name, sample in samples.items()
    }


def _check_divisible(classifier: NodeClassifier, what: str, option: str) -> None:
    if classifier.backbone == "cat" or classifier.aggr in PYG_BASELINES:
        raise BatchingError(
            f"backbone {classifier.backbone!r} with aggregator {classifier.aggr!r} needs the whole "
            f"{what}: choose gcn, masked_gcn, gat, sage, gin or gen with none, lp, poly, softmax "
            f"or max, or mlp, or train without {option}"
        )
    if isinstance(classifier.scale, str):
        raise BatchingError(
            f"scale={classifier.scale!r} needs the whole {what}: set scale to true or false, or "
            f"train without {option}"
        )


def _check_counted(settings: Settings, task: Task, option: str) -> None:
    r"""Raises an error unless the score is a ratio of counts, which processes can add up."""
    settings.check_task(task)
    if settings.metric not in (None, USUAL_METRIC[task]):
        raise BatchingError(
            f"metric {settings.metric!r} needs the outputs of all nodes in one process: leave it "
            f"out for {METRICS[USUAL_METRIC[task]].label}, or train without {option}"
        )
