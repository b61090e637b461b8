r"""A classifier of nodes in the manner of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from meanmax.aggr.base import LearnableAggregation
from meanmax.train.arrange import arrange
from meanmax.train.files import Checkpoint
from meanmax.train.classifier_model import (check_parameters, model_of, schedule_of)
from meanmax.train.history import History
from meanmax.train.inputs_inputs import (as_features, as_graph, as_index)
from meanmax.train.loop import (OnEpoch, train)
from meanmax.train.nodes import Nodes
from meanmax.train.inputs import (Targets, as_targets)
from meanmax.train.trained_classifier import TrainedClassifier


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
            :obj:`meanmax.nn.models_init.PEERS` for a model of PyTorch Geometric's own layers, see
            :func:`meanmax.nn.models_init.build_peer`. (default: :obj:`"softmax"`)
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
        arranged = arrange(
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


def _validation(val_mask: Any, train_nodes: Tensor, targets: Targets) -> Nodes | None:
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
