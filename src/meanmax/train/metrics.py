r"""Metrics by name: for classes, for several labels, and for numbers.

Names, labels, tasks and directions are in :obj:`meanmax.names.METRICS`; values are scikit-learn's,
which is imported when the first one is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from meanmax.names import METRICS, USUAL_METRIC, Task

_RANKINGS = ("roc_auc", "average_precision")
RARE = 0.3
r"""The share of labels under which the rarer of two classes calls for :obj:`"roc_auc"`."""


def metrics_for(task: Task) -> tuple[str, ...]:
    r"""The names of the metrics that fit a task.

    Example:
        >>> metrics_for("regression")
        ('r2', 'mse', 'mae')
    """
    return tuple(name for name, metric in METRICS.items() if task in metric.tasks)


def check_metric(name: str, task: Task) -> None:
    r"""Raises a :class:`ValueError` that lists the allowed ones unless a metric fits a task."""
    if name not in metrics_for(task):
        raise ValueError(
            f"'metric' must be one of {', '.join(map(repr, metrics_for(task)))} for a {task} task "
            f"(got {name!r}){_HINTS[task]}"
        )


_HINTS: dict[Task, str] = {
    "multiclass": "",
    "multilabel": "",
    "regression": ": labels that are not whole numbers are targets of a regression; write classes "
    "as whole numbers or text",
}


def default_metric(task: Task, class_counts: Sequence[int] = ()) -> str:
    r"""The metric to report for a data set: :obj:`"roc_auc"` for two classes of which one has under
    30 % of the labels, since always answering the other class has a high accuracy; otherwise
    :obj:`"accuracy"`, :obj:`"micro_f1"` for several labels and :obj:`"r2"` for numbers.

    Args:
        task (str): The task.
        class_counts (sequence, optional): How many nodes have each class. (default: :obj:`()`)

    Example:
        >>> default_metric("multiclass", [95, 5]), default_metric("multiclass", [40, 30, 5])
        ('roc_auc', 'accuracy')
    """
    if task == "multiclass" and len(class_counts) == 2:
        rarer, total = min(class_counts), sum(class_counts)
        if 0 < rarer < RARE * total:
            return "roc_auc"
    return USUAL_METRIC[task]


def evaluate(out: Any, target: Any, task: Task) -> dict[str, float]:
    r"""All metrics that fit a task, by name; NaN for those that are not defined for this target.

    Args:
        out (Tensor or ndarray): Logits of classes or labels, :obj:`[num_nodes, num_classes]`, or
            predicted numbers in the units of the target, :obj:`[num_nodes]`.
        target (Tensor or ndarray): Classes, :obj:`[num_nodes]`, or 0/1 for each label,
            :obj:`[num_nodes, num_labels]`, or numbers, :obj:`[num_nodes]`.
        task (str): The task.
    """
    return {name: compute(name, out, target, task) for name in metrics_for(task)}


def compute(name: str, out: Any, target: Any, task: Task) -> float:
    r"""One metric; the arguments are those of :func:`evaluate`.

    :obj:`"roc_auc"` and :obj:`"average_precision"` rank nodes by the log-odds of class 1 if there
    are two classes. For more classes (each against the rest) and for several labels they are means
    over those that have nodes with and nodes without them. :obj:`"balanced_accuracy"` is the mean
    recall of the classes that occur in the target.

    Example:
        >>> logits = np.array([[0.0, 2.0], [0.0, 1.0], [0.0, 3.0], [0.0, -1.0]])
        >>> compute("roc_auc", logits, np.array([1, 0, 1, 0]), "multiclass")
        1.0
    """
    check_metric(name, task)
    values, true = np.asarray(out), np.asarray(target)
    if not is_defined(name, true, task):
        return math.nan
    if task == "regression":
        return _of_numbers(name, values.reshape(-1), true)
    if name in _RANKINGS:
        return _of_ranks(name, values.astype(np.float64), true)
    if task == "multiclass":
        return _of_classes(name, values.argmax(axis=1), true)
    return _of_classes(name, (values > 0).astype(np.int64), (true > 0.5).astype(np.int64))


def is_defined(name: str, target: Any, task: Task) -> bool:
    r"""Whether a metric has a value for this target: rankings need nodes with and without a
    class or label, and :obj:`"r2"` needs different numbers.
    """
    true = np.asarray(target)
    if len(true) and (name == "r2" or (task == "multiclass" and name in _RANKINGS)):
        return bool((true != true[0]).any())
    if name in _RANKINGS:
        return bool(((true > 0.5).any(axis=0) & (true <= 0.5).any(axis=0)).any())
    return len(true) > 0


def _of_numbers(name: str, found: np.ndarray, true: np.ndarray) -> float:
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    function = {"r2": r2_score, "mse": mean_squared_error, "mae": mean_absolute_error}[name]
    return float(function(true.astype(np.float64), found.astype(np.float64)))


def _of_classes(name: str, found: np.ndarray, true: np.ndarray) -> float:
    from sklearn.metrics import accuracy_score, f1_score, recall_score

    if name == "accuracy":
        return float(accuracy_score(true, found))
    if name == "balanced_accuracy":  # as scikit-learn's, which warns of classes that do not occur
        present = np.unique(true)
        return float(recall_score(true, found, labels=present, average="macro"))
    average = name.removesuffix("_f1")
    return float(f1_score(true, found, average=average, zero_division=0.0))


def _of_ranks(name: str, logits: np.ndarray, true: np.ndarray) -> float:
    from sklearn.metrics import average_precision_score, roc_auc_score

    if true.ndim == 2:
        scores, truth = logits, true > 0.5
    elif logits.shape[1] == 2:
        scores, truth = logits[:, 1:] - logits[:, :1], true[:, None] == 1
    else:
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = shifted / shifted.sum(axis=1, keepdims=True)
        truth = true[:, None] == np.arange(logits.shape[1])
    function = roc_auc_score if name == "roc_auc" else average_precision_score
    both = np.flatnonzero(truth.any(axis=0) & ~truth.all(axis=0))
    return float(np.mean([function(truth[:, label], scores[:, label]) for label in both]))
