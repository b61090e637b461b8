"""Data are parsed once, where runs are planned."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from meanmax.data import fingerprint, load
from meanmax.study.runs import prepared_data
from meanmax.study.runs.execute import execute
from meanmax.study.runs.plan import DataRef, Plan, check_methods, reference
from meanmax.study.runs.prepared_data import data_copies, load_prepared
from meanmax.study.runs.run_missing import Workers, run_missing
from meanmax.study.settings.settings import SettingsError
from meanmax.study.store.store import Store


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    monkeypatch.setattr(prepared_data, "_loaded", {})


@pytest.fixture
def graph(tmp_path):
    """A graph of one's own with sparse features, and its reference."""
    words = torch.nn.functional.one_hot(torch.arange(12) % 5).float()
    lines = [f"{i},{i % 3}," + ",".join(map(str, row.tolist())) for i, row in enumerate(words)]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label,a,b,c,d,e\n" + "\n".join(lines) + "\n")
    edges = "\n".join(f"{i},{(i * 5 + 1) % 12}" for i in range(12))
    (folder / "edges.csv").write_text(f"source,target\n{edges}\n")
    return folder


def tasks(source, splits=(0, 1)):
    plan = Plan(
        DataRef(str(source)), ["gcn"], ["none"], splits, "default",
        overrides={"epochs": 2, "hidden": 4},
    )  # fmt: skip
    return plan.tasks(load(source))


def test_runs_of_the_planning_process_do_not_load_the_data_again(graph, tmp_path, monkeypatch):
    planned = tasks(graph)
    monkeypatch.setattr("meanmax.data.loading.load", None)
    for file in graph.iterdir():
        file.unlink()
    rows = run_missing(Store(tmp_path / "store"), planned, Workers(jobs=1))
    assert [row.status for row in rows] == ["ok", "ok"], rows


def test_worker_processes_read_a_copy(graph, tmp_path):
    planned = tasks(graph)
    expected = run_missing(Store(tmp_path / "one"), planned, Workers(jobs=1))
    for file in graph.iterdir():
        file.unlink()  # no worker can parse it
    rows = run_missing(Store(tmp_path / "two"), planned, Workers(jobs=2))
    metrics = [{row.key: row.metrics for row in made} for made in (rows, expected)]
    assert metrics[0] == metrics[1] and len(metrics[0]) == 2


@pytest.mark.parametrize("name", ["karate", "mine"])
def test_a_copy_is_the_data(name, graph):
    source = name if name == "karate" else graph
    (task,) = tasks(source, [0])
    dataset = load(source)
    with data_copies() as copies:
        ref = copies.reference(task.data)
        assert ref == task.data and ref.copy is not None
        prepared_data._loaded.clear()
        copy, made = load_prepared(ref, task.spec)
        assert type(copy.x) is type(dataset.x)
        assert fingerprint(copy) == fingerprint(dataset)
        assert torch.equal(made.edge_index, dataset.graph().edge_index)
    prepared_data._loaded.clear()
    assert load_prepared(ref, task.spec)[0].num_nodes == dataset.num_nodes  # from the source


def test_a_copy_of_a_collection_keeps_whose_labels_they_are():
    dataset, ref = load("digits-graphs"), DataRef("digits-graphs")
    prepared_data.keep_loaded(ref, dataset, "hash")
    with data_copies() as copies:
        copied = copies.reference(ref)
        copy, data_hash = prepared_data._read(Path(copied.copy))
        assert (copy.level, copy.num_graphs, data_hash) == ("graph", 1797, "hash")
        assert fingerprint(copy) == fingerprint(dataset)


def test_data_that_changed_are_refused(graph):
    (task,) = tasks(graph, [0])
    prepared_data._loaded.clear()
    (graph / "edges.csv").write_text("source,target\n0,1\n")
    with pytest.raises(ValueError, match="the data have changed since"):
        load_prepared(task.data, task.spec)
    spec = dataclasses.replace(task.spec, data_hash="another")
    with pytest.raises(ValueError, match="the data have changed since"):
        load_prepared(task.data, spec)


def test_only_a_few_data_sets_are_kept(monkeypatch):
    monkeypatch.setattr(prepared_data, "KEPT", 2)
    dataset = load("karate")
    for name in "abcb":
        prepared_data.keep_loaded(DataRef(name), dataset, "hash")
    assert [ref.source for ref in prepared_data._loaded] == ["c", "b"]


def test_a_worker_that_loads_again_encodes_as_planned(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    rows = [f"{i},{'ab'[i % 2]},{'' if i == 3 else i},{i % 3}" for i in range(12)]
    (folder / "nodes.csv").write_text("id,kind,size,label\n" + "\n".join(rows) + "\n")
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    own = {"directed": True, "one_hot": ("kind",), "impute": "median"}
    dataset = load(folder, **own)
    plan = Plan(reference(str(folder), None, **own), ["gcn"], ["none"], [0], "default")
    (task,) = plan.tasks(dataset)
    prepared_data._loaded.clear()
    again, _ = load_prepared(task.data, task.spec)
    assert again is not dataset and fingerprint(again) == fingerprint(dataset)


def test_numbers_are_trained(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    rows = "".join(f"{i},{i},{i / 4}\n" for i in range(12))
    (folder / "nodes.csv").write_text("id,f,label\n" + rows)
    (folder / "edges.csv").write_text("source,target\n0,1\n")
    dataset = load(folder)
    data = reference(str(folder), None)
    for metric, message in (("accuracy", "'metric' must be one of 'r2'"), ("mae", "class_weight=")):
        given = {"metric": metric, "class_weight": "balanced"}
        plan = Plan(data, ["gcn"], ["none"], [0], "default", overrides=given)
        with pytest.raises(SettingsError, match=message):
            check_methods(plan.tasks(dataset), dataset)
    (task,) = Plan(data, ["gcn"], ["none"], [0], "default", overrides={"epochs": 2}).tasks(dataset)
    check_methods([task], dataset)
    assert execute(task).row.metrics.keys() >= {"test_r2", "test_mae"}
