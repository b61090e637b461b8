r"""Training of a classifier on a graph that is read in batches, or spread over processes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from meanmax.graph import Graph
from meanmax.names import PYG_BASELINES
from meanmax.scale.batches import Batches
from meanmax.scale.distributed import Part
from meanmax.scale.edges import BatchingError
from meanmax.scale.folder import ROLES
from meanmax.scale.inference import exact_rows
from meanmax.scale.ranks import Job
from meanmax.scale.sampling import Draws, Replicas
from meanmax.scale.source import Source
from meanmax.train import Checkpoint, LabeledNodes, NodeClassifier, TrainingProblem, evaluate
from meanmax.train.communicator import SINGLE_PROCESS
from meanmax.train.fit import TrainingData
from meanmax.train.inputs import as_targets, class_names_of
from meanmax.train.loop import OnEpoch


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
    if _needs_whole_graph(classifier):
        raise BatchingError(_refusal(classifier, "graph", "batches"))
    if source.whole is None:  # METIS would have to read all of it at once
        batches = replace(batches, cut="blocks")
    scaling = source.scaling()
    x = source.scaled(scaling if classifier.scale else None)
    names = class_names_of(source.class_names, source.y.ndim)
    values, places = source.labels()
    targets = as_targets(values, places["train"], len(values), names)
    nodes = {
        role: replace(targets.nodes(place, role), index=getattr(source.split, role))
        for role, place in places.items()
        if len(place)
    }
    settings = classifier.settings()
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
        multilabel=targets.multilabel,
        scaling=scaling,
    )
    communicator = SINGLE_PROCESS if job is None else Replicas(job)
    return classifier.fit_data(
        data, communicator=communicator, on_epoch=on_epoch, checkpoint=checkpoint
    )


def exact_scores(classifier: NodeClassifier, source: Source) -> dict[str, float | None]:
    r"""The scores on training, validation and test nodes, in :math:`[0, 1]`, from one exact
    inference; :obj:`None` where there are no nodes.

    Args:
        classifier (NodeClassifier): The trained classifier.
        source (Source): The graph, with the classes that it was trained on.
    """
    x = source.scaled(classifier.scaling_ if classifier.fitted_params_["scale"] else None)
    sets = [getattr(source.split, role) for role in ROLES]
    args = (classifier.model_, x, source.edges, torch.cat(sets))
    out = exact_rows(*args, memory=source.memory, scratch=source.scratch)
    scores: dict[str, float | None] = {}
    outs = torch.split(out, [len(nodes) for nodes in sets])
    for role, nodes, own in zip(ROLES, sets, outs, strict=True):
        values = torch.from_numpy(np.asarray(source.y[nodes.numpy()]))
        values = values.reshape(-1).long() if not classifier.multilabel_ else values
        every = LabeledNodes(torch.arange(len(nodes)), values)
        scores[role] = every.score(own) if len(nodes) else None
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
        classifier (NodeClassifier): The classifier; afterwards it is fitted.
        part (Part): This rank's part.
        job (Job): The ranks.
        on_epoch (callable, optional): Called after each epoch. (default: :obj:`None`)
        checkpoint (Checkpoint, optional): The file in which the first rank keeps the state of
            training, from which an interrupted run is resumed. (default: :obj:`None`)

    Returns:
        The scores on all training, validation and test nodes, in :math:`[0, 1]`; :obj:`None` where
        there are no nodes.
    """
    if _needs_whole_graph(classifier):
        raise ValueError(_refusal(classifier, "graph in one process", "--distributed"))
    manifest = part.manifest
    samples = {name: part.sample(name, scale=classifier.scale) for name in ROLES}
    if manifest.counts["train"] == 0:
        raise ValueError(f"the split of '{manifest.data}' has no training nodes")
    names = class_names_of(manifest.class_names, part.y.dim())
    data = TrainingData(
        problem=TrainingProblem(
            [samples["train"]], samples["val"] if manifest.counts["val"] else None
        ),
        graph=part.graph,
        num_features=manifest.num_features,
        classes=np.arange(len(names)),
        class_names=names,
        multilabel=samples["train"].nodes.target.dim() == 2,
        scaling=part.scaling,
        num_nodes=manifest.num_nodes,
    )
    classifier.fit_data(data, communicator=job, on_epoch=on_epoch, checkpoint=checkpoint)
    return {
        name: evaluate(classifier.model_, sample, job)[1] if manifest.counts[name] else None
        for name, sample in samples.items()
    }


def _needs_whole_graph(classifier: NodeClassifier) -> bool:
    return classifier.backbone == "cat" or classifier.aggr in PYG_BASELINES


def _refusal(classifier: NodeClassifier, what: str, option: str) -> str:
    return (
        f"backbone {classifier.backbone!r} with aggregator {classifier.aggr!r} needs the whole "
        f"{what}: choose gcn, masked_gcn, gat, sage or gin with none, lp, poly, softmax or max, "
        f"or train without {option}"
    )
