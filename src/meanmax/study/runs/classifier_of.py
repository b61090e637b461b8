r"""A classifier with the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meanmax.data import Dataset
from meanmax.study.runs.run_spec import RunSpec
from meanmax.study.settings.settings import (AGGREGATOR, KINDS, MODEL, STEPS_ON_AGGREGATORS, TRAINING)
from meanmax.train import NodeClassifier
from meanmax.train.inputs import names_told_apart

_OWN = set(NodeClassifier().get_params()) & set(KINDS)


def classifier_of(
    backbone: str, aggr: str, settings: Mapping[str, Any], *, seed: int = 0
) -> NodeClassifier:
    r"""The classifier that learns what :func:`~meanmax.study.runs.execute.execute` would learn
    from the same data, split and seed.

    Example:
        >>> from meanmax.study.settings.settings import settings_for
        >>> settings = settings_for("tuned", "gcn", "lp", "wine")
        >>> classifier_of("gcn", "lp", settings).model_options
        {'aggr_options': {'learn': True, 'per': 'layer', 'reparam': 'projected',
        'shift': 'consistent', 'start': 1.05}}

    Args:
        backbone (str): The backbone.
        aggr (str): The aggregator.
        settings (mapping): What :func:`~meanmax.study.settings.settings.settings_for` gives.
        seed (int, optional): Of everything that is drawn at random. (default: :obj:`0`)
    """
    params = _chosen(settings, _OWN) | {"scale": settings.get("scale", False)}
    model = _chosen(settings, set(MODEL) - _OWN)
    if options := _chosen(settings, set(AGGREGATOR)):
        model["aggr_options"] = options
    schedule = _chosen(settings, {*TRAINING, *STEPS_ON_AGGREGATORS} - _OWN)
    return NodeClassifier(
        backbone,
        aggr,
        **params,
        model_options=model or None,
        schedule_options=schedule or None,
        seed=seed,
    )


def params_of(spec: RunSpec) -> dict[str, Any]:
    r"""The parameters of the classifier of a run, from which its model and schedule are made.

    Args:
        spec (RunSpec): The run.
    """
    classifier = classifier_of(spec.backbone, spec.aggr, spec.settings, seed=spec.seed)
    params: dict[str, Any] = classifier.get_params()
    return params


def class_names_of(dataset: Dataset) -> tuple[str, ...]:
    r"""The names of what a classifier tells apart. A single label of 0 and 1 is two classes.

    Args:
        dataset (Dataset): The data.
    """
    return names_told_apart(dataset.class_names, dataset.y.dim())


def _chosen(settings: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in names}
