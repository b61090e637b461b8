r"""What a trained classifier of nodes does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from torch import Tensor

from meanmax.graph import Graph
from meanmax.nn.linear import Features
from meanmax.nn.models_init import Trainable
from meanmax.train.classifier_file import (read_classifier, write_classifier)
from meanmax.train.history import History
from meanmax.train.inputs_inputs import (as_features, as_graph, as_index)
from meanmax.train.scaling import Scaling
from meanmax.train.inputs import (as_labels, check_present)


class TrainedClassifier(BaseEstimator):  # type: ignore[misc]
    r"""What a :class:`~meanmax.NodeClassifier` can do once its :meth:`fit` has set the attributes
    below, or they came from a file. It has no parameters of its own.

    Attributes:
        classes_ (ndarray): The classes, sorted, or the numbers of the labels.
        class_names_ (tuple): Their names, as text.
        multilabel_ (bool): Whether a node has several labels.
        n_features_in_ (int): The number of features.
        num_nodes_ (int, optional): The number of nodes, if it was trained on one graph.
        model_ (Trainable): The trained model.
        scaling_ (Scaling): How features are brought to a common scale.
        history_ (History): Losses per epoch and the best epoch.
        about_ (dict): What was said about it when it was saved.
        fitted_params_ (dict): The parameters that it was fitted with.
    """

    classes_: np.ndarray
    class_names_: tuple[str, ...]
    multilabel_: bool
    n_features_in_: int
    num_nodes_: int | None
    model_: Trainable
    scaling_: Scaling
    history_: History
    about_: dict[str, Any]
    fitted_params_: dict[str, Any]

    def predict_proba(self, graph: Any, x: Any) -> np.ndarray:
        r"""The probability of every class, or of every label, :obj:`[num_nodes, num_classes]`.

        Args:
            graph (Graph, ...): The graph trained on or another one, as in :meth:`fit`.
            x (array-like or sparse): Its features.
        """
        out = self._output(graph, x)
        chance = out.sigmoid() if self.multilabel_ else out.softmax(dim=1)
        result: np.ndarray = chance.numpy()
        return result

    def predict(self, graph: Any, x: Any) -> np.ndarray:
        r"""The class of every node, :obj:`[num_nodes]`, or 0/1 for every label,
        :obj:`[num_nodes, num_labels]`.
        """
        chance = self.predict_proba(graph, x)
        if self.multilabel_:
            return (chance > 0.5).astype(np.int64)
        found: np.ndarray = self.classes_[chance.argmax(axis=1)]
        return found

    def score(self, graph: Any, x: Any, y: Any, mask: Any = None) -> float:
        r"""The accuracy, or the micro-F1 for several labels, on the nodes of a mask."""
        found = self.predict(graph, x)
        true, missing = as_labels(y, len(found))
        index = np.arange(len(found))
        if mask is not None:
            index = as_index(mask, len(found), "mask").numpy()
        check_present(missing[index], "mask")
        if self.multilabel_:
            return float(f1_score(true[index], found[index], average="micro", zero_division=0.0))
        return float(np.mean(true[index] == found[index]))

    def embed(self, graph: Any, x: Any) -> np.ndarray:
        r"""The last hidden embedding of every node, :obj:`[num_nodes, hidden]`."""
        features, graph = self._inputs(graph, x)
        embedding: np.ndarray = self.model_.embed(features, graph).numpy()
        return embedding

    def maxness(self, graph: Any, x: Any) -> dict[str, np.ndarray]:
        r"""Where between mean (0) and max (1) the aggregation of each layer stands on a graph, per
        channel; see :func:`meanmax.maxness`. Nothing for models of PyTorch Geometric.
        """
        features, graph = self._inputs(graph, x)
        return {name: v.numpy() for name, v in self.model_.maxness(features, graph).items()}

    def save(self, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
        r"""Writes the trained classifier to a file, all at once or not at all.

        The file is a zip of a JSON text and numpy arrays; nothing in it is executed on loading.

        Args:
            path (str or PathLike): The file.
            about (dict, optional): What JSON can hold, to be kept in the file and to come back in
                :obj:`about_`. (default: what is there)
        """
        self._check_fitted()
        write_classifier(self, Path(path), self.about_ if about is None else about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        r"""Reads what :meth:`save` has written; a :class:`ValueError` for any other file."""
        classifier = cls()
        read_classifier(classifier, Path(path))
        return classifier

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("this NodeClassifier is not fitted yet: call fit first")

    def _inputs(self, graph: Any, x: Any) -> tuple[Features, Graph]:
        self._check_fitted()
        x = as_features(x)
        graph = as_graph(graph, x.size(0))
        if x.size(1) != self.n_features_in_:
            raise ValueError(
                f"'x' has {x.size(1)} features, but the classifier was trained on "
                f"{self.n_features_in_}"
            )
        return (self.scaling_(x) if self.fitted_params_["scale"] else x), graph

    @torch.no_grad()
    def _output(self, graph: Any, x: Any) -> Tensor:
        features, graph = self._inputs(graph, x)
        out: Tensor = self.model_.eval()(features, graph)
        return out
