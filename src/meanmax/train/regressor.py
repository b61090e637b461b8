r"""Regressors of nodes and of graphs in scikit-learn's style."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
import torch
from sklearn.base import RegressorMixin
from torch import Tensor

from meanmax.names import Task
from meanmax.train import inputs
from meanmax.train.checkpoint import Checkpoint
from meanmax.train.estimator import Estimator, OfGraphs
from meanmax.train.fit import TrainingData
from meanmax.train.loop import OnEpoch
from meanmax.train.metrics import compute
from meanmax.train.settings import Settings


@dataclass(eq=False, repr=False)
class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    r"""What the regressors of nodes and of graphs share."""

    _tasks = ("regression",)

    target_mean_: float = field(init=False)
    target_scale_: float = field(init=False)

    @classmethod
    def from_settings(cls, settings: Settings, *, seed: int = 0) -> Self:
        r"""The regressor with these settings; :meth:`settings` is the inverse."""
        settings.check_task("regression")
        return super().from_settings(settings, seed=seed)

    @property
    def task_(self) -> Task:
        r"""The task: :obj:`"regression"`."""
        return "regression"

    def fit(
        self,
        graph: Any,
        x: Any = None,
        y: Any = None,
        train_mask: Any = None,
        val_mask: Any = None,
        *,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        r"""Trains on the nodes of :obj:`train_mask` and keeps the weights of the epoch that is best
        on those of :obj:`val_mask`.

        Args:
            graph, x, train_mask, val_mask, on_epoch, checkpoint: As in
                :meth:`meanmax.NodeClassifier.fit`.
            y (array-like): A number for each node; NaN stands for a missing one. Only those of the
                two masks are read.
        """

        given = self._completed(graph, x, y, train_mask, val_mask)

        def read_targets(train: Tensor, num_nodes: int) -> inputs.Targets:
            return inputs.as_numbers(given.y, num_nodes, level=self.level)

        return self._fit(
            given,
            read_targets,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
        )

    def predict(self, graph: Any, x: Any = None) -> np.ndarray:
        r"""The number of every node, :obj:`[num_nodes]`, on the graph trained on or another one;
        both arguments are as in :meth:`fit`.
        """
        out = self._output(graph, x)[:, 0].double()
        return (out * self.target_scale_ + self.target_mean_).numpy()

    def score(self, graph: Any, x: Any = None, y: Any = None, mask: Any = None) -> float:
        r"""The metric, by default :math:`R^2`, on the nodes of a mask. NaN if it is not defined for
        them, such as :math:`R^2` for nodes with the same number.
        """
        given = self._completed(graph, x, y, test=mask)
        found = self.predict(given.graph, given.x)
        index = self._scored(given, x, y, mask, len(found))
        targets = inputs.as_numbers(given.y, len(found), level=self.level)
        nodes = targets.nodes(index, "mask")
        return compute(self.metric_, found[index.numpy()], nodes.target, "regression")

    def _labelled(self, y: Any, count: int) -> Tensor:
        return torch.from_numpy(~inputs.as_numbers(y, count).missing)

    def _keep_target(self, data: TrainingData) -> None:
        self.target_mean_, self.target_scale_ = data.objective.mean, data.objective.scale

    def _target_facts(self) -> dict[str, Any]:
        return {"target_mean": self.target_mean_, "target_scale": self.target_scale_}

    def _restore_target(self, facts: Mapping[str, Any]) -> int:
        self.target_mean_ = float(facts["target_mean"])
        self.target_scale_ = float(facts["target_scale"])
        return 1


@final
@dataclass(eq=False, repr=False)
class NodeRegressor(Regressor):
    r"""Learns to predict a number for each node of a graph from those of some nodes.

    .. code-block:: python

        model = NodeRegressor("sage", aggr="softmax").fit(graph, x, y, train_mask, val_mask)
        model.predict(graph, x)

    It minimizes the mean squared error of targets that are standardized by the mean and standard
    deviation of training nodes; predictions are in the units of :obj:`y`.

    Args:
        backbone, aggr, ...: As in :class:`~meanmax.NodeClassifier`, but there is no
            :obj:`class_weight`.
        metric (str, optional): The score of :meth:`score` and of validation nodes: :obj:`"r2"`,
            :obj:`"mse"` or :obj:`"mae"`. (default: :obj:`None`, :math:`R^2`)

    Attributes:
        target_mean_ (float): The mean of the targets of training nodes.
        target_scale_ (float): Their standard deviation.
        metric_ (str): The name of the metric of :meth:`score`.
        n_features_in_, num_nodes_, model_, scaling_, history_, about_, fitted_params_: As in
            :class:`~meanmax.NodeClassifier`.

    Example:
        >>> import torch
        >>> from meanmax import Graph
        >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> x, y = torch.randn(4, 8), torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> model = NodeRegressor("sage", epochs=2).fit(graph, x, y, [0, 1], [2, 3])
        >>> model.predict(graph, x).shape
        (4,)
    """

    _format = "meanmax.NodeRegressor/1"


@final
@dataclass(eq=False, repr=False)
class GraphRegressor(OfGraphs, Regressor):
    r"""Learns to predict a number for whole graphs. Collections are given as to
    :class:`~meanmax.GraphClassifier`, whose parameters it has, without :obj:`class_weight`; numbers
    are learned as :class:`~meanmax.NodeRegressor` learns them.

    Example:
        >>> import torch
        >>> from meanmax.data import load
        >>> graphs = load("digits-graphs").to_data_list()[:40]
        >>> for data in graphs:
        ...     data.y = torch.tensor([float(data.num_nodes)])
        >>> model = GraphRegressor(layers=1, epochs=2).fit(graphs, val_mask=range(30, 40))
        >>> model.predict(graphs).shape
        (40,)
    """

    _format = "meanmax.GraphRegressor/1"
