r"""Training of a classifier on all ranks at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from meanmax.scale.parts_folder import SPLITS
from meanmax.scale.part import Part
from meanmax.scale.ranks import (Job, own_seed)
from meanmax.nn.models_init import PEERS
from meanmax.train import (Checkpoint, NodeClassifier, Problem, evaluate, train)
from meanmax.train.classifier_model import (check_parameters, model_of, schedule_of)
from meanmax.train.loop import OnEpoch
from meanmax.train.inputs import names_told_apart


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
    _check_method(params)
    manifest = part.manifest
    samples = {name: part.sample(name, scale=classifier.scale) for name in SPLITS}
    if manifest.counts["train"] == 0:
        raise ValueError(f"the split of '{manifest.data}' has no training nodes")
    val = samples["val"] if manifest.counts["val"] else None
    problem = Problem([samples["train"]], val)
    names = names_told_apart(manifest.class_names, part.stored.y.dim())
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


def _check_method(params: dict[str, Any]) -> None:
    if params["backbone"] == "cat" or params["aggr"] in PEERS:
        raise ValueError(
            f"backbone {params['backbone']!r} with aggregator {params['aggr']!r} needs the whole "
            f"graph in one process: choose gcn, masked_gcn, gat, sage or gin with none, lp, poly, "
            f"softmax or max, or train without --distributed"
        )
