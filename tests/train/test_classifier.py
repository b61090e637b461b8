from __future__ import annotations

import json
import zipfile

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from meanmax import Graph, NodeClassifier, SparseFeatures
from meanmax.data import load

NODES = 60


@pytest.fixture(scope="module")
def problem():
    """Three communities; features tell classes apart with much noise, edges help."""
    rng = np.random.default_rng(0)
    y = np.arange(NODES) % 3
    near = rng.random((NODES, NODES)) < np.where(y[:, None] == y, 0.25, 0.02)
    near = np.triu(near, 1)
    near = near | near.T
    x = rng.normal(size=(NODES, 12)).astype(np.float32) * 3 + 50
    x[np.arange(NODES), y] += 5
    edges = torch.from_numpy(np.stack(near.nonzero()))
    train = np.zeros(NODES, bool)
    train[:21] = True
    val = np.arange(21, 36)
    return Graph.from_edge_index(edges, NODES), x, y, train, val


def quick(**params) -> NodeClassifier:
    return NodeClassifier(**{"hidden": 16, "epochs": 60, "heads": None, **params})


def test_learns_without_tuning(problem):
    graph, x, y, train, val = problem
    model = NodeClassifier("gcn", aggr="softmax").fit(graph, x, y, train, val)
    assert model.score(graph, x, y, np.arange(36, NODES)) >= 0.9
    assert model.classes_.tolist() == [0, 1, 2]
    chance = model.predict_proba(graph, x)
    assert chance.shape == (NODES, 3)
    np.testing.assert_allclose(chance.sum(1), 1, rtol=1e-5)
    assert (model.predict(graph, x) == chance.argmax(1)).all()
    assert model.embed(graph, x).shape == (NODES, 64)
    assert len(model.history_.val_loss) == len(model.history_.train_loss)
    best = model.history_.val_loss
    assert model.history_.best_epoch == int(np.argmin(best))


@pytest.mark.parametrize("backbone", ["masked_gcn", "gat", "cat", "sage", "gin"])
def test_other_backbones(problem, backbone):
    graph, x, y, train, val = problem
    model = quick(backbone=backbone, aggr="lp", epochs=100).fit(graph, x, y, train, val)
    assert model.score(graph, x, y, np.arange(36, NODES)) > 0.6


def test_labels_of_any_type(problem):
    graph, x, y, train, val = problem
    names = np.array(["cat", "ant", "bee"])[y]
    model = quick().fit(graph, x, names, train, val)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert set(model.predict(graph, x)) <= {"ant", "bee", "cat"}
    assert model.score(graph, x, names) > 0.8


def test_only_labels_of_the_masks_are_read(problem):
    graph, x, y, train, val = problem
    hidden = np.full(NODES, -1)
    known = np.concatenate([np.flatnonzero(train), val])
    hidden[known] = y[known]
    ours, theirs = (quick().fit(graph, x, labels, train, val) for labels in (hidden, y))
    np.testing.assert_array_equal(ours.predict_proba(graph, x), theirs.predict_proba(graph, x))


def test_several_labels(problem):
    graph, x, y, train, val = problem
    labels = np.stack([y == 0, y == 1, y < 2], axis=1).astype(int)
    model = quick(epochs=150).fit(graph, x, labels, train, val)
    assert model.multilabel_
    found = model.predict(graph, x)
    assert found.shape == (NODES, 3) and set(np.unique(found)) <= {0, 1}
    assert model.score(graph, x, labels, np.arange(36, NODES)) > 0.7


def test_same_seed_same_result(problem):
    graph, x, y, train, val = problem
    first, second = (quick(seed=3).fit(graph, x, y, train, val) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(graph, x), second.predict_proba(graph, x))
    other = quick(seed=4).fit(graph, x, y, train, val)
    assert (first.predict_proba(graph, x) != other.predict_proba(graph, x)).any()


def test_fit_leaves_the_global_generator_alone(problem):
    graph, x, y, train, val = problem
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    quick(epochs=2).fit(graph, x, y, train, val)
    assert torch.equal(torch.rand(1), expected)


def test_every_form_of_graph_and_features(problem):
    graph, x, y, train, val = problem
    edges = graph.edge_index
    matrix = scipy.sparse.coo_array(
        (np.ones(edges.size(1), np.float32), tuple(edges.numpy())), (NODES, NODES)
    )
    expected = quick(epochs=3).fit(graph, x, y, train, val).predict_proba(graph, x)
    drawn = networkx.Graph()
    drawn.add_nodes_from(range(NODES))
    drawn.add_edges_from(edges.t().tolist())
    for form in (edges, edges.numpy(), Data(edge_index=edges, num_nodes=NODES), matrix, drawn):
        got = quick(epochs=3).fit(form, torch.from_numpy(x), y, train, val)
        np.testing.assert_allclose(got.predict_proba(form, x), expected, rtol=1e-4, atol=1e-5)
    sparse = np.maximum(x - 50, 0)
    forms = (scipy.sparse.csr_array(sparse), SparseFeatures.from_dense(sparse))
    results = [
        quick(epochs=3).fit(graph, form, y, train, val).predict_proba(graph, form) for form in forms
    ]
    np.testing.assert_array_equal(*results)


def test_another_graph_with_the_same_features(problem):
    graph, x, y, train, val = problem
    model = quick().fit(graph, x, y, train, val)
    other = Graph.from_edge_index([[0, 1], [1, 0]], 5)
    assert model.predict(other, x[:5]).shape == (5,)
    cat = quick(backbone="cat", aggr=None).fit(graph, x, y, train, val)
    with pytest.raises(ValueError, match="fit_structure"):
        cat.predict(other, x[:5])
    fitted = quick(backbone="cat", aggr=None, model_options={"num_nodes": None})
    assert fitted.fit(graph, x, y, train, val).predict(other, x[:5]).shape == (5,)


def test_scikit_learn_conventions():
    model = NodeClassifier("gat", aggr="lp", hidden=32)
    assert model.get_params()["hidden"] == 32
    assert model.set_params(hidden=8, seed=5).hidden == 8
    assert clone(model).get_params() == model.get_params()
    assert "hidden=8" in repr(model)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(width=3)
    with pytest.raises(NotFittedError, match="call fit first"):
        model.predict(Graph.from_edge_index([[0], [1]]), [[1.0], [2.0]])


@pytest.mark.parametrize("backbone", ["gcn", "cat"])
def test_saved_and_loaded(problem, tmp_path, backbone):
    graph, x, y, train, val = problem
    names = np.array(["cat", "ant", "bee"])[y]
    model = quick(backbone=backbone, aggr="poly").fit(graph, x, names, train, val)
    model.save(tmp_path / "model.mm")
    again = NodeClassifier.load(tmp_path / "model.mm")
    np.testing.assert_array_equal(again.predict_proba(graph, x), model.predict_proba(graph, x))
    assert again.get_params() == model.get_params()
    assert again.classes_.tolist() == ["ant", "bee", "cat"]
    assert again.history_ == model.history_
    assert list(tmp_path.iterdir()) == [tmp_path / "model.mm"]


def test_a_saved_file_holds_no_pickle_and_damage_is_noticed(problem, tmp_path):
    graph, x, y, train, val = problem
    path = tmp_path / "model.mm"
    quick(epochs=2).fit(graph, x, y, train, val).save(path)
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith((".npy", ".json")) for name in archive.namelist())
        facts = json.loads(archive.read("facts.json"))
    assert facts["params"]["epochs"] == 2
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"not a zip"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"was not saved by meanmax, or is damaged"):
            NodeClassifier.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("facts.json", '{"format": "other"}')
    with pytest.raises(ValueError, match="its format is 'other'"):
        NodeClassifier.load(path)
    with pytest.raises(FileNotFoundError):
        NodeClassifier.load(tmp_path / "absent")


def test_pickled_arrays_are_refused(problem, tmp_path):
    graph, x, y, train, val = problem
    path = tmp_path / "model.mm"
    quick(epochs=2).fit(graph, x, y, train, val).save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            if name == "mean.npy":
                np.save(tmp_path / "object.npy", np.array([{"a": 1}], dtype=object))
                content = (tmp_path / "object.npy").read_bytes()
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="damaged"):
        NodeClassifier.load(path)


def test_a_failed_save_leaves_the_old_file(problem, tmp_path, monkeypatch):
    graph, x, y, train, val = problem
    path = tmp_path / "model.mm"
    model = quick(epochs=2).fit(graph, x, y, train, val)
    model.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "'x' is None"),
        ({"x": np.ones((NODES, 0))}, "not empty"),
        ({"x": np.full((NODES, 3), np.nan)}, "180 values that are NaN or infinite, first in row 0"),
        ({"x": np.ones((7, 3))}, "'x' has 7 rows, but the graph has 60 nodes"),
        ({"x": [["a"]] * NODES}, "'x' must hold numbers"),
        ({"graph": "graph.csv"}, "'graph' must be a meanmax.Graph"),
        ({"y": np.zeros(3)}, r"'y' must be \[60\]"),
        ({"y": np.zeros(NODES)}, "one class only"),
        ({"y": np.zeros(NODES, int), "class_names": ["no", "yes"]}, r"one class only \(no\)"),
        ({"y": None}, "no labels: pass y"),
        ({"y": np.linspace(0, 1, NODES)}, "classes, not measurements"),
        ({"y": np.full(NODES, -1)}, "'train_mask' holds 21 nodes without a label"),
        ({"y": [None] * NODES}, "'train_mask' holds 21 nodes without a label"),
        ({"y": np.array(["a", 1] * (NODES // 2), object)}, "'y' mixes int, str"),
        ({"y": np.full((NODES, 2), 7)}, "0 or 1 for every label"),
        ({"train_mask": np.arange(NODES) % 2}, "mask of zeros and ones.*as bool"),
        ({"train_mask": np.zeros(NODES, bool)}, "'train_mask' selects no node"),
        ({"train_mask": [0, 61]}, "nodes from 0 to 59"),
        ({"train_mask": np.ones(5, bool)}, "mask of 5 nodes, but there are 60"),
        ({"train_mask": [0.5]}, "bool mask or integer indices"),
        ({"val_mask": [3, 50]}, "share 1 nodes"),
    ],
)
def test_errors_say_what_to_do(problem, change, message):
    graph, x, y, train, val = problem
    given = {"graph": graph, "x": x, "y": y, "train_mask": train, "val_mask": val} | change
    with pytest.raises(ValueError, match=message):
        quick().fit(**given)


def test_a_validation_class_that_training_lacks(problem):
    graph, x, y, train, val = problem
    labels = y.copy()
    labels[25] = 9
    with pytest.raises(ValueError, match=r"labels that no training node has \(9\)"):
        quick().fit(graph, x, labels, train, val)


def test_progress_is_printed_on_request(problem, capsys):
    graph, x, y, train, val = problem
    quick(epochs=21, verbose=True).fit(graph, x, y, train, val)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 20"]
    assert "validation" in lines[0]


def test_labels_keep_their_type(problem):
    graph, x, y, train, val = problem
    forms = {
        "b": (y == 0, (y == 0).astype(object)),
        "i": (y, y.astype(object), y.astype(float), y[:, None]),
    }
    for kind, labels in ((kind, labels) for kind, group in forms.items() for labels in group):
        model = quick(epochs=2).fit(graph, x, labels, train, val)
        assert model.predict(graph, x).shape == (NODES,)
        assert model.classes_.dtype.kind == kind


def test_scores_do_not_cut_text(problem):
    graph, x, y, train, val = problem
    names = np.array(["a", "b", "c"])[y]
    model = quick().fit(graph, x, names, train, val)
    assert model.score(graph, x, np.char.add(names, "zz")) == 0.0


def test_scaling_does_not_depend_on_the_form_of_the_input(problem):
    graph, x, y, train, val = problem
    positive = np.maximum(x - 50, 0)
    for fitted, asked in ((scipy.sparse.csr_array(positive), positive),
                          (positive, scipy.sparse.csr_array(positive))):  # fmt: skip
        model = quick(epochs=5).fit(graph, fitted, y, train, val)
        expected = model.predict_proba(graph, fitted)
        got = model.predict_proba(graph, asked)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_numpy_parameters_and_later_changes_do_not_spoil_a_saved_file(problem, tmp_path):
    graph, x, y, train, val = problem
    model = quick(hidden=np.int64(8), lr=np.float32(0.01), epochs=2).fit(graph, x, y, train, val)
    expected = model.predict_proba(graph, x)
    model.set_params(hidden=32).save(tmp_path / "model.mm")
    again = NodeClassifier.load(tmp_path / "model.mm")
    assert again.hidden == 8
    np.testing.assert_array_equal(again.predict_proba(graph, x), expected)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epochs": 0}, "'epochs' must be a whole number from 1 on"),
        ({"lr": "fast"}, "'lr' must be a number"),
        ({"model_options": {"foo": 1}}, "'model_options' has no 'foo'"),
        ({"backbone": "gnn"}, "unknown backbone 'gnn'"),
        ({"aggr": "median"}, "unknown aggregator 'median'"),
    ],
)
def test_wrong_parameters(problem, params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(*problem)


@pytest.fixture(scope="module")
def as_data(problem):
    graph, x, y, train, val = problem
    masks = {"train_mask": torch.from_numpy(train)}
    masks["val_mask"] = torch.zeros(NODES, dtype=torch.bool)
    masks["val_mask"][val] = True
    masks["test_mask"] = ~(masks["train_mask"] | masks["val_mask"])
    return Data(torch.from_numpy(x), graph.edge_index, y=torch.from_numpy(y), **masks)


@pytest.mark.parametrize("kind", ["Data", "Dataset"])
def test_one_object_holds_everything(problem, as_data, kind):
    graph, x, y, train, val = problem
    data = as_data if kind == "Data" else load(as_data)
    model, other = quick(epochs=10).fit(data), quick(epochs=10).fit(graph, x, y, train, val)
    np.testing.assert_array_equal(model.predict_proba(data), other.predict_proba(graph, x))
    np.testing.assert_array_equal(model.predict(data), other.predict(graph, x))
    np.testing.assert_array_equal(model.embed(data), other.embed(graph, x))
    assert model.score(data) == other.score(graph, x, y, np.arange(36, NODES))
    assert model.score(data, mask=train) == other.score(graph, x, y, train)


def test_masks_may_be_passed_with_one_object(problem, as_data):
    graph, x, y, train, val = problem
    data = Data(as_data.x, as_data.edge_index, y=as_data.y)
    with pytest.raises(ValueError, match="the data hold no 'train_mask': pass train_mask="):
        quick().fit(data)
    model = quick(epochs=5).fit(data, train_mask=train, val_mask=val)
    other = quick(epochs=5).fit(graph, x, y, train, val)
    np.testing.assert_array_equal(model.predict_proba(data), other.predict_proba(graph, x))
    with pytest.raises(ValueError, match="the data hold no 'mask'"):
        model.score(data)


def test_the_first_of_several_splits(as_data):
    masks = {name: as_data[name] for name in ("train_mask", "val_mask", "test_mask")}
    columns = {name: torch.stack([mask, mask.flip(0)], 1) for name, mask in masks.items()}
    several = Data(as_data.x, as_data.edge_index, y=as_data.y, **columns)
    first, expected = quick(epochs=5).fit(several), quick(epochs=5).fit(as_data)
    np.testing.assert_array_equal(first.predict_proba(several), expected.predict_proba(as_data))
    loaded = quick(epochs=5).fit(load(several))
    np.testing.assert_array_equal(loaded.predict_proba(several), expected.predict_proba(as_data))


def test_a_target_is_not_classified(as_data):
    data = as_data.clone()
    data.y = as_data.y.float().where(as_data.y > 0, torch.tensor(-0.5))
    with pytest.raises(ValueError, match="must hold classes, not measurements"):
        quick().fit(data)
    with pytest.raises(ValueError, match="got a regression task.*: use NodeRegressor for numbers"):
        quick().fit(load(data))
