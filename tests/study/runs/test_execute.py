"""Runs of a few epochs on a small graph: what they may know, and what they go on from."""

import dataclasses
import errno
import os

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, r2_score, roc_auc_score

from meanmax.data import load, make_split
from meanmax.study.runs import execute as module
from meanmax.study.runs.execute import (
    cluster_scores,
    execute,
    matched_accuracy,
    scored_samples,
)
from meanmax.study.runs.plan import DataRef, Plan, check_methods
from meanmax.study.runs.prepared_data import keep_loaded
from meanmax.study.runs.run_missing import Workers, run_missing
from meanmax.study.store.store import Store, StoreError
from meanmax.train import Checkpoint, Settings, SettingsError
from meanmax.train.fit import GraphData, fit

TIMES = {"seconds": 0.0, "finished": "", "alone": False}


def tasks(aggrs=("softmax",), splits=(0,), **overrides):
    overrides = {"epochs": 8, "hidden": 4, **overrides}
    plan = Plan(DataRef("karate"), ["gcn"], aggrs, splits, "published", overrides=overrides)
    return plan.tasks(load("karate"))


def timeless(row):
    return dataclasses.replace(row, **TIMES)


def assert_same(one, other):
    assert timeless(one.row) == timeless(other.row)
    assert one.artefact.keys() == other.artefact.keys()
    for name, array in one.artefact.items():
        assert np.array_equal(array, other.artefact[name], equal_nan=True), name


def test_a_table_with_runs_that_go_wrong(tmp_path):
    def run(task):
        if task.spec.settings["epochs"] == 4:
            raise KeyError("no such thing")
        return execute(task)

    good = tasks(["none", "softmax"], [0, 1])
    bad = tasks(epochs=4) + tasks(lr=1e30) + tasks(norm="no such norm")
    store = Store(tmp_path / "two")
    made = run_missing(store, bad + good, Workers(jobs=2), run=run)

    found = {row.key: row for row in store.rows()}
    assert len(made) == len(found) == 7
    raises, diverges, fails = (found[task.spec.key] for task in bad)
    statuses = [row.status for row in (raises, diverges, fails)]
    assert statuses == ["failed", "diverged", "failed"]
    assert raises.error == "KeyError: 'no such thing'"
    assert "lower the learning rate" in diverges.error
    assert "norm" in fails.error and ".py:" in fails.error

    again = run_missing(store, bad + good, Workers(jobs=1), retry_failed=True)
    statuses = {row.key: (row.status, row.attempt) for row in again}
    assert statuses == {raises.key: ("ok", 1), fails.key: ("failed", 1)}
    assert run_missing(store, bad + good, Workers(jobs=1)) == []

    alone = Store(tmp_path / "one")
    run_missing(alone, good, Workers(jobs=1))
    assert [row.status for row in alone.rows()] == ["ok"] * 4
    for row in alone.rows():
        assert timeless(row) == timeless(found[row.key])
        one, other = alone.artefact(row.key), store.artefact(row.key)
        assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_a_full_disk_ends_the_table_and_loses_nothing(tmp_path, monkeypatch):
    store, listed = Store(tmp_path), tasks(["none"], range(4))
    add = Store.add

    def add_or_not(self, result):
        if len(self.rows()) == 2:
            raise StoreError("no room")
        return add(self, result)

    monkeypatch.setattr(Store, "add", add_or_not)
    monkeypatch.setattr(Store, "release", add_or_not)  # the disk is as full for the claims
    with pytest.raises(StoreError, match="no room"):
        run_missing(store, listed, Workers(jobs=1))
    monkeypatch.undo()
    other = Store(tmp_path)
    assert other.claim(listed[2].spec.key) == "mine"  # else it would be waited for
    assert [row.split_seed for row in run_missing(other, listed, Workers(jobs=1))] == [2, 3]
    assert sorted(row.split_seed for row in other.rows()) == [0, 1, 2, 3]


@pytest.mark.parametrize("aggr", ["none", "softmax"])
def test_test_labels_change_nothing_but_the_judgement(aggr, monkeypatch):
    dataset = load("karate")
    (task,) = tasks([aggr])
    split = task.split
    models = []
    judged = module._evaluated

    def keep(model, *args):
        models.append(model)
        return judged(model, *args)

    monkeypatch.setattr(module, "_evaluated", keep)
    true = execute(task)
    garbled = dataset.y.clone()
    garbled[split.test] = (garbled[split.test] + 1) % dataset.num_classes
    other = dataclasses.replace(dataset, y=garbled)
    keep_loaded(task.data, other, task.spec.data_hash)
    false = execute(task)
    keep_loaded(task.data, dataset, task.spec.data_hash)

    assert true.row.status == false.row.status == "ok"
    assert true.row.metrics["test_score"] != false.row.metrics["test_score"]
    for name in ("best_epoch", "epochs", "learned", "maxness"):
        assert getattr(true.row, name) == getattr(false.row, name)
    for name in ("train_loss", "train_score", "val_loss", "val_score"):
        assert true.row.metrics[name] == false.row.metrics[name]
    weights, others = (model.state_dict() for model in models)
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert all(np.array_equal(true.artefact[name], false.artefact[name]) for name in true.artefact)


def test_other_data_than_planned_with():
    (task,) = tasks()
    row = execute(dataclasses.replace(task, data=DataRef("wine"))).row
    assert row.status == "failed"
    assert "'karate' is not what was planned with" in row.error


class Stopped(BaseException):
    pass


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A run with a checkpoint of its fifth epoch, and what comes of it uninterrupted."""
    monkeypatch.setattr(Checkpoint, "is_due", lambda self: True)
    (task,) = tasks()
    task = dataclasses.replace(task, checkpoints=str(tmp_path / "checkpoints"))

    def stop(epoch, history):
        if epoch == 5:
            raise Stopped

    with pytest.raises(Stopped):
        execute(task, stop)
    path = tmp_path / "checkpoints" / f"{task.spec.key}.pt"
    assert path.exists()
    return task, path, execute(dataclasses.replace(task, checkpoints=None))


def test_a_run_goes_on_where_it_stopped(interrupted):
    task, _, whole = interrupted
    heard = []
    rest = execute(task, lambda epoch, history: heard.append(epoch))
    assert heard == [5, 6, 7]
    assert_same(rest, whole)


@pytest.mark.parametrize("damage", ["cut", "text", "other run", "half a state"])
def test_a_useless_checkpoint_is_set_aside(interrupted, damage):
    task, path, whole = interrupted
    state = torch.load(path, weights_only=True)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "text":
        path.write_text("no checkpoint")
    elif damage == "other run":
        torch.save({**state, "run": "another"}, path)
    else:
        torch.save({name: state[name] for name in ("format", "run", "model")}, path)
    before = path.read_bytes()
    heard = []
    again = execute(task, lambda epoch, history: heard.append(epoch))
    assert heard == list(range(8))
    assert path.with_suffix(".damaged").read_bytes() == before
    assert_same(again, whole)


def test_a_run_does_without_checkpoints_on_a_full_disk(interrupted, monkeypatch):
    task, path, whole = interrupted
    path.unlink()

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(torch, "save", no_room)
    assert_same(execute(task), whole)
    assert list(path.parent.iterdir()) == []


def test_samples_that_models_are_scored_on():
    dataset = load("karate")
    split = make_split(dataset, seed=1)
    data = GraphData.from_dataset(dataset, split, Settings())
    parts = scored_samples(data, dataset, split)
    assert list(parts) == ["train", "val", "test", "all"]
    assert torch.equal(parts["test"].nodes.target, dataset.y[split.test])
    assert parts["all"].nodes.index.numel() == 34


def test_clusters_are_matched_to_classes():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 20)
    embedding = rng.normal(size=(60, 4)) * 0.01 + classes[:, None] * 5
    found = cluster_scores(embedding, classes)
    assert found == {"kmeans_accuracy": 100.0, "kmeans_nmi": 100.0, "kmeans_ari": 100.0}
    assert matched_accuracy(np.array([2, 2, 2, 0]), np.array([0, 0, 1, 1])) == pytest.approx(0.75)


def test_rows_have_all_metrics_that_fit():
    (task,) = tasks(["none"], metric="roc_auc", select="score", class_weight="balanced")
    result = execute(task)
    metrics, dataset, split = result.row.metrics, load("karate"), task.split
    model = module.classifier_of(task.spec)
    inputs = (dataset.graph(), dataset.x)
    names = dataset.class_names
    model.fit(*inputs, dataset.y, split.train, split.val, class_names=names)
    true, chance = dataset.y[split.test], model.predict_proba(*inputs)[split.test]
    assert len(true.unique()) == dataset.num_classes > 2
    assert metrics["test_roc_auc"] == metrics["test_score"]
    expected = {
        "test_accuracy": (true.numpy() == chance.argmax(1)).mean(),
        "test_balanced_accuracy": balanced_accuracy_score(true, chance.argmax(1)),
        "test_macro_f1": f1_score(true, chance.argmax(1), average="macro"),
        "test_roc_auc": roc_auc_score(
            true, chance.astype(float), multi_class="ovr", labels=range(4)
        ),
    }
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(100 * value, abs=1e-3), name
    assert metrics["val_roc_auc"] == metrics["val_score"] == 100 * max(model.history_.val_score)
    assert {"train_score", "all_score", "val_average_precision", "kmeans_nmi"} <= metrics.keys()
    (plain,) = tasks(["none"])
    metrics = execute(plain).row.metrics
    assert metrics["test_accuracy"] == pytest.approx(metrics["test_score"], abs=1e-9)
    assert not {"metric", "class_weight"} & plain.spec.settings.keys()


def test_what_is_not_defined_is_left_out_of_rows():
    (task,) = tasks(["none"])
    dataset = load("karate")
    one = task.split.test[dataset.y[task.split.test] == 0]
    task = dataclasses.replace(task, split=dataclasses.replace(task.split, test=one))
    row = execute(task).row
    assert row.status == "ok" and "test_accuracy" in row.metrics
    assert "test_roc_auc" not in row.metrics and "val_roc_auc" in row.metrics
    assert row.to_json()
    settings = {**task.spec.settings, "metric": "roc_auc"}
    spec = dataclasses.replace(task.spec, settings=settings)
    row = execute(dataclasses.replace(task, spec=spec)).row
    assert row.status == "failed"
    assert "ROC AUC is not defined for the test nodes, which all have the same class" in row.error


def test_a_metric_that_does_not_fit_is_refused_before_any_run():
    listed = tasks(["none"], metric="mae")
    with pytest.raises(SettingsError, match="gcn.none: 'metric' must be one of 'accuracy'.*'mae'"):
        check_methods(listed, load("karate"))


@pytest.mark.parametrize("metric", [None, "mae"])
def test_numbers(metric):
    dataset = dataclasses.replace(load("karate"), y=3 + torch.arange(34.0), class_names=())
    split = make_split(load("karate"), seed=1)
    (task,) = tasks(["none"])
    settings = Settings(epochs=5, hidden=4, metric=metric)
    data = GraphData.from_dataset(dataset, split, settings)
    model, history = fit(settings, data)
    parts = scored_samples(data, dataset, split)
    metrics, artefact = module._evaluated(model, parts, history, task.spec)
    found, true = artefact["prediction"][split.test], dataset.y[split.test]
    assert found.dtype == np.float32 and artefact["prediction"].shape == (34,)
    assert metrics["test_r2"] == pytest.approx(r2_score(true, found), rel=1e-4)
    assert metrics["test_mae"] == pytest.approx(np.abs(true.numpy() - found).mean(), rel=1e-4)
    assert metrics["test_mse"] == pytest.approx(np.square(true.numpy() - found).mean(), rel=1e-4)
    assert metrics["test_score"] == metrics["test_r2" if metric is None else "test_mae"]
    assert "kmeans_nmi" not in metrics
