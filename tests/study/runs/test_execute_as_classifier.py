"""A classifier learns what a run of a table learns."""

from __future__ import annotations

import numpy as np
import pytest

from meanmax.data import load, make_split
from meanmax.study.runs.execute import classifier_of, estimator_of, execute
from meanmax.study.runs.plan import DataRef, Plan
from meanmax.train.inputs import class_names_of


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Four small graphs with two labels per node, as files: parts that are whole graphs, and test
    nodes in a training graph.
    """
    folder = tmp_path_factory.mktemp("graphs")
    rng = np.random.default_rng(0)
    graph = np.repeat(np.arange(4), 15)
    edges = rng.integers(0, 15, (120, 2)) + 15 * rng.integers(0, 4, (120, 1))
    labels = rng.integers(0, 2, (60, 2))
    x = rng.normal(size=(60, 5)) + 2 * np.pad(labels, ((0, 0), (0, 3)))
    split = np.array([0, 0, 1, 2])[graph]
    mixed = np.where(np.arange(60) < 5, 2, split)
    given = {"edges": edges, "features": x, "labels": labels, "graph_id": graph}
    np.savez(folder / "several.npz", **given, split=split)
    np.savez(folder / "mixed.npz", **given, split=mixed)
    return folder


@pytest.mark.parametrize("settings_name", ["default", "published"])
@pytest.mark.parametrize(
    ("backbone", "aggr"),
    [("gcn", "none"), ("gcn", "lp"), ("gat", "poly"), ("cat", "softmax"), ("gcn", "pyg-softmax")],
)
@pytest.mark.parametrize(
    ("source", "scheme"), [("karate", None), ("several.npz", None), ("mixed.npz", "given")]
)
def test_as_in_a_table(source, scheme, backbone, aggr, settings_name, several):
    source = source if source == "karate" else str(several / source)
    overrides = {"epochs": 6, "hidden": 16}
    plan = Plan(DataRef(source), [backbone], [aggr], [3], settings_name, scheme, overrides)
    dataset = load(source)
    (task,) = plan.tasks(dataset)
    result = execute(task)
    row, artefact = result.row, result.artefact
    assert row.status == "ok", row.error

    split = make_split(dataset, scheme, 3)
    model = classifier_of(task.spec)
    names = class_names_of(dataset.class_names, dataset.y.dim())
    inputs = (dataset.graph(), dataset.x)
    model.fit(*inputs, dataset.y, split.train, split.val, class_names=names)
    np.testing.assert_array_equal(np.float32(model.history_.val_loss), artefact["val_loss"])
    np.testing.assert_array_equal(np.float32(model.history_.train_loss), artefact["train_loss"])
    assert model.history_.best_epoch == row.best_epoch
    learned = model.model_.learned()
    assert {name: value.reshape(-1).tolist() for name, value in learned.items()} == row.learned
    score = 100 * model.score(*inputs, dataset.y, split.test)
    assert score == pytest.approx(row.metrics["test_score"], abs=1e-9)


def test_numbers_as_in_a_table(tmp_path):
    rng = np.random.default_rng(0)
    edges, x = rng.integers(0, 40, (90, 2)), rng.normal(size=(40, 3))
    np.savez(tmp_path / "numbers.npz", edges=edges, features=x, labels=7 + 3 * x[:, 0])
    source = str(tmp_path / "numbers.npz")
    plan = Plan(DataRef(source), ["gcn"], ["lp"], [1], "default", None, {"epochs": 6})
    dataset = load(source)
    (task,) = plan.tasks(dataset)
    row = execute(task).row
    assert row.status == "ok", row.error
    split, graph = make_split(dataset, None, 1), dataset.graph()
    model = estimator_of(task.spec, dataset).fit(
        graph, dataset.x, dataset.y, split.train, split.val
    )
    assert model.history_.best_epoch == row.best_epoch
    score = model.score(graph, dataset.x, dataset.y, split.test)
    assert score == pytest.approx(row.metrics["test_score"], abs=1e-9)


def test_one_label_of_zeros_and_ones_is_two_classes(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,f,label_tall\na,1,0\nb,2,1\nc,3,1\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    for data, names in (
        (load(tmp_path), ("not tall", "tall")),
        (load("wine"), ("class_0", "class_1", "class_2")),
    ):
        assert class_names_of(data.class_names, data.y.dim()) == names
