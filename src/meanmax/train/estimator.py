r"""What classifiers and regressors share: parameters, training and files."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor
from torch.nn import Module

from meanmax.aggr.base import LearnableAggregation
from meanmax.data.dataset import Dataset
from meanmax.data.files import reason_of
from meanmax.graph import Graph
from meanmax.names import PYG_BASELINES, USUAL_METRIC, Level, Task, default_aggregator
from meanmax.nn import Trainable, build_model
from meanmax.nn.linear import Features
from meanmax.nn.registry import LAYER_OPTIONS
from meanmax.train import inputs
from meanmax.train.checkpoint import Allocations, Checkpoint, read_archive, write_archive
from meanmax.train.fit import BATCH_GRAPHS, GraphData, TrainingData
from meanmax.train.fit import fit as fit_model
from meanmax.train.loop import SINGLE_PROCESS, Communicator, OnEpoch
from meanmax.train.problem import Scaling
from meanmax.train.schedule import History
from meanmax.train.settings import AGGREGATOR, MODEL, SCHEDULE, Settings, check_seed

_SIZES = ("hidden", "heads", "out_heads", "n_features_in", "num_nodes")
FORMATS = tuple(
    f"meanmax.{level}{kind}/1"
    for level in ("Node", "Graph")
    for kind in ("Classifier", "Regressor")
)
_SLACK = 1 << 20  # elements that a model may have beside those in its file


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator, ABC):  # type: ignore[misc]
    r"""An estimator of targets of nodes or graphs; see :class:`~meanmax.NodeClassifier` and
    :class:`~meanmax.GraphClassifier` for its parameters and attributes.
    """

    _format: ClassVar[str]  # of its files
    _tasks: ClassVar[tuple[Task, ...]]  # that it can learn
    level: ClassVar[Level] = "node"

    backbone: str = "gcn"
    aggr: str | LearnableAggregation | None = "softmax"
    _: KW_ONLY
    hidden: int = 64
    layers: int = 2
    heads: int | None = None
    dropout: float = 0.5
    nonlinear: str = "first"
    epochs: int = 400
    lr: float = 0.01
    weight_decay: float = 5e-4
    patience: int = 100
    metric: str | None = None
    scale: bool | str = True
    batch_graphs: int = BATCH_GRAPHS["node"]
    model_options: dict[str, Any] | None = None
    schedule_options: dict[str, Any] | None = None
    seed: int = 0
    verbose: bool = False

    # What is learned.
    model_: Trainable = field(init=False)
    history_: History = field(init=False)
    scaling_: Scaling = field(init=False)
    n_features_in_: int = field(init=False)
    num_nodes_: int | None = field(init=False)
    about_: dict[str, Any] = field(init=False)
    fitted_params_: dict[str, Any] = field(init=False)

    @classmethod
    def from_settings(cls, settings: Settings, *, seed: int = 0) -> Self:
        r"""The estimator with these settings; :meth:`settings` is the inverse.

        Example:
            >>> from meanmax import NodeClassifier
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
        usual = {each.name: each.default for each in fields(Estimator) if each.init}
        if cls.level == "graph":
            usual |= {"nonlinear": "all", "batch_graphs": BATCH_GRAPHS["graph"], "norm": None}
        for name in ("aggr", "model_options", "schedule_options", "seed"):
            usual.pop(name)
        return cls(
            **{**usual, "scale": False, **params},
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
        if self.aggr == "softmax":  # the default, which is none for an MLP
            params["aggr"] = default_aggregator(self.backbone)
        model, schedule = params.pop("model_options"), params.pop("schedule_options")
        arguments = {*inspect.signature(build_model).parameters, *LAYER_OPTIONS}
        allowed = arguments - set(params) - {"in_channels", "out_channels", "task"}
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

    @property
    @abstractmethod
    def task_(self) -> Task:
        r"""What the targets of nodes are."""

    @property
    def metric_(self) -> str:
        r"""The name of the metric that :meth:`score` returns."""
        return self.fitted_params_["metric"] or USUAL_METRIC[self.task_]

    def _fit(
        self,
        given: inputs.Given,
        read_targets: Callable[[Tensor, int], inputs.Targets],
        *,
        class_names: tuple[str, ...] | None = None,
        on_epoch: OnEpoch | None,
        checkpoint: Checkpoint | None,
    ) -> Self:
        r"""Checks arguments of :meth:`fit`, and trains. Targets are read for training nodes and the
        number of nodes.
        """
        settings = self.settings()
        settings.make_schedule()  # its errors come first
        check_seed(self.seed)
        train_mask, val_mask = given.train, given.val
        x = inputs.as_features(given.x)
        graph = inputs.as_graph(given.graph, x.size(0))
        count = graph.num_graphs if self.level == "graph" else x.size(0)
        if train_mask is None and self.level == "graph":
            train_mask = self._with_label(given.y, count)
            if val_mask is not None:
                train_mask[inputs.as_index(val_mask, count, "val_mask", self.level)] = False
                if not train_mask.any():
                    raise ValueError("'val_mask' holds all labelled graphs: leave some to train on")
        train_mask = inputs.needed(train_mask, "train_mask")
        train = inputs.as_index(train_mask, count, "train_mask", self.level)
        targets = read_targets(train, count)
        nodes = targets.nodes(train, "train_mask")
        val = None
        if val_mask is not None:
            val_index = inputs.as_index(val_mask, count, "val_mask", self.level)
            if (shared := int(torch.isin(val_index, train).sum())) > 0:
                raise ValueError(
                    f"'train_mask' and 'val_mask' share {shared} {self.level}s: validate on others"
                )
            val = targets.nodes(val_index, "val_mask")
        names = tuple(map(str, targets.classes if class_names is None else class_names))
        data = GraphData.from_arrays(
            x,
            graph,
            nodes,
            val,
            settings,
            classes=targets.classes,
            class_names=names,
            level=self.level,
        )
        return self.fit_data(data, on_epoch=on_epoch, checkpoint=checkpoint)

    def fit_data(
        self,
        data: TrainingData,
        *,
        communicator: Communicator = SINGLE_PROCESS,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        r"""Trains on prepared data, such as batches or a rank's part; see
        :func:`meanmax.train.fit.fit`.
        """
        self._check_task(data.task, data.level)
        params = self.get_params()
        self.model_, self.history_ = fit_model(
            self.settings(),
            data,
            seed=self.seed,
            communicator=communicator,
            on_epoch=_printing(on_epoch) if self.verbose else on_epoch,
            checkpoint=checkpoint,
        )
        self._keep_target(data)
        self.scaling_ = data.scaling
        self.n_features_in_, self.num_nodes_ = data.num_features, data.num_nodes
        self.fitted_params_, self.about_ = params, {}
        return self

    def embed(self, graph: Any, x: Any = None) -> np.ndarray:
        r"""The last hidden embedding of every node, :obj:`[num_nodes, hidden]`, or graph."""
        return self.model_.embed(*self._inputs(graph, x)).numpy()

    def maxness(self, graph: Any, x: Any = None) -> dict[str, np.ndarray]:
        r"""Where the aggregation of each layer lies between mean (0) and max (1) on a graph, per
        channel; see :func:`meanmax.maxness`. Empty for models of PyTorch Geometric.
        """
        found = self.model_.maxness(*self._inputs(graph, x))
        return {name: value.numpy() for name, value in found.items()}

    def save(self, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
        r"""Writes the trained estimator to a file, atomically.

        The file is a zip of a JSON text and numpy arrays; nothing in it is executed on loading.

        Args:
            path (str or PathLike): The file.
            about (dict, optional): Facts that JSON can represent, to be kept in the file;
                :meth:`load` puts them into :obj:`about_`. (default: the present ones)
        """
        self._check_fitted()
        if isinstance(self.fitted_params_["aggr"], LearnableAggregation):
            raise ValueError(
                "an estimator with an aggregator object cannot be saved: give the aggregator by "
                "name, with model_options={'aggr_options': {...}}"
            )
        if isinstance(readout := self.fitted_params_.get("readout"), Module):
            raise ValueError(
                f"an estimator with a {type(readout).__name__} object cannot be saved: give the "
                f"readout by name"
            )
        facts = {
            "format": self._format,
            "params": self.fitted_params_,
            **self._target_facts(),
            "sparse": self.scaling_.by_rows,
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
        facts, arrays = read_archive(Path(path), FORMATS)
        if facts["format"] != cls._format:
            saved = facts["format"].removeprefix("meanmax.").partition("/")[0]
            raise ValueError(
                f"{path} holds a {saved}, not a {cls.__name__}: use {saved}.load, or "
                f"meanmax.train.load_model for models of any kind"
            )
        estimator, params = cls(), facts.get("params")
        if isinstance(params, dict) and (unknown := set(params) - set(estimator.get_params())):
            raise ValueError(
                f"{path} was saved by another version of meanmax (unknown: "
                f"{', '.join(sorted(unknown))})"
            )
        try:
            estimator._restore(facts, arrays)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} was not saved by meanmax, or is damaged ({reason_of(error)})"
            ) from error
        return estimator

    def _restore(self, facts: dict[str, Any], arrays: dict[str, Tensor]) -> None:
        self.set_params(**facts["params"])
        self.fitted_params_ = self.get_params()
        out_channels = self._restore_target(facts)
        # Facts with a default here were not saved by early versions.
        self.about_ = dict(facts.get("about", {}))
        self.n_features_in_, self.num_nodes_ = facts["n_features_in"], facts["num_nodes"]
        self.history_ = History(**facts["history"])
        self.scaling_ = Scaling(facts["sparse"], arrays["mean"], arrays["scale"])
        for name in ("mean", "scale"):
            if arrays[name].shape != (self.n_features_in_,):
                raise ValueError(
                    f"its {name} has the shape {list(arrays[name].shape)}, but it declares "
                    f"n_features_in={self.n_features_in_!r}"
                )
        pair = Graph.from_edge_index([[0, 1], [1, 0]])  # the true degrees are in the state
        sizes = (self.n_features_in_, out_channels)
        named = [(name.split("/", 1), value) for name, value in arrays.items()]
        state = {name[1]: value for name, value in named if name[0] == "model"}
        elements = _SLACK + sum(value.numel() for value in state.values())
        self._check_declared(elements, max(len(state), 16))
        with Allocations(4 * elements):
            model = self.settings().build_model(
                *sizes, num_nodes=self.num_nodes_, graph=pair, level=self.level
            )
        model.load_state_dict(state)
        self.model_ = model.eval()

    def _check_declared(self, elements: int, arrays: int) -> None:
        r"""Raises a :class:`ValueError` if a file declares more than its arrays can hold: each
        channel or node has an element, each layer an array.
        """
        settings = self.settings()
        declared = {**vars(settings), **settings.extra}
        declared |= {"n_features_in": self.n_features_in_, "num_nodes": self.num_nodes_}
        for name, size in declared.items():
            most = arrays if name == "layers" else elements
            if name in (*_SIZES, "layers") and isinstance(size, int | float) and size > most:
                raise ValueError(
                    f"it declares {name}={size!r}, but its arrays hold {elements - _SLACK:,} "
                    f"numbers in all"
                )

    @abstractmethod
    def _keep_target(self, data: TrainingData) -> None:
        r"""Keeps what has to be known of the targets to predict them."""

    @abstractmethod
    def _target_facts(self) -> dict[str, Any]:
        r"""The same for a file."""

    @abstractmethod
    def _restore_target(self, facts: Mapping[str, Any]) -> int:
        r"""The same from a file; returns the channels of the model's output."""

    @torch.no_grad()
    def _output(self, graph: Any, x: Any) -> Tensor:
        features, graph = self._inputs(graph, x)
        out: Tensor = self.model_.eval()(features, graph)
        return out

    @abstractmethod
    def _labelled(self, y: Any, count: int) -> Tensor:
        r"""Which of the targets are known, bool."""

    def _with_label(self, y: Any, count: int) -> Tensor:
        r"""The same; raises a :class:`ValueError` if none is."""
        known = self._labelled(y, count)
        if not known.any():
            raise ValueError(f"no {self.level} has a label: pass y, or set data.y")
        return known

    def _scored(self, given: inputs.Given, x: Any, y: Any, mask: Any, count: int) -> Tensor:
        r"""The indices that :meth:`score` is of: those of the mask, or the test part of one object
        that holds everything. Without either, all nodes, or all graphs with a label.
        """
        if mask is None and x is None and y is None:
            mask = given.test if self.level == "graph" else inputs.needed(given.test, "mask")
        if mask is None and self.level == "graph":
            mask = self._with_label(given.y, count)
        if mask is None:
            return torch.arange(count)
        return inputs.as_index(mask, count, "mask", self.level)

    def _check_task(self, task: Task, level: Level) -> None:
        if task in self._tasks and level == self.level:
            return
        kind = level.capitalize()
        whole = "regression" in self._tasks and task == "multiclass"
        more = "; load(..., task='regression') reads whole numbers as numbers" if whole else ""
        raise ValueError(
            f"{type(self).__name__} learns {' and '.join(self._tasks)} tasks of {self.level}s "
            f"(got a {task} task of {level}s): use {kind}Regressor for numbers and "
            f"{kind}Classifier for classes or labels{more}"
        )

    def _completed(
        self, graph: Any, x: Any, y: Any, train: Any = None, val: Any = None, test: Any = None
    ) -> inputs.Given:
        r"""The arguments of :meth:`fit` and :meth:`score`; see :func:`inputs.completed`."""
        if isinstance(graph, Dataset) and x is None and y is None and graph.level == self.level:
            self._check_task(graph.task, graph.level)
        if self.level == "graph" and y is None and x is not None and not isinstance(graph, Graph):
            x, y = None, x  # as scikit-learn calls: fit(graphs, y)
        return inputs.completed(graph, x, y, train, val, test, level=self.level)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def _inputs(self, graph: Any, x: Any) -> tuple[Features, Graph]:
        self._check_fitted()
        given = inputs.completed(graph, x, None, level=self.level)
        graph, x = given.graph, inputs.as_features(given.x)
        graph = inputs.as_graph(graph, x.size(0))
        if x.size(1) != self.n_features_in_:
            raise ValueError(
                f"'x' has {x.size(1)} features, but the model was trained on {self.n_features_in_}"
            )
        return (self.scaling_(x) if self.fitted_params_["scale"] else x), graph


@dataclass(eq=False, repr=False)
class OfGraphs:
    r"""The level and the defaults of estimators of whole graphs."""

    level: ClassVar[Level] = "graph"

    backbone: str = "sage"
    _: KW_ONLY
    layers: int = 3
    dropout: float = 0.2
    nonlinear: str = "all"
    lr: float = 0.005
    weight_decay: float = 0.0
    patience: int = 50
    batch_graphs: int = BATCH_GRAPHS["graph"]
    readout: str = "mean"
    jump: str | None = None
    norm: str | None = "batch"


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
