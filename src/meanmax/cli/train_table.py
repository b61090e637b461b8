r"""What :obj:`meanmax train` prints at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table

from meanmax.cli.progress import learned_texts
from meanmax.data import (Dataset, Split)
from meanmax.graph import Graph
from meanmax.train import NodeClassifier


def judged(
    classifier: NodeClassifier, dataset: Dataset, graph: Graph, split: Split
) -> dict[str, Any]:
    r"""Scores in percent, and what was learned.

    Args:
        classifier (NodeClassifier): The trained classifier.
        dataset (Dataset): The data.
        graph (Graph): Its graph.
        split (Split): Which nodes trained, validated and test.
    """
    scores = {}
    for name, nodes in (("train", split.train), ("val", split.val), ("test", split.test)):
        scored = nodes.numel() > 0
        scores[name] = classifier.score(graph, dataset.x, dataset.y, nodes) if scored else None
    return facts_of(classifier, scores, classifier.maxness(graph, dataset.x))


def facts_of(
    classifier: NodeClassifier,
    scores: Mapping[str, float | None],
    maxness: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    r"""Scores in percent, and what was learned.

    Args:
        classifier (NodeClassifier): The trained classifier.
        scores (mapping): In :math:`[0, 1]`, for :obj:`"train"`, :obj:`"val"` and :obj:`"test"`.
        maxness (mapping): Of each layer, per channel.
    """
    model, history = classifier.model_, classifier.history_
    return {
        "metric": "micro-F1" if classifier.multilabel_ else "accuracy",
        **{f"{name}_score": None if s is None else 100 * s for name, s in scores.items()},
        "best_epoch": history.best_epoch,
        "epochs": history.epochs,
        "learned": {name: value.reshape(-1).tolist() for name, value in model.learned().items()},
        "maxness": {name: _mean(value) for name, value in maxness.items()},
        "seconds": round(history.seconds, 3),
    }


def train_table(facts: dict[str, Any]) -> Group:
    r"""A line for each fact."""
    table = Table(show_header=False)
    metric = facts["metric"]
    for name, what in (("train", "training"), ("val", "validation"), ("test", "test")):
        score = facts[f"{name}_score"]
        table.add_row(f"{metric} on {what} nodes", "–" if score is None else f"{score:.2f} %")
    table.add_row("best epoch", f"{facts['best_epoch'] + 1} of {facts['epochs']}")
    table.add_row("learned", ", ".join(learned_texts(facts["learned"])) or "–")
    layers = [f"{name} {_decimals(value)}" for name, value in facts["maxness"].items()]
    table.add_row("maxness (0 mean, 1 max)", ", ".join(layers) or "–")
    table.add_row("seconds", f"{facts['seconds']:.1f}")
    table.add_row("model", facts["model"])
    method = f"{facts['backbone']}+{facts['aggr']}, seed {facts['seed']}"
    return Group(f"{method}, on {facts['data']}, split '{facts['split_name']}'", table)


def _mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _decimals(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
