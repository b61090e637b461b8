"""Metrics compared with scikit-learn's, and where they are not defined."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from sklearn.preprocessing import label_binarize

from meanmax.names import METRICS, USUAL_METRIC
from meanmax.train.metrics import check_metric, compute, default_metric, evaluate, metrics_for


def drawn(nodes, classes, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, nodes)
    return rng.normal(size=(nodes, classes)) + 0.7 * np.eye(classes)[true], true


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_two_classes():
    logits, true = drawn(60, 2)
    found, chance = logits.argmax(1), softmax(logits)[:, 1]
    got = evaluate(torch.from_numpy(logits), torch.from_numpy(true), "multiclass")
    assert got == pytest.approx(
        {
            "accuracy": sk.accuracy_score(true, found),
            "balanced_accuracy": sk.balanced_accuracy_score(true, found),
            "macro_f1": sk.f1_score(true, found, average="macro"),
            "roc_auc": sk.roc_auc_score(true, chance),
            "average_precision": sk.average_precision_score(true, chance),
        },
        abs=1e-12,
    )
    assert len(set(got.values())) == 5


def test_several_classes():
    logits, true = drawn(90, 4)
    found, chance, every = logits.argmax(1), softmax(logits), label_binarize(true, classes=range(4))
    got = evaluate(logits, true, "multiclass")
    assert got == pytest.approx(
        {
            "accuracy": sk.accuracy_score(true, found),
            "balanced_accuracy": sk.balanced_accuracy_score(true, found),
            "macro_f1": sk.f1_score(true, found, average="macro"),
            "roc_auc": sk.roc_auc_score(true, chance, multi_class="ovr", average="macro"),
            "average_precision": sk.average_precision_score(every, chance, average="macro"),
        },
        abs=1e-12,
    )


def test_several_labels():
    rng = np.random.default_rng(1)
    true = rng.integers(0, 2, (50, 3)).astype(np.float32)
    logits = rng.normal(size=(50, 3)) + true
    got = evaluate(torch.from_numpy(logits), torch.from_numpy(true), "multilabel")
    assert got == pytest.approx(
        {
            "micro_f1": sk.f1_score(true, logits > 0, average="micro"),
            "macro_f1": sk.f1_score(true, logits > 0, average="macro"),
            "roc_auc": sk.roc_auc_score(true, logits, average="macro"),
            "average_precision": sk.average_precision_score(true, logits, average="macro"),
        },
        abs=1e-12,
    )


def test_numbers():
    rng = np.random.default_rng(2)
    true = rng.normal(size=40)
    found = true + 0.3 * rng.normal(size=40)
    got = evaluate(found[:, None], true, "regression")
    expected = sk.r2_score(true, found), sk.mean_squared_error(true, found)
    assert (got["r2"], got["mse"]) == pytest.approx(expected, abs=1e-12)
    assert got["mae"] == pytest.approx(np.abs(true - found).mean(), abs=1e-12)
    by_hand = evaluate(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1.0, 4.0, 4.0]), "regression")
    assert by_hand == pytest.approx({"r2": 1 - 8 / 6, "mse": 8 / 3, "mae": 4 / 3})


def test_the_score_of_two_classes_is_their_odds_and_never_saturates():
    """The logit of class 1 alone would rank the first node last."""
    logits = torch.tensor([[-3.0, -1.0], [0.0, 0.0], [400.0, 500.0], [400.0, 600.0]])
    assert compute("roc_auc", logits, torch.tensor([1, 0, 0, 1]), "multiclass") == 0.75
    assert compute("roc_auc", logits, torch.tensor([1, 0, 1, 1]), "multiclass") == 1.0


def test_absent_classes_and_labels_are_left_out_of_rankings():
    logits, true = drawn(30, 3)
    two = true < 2
    chance = softmax(logits[two])
    expected = np.mean([sk.roc_auc_score(true[two] == c, chance[:, c]) for c in (0, 1)])
    got = evaluate(logits[two], true[two], "multiclass")
    assert got["roc_auc"] == pytest.approx(expected, abs=1e-12)
    found = logits[two].argmax(1)
    recalls = [(found[true[two] == c] == c).mean() for c in (0, 1)]
    assert got["balanced_accuracy"] == pytest.approx(np.mean(recalls), abs=1e-12)
    labels = np.stack([true > 0, np.ones(30)], axis=1)
    expected = sk.roc_auc_score(labels[:, 0], logits[:, 0])
    got = compute("roc_auc", logits[:, :2], labels, "multilabel")
    assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("out", "target", "task", "undefined"),
    [
        (np.eye(2), np.array([1, 1]), "multiclass", {"roc_auc", "average_precision"}),
        (np.eye(2), np.array([[1, 0], [1, 0]]), "multilabel", {"roc_auc", "average_precision"}),
        (np.array([1.0, 2.0]), np.array([3.0, 3.0]), "regression", {"r2"}),
        (np.array([1.0]), np.array([3.0]), "regression", {"r2"}),
        (np.zeros((0, 2)), np.zeros(0, int), "multiclass", set(metrics_for("multiclass"))),
        (np.zeros((0, 2)), np.zeros((0, 2)), "multilabel", set(metrics_for("multilabel"))),
        (np.zeros(0), np.zeros(0), "regression", set(metrics_for("regression"))),
    ],
)
def test_what_is_not_defined_is_nan(out, target, task, undefined):
    got = evaluate(out, target, task)
    assert {name for name, value in got.items() if math.isnan(value)} == undefined


def test_names_fit_tasks():
    for task, usual in USUAL_METRIC.items():
        assert usual in metrics_for(task)
    assert {name for name in METRICS if not METRICS[name].higher_is_better} == {"mse", "mae"}
    with pytest.raises(ValueError, match=r"one of 'r2', 'mse', 'mae' for a regression task \(got"):
        check_metric("roc_auc", "regression")
    with pytest.raises(ValueError, match="'metric' must be one of 'accuracy', .*'AUC'"):
        compute("AUC", np.eye(2), np.array([0, 1]), "multiclass")


@pytest.mark.parametrize(
    ("task", "counts", "expected"),
    [
        ("multiclass", [71, 29], "roc_auc"),
        ("multiclass", [29, 71], "roc_auc"),
        ("multiclass", [70, 30], "accuracy"),
        ("multiclass", [100, 0], "accuracy"),
        ("multiclass", [90, 5, 5], "accuracy"),
        ("multilabel", [90, 5], "micro_f1"),
        ("regression", [], "r2"),
    ],
)
def test_defaults(task, counts, expected):
    assert default_metric(task, counts) == expected


def test_names_need_neither_torch_nor_scikit_learn():
    code = (
        "import sys, meanmax.train.metrics as m; m.check_metric('mae', 'regression'); "
        "assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
