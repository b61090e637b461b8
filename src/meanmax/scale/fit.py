r"""A classifier trained in batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from meanmax.graph import Graph
from meanmax.nn import PYG_BASELINES
from meanmax.scale.batches import Batches
from meanmax.scale.distributed import Part
from meanmax.scale.edges import BatchingError
from meanmax.scale.features import FeatureRows
from meanmax.scale.folder import ROLES
from meanmax.scale.inference import exact_rows
from meanmax.scale.ranks import Job, own_seed
from meanmax.scale.sampling import Draws, Replicas
from meanmax.scale.source import Source
from meanmax.train import Checkpoint, LabeledNodes, NodeClassifier, TrainingProblem, evaluate, train
from meanmax.train.classifier import check_parameters, model_of, schedule_of
from meanmax.train.communicator import SINGLE_PROCESS
from meanmax.train.inputs import Targets, as_targets, names_told_apart
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
    r"""Trains a classifier in batches of one graph; it ends fitted, as after :meth:`fit`.

    Validation is exact: on the whole graph, layer by layer if that is on disk.

    Args:
        classifier (NodeClassifier): What to train; afterwards it is fitted.
        source (Source): The graph.
        batches (Batches): How batches are made.
        job (Job, optional): Processes that each take a share of the batches and average gradients;
            all end with the same model. (default: this process alone)
        on_epoch (callable, optional): Called after each epoch. (default: :obj:`None`)
        checkpoint (Checkpoint, optional): Where to keep the state of training, and to go on from
            if it is there. (default: :obj:`None`)
    """
    params = classifier.get_params()
    check_parameters(params)
    _check_method(params)
    if source.whole is None:  # METIS would have to see all of it at once
        batches = replace(batches, cut="blocks")
    scaling = source.scaling()
    x = source.scaled(scaling if classifier.scale else None)
    targets, roles = _targets(source)
    val = source.sample(roles["val"], x) if "val" in roles else None
    depth = (params["model_options"] or {}).get("layers", params["layers"])
    problem = batches.problem(
        x,
        source.edges,
        roles["train"],
        val,
        layers=depth,
        part_ptr=source.part_ptr,
        draws=Draws(job),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(classifier.seed)
        pair = Graph.from_edge_index([[0, 1], [1, 0]], 2)
        sizes = (source.num_features, len(targets.classes))
        model = model_of(params, *sizes, num_nodes=None, graph=pair)
        ranks = SINGLE_PROCESS if job is None else Replicas(job)
        if job is not None and job.rank:  # the first goes on as one process would
            torch.manual_seed(own_seed(classifier.seed, job.rank))
        history = train(model, problem, schedule_of(params), on_epoch, checkpoint, ranks)
    classifier.classes_, classifier.multilabel_ = targets.classes, targets.multilabel
    classifier.class_names_ = names_told_apart(source.class_names, source.y.ndim)
    classifier.n_features_in_, classifier.num_nodes_ = source.num_features, None
    classifier.model_, classifier.scaling_, classifier.history_ = model, scaling, history
    classifier.fitted_params_, classifier.about_ = params, {}
    return classifier


def exact_scores(classifier: NodeClassifier, source: Source) -> dict[str, float | None]:
    r"""The score on training, validation and test nodes, in :math:`[0, 1]`, from one exact
    inference; :obj:`None` where there are none.

    Args:
        classifier (NodeClassifier): The trained classifier.
        source (Source): The graph, with the classes that it was trained on.
    """
    x = source.scaled(classifier.scaling_ if classifier.fitted_params_["scale"] else None)
    sets = [getattr(source.split, role) for role in ROLES]
    out = _outputs(classifier, source, x, torch.cat(sets))
    scores: dict[str, float | None] = {}
    first = 0
    for role, nodes in zip(ROLES, sets, strict=True):
        own, first = out[first : first + len(nodes)], first + len(nodes)
        if len(nodes) == 0:
            scores[role] = None
            continue
        values = torch.from_numpy(np.asarray(source.y[nodes.numpy()]))
        values = values.reshape(-1).long() if not classifier.multilabel_ else values
        scores[role] = LabeledNodes(torch.arange(len(nodes)), values).score(own)
    return scores


def _outputs(
    classifier: NodeClassifier, source: Source, x: FeatureRows, chosen: torch.Tensor
) -> torch.Tensor:
    return exact_rows(
        classifier.model_,
        x,
        source.edges,
        chosen,
        memory=source.memory,
        scratch=source.scratch,
    )


def _targets(source: Source) -> tuple[Targets, dict[str, LabeledNodes]]:
    values, places = source.labels()
    targets = as_targets(
        values, places["train"], len(values), names_told_apart(source.class_names, source.y.ndim)
    )
    found = {}
    for role, place in places.items():
        if len(place):
            nodes = targets.nodes(place, role)
            found[role] = replace(nodes, index=getattr(source.split, role))
    return targets, found


def _check_method(params: dict[str, Any]) -> None:
    if params["backbone"] == "cat" or params["aggr"] in PYG_BASELINES:
        raise BatchingError(
            f"backbone {params['backbone']!r} with aggregator {params['aggr']!r} needs the whole "
            f"graph: choose gcn, masked_gcn, gat, sage or gin with none, lp, poly, softmax or max, "
            f"or train without batches"
        )


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
        classifier (NodeClassifier): What to train; afterwards it is fitted.
        part (Part): This rank's part.
        job (Job): The ranks.
        on_epoch (callable, optional): Called after each epoch. (default: :obj:`None`)
        checkpoint (Checkpoint, optional): Where the first rank keeps the state, and goes on from
            if it is there. (default: :obj:`None`)

    Returns:
        The score on all training, validation and test nodes, in :math:`[0, 1]`; :obj:`None` where
        there are none.
    """
    params = classifier.get_params()
    check_parameters(params)
    _check_distributed_method(params)
    manifest = part.manifest
    samples = {name: part.sample(name, scale=classifier.scale) for name in ROLES}
    if manifest.counts["train"] == 0:
        raise ValueError(f"the split of '{manifest.data}' has no training nodes")
    val = samples["val"] if manifest.counts["val"] else None
    problem = TrainingProblem([samples["train"]], val)
    names = names_told_apart(manifest.class_names, part.y.dim())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(classifier.seed)
        sizes = (manifest.num_features, len(names))
        model = model_of(params, *sizes, num_nodes=None, graph=part.graph)
        if job.rank:  # the first goes on as one process would
            torch.manual_seed(own_seed(classifier.seed, job.rank))
        history = train(model, problem, schedule_of(params), on_epoch, checkpoint, job)
    classifier.classes_, classifier.class_names_ = np.arange(len(names)), names
    classifier.multilabel_ = samples["train"].nodes.target.dim() == 2
    classifier.n_features_in_ = manifest.num_features
    classifier.num_nodes_, classifier.about_ = manifest.num_nodes, {}
    classifier.model_, classifier.scaling_, classifier.history_ = model, part.scaling, history
    classifier.fitted_params_ = params
    return {
        name: evaluate(model, sample, job)[1] if manifest.counts[name] else None
        for name, sample in samples.items()
    }


def _check_distributed_method(params: dict[str, Any]) -> None:
    if params["backbone"] == "cat" or params["aggr"] in PYG_BASELINES:
        raise ValueError(
            f"backbone {params['backbone']!r} with aggregator {params['aggr']!r} needs the whole "
            f"graph in one process: choose gcn, masked_gcn, gat, sage or gin with none, lp, poly, "
            f"softmax or max, or train without --distributed"
        )
