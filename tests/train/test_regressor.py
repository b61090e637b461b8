"""Regression on nodes."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import mean_absolute_error, r2_score

from meanmax import Graph, NodeClassifier, NodeRegressor
from meanmax.train import Settings, SettingsError

NODES = 300


@pytest.fixture(scope="module")
def problem():
    """The mean of a feature over neighbours, in units far from 0 and 1."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES, (2, 4 * NODES))
    edges = np.unique(edges[:, edges[0] != edges[1]], axis=1)
    x = rng.normal(size=(NODES, 3)).astype(np.float32)
    count = np.bincount(edges[1], minlength=NODES)
    total = np.bincount(edges[1], x[edges[0], 0], minlength=NODES)
    y = 5000 + 200 * total / np.maximum(count, 1)
    graph = Graph.from_edge_index(torch.from_numpy(edges), NODES)
    return graph, x, y, np.arange(150), np.arange(150, 200)


TEST = np.arange(200, NODES)


def quick(**params) -> NodeRegressor:
    given = {"backbone": "sage", "aggr": None, "hidden": 16, "dropout": 0.0, "epochs": 150}
    return NodeRegressor(**{**given, **params})


@pytest.fixture(scope="module")
def fitted(problem):
    return quick().fit(*problem)


def test_learns_the_mean_of_neighbours(problem, fitted):
    graph, x, y, train, _ = problem
    found = fitted.predict(graph, x)
    assert found.shape == (NODES,)
    assert r2_score(y[TEST], found[TEST]) > 0.9
    assert fitted.score(graph, x, y, TEST) == pytest.approx(r2_score(y[TEST], found[TEST]))
    assert fitted.metric_ == "r2" and fitted.task_ == "regression"
    assert fitted.target_mean_ == pytest.approx(y[train].mean())
    assert fitted.target_scale_ == pytest.approx(y[train].std())
    assert fitted.embed(graph, x).shape == (NODES, 16)
    history = fitted.history_
    assert history.best_epoch == int(np.argmin(history.val_loss))
    again = quick().fit(*problem)
    np.testing.assert_array_equal(again.predict(graph, x), found)


@pytest.mark.parametrize("backbone", ["gcn", "gat", "cat", "gin"])
def test_other_backbones(problem, backbone):
    model = quick(backbone=backbone, aggr="lp", epochs=3).fit(*problem)
    assert np.isfinite(model.predict(*problem[:2])).all()


def test_units_change_nothing_but_the_units(problem, fitted):
    graph, x, y, train, val = problem
    scaled = quick().fit(graph, x, 1e-6 * y - 7, train, val)
    expected = 1e-6 * fitted.predict(graph, x) - 7
    np.testing.assert_allclose(scaled.predict(graph, x), expected, atol=2e-6)


def test_only_targets_of_the_masks_are_read(problem, fitted):
    graph, x, y, train, val = problem
    hidden = y.copy()
    hidden[TEST] = np.nan
    model = quick().fit(graph, x, torch.from_numpy(hidden)[:, None], train, val)
    np.testing.assert_array_equal(model.predict(graph, x), fitted.predict(graph, x))
    with pytest.raises(ValueError, match="'mask' holds 100 nodes without a number"):
        model.score(graph, x, hidden)


def test_another_metric_selects_and_scores(problem):
    graph, x, y, *_ = problem
    options = {"select": "score"}
    model = quick(metric="mae", schedule_options=options, epochs=40).fit(*problem)
    history = model.history_
    assert history.best_epoch == int(np.argmin(history.val_score)) > 0
    expected = mean_absolute_error(y[TEST], model.predict(graph, x)[TEST])
    assert model.score(graph, x, y, TEST) == pytest.approx(expected)
    best = mean_absolute_error(y[150:200], model.predict(graph, x)[150:200])
    assert best == pytest.approx(min(history.val_score), rel=1e-5)


def test_saved_and_loaded(problem, fitted, tmp_path):
    graph, x, *_ = problem
    path = tmp_path / "model.mm"
    fitted.save(path, about={"unit": "euro"})
    again = NodeRegressor.load(path)
    np.testing.assert_array_equal(again.predict(graph, x), fitted.predict(graph, x))
    assert again.get_params() == fitted.get_params()
    assert again.history_ == fitted.history_ and again.about_ == {"unit": "euro"}
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith((".npy", ".json")) for name in archive.namelist())
        assert json.loads(archive.read("facts.json"))["target_mean"] == fitted.target_mean_
    with pytest.raises(
        ValueError, match="holds a NodeRegressor, .*use NodeRegressor.load, or mean"
    ):
        NodeClassifier.load(path)


def test_scikit_learn_conventions():
    model = quick(metric="mse")
    assert is_regressor(model)
    assert clone(model).get_params() == model.get_params()
    assert "class_weight" not in model.get_params()
    assert "metric='mse'" in repr(model)
    with pytest.raises(NotFittedError, match="this NodeRegressor is not fitted yet"):
        model.predict(Graph.from_edge_index([[0], [1]]), [[1.0], [2.0]])


def test_from_settings():
    settings = Settings.from_dict("sage", "none", {"metric": "mae", "hidden": 8})
    model = NodeRegressor.from_settings(settings, seed=2)
    assert (model.metric, model.hidden, model.seed) == ("mae", 8, 2)
    assert model.settings().metric == "mae"
    with pytest.raises(SettingsError, match="class_weight='balanced' needs one class"):
        NodeRegressor.from_settings(Settings(class_weight="balanced"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, r"'y' must be \[300\] \(got \[3\]\)"),
        ({"y": np.zeros((NODES, 2))}, r"'y' must be \[300\] \(got \[300, 2\]\)"),
        ({"y": ["a"] * NODES}, "'y' must hold numbers"),
        ({"y": np.full(NODES, np.inf)}, "'y' has 300 infinite values"),
        ({"y": [None] * NODES}, "'train_mask' holds 150 nodes without a number"),
        ({"y": np.ones(NODES)}, "training targets are all 1: there is nothing to learn"),
        ({"val_mask": [150]}, "R² is not defined for the validation nodes"),
        ({"val_mask": [3, 250]}, "share 1 nodes"),
    ],
)
def test_errors_say_what_to_do(problem, change, message):
    graph, x, y, train, val = problem
    given = {"graph": graph, "x": x, "y": y, "train_mask": train, "val_mask": val} | change
    with pytest.raises(ValueError, match=message):
        quick(epochs=2).fit(**given)


def test_metrics_of_classes_are_refused(problem):
    with pytest.raises(ValueError, match="one of 'r2', 'mse', 'mae' for a regression task"):
        quick(metric="accuracy").fit(*problem)
