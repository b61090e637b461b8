"""Classifiers and regressors of whole graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Batch, Data

from meanmax import GraphClassifier, GraphRegressor, NodeClassifier
from meanmax.data import make_split
from meanmax.train import Settings, load_model

from .collection import collection


def data_list(dataset):
    ptr, edges = dataset.graph_ptr.tolist(), dataset.edge_index
    found = []
    for number, (first, end) in enumerate(zip(ptr, ptr[1:], strict=False)):
        own = edges[:, (edges[0] >= first) & (edges[0] < end)] - first
        found.append(Data(x=dataset.x[first:end], edge_index=own, y=dataset.y[number]))
    return found


@pytest.fixture(scope="module")
def peaks():
    return collection()


@pytest.fixture(scope="module")
def fitted(peaks):
    split = make_split(peaks, seed=0)
    options = {"layers": 1, "hidden": 16, "epochs": 40, "lr": 0.02, "batch_graphs": 16}
    return GraphClassifier(**options).fit(peaks, train_mask=split.train, val_mask=split.val)


def test_it_learns_what_the_peak_of_a_graph_tells(peaks, fitted):
    split = make_split(peaks, seed=0)
    assert fitted.score(peaks, mask=split.test) > 0.8
    assert fitted.predict_proba(peaks).shape == (60, 2)
    assert fitted.embed(peaks).shape == (60, 16)
    assert set(fitted.maxness(peaks)) == {"layers.0", "readout"}
    assert set(fitted.model_.learned()) == {"layers.0.gamma", "readout.gamma"}


def test_all_forms_of_a_collection_are_the_same_data(peaks, fitted):
    split, listed = make_split(peaks, seed=0), data_list(peaks)
    wanted = fitted.predict_proba(peaks)
    for given in (listed, tuple(listed), Batch.from_data_list(listed)):
        again = clone(fitted).fit(given, train_mask=split.train, val_mask=split.val)
        np.testing.assert_allclose(again.predict_proba(given), wanted, rtol=1e-4, atol=1e-5)
    apart = clone(fitted).fit(peaks.graph(), peaks.x, peaks.y, split.train, split.val)
    np.testing.assert_allclose(apart.predict_proba(peaks.graph(), peaks.x), wanted)


def test_test_graphs_have_no_part_in_training(peaks, fitted):
    split = make_split(peaks, seed=0)
    other = collection()
    rows = torch.isin(other.graph_id, split.test)
    other.x[rows] = 1e3
    other.y[split.test] = 1 - other.y[split.test]
    again = clone(fitted).fit(other, train_mask=split.train, val_mask=split.val)
    for name, value in fitted.model_.state_dict().items():
        assert torch.equal(again.model_.state_dict()[name], value), name


def test_without_a_mask_all_graphs_but_those_of_validation_are_trained_on(peaks):
    small = GraphClassifier(layers=1, hidden=4, epochs=1)
    val = torch.arange(50, 60)
    one = clone(small).fit(peaks, val_mask=val)
    two = clone(small).fit(peaks, train_mask=torch.arange(50), val_mask=val)
    assert one.history_.train_loss == two.history_.train_loss


def test_a_file_keeps_it(tmp_path, peaks, fitted):
    fitted.save(tmp_path / "model.zip")
    loaded = load_model(tmp_path / "model.zip")
    assert isinstance(loaded, GraphClassifier)
    assert np.array_equal(loaded.predict_proba(peaks), fitted.predict_proba(peaks))


def test_numbers_are_predicted_in_their_units(tmp_path):
    peaks = collection(120, numbers=True)
    split = make_split(peaks, "random", 0)
    model = GraphRegressor("mlp", None, readout="max", layers=1, epochs=60, lr=0.02)
    model.fit(peaks, train_mask=split.train, val_mask=split.val)
    assert model.score(peaks, mask=split.test) > 0.8
    assert abs(model.predict(peaks).mean() - float(peaks.y.mean())) < 0.5
    model.save(tmp_path / "model.zip")
    assert np.array_equal(load_model(tmp_path / "model.zip").predict(peaks), model.predict(peaks))


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 2, "norm": "batch", "readout": "sum", "jump": "cat", "lr": 0.01},
        {"nonlinear": "readout"},
        {},
    ],
)
def test_settings_and_parameters_say_the_same(settings):
    given = Settings(backbone="gin", aggr="lp", start=1.5, **settings)
    model = GraphClassifier.from_settings(given)
    found = model.settings()
    for name, value in given.to_dict().items():
        if name != "start":
            assert getattr(found, name) == value
    # What settings leave out is not the estimator's default but build_model's.
    assert found.norm == settings.get("norm")
    assert found.readout == settings.get("readout", "mean")


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda d: NodeClassifier().fit(d), "use GraphClassifier or GraphRegressor"),
        (lambda d: NodeClassifier().fit(data_list(d)), "list of graphs: use GraphClassifier"),
        (lambda d: GraphClassifier().fit(data_list(d)[0]), "this is one graph"),
        (lambda d: GraphClassifier().fit([]), "holds no graph"),
        (lambda d: GraphClassifier("cat").fit(d), "use 'gat'"),
        (lambda d: GraphClassifier(readout="median").fit(d), "unknown readout"),
        (lambda d: GraphClassifier("gcn", "pyg-softmax").fit(d), "has no readout"),
        (lambda d: GraphClassifier().fit(d, train_mask=[60]), "graphs from 0 to 59"),
        (
            lambda d: GraphClassifier().fit(d, train_mask=[0, 1], val_mask=[1, 2]),
            "share 1 graphs",
        ),
        (lambda d: GraphClassifier().fit(d, y=np.arange(7)), "'y' must be"),
    ],
)
def test_wrong_use_says_what_to_do(peaks, fit, message):
    with pytest.raises(ValueError, match=message):
        fit(peaks)


def test_graphs_that_do_not_fit_together_are_refused(peaks):
    listed = data_list(peaks)
    wide = Data(x=torch.ones(2, 7), edge_index=torch.zeros(2, 0, dtype=torch.int64), y=0)
    with pytest.raises(ValueError, match="graph 60 has"):
        GraphClassifier().fit([*listed, wide])
    listed[3].y = None
    with pytest.raises(ValueError, match="graph 3 has no 'y'"):
        GraphClassifier().fit(listed)
