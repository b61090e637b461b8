r"""Classifiers of nodes and of graphs in scikit-learn's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from torch import Tensor

from meanmax.names import Task
from meanmax.train import inputs
from meanmax.train.checkpoint import Checkpoint
from meanmax.train.estimator import Estimator, OfGraphs
from meanmax.train.fit import TrainingData
from meanmax.train.loop import OnEpoch
from meanmax.train.problem import Objective


@dataclass(eq=False, repr=False)
class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    r"""What the classifiers of nodes and of graphs share."""

    _tasks = ("multiclass", "multilabel")

    class_weight: str | None = field(default=None, kw_only=True)

    classes_: np.ndarray = field(init=False)
    class_names_: tuple[str, ...] = field(init=False)
    multilabel_: bool = field(init=False)

    @property
    def task_(self) -> Task:
        r"""Whether a node has one class or several labels."""
        return "multilabel" if self.multilabel_ else "multiclass"

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
    ) -> Self:
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
        given = self._completed(graph, x, y, train_mask, val_mask)
        class_names = given.class_names if class_names is None else class_names

        def read_targets(train: Tensor, num_nodes: int) -> inputs.Targets:
            return inputs.as_targets(given.y, train, num_nodes, class_names, level=self.level)

        names = None if class_names is None else tuple(map(str, class_names))
        return self._fit(
            given,
            read_targets,
            class_names=names,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
        )

    def predict_proba(self, graph: Any, x: Any = None) -> np.ndarray:
        r"""The probability of every class, or of every label, :obj:`[num_nodes, num_classes]`, on
        the graph trained on or another one; the arguments are as in :meth:`fit`, also of the
        methods below.
        """
        out = self._output(graph, x)
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
        r"""The metric, by default the accuracy, or micro-F1 for several labels, on the nodes of a
        mask; :obj:`score(data)` takes everything from one object, and its test nodes. NaN if it is
        not defined for them, such as ROC AUC for nodes of one class.
        """
        given = self._completed(graph, x, y, test=mask)
        out = self._output(given.graph, given.x)
        true, missing = inputs.as_labels(given.y, len(out))
        index = self._scored(given, x, y, mask, len(out))
        if self.metric_ == "accuracy":  # also of classes that were not trained on
            inputs.check_present(missing[index.numpy()], "mask", self.level)
            found = self.classes_[out.argmax(dim=1).numpy()]
            return float(np.mean(true[index.numpy()] == found[index.numpy()]))
        targets = inputs.Targets(true, missing, self.classes_, level=self.level)
        nodes = targets.nodes(index, "mask")
        return replace(nodes, objective=Objective(self.metric_)).score(out)

    def _labelled(self, y: Any, count: int) -> Tensor:
        return torch.from_numpy(~inputs.as_labels(y, count)[1])

    def _keep_target(self, data: TrainingData) -> None:
        self.classes_, self.class_names_ = data.classes, data.class_names
        self.multilabel_ = data.task == "multilabel"

    def _target_facts(self) -> dict[str, Any]:
        return {
            "classes": self.classes_.tolist(),
            "class_names": list(self.class_names_),
            "multilabel": self.multilabel_,
        }

    def _restore_target(self, facts: Mapping[str, Any]) -> int:
        self.classes_ = np.asarray(facts["classes"])
        # Early versions did not save names.
        self.class_names_ = tuple(facts.get("class_names", map(str, facts["classes"])))
        self.multilabel_ = facts["multilabel"]
        return len(self.classes_)


@final
@dataclass(eq=False, repr=False)
class NodeClassifier(Classifier):
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
            :func:`meanmax.nn.build_pyg_baseline`. Backbone :obj:`"mlp"` takes none, and the
            default has no effect on it. (default: :obj:`"softmax"`)
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
        metric (str, optional): The score of :meth:`score` and of validation nodes: for classes
            :obj:`"accuracy"`, :obj:`"balanced_accuracy"`, :obj:`"macro_f1"`, :obj:`"roc_auc"` or
            :obj:`"average_precision"`; for several labels :obj:`"micro_f1"` or one of the last
            three. The best epoch has the lowest loss, or the best score with
            :obj:`schedule_options={"select": "score"}`. (default: :obj:`None`, the accuracy, or
            micro-F1 for several labels)
        class_weight (str, optional): :obj:`"balanced"` gives all classes the same weight in the
            loss, however many training nodes they have. (default: :obj:`None`, all nodes have the
            same weight)
        scale (bool or str, optional): How to scale features: :obj:`"standard"` to standard
            deviation 1 and, if they are dense, to mean 0; :obj:`"rows"` to rows whose magnitudes
            sum to 1; :obj:`True` the first for dense features and the second for sparse ones.
            (default: :obj:`True`)
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
        task_ (str): :obj:`"multiclass"` or :obj:`"multilabel"`.
        metric_ (str): The name of the metric of :meth:`score`.
        n_features_in_ (int): The number of features.
        num_nodes_ (int, optional): The number of nodes, if it was trained on one graph.
        model_ (Trainable): The trained model.
        scaling_ (Scaling): The scaling of the features.
        history_ (History): Losses per epoch and the best epoch.
        about_ (dict): Facts that were saved with it.
        fitted_params_ (dict): The parameters that it was fitted with.

    Example:
        >>> from meanmax.data import load, make_split
        >>> data = load("digits")
        >>> split, graph = make_split(data, seed=0), data.graph()
        >>> model = NodeClassifier("gcn", aggr="softmax", epochs=2)
        >>> model = model.fit(graph, data.x, data.y, split.train, split.val)
        >>> model.predict(graph, data.x).shape
        (1797,)
    """

    _format = "meanmax.NodeClassifier/1"


@final
@dataclass(eq=False, repr=False)
class GraphClassifier(OfGraphs, Classifier):
    r"""Learns to classify whole graphs: molecules, images, sets of points.

    It is used as :class:`~meanmax.NodeClassifier` is, with a collection of graphs in the place of
    the nodes of one: a list of PyG's :obj:`Data`, PyG's data set, a
    :class:`meanmax.data.Dataset`, or a batch :class:`~meanmax.Graph` with features.

    .. code-block:: python

        model = GraphClassifier("sage", aggr="softmax").fit(graphs, train_mask=train, val_mask=val)
        model.predict(graphs)

    Masks and indices are those of graphs. Without :obj:`train_mask`, all graphs outside of
    :obj:`val_mask` are trained on. Training sees the training graphs alone, :obj:`batch_graphs` at
    a time.

    Args:
        backbone (str, optional): See :func:`meanmax.build_model`. (default: :obj:`"sage"`)
        aggr (str, optional): The aggregator of layers and readout. (default: :obj:`"softmax"`)
        readout (str, optional): :obj:`"mean"` or :obj:`"sum"` over the nodes of a graph, where
            the aggregator begins; or another of :class:`meanmax.nn.Readout`, which is kept.
            (default: :obj:`"mean"`)
        jump (str, optional): :obj:`"cat"` to read out all layers. (default: :obj:`None`)
        norm (str, optional): :obj:`"batch"` or :obj:`"layer"`. (default: :obj:`"batch"`)
        hidden, layers, heads, dropout, nonlinear, epochs, lr, weight_decay, patience, metric,
        class_weight, scale, batch_graphs, model_options, schedule_options, seed, verbose: As in
            :class:`~meanmax.NodeClassifier`, with other defaults.

    Example:
        >>> from meanmax.data import load, make_split
        >>> digits = load("digits-graphs")
        >>> split = make_split(digits)
        >>> model = GraphClassifier(layers=1, epochs=2)
        >>> model = model.fit(digits, train_mask=split.train[:200], val_mask=split.val)
        >>> model.predict(digits).shape
        (1797,)
    """

    _format = "meanmax.GraphClassifier/1"
