"""A column of numbers through compare, the page and the stored runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import mean_squared_error, r2_score

from meanmax import NodeRegressor
from meanmax.cli import main
from meanmax.cli.search import class_sizes_text
from meanmax.data import development_pool, load, make_split
from meanmax.study.store.store import Store
from meanmax.train import Settings

from ..numbers_graph import write_numbers

QUICK = ("--budget", 2, "--splits", 2, "--set", "epochs=3", "--jobs", 1, "--aggr", "none,softmax")
FEW = ("--settings", "default", *QUICK[2:])


def invoke(*args):
    return CliRunner().invoke(main, list(map(str, args)))


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = write_numbers(tmp_path_factory.mktemp("data") / "numbers")
    out = folder.parent / "runs"
    result = invoke("compare", "--data", folder, "--out", out, *QUICK, "--tsne")
    assert result.exit_code == 0, result.output
    return folder, out, result


def test_scores_are_those_of_the_same_model_in_python(compared):
    folder, out, result = compared
    dataset = load(folder)
    graph, pool = dataset.graph(), development_pool(dataset, "random")
    rows = [row for row in Store(out).rows() if row.backbone == "gcn"]
    assert len(rows) == 4
    for row in rows:
        split = make_split(dataset, "random", row.split_seed, pool=pool)
        settings = Settings.from_dict(row.backbone, row.aggr, row.settings)
        model = NodeRegressor.from_settings(settings, seed=row.seed)
        model.fit(graph, dataset.x, dataset.y, split.train, split.val)
        nodes = split.test.numpy()
        true, found = dataset.y.numpy()[nodes], model.predict(graph, dataset.x)[nodes]
        assert row.settings["epochs"] == 3 and row.metric == "r2" and row.split == "random, pool"
        assert row.metrics["test_score"] == pytest.approx(r2_score(true, found), abs=1e-5)
        assert row.metrics["test_mse"] == pytest.approx(mean_squared_error(true, found), rel=1e-4)
    assert " R² ┃" in result.stdout and "R² %" not in result.stdout
    assert "Classes" not in result.stderr


def test_references_have_names_that_fit_numbers(compared):
    folder, out, result = compared
    dataset = load(folder)
    y = dataset.y.double().numpy()
    expected = []
    for seed in (0, 1):
        split = make_split(dataset, "random", seed, pool=development_pool(dataset, "random"))
        true = y[split.test]
        expected.append(r2_score(true, np.full(len(true), y[split.train].mean())))
    (file,) = out.glob("compare-*.json")
    facts = json.loads(file.read_text("utf-8"))
    shown = {line["aggr"]: line for line in facts["references"]}
    assert list(shown) == ["mean of targets", "ridge regression", "label propagation", "MLP"]
    assert shown["mean of targets"]["mean"] == pytest.approx(np.mean(expected), abs=1e-5)
    assert shown["ridge regression"]["mean"] > 0.8
    assert "ridge regression, without the graph, is better than all of them" in facts["verdict"]
    assert "majority" not in result.stdout and "logistic" not in result.stdout


def test_the_page_shows_numbers(compared):
    _, out, _ = compared
    text = (out / "report.html").read_text("utf-8")
    assert "R² %" not in text and "in points" not in text and "majority" not in text
    assert "Difference to the baseline, in R²" in text
    assert 'class="scatter"' in text and "coloured by class" not in text
    (out / "report.html").unlink()
    assert invoke("report", "--store", out, "--tsne").exit_code == 0
    again = (out / "report.html").read_text("utf-8")
    assert "mean of targets" in again and "Difference to the baseline, in R²" in again


def test_stored_runs_are_shown_without_percents(compared):
    result = invoke("results", "show", "--store", compared[1])
    assert result.exit_code == 0, result.output
    assert "test" in result.stdout and "%" not in result.stdout
    facts = json.loads(invoke("results", "show", "--store", compared[1], "--json").stdout)
    assert {(cell["metric"], cell["percent"]) for cell in facts} == {("R²", False)}


@pytest.mark.parametrize("metric", ["mse", "mae", "r2"])
def test_positive_differences_are_better(compared, tmp_path, metric):
    words = ("--data", compared[0], "--out", tmp_path, *FEW, "--metric", metric)
    result = invoke("compare", *words)
    assert result.exit_code == 0, result.output
    rows = [row for row in Store(tmp_path).rows() if row.backbone == "gcn"]
    sides = [
        np.array([r.metrics[f"test_{metric}"] for r in rows if r.aggr == aggr])
        for aggr in ("none", "softmax")
    ]
    gain = sides[1] - sides[0] if metric == "r2" else sides[0] - sides[1]
    (file,) = tmp_path.glob("compare-*.json")
    line = json.loads(file.read_text("utf-8"))["lines"][1]
    assert line["paired"]["difference"] == pytest.approx(gain.mean(), rel=1e-6)
    assert line["mean"] == pytest.approx(sides[1].mean())
    lower = f"A lower {metric.upper()} is better" in result.stdout
    assert lower == (metric != "r2")
    stored = json.loads(invoke("results", "show", "--store", tmp_path, "--json").stdout)
    assert {cell["metric"] for cell in stored} == {"R²" if metric == "r2" else metric.upper()}
    first = next(row for row in rows if row.aggr == "none")
    label = "R²" if metric == "r2" else metric.upper()
    assert f"test {label} {first.metrics['test_score']:.4g} in" in result.stderr


def test_set_and_the_option_name_the_same_metric(compared, tmp_path):
    words = ("compare", "--data", compared[0], "--out", tmp_path, *FEW, "--set", "metric=mse")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert "A lower MSE is better" in result.stdout
    refused = invoke(*words, "--metric", "mae")
    assert refused.exit_code != 0
    assert refused.stderr == (
        "Error: --metric mae contradicts --set metric=mse: give one of them\n"
    )


def test_a_metric_of_classes_is_refused(compared, tmp_path):
    out = tmp_path / "runs"
    result = invoke("compare", "--data", compared[0], "--out", out, *QUICK, "--metric", "accuracy")
    assert result.exit_code == 1
    assert "one of 'r2', 'mse', 'mae' for a regression task" in " ".join(result.stderr.split())
    assert not out.exists()


def test_the_sizes_of_classes_are_told(tmp_path):
    words = ("--data", "karate", "--out", tmp_path, "--settings", "default", *QUICK[2:])
    result = invoke("compare", *words)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[0] == (
        "Classes community 0: 13 (38.2 %), community 1: 12 (35.3 %), community 3: 5 (14.7 %), "
        "community 2: 4 (11.8 %)"
    )
    y = load("digits").y
    counts = np.bincount(y.numpy())
    most, least = int(counts.argmax()), int(counts[::-1].argmin())
    names = load("digits").class_names
    least = 9 - least  # the last of equal ones
    assert class_sizes_text(load("digits")) == (
        f"10 classes, from {names[most]}: {counts[most]} ({100 * counts[most] / 1797:.1f} %) to "
        f"{names[least]}: {counts[least]} ({100 * counts[least] / 1797:.1f} %)"
    )


def test_whole_numbers_can_be_declared_a_target(tmp_path):
    draw = np.random.default_rng(0)
    ages = draw.integers(18, 90, 40)
    lines = [f"{node},{draw.normal() + age / 30:.3f},{age}" for node, age in enumerate(ages)]
    (tmp_path / "nodes.csv").write_text("id,height,label\n" + "\n".join(lines) + "\n")
    edges = "".join(f"{node},{(node + 1) % 40}\n" for node in range(40))
    (tmp_path / "edges.csv").write_text(f"source,target\n{edges}")
    out, words = tmp_path / "runs", ("--data", tmp_path, "--task", "regression")
    words = ("compare", *words, "--out", out, *FEW[:-4], "--jobs", 2, *FEW[-2:])
    result = invoke(*words)  # in workers, which load the data by themselves
    assert result.exit_code == 0, result.output
    assert {row.metric for row in Store(out).rows()} == {"r2"}
    assert "--task regression" in (out / "report.html").read_text("utf-8")
    shown = invoke("data", "show", tmp_path, "--task", "regression")
    assert shown.exit_code == 0 and "mean target" in shown.output
    model = tmp_path / "model.zip"
    given = ("--data", tmp_path, "--task", "regression", "--set", "epochs=2")
    assert invoke("train", *given, "--out", model).exit_code == 0
    assert type(NodeRegressor.load(model)) is NodeRegressor
    found = tmp_path / "found.csv"
    said = invoke("predict", model, "--data", tmp_path, "--out", found)
    assert "if they are whole numbers, give --task regression" in said.output
    said = invoke("predict", model, *given[:4], "--out", found, "--force")
    assert "R² " in said.output, said.output
