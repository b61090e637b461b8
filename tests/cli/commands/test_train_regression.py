"""A column of numbers through data show, train and predict."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from sklearn.metrics import mean_absolute_error, r2_score

from meanmax import NodeClassifier, NodeRegressor
from meanmax.cli import main
from meanmax.data import load, make_split

from ..numbers_graph import NODES, write_numbers

QUICK = ("--set", "epochs=20", "--set", "hidden=8")


def invoke(*args):
    return CliRunner().invoke(main, list(map(str, args)))


def assert_message(result, *parts):
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    text = " ".join(result.stderr.split())
    assert all(part in text for part in parts), text


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    folder = write_numbers(tmp_path_factory.mktemp("data") / "numbers")
    model = folder.parent / "model.zip"
    result = invoke("train", "--data", folder, "--out", model, *QUICK, "--json")
    assert result.exit_code == 0, result.output
    return folder, model, json.loads(result.stdout)


def test_the_range_of_the_target_is_shown(numbers):
    facts = json.loads(invoke("data", "show", numbers[0], "--json").stdout)
    with (numbers[0] / "nodes.csv").open() as file:
        given = [float(row["label"]) for row in csv.DictReader(file) if row["label"]]
    assert facts["task"] == "regression" and facts["statistics"]["labelled"] == len(given) == 54
    assert facts["target"]["mean"] == pytest.approx(np.mean(given), rel=1e-6)
    assert facts["class_sizes"] == {}


def test_a_regressor_is_trained_as_in_python(numbers):
    folder, model, facts = numbers
    dataset = load(folder)
    split, graph = make_split(dataset, "random", 0), dataset.graph()
    loaded = NodeRegressor.load(model)
    own = NodeRegressor().set_params(**loaded.get_params())
    own.fit(graph, dataset.x, dataset.y, split.train, split.val)
    found = own.predict(graph, dataset.x)
    np.testing.assert_array_equal(loaded.predict(graph, dataset.x), found)
    assert (facts["metric"], facts["percent"]) == ("R²", False)
    for part in ("train", "val", "test"):
        nodes = getattr(split, part).numpy()
        expected = r2_score(dataset.y.numpy()[nodes], found[nodes])
        assert facts[f"{part}_score"] == pytest.approx(expected)
    assert "metric" not in facts["settings"] and facts["settings"].get("select") != "score"


def test_scores_are_printed_without_percents(numbers, tmp_path):
    result = invoke("train", "--data", numbers[0], "--out", tmp_path / "m.zip", *QUICK)
    assert result.exit_code == 0, result.output
    lines = [line.split("│")[1:3] for line in result.stdout.splitlines() if "│" in line]
    shown = {name.strip(): value.strip() for name, value in lines}
    assert float(shown["R² on test nodes"]) == pytest.approx(numbers[2]["test_score"], rel=1e-3)
    assert "%" not in result.stdout + result.stderr
    assert "validation R² " in result.stderr


def test_a_given_metric_also_selects_the_epoch(numbers, tmp_path):
    args = ("train", "--data", numbers[0], "--out", tmp_path / "m.zip", *QUICK, "--json")
    result = invoke(*args, "--metric", "mae")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["metric"] == "MAE" and facts["settings"]["select"] == "score"
    history = NodeRegressor.load(tmp_path / "m.zip").history_
    assert facts["best_epoch"] == int(np.argmin(history.val_score))
    assert facts["val_score"] == pytest.approx(min(history.val_score))
    kept = invoke(*args, "--force", "--metric", "mae", "--set", "select=loss")
    facts = json.loads(kept.stdout)
    assert facts["settings"]["select"] == "loss"
    assert facts["best_epoch"] == int(np.argmin(history.val_loss))


def test_a_metric_of_classes(tmp_path):
    args = ("train", "--data", "karate", "--out", tmp_path / "m.zip", *QUICK, "--json")
    facts = json.loads(invoke(*args, "--metric", "balanced_accuracy").stdout)
    assert (facts["metric"], facts["percent"]) == ("balanced accuracy", True)
    history = NodeClassifier.load(tmp_path / "m.zip").history_
    assert facts["val_score"] == pytest.approx(100 * max(history.val_score))
    plain = json.loads(invoke(*args, "--force").stdout)
    assert plain["metric"] == "accuracy" and "metric" not in plain["settings"]


def test_numbers_are_predicted(numbers, tmp_path):
    folder, model, _ = numbers
    result = invoke("predict", model, "--data", folder, "--out", tmp_path / "found.csv")
    assert result.exit_code == 0, result.output
    with (tmp_path / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "prediction"]
    assert [row["id"] for row in rows] == [f"n{node}" for node in range(NODES)]
    dataset = load(folder)
    found = NodeRegressor.load(model).predict(dataset.graph(), dataset.x)
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], found, rtol=1e-5)
    known = dataset.labelled.numpy()
    score = r2_score(dataset.y.numpy()[known], found[known])
    assert f"R² {score:.4f} on 54 labelled nodes (training nodes" in result.stdout
    invoke("predict", model, "--data", folder, "--out", tmp_path / "found.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "found.parquet")
    assert str(table.schema.field("prediction").type) == "double"
    np.testing.assert_array_equal(table["prediction"].to_numpy(), found)


def test_the_score_of_another_graph_is_by_the_metric_of_the_model(numbers, tmp_path):
    folder = numbers[0]
    model = tmp_path / "m.zip"
    invoke("train", "--data", folder, "--out", model, *QUICK, "--metric", "mae")
    other = write_numbers(tmp_path / "other", seed=1)
    result = invoke("predict", model, "--data", other, "--out", tmp_path / "found.csv")
    dataset = load(other)
    found = NodeRegressor.load(model).predict(dataset.graph(), dataset.x)
    known = dataset.labelled.numpy()
    error = mean_absolute_error(dataset.y.numpy()[known], found[known])
    assert f"MAE {error:.3f} on 54 labelled nodes (not the data" in result.stdout
    bare = write_numbers(tmp_path / "bare", labels=False)
    result = invoke("predict", model, "--data", bare, "--out", tmp_path / "bare.csv")
    assert result.stdout == f"60 nodes in {tmp_path / 'bare.csv'}\n"


def test_classes_have_no_score_by_numbers(numbers, tmp_path):
    other = write_numbers(tmp_path / "classes")
    lines = (other / "nodes.csv").read_text().splitlines()
    named = [f"{line.rpartition(',')[0]},{'ab'[k % 2]}" for k, line in enumerate(lines[1:])]
    (other / "nodes.csv").write_text("\n".join([lines[0], *named]) + "\n")
    result = invoke("predict", numbers[1], "--data", other, "--out", tmp_path / "found.csv")
    assert "no score: the model predicts numbers, but these data have classes" in result.stdout
    model = tmp_path / "classes.zip"
    invoke("train", "--data", other, "--out", model, *QUICK)
    result = invoke("predict", model, "--data", numbers[0], "--out", tmp_path / "second.csv")
    assert "no score: the labels of these data are not those of the model" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--batches", "clusters"), "are numbers, but only classes and labels can be"),
        (("train", "--metric", "roc_auc"), "one of 'r2', 'mse', 'mae' for a regression task"),
        (("train", "--set", "class_weight=balanced"), "needs one class for each node"),
        (("partition", "--parts", "2"), "graph folders and partitions hold classes and labels"),
    ],
)
def test_what_numbers_do_not_allow(numbers, tmp_path, words, message):
    out = tmp_path / "out"
    assert_message(invoke(*words, "--data", numbers[0], "--out", out), message)
    assert not out.exists()


def test_two_metrics_are_refused(numbers, tmp_path):
    args = ("train", "--data", numbers[0], "--out", tmp_path / "m.zip", "--metric", "mae")
    result = invoke(*args, "--set", "metric=mse")
    assert_message(result, "--metric mae contradicts --set metric=mse: give one of them")


def test_graph_folders_hold_no_numbers(numbers, tmp_path):
    result = invoke("data", "pack", numbers[0], tmp_path / "packed")
    assert_message(result, "the targets of 'numbers' are numbers", "train on the whole graph")
    assert not (tmp_path / "packed").exists()
    assert invoke("data", "pack", "karate", tmp_path / "packed").exit_code == 0
    args = ("predict", numbers[1], "--data")
    result = invoke(*args, tmp_path / "packed", "--out", tmp_path / "found.csv")
    assert_message(result, "numbers are not predicted in graph folders")
    result = invoke(*args, numbers[0], "--out", tmp_path / "found.csv", "--all")
    assert_message(result, "--all writes classes", "predicts numbers")
