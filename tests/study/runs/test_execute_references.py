"""Rows of references: the metrics of their predictions, against scikit-learn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from meanmax.data import Dataset, load
from meanmax.names import METRICS, REFERENCES
from meanmax.study.references import run_reference
from meanmax.study.runs.execute import execute
from meanmax.study.runs.plan import DataRef, Plan
from meanmax.train.metrics import compute


def tasks(dataset, metric, source="karate", scheme="random"):
    plan = Plan(DataRef(source), ["gcn"], ["none"], [0], "default", scheme)
    (task,) = plan.tasks(dataset)
    return {
        name: dataclasses.replace(
            task, spec=dataclasses.replace(task.spec, backbone=name, settings={"metric": metric})
        )
        for name in REFERENCES
    }


def predicted(name, dataset, split, metric):
    sign = 1 if METRICS[metric].higher_is_better else -1
    return run_reference(
        name, dataset, split, lambda out, y: sign * compute(metric, out, y, dataset.task)
    )


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_metrics_of_classes_are_scikit_learns(name, metric):
    karate = load("karate")
    task = tasks(karate, metric)[name]
    result = execute(task)
    row, split = result.row, task.split
    assert row.status == "ok", row.error
    assert result.artefact == {} and (row.backbone, row.aggr) == (name, "none")
    found = predicted(name, karate, split, metric)
    for part, nodes in (("val", split.val), ("test", split.test)):
        true, out = karate.y[nodes].numpy(), found.scores[nodes].argmax(dim=1).numpy()
        every = {
            "accuracy": sk.accuracy_score(true, out),
            "macro_f1": sk.f1_score(true, out, average="macro", zero_division=0),
        }
        for other, value in every.items():
            assert row.metrics[f"{part}_{other}"] == pytest.approx(100 * value), other
        assert row.metrics[f"{part}_score"] == row.metrics[f"{part}_{metric}"]
    assert found.chosen.items() <= row.metrics.items()


def numbers():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 3)).astype(np.float32)
    y = (10 * x[:, 0] + 5 + draw.normal(size=60)).astype(np.float32)
    edges = torch.from_numpy(np.stack([np.arange(60), np.roll(np.arange(60), 1)]))
    return Dataset("numbers", torch.from_numpy(x), torch.from_numpy(y), edges)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("metric", ["r2", "mae"])
def test_metrics_of_numbers_are_scikit_learns(name, metric):
    dataset = numbers()
    task = tasks(dataset, metric, source="numbers")[name]
    row, test = execute(task).row, task.split.test
    assert row.status == "ok", row.error
    out = predicted(name, dataset, task.split, metric).scores[test].double().numpy()
    true = dataset.y[test].double().numpy()
    every = {
        "r2": sk.r2_score(true, out),
        "mse": sk.mean_squared_error(true, out),
        "mae": sk.mean_absolute_error(true, out),
    }
    for other, value in every.items():
        assert row.metrics[f"test_{other}"] == pytest.approx(value, rel=1e-5, abs=1e-5), other
    assert row.metrics["test_score"] == row.metrics[f"test_{metric}"]


def test_the_smallest_error_on_validation_nodes_is_chosen():
    dataset = numbers()
    task = tasks(dataset, "mae", source="numbers")["logistic"]
    val = task.split.val
    found = execute(task).row.metrics
    errors = {}
    for strength in (0.01, 0.1, 1.0, 10.0, 100.0):
        # A metric that only the one with this strength can win.
        scores = iter((0.01, 0.1, 1.0, 10.0, 100.0))
        own = run_reference(
            "logistic",
            dataset,
            task.split,
            lambda out, y, s=strength, it=scores: float(next(it) == s),
        )
        assert own.chosen == {"C": strength}
        errors[strength] = float((own.scores[val] - dataset.y[val]).abs().mean())
    assert found["C"] == min(errors, key=errors.get)
    assert found["val_score"] == pytest.approx(min(errors.values()), rel=1e-5)


def test_no_reference_depends_on_test_labels():
    karate = load("karate")
    for name, task in tasks(karate, "accuracy").items():
        y = karate.y.clone()
        y[task.split.test] = (y[task.split.test] + 1) % 4
        garbage = dataclasses.replace(karate, y=y)
        one = predicted(name, karate, task.split, "accuracy")
        other = predicted(name, garbage, task.split, "accuracy")
        assert one.chosen == other.chosen
        assert torch.equal(one.scores, other.scores)
