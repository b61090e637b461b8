r"""Trained classifiers in files that nothing is executed from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from meanmax.aggr.base import LearnableAggregation
from meanmax.graph import Graph
from meanmax.train.archive import (read_archive, write_archive)
from meanmax.train.classifier_model import model_of
from meanmax.train.history import History
from meanmax.train.scaling import Scaling

if TYPE_CHECKING:
    from meanmax.train.trained_classifier import TrainedClassifier

FORMAT = "meanmax.NodeClassifier/1"


def write_classifier(classifier: TrainedClassifier, path: Path, about: dict[str, Any]) -> None:
    r"""Writes a fitted classifier, all at once or not at all.

    Args:
        classifier (TrainedClassifier): The classifier.
        path (Path): The file.
        about (dict): What JSON can hold, to be kept with it.
    """
    if isinstance(classifier.fitted_params_["aggr"], LearnableAggregation):
        raise ValueError(
            "a classifier with an aggregator object cannot be saved: give the aggregator by "
            "name, with model_options={'aggr_options': {...}}"
        )
    scaling = classifier.scaling_
    facts = {
        "format": FORMAT,
        "params": classifier.fitted_params_,
        "classes": classifier.classes_.tolist(),
        "class_names": list(classifier.class_names_),
        "sparse": scaling.sparse,
        "multilabel": classifier.multilabel_,
        "n_features_in": classifier.n_features_in_,
        "num_nodes": classifier.num_nodes_,
        "history": vars(classifier.history_),
        "about": about,
    }
    state = classifier.model_.state_dict()
    arrays = {f"model/{name}": value.numpy() for name, value in state.items()}
    arrays |= {"mean": scaling.mean.numpy(), "scale": scaling.scale.numpy()}
    write_archive(path, facts, arrays)


def read_classifier(empty: TrainedClassifier, path: Path) -> None:
    r"""Reads what :func:`write_classifier` has written, this version's or an earlier one's.

    Args:
        empty (TrainedClassifier): A classifier that takes it all, parameters too.
        path (Path): The file.
    """
    facts, arrays = read_archive(path, FORMAT)
    params = facts.get("params")
    unknown = set(params) - set(empty.get_params()) if isinstance(params, dict) else set()
    if unknown:
        raise ValueError(
            f"{path} was saved by another version of meanmax (unknown: "
            f"{', '.join(sorted(unknown))})"
        )
    try:
        _fill(empty, facts, arrays)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} was not saved by meanmax, or is damaged ({error})") from error


def _fill(classifier: TrainedClassifier, facts: dict[str, Any], arrays: dict[str, Tensor]) -> None:
    classifier.set_params(**facts["params"])
    classifier.fitted_params_ = classifier.get_params()
    classifier.classes_ = np.asarray(facts["classes"])
    # What is asked for with a default was not saved by early versions.
    names = facts.get("class_names", map(str, facts["classes"]))
    classifier.class_names_ = tuple(names)
    classifier.about_ = dict(facts.get("about", {}))
    classifier.multilabel_ = facts["multilabel"]
    classifier.n_features_in_ = facts["n_features_in"]
    classifier.num_nodes_ = facts["num_nodes"]
    classifier.history_ = History(**facts["history"])
    classifier.scaling_ = Scaling(facts["sparse"], arrays["mean"], arrays["scale"])
    model = model_of(
        classifier.fitted_params_,
        classifier.n_features_in_,
        len(classifier.classes_),
        num_nodes=classifier.num_nodes_,
        graph=Graph.from_edge_index([[0, 1], [1, 0]]),  # the degrees come with the state
    )
    prefix = "model/"
    model.load_state_dict(
        {name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)}
    )
    model.eval()
    classifier.model_ = model
