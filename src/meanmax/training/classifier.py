r"""A classifier of nodes in the manner of scikit-learn."""

from __future__ import annotations

import inspect
import math
import os
from numbers import Real
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from torch import Tensor

from meanmax.aggregators.base import LearnableAggregation
from meanmax.graph import Graph
from meanmax.layers.arguments import check_positive
from meanmax.layers.linear import Features
from meanmax.models import NodeModel, build_model
from meanmax.training.archive import read_archive, write_archive
from meanmax.training.history import History
from meanmax.training.inputs import as_features, as_graph, as_index
from meanmax.training.loop import train
from meanmax.training.problem import Problem, Sample
from meanmax.training.scaling import Scaling
from meanmax.training.schedule import Schedule
from meanmax.training.targets import as_labels, as_targets, check_present

FORMAT = "meanmax.NodeClassifier/1"


@final
class NodeClassifier(BaseEstimator):  # type: ignore[misc]
    r"""Learns to classify the nodes of a graph from some of them.

    It is a scikit-learn estimator but for the graph that goes with the features: parameters are
    those of the constructor, :meth:`get_params`, :meth:`set_params` and
    :func:`sklearn.base.clone` work, and what was learned ends in an underscore.

    .. code-block:: python

        model = NodeClassifier("gcn", aggr="softmax").fit(graph, x, y, train_mask, val_mask)
        model.predict(graph, x)

    Args:
        backbone (str, optional): See :func:`meanmax.build_model`. (default: :obj:`"gcn"`)
        aggr (str, optional): See :func:`meanmax.build_model`. (default: :obj:`"softmax"`)
        hidden (int, optional): Channels of hidden layers. (default: :obj:`64`)
        layers (int, optional): The number of layers. (default: :obj:`2`)
        heads (int, optional): Heads of attention. (default: :obj:`None`, the backbone's own)
        dropout (float, optional): Dropout. (default: :obj:`0.5`)
        nonlinear (str, optional): Which layers get the aggregator. (default: :obj:`"first"`)
        epochs (int, optional): The most epochs. (default: :obj:`400`)
        lr (float, optional): Adam's learning rate. (default: :obj:`0.01`)
        weight_decay (float, optional): Adam's weight decay. (default: :obj:`5e-4`)
        patience (int, optional): Epochs without a lower validation loss after which training
            stops. (default: :obj:`100`)
        scale (bool, optional): Whether features are brought to a common scale: dense ones to mean
            0 and deviation 1, sparse ones to rows that sum to 1. (default: :obj:`True`)
        model_options (dict, optional): Further arguments of :func:`meanmax.build_model`.
            (default: :obj:`None`)
        seed (int, optional): Of everything that is drawn at random. (default: :obj:`0`)
        verbose (bool, optional): Whether a line is printed every 20 epochs.
            (default: :obj:`False`)

    Attributes:
        classes_ (ndarray): The classes, sorted, or the numbers of the labels.
        multilabel_ (bool): Whether a node has several labels.
        n_features_in_ (int): The number of features.
        model_ (NodeModel): The trained model.
        history_ (History): Losses per epoch and the best epoch.
    """

    def __init__(
        self,
        backbone: str = "gcn",
        aggr: str | LearnableAggregation | None = "softmax",
        *,
        hidden: int = 64,
        layers: int = 2,
        heads: int | None = None,
        dropout: float = 0.5,
        nonlinear: str = "first",
        epochs: int = 400,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        patience: int = 100,
        scale: bool = True,
        model_options: dict[str, Any] | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        self.backbone = backbone
        self.aggr = aggr
        self.hidden = hidden
        self.layers = layers
        self.heads = heads
        self.dropout = dropout
        self.nonlinear = nonlinear
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.patience = patience
        self.scale = scale
        self.model_options = model_options
        self.seed = seed
        self.verbose = verbose

    def fit(
        self, graph: Any, x: Any, y: Any, train_mask: Any, val_mask: Any = None
    ) -> NodeClassifier:
        r"""Trains on the nodes of :obj:`train_mask` and keeps the weights of the epoch with the
        lowest loss on those of :obj:`val_mask`.

        Args:
            graph (Graph, Tensor, Data, sparse matrix or networkx.Graph): The graph.
            x (array-like or sparse): Features, :obj:`[num_nodes, num_features]`.
            y (array-like): One class of any type for each node, or 0/1 in a column for each of
                several labels. Only those of the two masks are read.
            train_mask (array-like): Training nodes, as a mask or as indices.
            val_mask (array-like, optional): Validation nodes; without, training runs through all
                epochs. (default: :obj:`None`)
        """
        self._check_numbers()
        x = as_features(x)
        graph = as_graph(graph, x.size(0))
        train_nodes = as_index(train_mask, x.size(0), "train_mask")
        targets = as_targets(y, train_nodes, x.size(0))
        nodes, val = targets.nodes(train_nodes, "train_mask"), None
        if val_mask is not None:
            val_nodes = as_index(val_mask, x.size(0), "val_mask")
            if (shared := int(torch.isin(val_nodes, train_nodes).sum())) > 0:
                raise ValueError(
                    f"'train_mask' and 'val_mask' share {shared} nodes: validate on others"
                )
            val = targets.nodes(val_nodes, "val_mask")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self._build(x.size(1), len(targets.classes), x.size(0))
            scaling = Scaling.of(x)
            schedule = Schedule(self.epochs, self.lr, self.weight_decay, self.lr, self.patience)
            features = scaling(x) if self.scale else x
            report = _printed if self.verbose else None
            problem = Problem(
                [Sample(features, graph, nodes)],
                None if val is None else Sample(features, graph, val),
            )
            history = train(model, problem, schedule, report)
        self.classes_, self.multilabel_ = targets.classes, targets.multilabel
        self.n_features_in_, self.num_nodes_ = x.size(1), x.size(0)
        self.model_, self.scaling_, self.history_ = model, scaling, history
        self.fitted_params_ = self.get_params()
        return self

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

    def save(self, path: str | os.PathLike[str]) -> None:
        r"""Writes the trained classifier to a file, all at once or not at all.

        The file is a zip of a JSON text and numpy arrays; nothing in it is executed on loading.
        """
        self._check_fitted()
        if isinstance(self.aggr, LearnableAggregation):
            raise ValueError(
                "a classifier with an aggregator object cannot be saved: give the aggregator by "
                "name, with model_options={'aggr_options': {...}}"
            )
        facts = {
            "format": FORMAT,
            "params": self.fitted_params_,
            "classes": self.classes_.tolist(),
            "sparse": self.scaling_.sparse,
            "multilabel": self.multilabel_,
            "n_features_in": self.n_features_in_,
            "num_nodes": self.num_nodes_,
            "history": vars(self.history_),
        }
        arrays = {
            f"model/{name}": value.numpy() for name, value in self.model_.state_dict().items()
        }
        arrays |= {"mean": self.scaling_.mean.numpy(), "scale": self.scaling_.scale.numpy()}
        write_archive(Path(path), facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NodeClassifier:
        r"""Reads what :meth:`save` has written."""
        facts, arrays = read_archive(Path(path), FORMAT)
        unknown = set(facts["params"]) - set(cls().get_params())
        if unknown:
            raise ValueError(
                f"{path} was saved by another version of meanmax (unknown: "
                f"{', '.join(sorted(unknown))})"
            )
        classifier = cls(**facts["params"])
        classifier.fitted_params_ = classifier.get_params()
        classifier.classes_ = np.asarray(facts["classes"])
        classifier.multilabel_ = facts["multilabel"]
        classifier.n_features_in_ = facts["n_features_in"]
        classifier.num_nodes_ = facts["num_nodes"]
        classifier.history_ = History(**facts["history"])
        classifier.scaling_ = Scaling(facts["sparse"], arrays.pop("mean"), arrays.pop("scale"))
        model = classifier._build(
            classifier.n_features_in_, len(classifier.classes_), classifier.num_nodes_
        )
        model.load_state_dict({name.removeprefix("model/"): v for name, v in arrays.items()})
        classifier.model_ = model.eval()
        return classifier

    def _check_numbers(self) -> None:
        check_positive(epochs=self.epochs, patience=self.patience)
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not _is_size(float(value)):
                raise ValueError(f"'{name}' must be a number and not negative (got {value!r})")
        allowed = set(inspect.signature(build_model).parameters) - set(self.get_params())
        unknown = set(self.model_options or {}) - allowed - {"in_channels", "out_channels"}
        if unknown:
            raise ValueError(
                f"'model_options' has no {', '.join(sorted(map(repr, unknown)))}; it may hold "
                f"{', '.join(sorted(allowed - {'in_channels', 'out_channels'}))}"
            )

    def _build(self, in_channels: int, out_channels: int, num_nodes: int) -> NodeModel:
        options = {"num_nodes": num_nodes} if self.backbone == "cat" else {}
        return build_model(
            self.backbone,
            self.aggr,
            in_channels,
            self.hidden,
            out_channels,
            self.layers,
            self.heads,
            self.dropout,
            nonlinear=self.nonlinear,  # type: ignore[arg-type]
            **{**options, **(self.model_options or {})},
        )

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
        return (self.scaling_(x) if self.scale else x), graph

    @torch.no_grad()
    def _output(self, graph: Any, x: Any) -> Tensor:
        features, graph = self._inputs(graph, x)
        out: Tensor = self.model_.eval()(features, graph)
        return out


def _printed(epoch: int, history: History) -> None:
    if epoch % 20 == 0:
        val = f", validation {history.val_loss[-1]:.4f}" if history.val_loss else ""
        print(f"epoch {epoch}: loss {history.train_loss[-1]:.4f}{val}")


def _is_size(value: float) -> bool:
    return 0 <= value < math.inf
