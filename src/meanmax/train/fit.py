r"""One function that trains a model, on any kind of data."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch

from meanmax.data.dataset import Dataset, Split
from meanmax.graph import Graph
from meanmax.names import Level, Task
from meanmax.nn import Trainable
from meanmax.nn.linear import Features
from meanmax.train.checkpoint import Checkpoint, CheckpointError
from meanmax.train.loop import SINGLE_PROCESS, Communicator, OnEpoch, train
from meanmax.train.problem import (
    LabeledNodes,
    Objective,
    Sample,
    Scaling,
    TrainingProblem,
    graph_numbers,
    graph_samples,
    joined,
    nodes_of,
    of_graphs,
    rows_of,
)
from meanmax.train.schedule import History
from meanmax.train.settings import Settings, check_seed

BATCH_GRAPHS: dict[Level, int] = {"node": TrainingProblem.batch_graphs, "graph": 64}
r"""Graphs per batch, by what has the labels, unless settings say otherwise."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingData:
    r"""What :func:`fit` has to know about the data: in memory (:class:`GraphData`), a rank's part
    of a graph or a graph that is read in batches (:mod:`meanmax.scale`).
    """

    problem: TrainingProblem
    graph: Graph  # the first training graph, or the rank's part
    num_features: int
    classes: np.ndarray  # sorted, or the numbers of the labels; empty in regression
    class_names: tuple[str, ...]
    task: Task
    scaling: Scaling  # of the features, whether or not it is applied
    num_nodes: int | None = None  # if there is one graph
    objective: Objective = Objective()
    level: Level = "node"  # of the labels

    @property
    def out_channels(self) -> int:
        r"""Channels of the model's output."""
        return out_channels(self.task, self.classes)


def out_channels(task: Task, classes: Sized) -> int:
    r"""Channels of a model's output: one for each class or label, and one in regression."""
    return 1 if task == "regression" else len(classes)


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphData(TrainingData):
    r"""A graph, or a batch of graphs, in memory.

    If there are several graphs and none of them holds both training and validation nodes, training
    is *inductive*: only the graphs of training nodes are seen, in batches, and each has its own
    sample. Otherwise one sample holds everything. Test nodes have no influence on this: they are
    not known here.

    Where whole graphs have the labels, training sees the training graphs alone, in batches.
    """

    x: Features  # of all nodes, scaled if that is set
    whole: Graph  # the graph or batch
    inductive: bool
    structure_channels: int | None  # of the structural embeddings that CAT fits to each graph

    @classmethod
    def from_arrays(
        cls,
        x: Features,
        graph: Graph,
        nodes: LabeledNodes,
        val: LabeledNodes | None,
        settings: Settings,
        *,
        classes: np.ndarray,
        class_names: tuple[str, ...],
        level: Level = "node",
    ) -> Self:
        r"""Makes the samples. With :obj:`settings.scale`, the scale of the features is that of
        training nodes if training is inductive, else of all nodes.
        """
        of_nodes = level == "node"
        inductive = graph.num_graphs > 1 or not of_nodes
        if inductive and of_nodes and val is not None:
            train_graphs, val_graphs = (graph_numbers(graph, part.index) for part in (nodes, val))
            inductive = not bool(torch.isin(train_graphs, val_graphs).any())
        seen = nodes.index if of_nodes else nodes_of(graph, nodes.index)
        scaling = Scaling.of(rows_of(x, seen) if inductive else x, settings.scale or False)
        x = scaling(x) if settings.scale else x
        count = out_channels(nodes.task, classes)
        channels = count if settings.backbone == "cat" else None
        objective = Objective.of(settings, nodes, count)
        nodes = replace(nodes, objective=objective)
        own = [Sample(x, graph, nodes)]
        if not of_nodes:
            own = [of_graphs(own[0], torch.arange(len(nodes.index)))]
        elif inductive:
            own = graph_samples(x, graph, nodes, channels)
        batch_graphs = settings.batch_graphs or BATCH_GRAPHS[level]
        data = cls(
            problem=TrainingProblem(own, None, batch_graphs, level),
            graph=own[0].graph,
            num_features=x.size(1),
            classes=classes,
            class_names=class_names,
            task=nodes.task,
            scaling=scaling,
            num_nodes=None if inductive else x.size(0),
            objective=objective,
            x=x,
            whole=graph,
            inductive=inductive,
            structure_channels=channels,
            level=level,
        )
        if val is None:
            return data
        return replace(data, problem=replace(data.problem, val=data.sample(val)))

    @classmethod
    def from_dataset(
        cls, dataset: Dataset, split: Split, settings: Settings, graph: Graph | None = None
    ) -> Self:
        r"""The training and validation nodes of a split; no other label is read. The graph is
        :obj:`dataset.graph()`, if it has been made already.
        """
        return cls.from_arrays(
            dataset.x,
            dataset.graph() if graph is None else graph,
            LabeledNodes(split.train, dataset.y[split.train]),
            LabeledNodes(split.val, dataset.y[split.val]) if split.val.numel() else None,
            settings,
            classes=np.arange(len(dataset.class_names)),
            class_names=dataset.class_names,
            level=dataset.level,
        )

    def sample(self, nodes: LabeledNodes) -> Sample:
        r"""Any nodes as the trained model sees them: in the whole graph, or in those graphs of the
        batch that hold them. At the level of graphs, those graphs.
        """
        nodes = replace(nodes, objective=self.objective)
        if self.level == "graph":
            return of_graphs(Sample(self.x, self.whole, nodes), torch.arange(len(nodes.index)))
        if not self.inductive:
            return Sample(self.x, self.whole, nodes)
        return joined(graph_samples(self.x, self.whole, nodes, self.structure_channels))


class Fitted(NamedTuple):
    r"""A trained model and the history of its training."""

    model: Trainable
    history: History


def fit(
    settings: Settings,
    data: TrainingData,
    *,
    seed: int = 0,
    communicator: Communicator = SINGLE_PROCESS,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    r"""Builds a model and trains it, by default in this process alone; see
    :func:`meanmax.train.train`. PyTorch's generator is left as it was.
    """
    schedule, seed = settings.make_schedule(), check_seed(seed)
    sizes = (data.num_features, data.out_channels)
    while True:
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = settings.build_model(
                    *sizes, num_nodes=data.num_nodes, graph=data.graph, level=data.level
                )
                if communicator.rank:  # the first continues as a single process would
                    torch.manual_seed((seed + 7919 * communicator.rank) % 2**64)
                args = (on_epoch, checkpoint, communicator)
                return Fitted(model, train(model, data.problem, schedule, *args))
        except CheckpointError:
            if checkpoint is None or not checkpoint.spare:
                raise
            checkpoint.set_aside()  # and start over
