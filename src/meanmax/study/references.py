r"""Predictions without a graph neural network, to see whether one helps at all.

Each reference learns from the labels of training nodes, chooses its one hyperparameter by the
metric on validation nodes, and reads no other label. None of them is random.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph
from meanmax.names import GRAPH_REFERENCES
from meanmax.names import REFERENCES as LABELS
from meanmax.nn import readout
from meanmax.nn.linear import Features, as_dense
from meanmax.train.problem import Scaling

Metric: TypeAlias = Callable[[Tensor, Tensor], float]
r"""The quality of the scores of some nodes, given their targets; higher is better."""

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
r"""The values of :math:`C` that :func:`logistic` chooses from."""

ALPHAS = (0.5, 0.9, 0.99)
r"""The values of :math:`\alpha` that :func:`label_propagation` chooses from."""

TIE_BREAK = 1e-6
r"""How much the frequencies outside of the test set count in :func:`majority`."""
NUM_SPREADS = 50
MAX_ITER = 300
SMALLEST = 1e-30  # a probability of 0 gets a finite score


class Prediction(NamedTuple):
    r"""What a reference predicts for every node."""

    scores: Tensor
    r"""As the output of a model, float32: log-probabilities of classes
    :obj:`[num_nodes, num_classes]`, log-odds of labels :obj:`[num_nodes, num_labels]`, which are
    positive where a label is predicted, or values :obj:`[num_nodes]` in regression.
    """

    chosen: dict[str, float]
    r"""The hyperparameter that was chosen; empty if there is none."""


def majority(
    x: Features, graph: Graph, y: Tensor, split: Split, metric: Metric, num_classes: int
) -> Prediction:
    r"""Predicts the frequencies of the classes, or labels, among training nodes for every node; in
    regression, the mean of their targets.

    Args:
        x (Tensor or SparseFeatures): Features, :obj:`[num_nodes, num_features]`.
        graph (Graph): The graph, or a batch of graphs.
        y (Tensor): Classes, int64, :obj:`[num_nodes]`; 0/1 for each label, float,
            :obj:`[num_nodes, num_labels]`; or targets of regression, float, :obj:`[num_nodes]`.
            Those of test nodes are not read. Classes that are equally frequent among training
            nodes are ranked by their frequency among all nodes outside of the test set.
        split (Split): Training, validation and test nodes.
        metric (callable): What the hyperparameter is chosen by, called with the scores and the
            targets of validation nodes.
        num_classes (int): The number of classes; not used for labels and regression.
    """
    mean = _known(y, split.train, num_classes).mean(axis=0)
    if _is_classes(y) and np.count_nonzero(mean == mean.max()) > 1:
        # Splits with equally many nodes of each class say nothing of which one is frequent.
        outside = y >= 0
        outside[split.test] = False
        mean = mean + TIE_BREAK * _known(y, outside.nonzero().view(-1), num_classes).mean(axis=0)
    return Prediction(_scores(np.tile(mean, (x.size(0), 1)), y), {})


def logistic(
    x: Features, graph: Graph, y: Tensor, split: Split, metric: Metric, num_classes: int
) -> Prediction:
    r"""scikit-learn's logistic regression on the features alone, one for each of several labels;
    in regression, ridge regression with :math:`1 / 2C`.

    Dense features are standardized, over training nodes if there are several graphs and over all
    nodes of a single one. Each row of sparse features is divided by its length, which suits bags
    of words. If training nodes have a single class, it is :func:`majority`. The arguments are
    those of :func:`majority`.
    """
    one_class = _is_classes(y) and len(torch.unique(y[split.train])) == 1
    if one_class or x.size(1) == 0:
        return majority(x, graph, y, split, metric, num_classes)
    features = _scaled(x, None if graph.num_graphs == 1 else split.train)
    train, targets = split.train.numpy(), y[split.train].numpy()

    def predict(strength: float) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # close enough for a reference
            return _regressed(features, train, targets, strength, num_classes)

    return _best(predict, "C", STRENGTHS, 1.0, y, split, metric)


def label_propagation(
    x: Features, graph: Graph, y: Tensor, split: Split, metric: Metric, num_classes: int
) -> Prediction:
    r"""Spreads the labels of training nodes along the edges, without any features, as in `"Learning
    with Local and Global Consistency"
    <https://papers.nips.cc/paper/2506-learning-with-local-and-global-consistency>`_.

    .. math::
        F \leftarrow \alpha D^{-1/2} A D^{-1/2} F + (1 - \alpha) Y

    is repeated 50 times, once with the labels of training nodes as :math:`Y` and once with a 1 for
    each of them. The ratio of the two results is the prediction: the mean of the labels that reach
    a node, weighted by how much of each arrives. A node that none reaches gets the prediction of
    :func:`majority`. In a directed graph, :math:`D` counts the incoming edges of targets and the
    outgoing ones of sources. The arguments are those of :func:`majority`.
    """
    known = _known(y, split.train, num_classes)
    start = np.zeros((graph.num_nodes, known.shape[1] + 1))
    start[split.train.numpy()] = np.column_stack([known, np.ones(len(known))])
    edges = _normalized(graph)

    def predict(alpha: float) -> np.ndarray:
        spread = start
        for _ in range(NUM_SPREADS):
            spread = alpha * (edges @ spread) + (1 - alpha) * start
        arrived = spread[:, -1:]
        found = np.tile(known.mean(axis=0), (len(spread), 1))
        np.divide(spread[:, :-1], arrived, out=found, where=arrived > 0)
        return found

    return _best(predict, "alpha", ALPHAS, 0.9, y, split, metric)


Reference: TypeAlias = Callable[[Features, Graph, Tensor, Split, Metric, int], Prediction]
REFERENCES: dict[str, tuple[Reference, str]] = {
    name: (function, LABELS[name])
    for name, function in (
        ("majority", majority),
        ("logistic", logistic),
        ("label-propagation", label_propagation),
    )
}
r"""The references by name, each with its label in tables."""


def run_reference(
    name: str, dataset: Dataset, split: Split, metric: Metric, *, graph: Graph | None = None
) -> Prediction:
    r"""What a reference predicts for every node of a data set.

    Example:
        >>> from meanmax.data import load, make_split
        >>> karate = load("karate")
        >>> def accuracy(scores, targets):
        ...     return float((scores.argmax(dim=1) == targets).float().mean())
        >>> split = make_split(karate, "balanced", seed=0)
        >>> found = run_reference("label-propagation", karate, split, accuracy)
        >>> found.chosen
        {'alpha': 0.5}
        >>> round(accuracy(found.scores[split.test], karate.y[split.test]), 2)
        0.83

    Args:
        name (str): A key of :obj:`REFERENCES`.
        dataset (Dataset): The data; see :func:`majority` for their targets.
        split (Split): Training and validation nodes. Without the latter, the hyperparameter is
            :math:`C = 1` or :math:`\alpha = 0.9`.
        metric (callable): See :func:`majority`.
        graph (Graph, optional): :obj:`dataset.graph()`, if it has been made already.
            (default: :obj:`None`)
    """
    if name not in REFERENCES:
        listed = ", ".join(repr(known) for known in REFERENCES)
        raise ValueError(f"unknown reference {name!r}: 'name' must be one of {listed}")
    graph = dataset.graph() if graph is None else graph
    function, _ = REFERENCES[name]
    x = dataset.x
    if dataset.level == "graph":
        if name not in GRAPH_REFERENCES:
            raise ValueError(f"{name!r} spreads labels of nodes, and whole graphs have no edges")
        x = pooled(x, graph)
        graph = Graph.from_edge_index(x.new_zeros(2, 0).long(), batch=torch.arange(len(x)))
    return function(x, graph, dataset.y, split, metric, dataset.num_classes)


def pooled(x: Features, graph: Graph) -> Tensor:
    r"""What is known of each graph without its edges: mean and maximum of the features of its
    nodes, and the logarithm of their number, :obj:`[num_graphs, 2 * num_features + 1]`.
    """
    nodes, count = as_dense(x), graph.dst_ptr.diff()
    summary = readout(nodes, graph, aggr=["mean", "max"])
    return torch.cat([summary, count.to(nodes.dtype).log1p().unsqueeze(1)], dim=1)


def _best(
    predict: Callable[[float], np.ndarray],
    name: str,
    values: Sequence[float],
    usual: float,
    y: Tensor,
    split: Split,
    metric: Metric,
) -> Prediction:
    r"""The prediction that is best on validation nodes, the first of equal ones."""
    val = split.val
    best, most = None, -math.inf
    for value in values if len(val) else (usual,):
        found = Prediction(_scores(predict(value), y), {name: value})
        quality = metric(found.scores[val], y[val]) if len(val) else 0.0
        if best is None or quality > most:
            best, most = found, -math.inf if math.isnan(quality) else quality
    assert best is not None
    return best


def _is_classes(y: Tensor) -> bool:
    return not y.is_floating_point()


def _known(y: Tensor, train: Tensor, num_classes: int) -> np.ndarray:
    r"""The targets of training nodes in columns, float64; classes as 0 and 1 for each."""
    targets = y[train]
    if _is_classes(y):
        targets = torch.nn.functional.one_hot(targets, num_classes)
    found: np.ndarray = targets.double().view(len(targets), -1).numpy()
    return found


def _scores(found: np.ndarray, y: Tensor) -> Tensor:
    r"""The scores of predicted probabilities, or the predicted values of regression."""
    if y.is_floating_point() and y.dim() == 1:
        return torch.from_numpy(found[:, 0]).float()
    scores = np.log(np.maximum(found, SMALLEST))
    if not _is_classes(y):
        scores -= np.log(np.maximum(1 - found, SMALLEST))
    return torch.from_numpy(scores).float()


def _scaled(x: Features, nodes: Tensor | None) -> Any:
    r"""Features as scikit-learn takes them; dense ones scaled by those of some nodes, or of all."""
    if not isinstance(x, Tensor):
        return normalize(x.to_scipy().astype(np.float64))
    scaling = Scaling.of(x if nodes is None else x[nodes])
    return as_dense(scaling(x)).double().numpy()


def _regressed(
    features: Any, train: np.ndarray, targets: np.ndarray, strength: float, num_classes: int
) -> np.ndarray:
    r"""The predictions of linear models of training nodes, in columns."""
    own = features[train]
    if targets.dtype.kind == "f" and targets.ndim == 1:
        ridge = Ridge(alpha=1 / (2 * strength)).fit(own, targets)
        return np.asarray(ridge.predict(features))[:, None]
    model = LogisticRegression(C=strength, max_iter=MAX_ITER)
    if targets.ndim == 1:
        found = np.zeros((features.shape[0], num_classes))
        model.fit(own, targets)
        found[:, model.classes_] = model.predict_proba(features)
        return found
    found = np.tile(targets.mean(axis=0, dtype=np.float64), (features.shape[0], 1))
    for label, column in enumerate(targets.T):
        if column.min() != column.max():
            found[:, label] = model.fit(own, column).predict_proba(features)[:, 1]
    return found


def _normalized(graph: Graph) -> Any:
    r""":math:`D^{-1/2} A D^{-1/2}` with a row for each target."""
    size = graph.num_nodes
    weight = np.ones(graph.num_edges) if graph.weight is None else graph.weight.double().numpy()
    parts = (weight, graph.col.numpy(), graph.rowptr.numpy())
    edges = scipy.sparse.csr_array(parts, (size, size))
    into, out_of = (_inverse_root(edges.sum(axis=axis)) for axis in (1, 0))
    return scipy.sparse.diags_array(into) @ edges @ scipy.sparse.diags_array(out_of)


def _inverse_root(degree: np.ndarray) -> np.ndarray:
    out = np.zeros(len(degree))
    np.divide(1, np.sqrt(degree), out=out, where=degree > 0)
    return out
