r"""A scikit-learn style classifier of nodes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
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
from meanmax.names import PYG_BASELINES
from meanmax.nn import build_model
from meanmax.nn.linear import Features
from meanmax.nn.registry import LAYER_OPTIONS
from meanmax.train import inputs
from meanmax.train.checkpoint import Checkpoint, read_archive, write_archive
from meanmax.train.fit import GraphData, TrainingData
from meanmax.train.fit import fit as fit_model
from meanmax.train.loop import SINGLE_PROCESS, Communicator, OnEpoch
from meanmax.train.problem import Scaling
from meanmax.train.schedule import History
from meanmax.train.settings import AGGREGATOR, MODEL, SCHEDULE, Settings

FORMAT = "meanmax.NodeClassifier/1"


@final
class NodeClassifier(BaseEstimator):  # type: ignore[misc]
    r"""Learns to classify the nodes of a graph from some labelled ones.

    It is a scikit-learn estimator, except that methods take a graph and its features:
    :meth:`get_params`, :meth:`set_params` and :func:`sklearn.base.clone` work, and attributes that
    are learned end in an underscore.

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
        epochs (int, optional): The maximum number of epochs. (default: :obj:`400`)
        lr (float, optional): Adam's learning rate. (default: :obj:`0.01`)
        weight_decay (float, optional): Adam's weight decay. (default: :obj:`5e-4`)
        patience (int, optional): Epochs without improvement on validation nodes after which
            training stops. (default: :obj:`100`)
        scale (bool, optional): Whether to scale features: dense ones to mean 0 and standard
            deviation 1, sparse ones to rows that sum to 1. (default: :obj:`True`)
        batch_graphs (int, optional): Graphs per batch, where training graphs are separate; see
            :meth:`fit`. (default: :obj:`2`)
        model_options (dict, optional): Further arguments of :func:`meanmax.build_model`.
            (default: :obj:`None`)
        schedule_options (dict, optional): Further arguments of
            :class:`meanmax.train.Schedule`, such as
            :obj:`{"schedule": "alternating", "aggregator_lr": 0.1, "select": "score"}`.
            :obj:`aggregator_lr` is :obj:`lr` unless it is given. (default: :obj:`None`)
        seed (int, optional): The seed of everything that is random. (default: :obj:`0`)
        verbose (bool, optional): Whether to print a line every 20 epochs.
            (default: :obj:`False`)

    Attributes:
        classes_ (ndarray): The classes, sorted, or the numbers of the labels.
        class_names_ (tuple): Their names, as text.
        multilabel_ (bool): Whether a node has several labels.
        n_features_in_ (int): The number of features.
        num_nodes_ (int, optional): The number of nodes, if it was trained on one graph.
        model_ (Trainable): The trained model.
        scaling_ (Scaling): The scaling of the features.
        history_ (History): Losses per epoch and the best epoch.
        about_ (dict): Facts that were saved with it.
        fitted_params_ (dict): The parameters that it was fitted with.
    """

    about_: dict[str, Any]
    fitted_params_: dict[str, Any]

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

    @classmethod
    def from_settings(cls, settings: Settings, *, seed: int = 0) -> NodeClassifier:
        r"""The classifier with these settings; :meth:`settings` is the inverse.

        Example:
            >>> settings = Settings(aggr="lp", lr=0.1, start=1.05, select="score")
            >>> NodeClassifier.from_settings(settings)
            NodeClassifier(aggr='lp', lr=0.1,
                           model_options={'aggr_options': {'start': 1.05}}, scale=False,
                           schedule_options={'select': 'score'})
        """
        own = cls().get_params()
        model = settings.given(sorted(set(MODEL) - set(own)))
        if options := settings.given(sorted(AGGREGATOR)):
            model["aggr_options"] = options
        params = settings.given(name for name in own if hasattr(settings, name))
        return cls(
            **{"scale": False, **params},
            model_options={**model, **settings.extra} or None,
            schedule_options=settings.given(sorted(set(SCHEDULE) - set(own))) or None,
            seed=seed,
        )

    def settings(self) -> Settings:
        r"""The parameters as :class:`~meanmax.train.Settings`; raises a :class:`ValueError` for
        options that do not exist.
        """
        params = {name: _python_number(value) for name, value in self.get_params().items()}
        del params["seed"], params["verbose"]
        model, schedule = params.pop("model_options"), params.pop("schedule_options")
        arguments = {*inspect.signature(build_model).parameters, *LAYER_OPTIONS}
        allowed = arguments - set(params) - {"in_channels", "out_channels"}
        model = _checked_options("model_options", model, allowed)
        schedule = _checked_options("schedule_options", schedule, set(SCHEDULE) - set(params))
        if self.aggr in PYG_BASELINES and model:
            raise ValueError(
                f"'model_options' has no effect with aggr={self.aggr!r}, a model of PyTorch "
                f"Geometric (got {model!r}): leave it out"
            )
        known = {name: value for name, value in model.items() if name in MODEL}
        extra = {name: value for name, value in model.items() if name not in MODEL}
        return Settings(**params, **known, **schedule, extra=extra)

    def fit(
        self,
        graph: Any,
        x: Any = None,
        y: Any = None,
        train_mask: Any = None,
        val_mask: Any = None,
        *,
        class_names: Sequence[str] | None = None,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> NodeClassifier:
        r"""Trains on the nodes of :obj:`train_mask` and keeps the weights of the epoch that is best
        on those of :obj:`val_mask`: the one with the lowest loss, unless :obj:`schedule_options`
        has another :obj:`select`.

        In a batch of several graphs of which none holds both training and validation nodes, only
        the graphs of training nodes are seen in training, :obj:`batch_graphs` at a time.

        One object may hold everything: :obj:`fit(data)` takes features, labels and the two masks
        from PyG's :obj:`Data`, from PyG's data set of one graph or from a
        :class:`meanmax.data.Dataset`; of several splits it takes the first.

        Args:
            graph (Graph, Tensor, Data, sparse matrix or networkx.Graph): The graph, or a batch.
            x (array-like or sparse): Features, :obj:`[num_nodes, num_features]`.
            y (array-like): One class of any type for each node, or 0/1 in a column for each of
                several labels. Only those of the two masks are read.
            train_mask (array-like): Training nodes, as a mask or as indices.
            val_mask (array-like, optional): Validation nodes. Without them, training runs through
                all epochs. (default: :obj:`None`)
            class_names (sequence, optional): The names of the classes 0, 1, ... in :obj:`y`, or of
                the labels. Every named class counts, even if no training node has it.
                (default: :obj:`None`)
            on_epoch (callable, optional): Called after each epoch with its number and the
                :class:`~meanmax.train.History`. (default: :obj:`None`)
            checkpoint (Checkpoint, optional): The file that keeps the state of training. If it
                exists, training resumes from it. It is not removed. (default: :obj:`None`)
        """
        settings = self.settings()
        settings.make_schedule()  # its errors come first
        if x is None and y is None and (given := inputs.unpacked(graph)) is not None:
            graph, x, y = given[:3]
            if train_mask is None:
                train_mask, val_mask = given.train, given.val
            class_names = given.class_names if class_names is None else class_names
        train_mask = inputs.needed(train_mask, "train_mask")
        x = inputs.as_features(x)
        graph = inputs.as_graph(graph, x.size(0))
        train_nodes = inputs.as_index(train_mask, x.size(0), "train_mask")
        targets = inputs.as_targets(y, train_nodes, x.size(0), class_names)
        nodes = targets.nodes(train_nodes, "train_mask")
        val = None
        if val_mask is not None:
            val_nodes = inputs.as_index(val_mask, x.size(0), "val_mask")
            if (shared := int(torch.isin(val_nodes, train_nodes).sum())) > 0:
                raise ValueError(
                    f"'train_mask' and 'val_mask' share {shared} nodes: validate on others"
                )
            val = targets.nodes(val_nodes, "val_mask")
        names = tuple(map(str, targets.classes if class_names is None else class_names))
        data = GraphData.from_arrays(
            x, graph, nodes, val, settings, classes=targets.classes, class_names=names
        )
        return self.fit_data(data, on_epoch=on_epoch, checkpoint=checkpoint)

    def fit_data(
        self,
        data: TrainingData,
        *,
        communicator: Communicator = SINGLE_PROCESS,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> NodeClassifier:
        r"""Trains on prepared data, such as batches or a rank's part; see
        :func:`meanmax.train.fit.fit`.
        """
        params = self.get_params()
        self.model_, self.history_ = fit_model(
            self.settings(),
            data,
            seed=self.seed,
            communicator=communicator,
            on_epoch=_printing(on_epoch) if self.verbose else on_epoch,
            checkpoint=checkpoint,
        )
        self.classes_, self.class_names_ = data.classes, data.class_names
        self.multilabel_, self.scaling_ = data.multilabel, data.scaling
        self.n_features_in_, self.num_nodes_ = data.num_features, data.num_nodes
        self.fitted_params_, self.about_ = params, {}
        return self

    def predict_proba(self, graph: Any, x: Any = None) -> np.ndarray:
        r"""The probability of every class, or of every label, :obj:`[num_nodes, num_classes]`, on
        the graph trained on or another one; the arguments are as in :meth:`fit`, also of the
        methods below.
        """
        features, graph = self._inputs(graph, x)
        with torch.no_grad():
            out = self.model_.eval()(features, graph)
        chance: Tensor = out.sigmoid() if self.multilabel_ else out.softmax(dim=1)
        return chance.numpy()

    def predict(self, graph: Any, x: Any = None) -> np.ndarray:
        r"""The class of every node, :obj:`[num_nodes]`, or 0/1 for every label,
        :obj:`[num_nodes, num_labels]`.
        """
        chance = self.predict_proba(graph, x)
        if self.multilabel_:
            return (chance > 0.5).astype(np.int64)
        found: np.ndarray = self.classes_[chance.argmax(axis=1)]
        return found

    def score(self, graph: Any, x: Any = None, y: Any = None, mask: Any = None) -> float:
        r"""The accuracy, or the micro-F1 for several labels, on the nodes of a mask;
        :obj:`score(data)` takes everything from one object, and its test nodes.
        """
        if x is None and y is None and (given := inputs.unpacked(graph)) is not None:
            graph, x, y = given[:3]
            mask = inputs.needed(given.test, "mask") if mask is None else mask
        found = self.predict(graph, x)
        true, missing = inputs.as_labels(y, len(found))
        index = np.arange(len(found))
        if mask is not None:
            index = inputs.as_index(mask, len(found), "mask").numpy()
        inputs.check_present(missing[index], "mask")
        if self.multilabel_:
            return float(f1_score(true[index], found[index], average="micro", zero_division=0.0))
        return float(np.mean(true[index] == found[index]))

    def embed(self, graph: Any, x: Any = None) -> np.ndarray:
        r"""The last hidden embedding of every node, :obj:`[num_nodes, hidden]`."""
        return self.model_.embed(*self._inputs(graph, x)).numpy()

    def maxness(self, graph: Any, x: Any = None) -> dict[str, np.ndarray]:
        r"""Where the aggregation of each layer lies between mean (0) and max (1) on a graph, per
        channel; see :func:`meanmax.maxness`. Empty for models of PyTorch Geometric.
        """
        found = self.model_.maxness(*self._inputs(graph, x))
        return {name: value.numpy() for name, value in found.items()}

    def save(self, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
        r"""Writes the trained classifier to a file, atomically.

        The file is a zip of a JSON text and numpy arrays; nothing in it is executed on loading.

        Args:
            path (str or PathLike): The file.
            about (dict, optional): Facts that JSON can represent, to be kept in the file;
                :meth:`load` puts them into :obj:`about_`. (default: the present ones)
        """
        self._check_fitted()
        if isinstance(self.fitted_params_["aggr"], LearnableAggregation):
            raise ValueError(
                "a classifier with an aggregator object cannot be saved: give the aggregator by "
                "name, with model_options={'aggr_options': {...}}"
            )
        facts = {
            "format": FORMAT,
            "params": self.fitted_params_,
            "classes": self.classes_.tolist(),
            "class_names": list(self.class_names_),
            "sparse": self.scaling_.sparse,
            "multilabel": self.multilabel_,
            "n_features_in": self.n_features_in_,
            "num_nodes": self.num_nodes_,
            "history": vars(self.history_),
            "about": self.about_ if about is None else about,
        }
        state = self.model_.state_dict()
        arrays = {f"model/{name}": value.numpy() for name, value in state.items()}
        arrays |= {"mean": self.scaling_.mean.numpy(), "scale": self.scaling_.scale.numpy()}
        write_archive(Path(path), facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        r"""Reads a file of :meth:`save`, of this version or an earlier one; raises a
        :class:`ValueError` for any other file.
        """
        facts, arrays = read_archive(Path(path), FORMAT)
        classifier, params = cls(), facts.get("params")
        if isinstance(params, dict) and (unknown := set(params) - set(classifier.get_params())):
            raise ValueError(
                f"{path} was saved by another version of meanmax (unknown: "
                f"{', '.join(sorted(unknown))})"
            )
        try:
            classifier._restore(facts, arrays)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"{path} was not saved by meanmax, or is damaged ({error})") from error
        return classifier

    def _restore(self, facts: dict[str, Any], arrays: dict[str, Tensor]) -> None:
        self.set_params(**facts["params"])
        self.fitted_params_ = self.get_params()
        self.classes_ = np.asarray(facts["classes"])
        # Facts with a default here were not saved by early versions.
        self.class_names_ = tuple(facts.get("class_names", map(str, facts["classes"])))
        self.about_ = dict(facts.get("about", {}))
        self.multilabel_ = facts["multilabel"]
        self.n_features_in_, self.num_nodes_ = facts["n_features_in"], facts["num_nodes"]
        self.history_ = History(**facts["history"])
        self.scaling_ = Scaling(facts["sparse"], arrays["mean"], arrays["scale"])
        pair = Graph.from_edge_index([[0, 1], [1, 0]])  # the true degrees are in the state
        sizes = (self.n_features_in_, len(self.classes_))
        model = self.settings().build_model(*sizes, num_nodes=self.num_nodes_, graph=pair)
        named = [(name.split("/", 1), value) for name, value in arrays.items()]
        model.load_state_dict({name[1]: value for name, value in named if name[0] == "model"})
        self.model_ = model.eval()

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("this NodeClassifier is not fitted yet: call fit first")

    def _inputs(self, graph: Any, x: Any) -> tuple[Features, Graph]:
        self._check_fitted()
        if x is None and (given := inputs.unpacked(graph)) is not None:
            graph, x = given[:2]
        x = inputs.as_features(x)
        graph = inputs.as_graph(graph, x.size(0))
        if x.size(1) != self.n_features_in_:
            raise ValueError(
                f"'x' has {x.size(1)} features, but the classifier was trained on "
                f"{self.n_features_in_}"
            )
        return (self.scaling_(x) if self.fitted_params_["scale"] else x), graph


def _checked_options(name: str, options: object, allowed: set[str]) -> dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"'{name}' must be a dictionary or None (got {options!r})")
    found = {key: _python_number(value) for key, value in (options or {}).items()}
    if unknown := set(found) - allowed:
        raise ValueError(
            f"'{name}' has no {', '.join(sorted(map(repr, unknown)))}; it may hold "
            f"{', '.join(sorted(allowed))}"
        )
    return found


def _python_number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _printing(on_epoch: OnEpoch | None) -> OnEpoch:
    def call(epoch: int, history: History) -> None:
        if epoch % 20 == 0:
            val = f", validation {history.val_loss[-1]:.4f}" if history.val_loss else ""
            print(f"epoch {epoch}: loss {history.train_loss[-1]:.4f}{val}")
        if on_epoch is not None:
            on_epoch(epoch, history)

    return call
