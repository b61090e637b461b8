r"""A classifier of nodes in the manner of scikit-learn."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from torch import Tensor

from meanmax.aggr.base import LearnableAggregation
from meanmax.graph import Graph
from meanmax.nn import PYG_BASELINES, Trainable, build_model, build_pyg_baseline
from meanmax.nn.conv import check_positive
from meanmax.nn.linear import Features
from meanmax.nn.registry import LAYER_OPTIONS, nest_layer_options
from meanmax.train.checkpoint import Checkpoint, read_archive, write_archive
from meanmax.train.inputs import (
    Targets,
    as_features,
    as_graph,
    as_index,
    as_labels,
    as_targets,
    check_present,
)
from meanmax.train.loop import OnEpoch, train
from meanmax.train.problem import LabeledNodes, Scaling, make_samples
from meanmax.train.schedule import History, Schedule

_SIZES = ("in_channels", "out_channels")


def check_parameters(params: Mapping[str, Any]) -> None:
    r"""A :class:`ValueError` for a parameter that does not fit, as far as it is not the model that
    finds out.

    Args:
        params (mapping): All parameters of a :class:`~meanmax.NodeClassifier` by name.
    """
    check_positive(**{name: params[name] for name in ("epochs", "patience", "batch_graphs")})
    for name in ("lr", "weight_decay"):
        value = params[name]
        if isinstance(value, bool) or not isinstance(value, Real) or not _is_size(float(value)):
            raise ValueError(f"'{name}' must be a number and not negative (got {value!r})")
    known = {*inspect.signature(build_model).parameters, *LAYER_OPTIONS}
    allowed = known - set(params) - set(_SIZES)
    _check_options("model_options", params["model_options"], allowed)
    _check_options("schedule_options", params["schedule_options"], _further() - set(params))
    if params["aggr"] in PYG_BASELINES and params["model_options"]:
        raise ValueError(
            f"'model_options' has no effect with aggr={params['aggr']!r}, a model of PyTorch "
            f"Geometric (got {params['model_options']!r}): leave it out"
        )


def schedule_of(params: Mapping[str, Any]) -> Schedule:
    r"""The schedule of training. The aggregators' parameters have the learning rate of the weights,
    unless :obj:`schedule_options` gives them another.

    Args:
        params (mapping): All parameters of a :class:`~meanmax.NodeClassifier` by name.
    """
    given = {name: params[name] for name in ("epochs", "lr", "weight_decay", "patience")}
    given |= {"aggregator_lr": params["lr"], **(params["schedule_options"] or {})}
    return Schedule(**{name: _plain(value) for name, value in given.items()})


def model_of(
    params: Mapping[str, Any],
    in_channels: int,
    out_channels: int,
    *,
    num_nodes: int | None,
    graph: Graph,
) -> Trainable:
    r"""The model, drawn from PyTorch's generator.

    Args:
        params (mapping): All parameters of a :class:`~meanmax.NodeClassifier` by name.
        in_channels (int): Channels of the features.
        out_channels (int): Classes or labels.
        num_nodes (int, optional): The nodes of the one graph that CAT is trained on;
            :obj:`None` for several graphs.
        graph (Graph): The first training graph, whose degrees PNA wants to know.
    """
    sizes = (in_channels, params["hidden"], out_channels)
    depth = (params["layers"], params["heads"], params["dropout"])
    if params["aggr"] in PYG_BASELINES:
        return build_pyg_baseline(params["backbone"], params["aggr"], *sizes, *depth, graph=graph)
    options: dict[str, Any] = {"num_nodes": num_nodes} if params["backbone"] == "cat" else {}
    options |= params["model_options"] or {}
    nonlinear = params["nonlinear"]
    return build_model(
        params["backbone"],
        params["aggr"],
        *sizes,
        *depth,
        nonlinear=nonlinear,
        **nest_layer_options(options),
    )


def _check_options(name: str, options: object, allowed: set[str]) -> None:
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"'{name}' must be a dictionary or None (got {options!r})")
    unknown = set(options or {}) - allowed
    if unknown:
        raise ValueError(
            f"'{name}' has no {', '.join(sorted(map(repr, unknown)))}; it may hold "
            f"{', '.join(sorted(allowed))}"
        )


def _further() -> set[str]:
    return {field.name for field in fields(Schedule)}


def _plain(value: Any) -> Any:
    """Numpy's numbers as Python's, which a schedule asks for."""
    return value.item() if isinstance(value, np.generic) else value


def _is_size(value: float) -> bool:
    return 0 <= value < math.inf


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


@final
class NodeClassifier(TrainedClassifier):
    r"""Learns to classify the nodes of a graph from some of them.

    It is a scikit-learn estimator but for the graph that goes with the features: parameters are
    those of the constructor, :meth:`get_params`, :meth:`set_params` and
    :func:`sklearn.base.clone` work, and what was learned ends in an underscore.

    .. code-block:: python

        model = NodeClassifier("gcn", aggr="softmax").fit(graph, x, y, train_mask, val_mask)
        model.predict(graph, x)

    Args:
        backbone (str, optional): See :func:`meanmax.build_model`. (default: :obj:`"gcn"`)
        aggr (str, optional): See :func:`meanmax.build_model`; or one of
            :obj:`meanmax.nn.PYG_BASELINES` for a model of PyTorch Geometric's own layers, see
            :func:`meanmax.nn.build_pyg_baseline`. (default: :obj:`"softmax"`)
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
        batch_graphs (int, optional): How many graphs make a batch where training nodes have
            graphs of their own; see :meth:`fit`. (default: :obj:`2`)
        model_options (dict, optional): Further arguments of :func:`meanmax.build_model`.
            (default: :obj:`None`)
        schedule_options (dict, optional): Further arguments of
            :class:`meanmax.train.Schedule`, such as
            :obj:`{"schedule": "alternating", "aggregator_lr": 0.1, "select": "score"}`.
            :obj:`aggregator_lr` is :obj:`lr` unless it is given. (default: :obj:`None`)
        seed (int, optional): Of everything that is drawn at random. (default: :obj:`0`)
        verbose (bool, optional): Whether a line is printed every 20 epochs.
            (default: :obj:`False`)

    Attributes:
        classes_ (ndarray): The classes, sorted, or the numbers of the labels.
        class_names_ (tuple): Their names, as text.
        multilabel_ (bool): Whether a node has several labels.
        n_features_in_ (int): The number of features.
        num_nodes_ (int, optional): The number of nodes, if it was trained on one graph.
        model_ (Trainable): The trained model.
        history_ (History): Losses per epoch and the best epoch.
        about_ (dict): What was said about it when it was saved.
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
        batch_graphs: int = 2,
        model_options: dict[str, Any] | None = None,
        schedule_options: dict[str, Any] | None = None,
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
        self.batch_graphs = batch_graphs
        self.model_options = model_options
        self.schedule_options = schedule_options
        self.seed = seed
        self.verbose = verbose

    def fit(
        self,
        graph: Any,
        x: Any,
        y: Any,
        train_mask: Any,
        val_mask: Any = None,
        *,
        class_names: Sequence[str] | None = None,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> NodeClassifier:
        r"""Trains on the nodes of :obj:`train_mask` and keeps the weights of the epoch that is the
        best one on those of :obj:`val_mask`: the one with the lowest loss, unless
        :obj:`schedule_options` has another :obj:`select`.

        In a batch of several graphs of which none holds both training and validation nodes, only
        the graphs of training nodes are seen in training, :obj:`batch_graphs` at a time.

        Args:
            graph (Graph, Tensor, Data, sparse matrix or networkx.Graph): The graph, or a batch.
            x (array-like or sparse): Features, :obj:`[num_nodes, num_features]`.
            y (array-like): One class of any type for each node, or 0/1 in a column for each of
                several labels. Only those of the two masks are read.
            train_mask (array-like): Training nodes, as a mask or as indices.
            val_mask (array-like, optional): Validation nodes; without, training runs through all
                epochs. (default: :obj:`None`)
            class_names (sequence, optional): The names of the classes 0, 1, ... that :obj:`y`
                holds, or of the labels. All of them are classes then, even those that no training
                node has. (default: :obj:`None`)
            on_epoch (callable, optional): Called after each epoch with its number and the
                :class:`~meanmax.train.History`. (default: :obj:`None`)
            checkpoint (Checkpoint, optional): Where to keep the state of training, and to go on
                from if it is there; it is left there at the end. (default: :obj:`None`)
        """
        params = self.get_params()
        check_parameters(params)
        schedule = schedule_of(params)
        x = as_features(x)
        graph = as_graph(graph, x.size(0))
        train_nodes = as_index(train_mask, x.size(0), "train_mask")
        targets = as_targets(y, train_nodes, x.size(0), class_names)
        arranged = make_samples(
            x,
            graph,
            targets.nodes(train_nodes, "train_mask"),
            _validation(val_mask, train_nodes, targets),
            scale=self.scale,
            batch_graphs=self.batch_graphs,
            structure_channels=len(targets.classes) if self.backbone == "cat" else None,
        )
        num_nodes = None if arranged.inductive else x.size(0)
        first = arranged.problem.samples[0].graph
        sizes = (x.size(1), len(targets.classes))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = model_of(params, *sizes, num_nodes=num_nodes, graph=first)
            report = _both(_printed, on_epoch) if self.verbose else on_epoch
            history = train(model, arranged.problem, schedule, report, checkpoint)
        self.classes_, self.multilabel_ = targets.classes, targets.multilabel
        self.class_names_ = tuple(map(str, targets.classes if class_names is None else class_names))
        self.n_features_in_ = x.size(1)
        self.num_nodes_, self.about_ = num_nodes, {}
        self.model_, self.scaling_, self.history_ = model, arranged.scaling, history
        self.fitted_params_ = params
        return self


def _validation(val_mask: Any, train_nodes: Tensor, targets: Targets) -> LabeledNodes | None:
    if val_mask is None:
        return None
    nodes = as_index(val_mask, len(targets.values), "val_mask")
    if (shared := int(torch.isin(nodes, train_nodes).sum())) > 0:
        raise ValueError(f"'train_mask' and 'val_mask' share {shared} nodes: validate on others")
    return targets.nodes(nodes, "val_mask")


def _printed(epoch: int, history: History) -> None:
    if epoch % 20 == 0:
        val = f", validation {history.val_loss[-1]:.4f}" if history.val_loss else ""
        print(f"epoch {epoch}: loss {history.train_loss[-1]:.4f}{val}")


def _both(first: OnEpoch, second: OnEpoch | None) -> OnEpoch:
    def call(epoch: int, history: History) -> None:
        first(epoch, history)
        if second is not None:
            second(epoch, history)

    return call
