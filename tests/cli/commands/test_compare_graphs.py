"""``meanmax compare``, ``train`` and ``predict`` where whole graphs have the labels."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.data import load, make_split
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.page import content
from meanmax.study.settings import search as settings_search
from meanmax.study.store.store import Store
from meanmax.train import load_model

GRAPHS = 40


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setitem(settings_search.LIMITS, "graph", (1, 2, 4))


def folder(path, *, seed=0, labels=None):
    """Graphs in tables; the class is whether the peak of a graph is in its first feature."""
    draw, path = np.random.default_rng(seed), path / f"graphs-{seed}"
    path.mkdir(parents=True)
    nodes, edges, graphs = ["id,graph,a,b"], ["source,target"], ["id,label"]
    for graph in range(GRAPHS):
        size, kind = int(draw.integers(2, 6)), graph % 2
        x = draw.normal(size=(size, 2)).round(3)
        x[0, kind] += 5
        names = [f"g{graph}n{node}" for node in range(size)]
        nodes += [f"{name},g{graph},{a},{b}" for name, (a, b) in zip(names, x, strict=True)]
        edges += [f"{names[node]},{names[node + 1]}" for node in range(size - 1)]
        label = ("left", "right")[kind] if labels is None else labels[graph]
        graphs.append(f"g{graph},{label}")
    for name, lines in (("nodes", nodes), ("edges", edges), ("graphs", graphs)):
        (path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return path


def done(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


QUICK = ["--splits", "2", "--jobs", "1", "--budget", "2", "--aggr", "softmax"]


def test_collections_are_searched_in_each_fold_and_compared_with_references(tmp_path):
    own = folder(tmp_path)
    out = tmp_path / "runs"
    words = ["compare", "--data", own, "--backbone", "sage", "--out", out, *QUICK]
    result = done(*words)
    rows = Store(out).rows()
    assert {row.split for row in rows} == {"folds"}
    assert {(row.backbone, row.aggr) for row in rows} == {
        *(("sage", "none"), ("sage", "softmax"), ("mlp", "none")),
        *(("majority", "none"), ("logistic", "none")),
    }
    assert all(row.status == "ok" for row in rows)
    learned = [row for row in rows if row.aggr == "softmax"]
    assert all("readout" in row.settings for row in learned)
    assert "label propagation" not in result.stdout and "MLP" in result.stdout
    trials = Store(out / "search").rows()
    assert {row.split_seed for row in trials} == {0, 1}
    assert {row.settings["epochs"] for row in trials} == {1, 2, 4}
    told = result.stdout + (out / next(out.glob("compare-*.md")).name).read_text("utf-8")
    assert "chosen on validation graphs by" in told and "Scores are of test graphs" in told
    assert "validation nodes" not in told and "test nodes" not in told
    again = done(*words)
    assert again.stdout.splitlines()[0] == result.stdout.splitlines()[0]
    assert len(Store(out).rows()) == len(rows), "nothing is repeated"
    shown = content(Evidence.of(out))
    assert shown["sections"][0]["charts"]


def test_test_labels_have_no_say(tmp_path):
    one = folder(tmp_path / "one")
    test = make_split(load(str(one)), seed=0).test.numpy()
    names = np.where(np.arange(GRAPHS) % 2 == 0, "left", "right")
    swapped = names.copy()
    swapped[test] = np.where(names[test] == "left", "right", "left")
    # The same fold of the same graphs, given as a file, since folds are drawn by class.
    split = tmp_path / "fold.npz"
    parts = make_split(load(str(one)), seed=0)
    np.savez(split, train=parts.train.numpy(), val=parts.val.numpy(), test=test)
    other = folder(tmp_path / "other", labels=swapped.tolist())
    found = []
    for path in (one, other):
        out = path.parent / "runs"
        words = ["--splits", "1", "--jobs", "1", "--budget", "2", "--aggr", "softmax"]
        done("compare", "--data", path, "--out", out, "--split", f"file:{split}", *words)
        facts = []
        for store in (out, out / "search"):
            for row in Store(store).rows():
                kept = {n: v for n, v in row.metrics.items() if n.startswith(("train", "val"))}
                place = (row.backbone, row.aggr, row.settings, row.epochs, row.learned, kept)
                facts.append(repr(place))
        found.append(sorted(facts))
    assert found[0] == found[1] and len(found[0]) > 8


def test_a_model_is_trained_and_predicts_new_graphs(tmp_path):
    own, new = folder(tmp_path), folder(tmp_path, seed=1, labels=[""] * GRAPHS)
    model, out = tmp_path / "model.zip", tmp_path / "labels.csv"
    words = ["--backbone", "sage", "--aggr", "lp", "--set", "epochs=40", "--set", "layers=1"]
    result = done("train", "--data", own, "--out", model, *words)
    assert "readout" in result.stdout and "accuracy on test graphs" in result.stdout
    result = done("predict", model, "--data", new, "--out", out)
    assert f"{GRAPHS} graphs in" in result.stdout
    known = done("predict", model, "--data", own, "--out", tmp_path / "known.csv")
    assert "training graphs included: test graphs show" in known.stderr + known.stdout
    rows = read(out)
    assert [row["id"] for row in rows] == [f"g{graph}" for graph in range(GRAPHS)]
    right = [row["label"] == ("left", "right")[graph % 2] for graph, row in enumerate(rows)]
    assert sum(right) > 0.8 * GRAPHS


def tu_of_pairs(path, kinds):
    """Pairs of nodes in the text format of the TU datasets, with these labels of nodes in turn."""
    path.mkdir()
    nodes = range(1, 2 * GRAPHS + 1)
    parts = {
        "A": [f"{node},{node + 1}" for node in nodes[::2]],
        "graph_indicator": [(node + 1) // 2 for node in nodes],
        "graph_labels": [graph % 2 for graph in range(GRAPHS)],
        "node_labels": [kinds[(node // 2) % len(kinds)] for node in nodes],
    }
    for part, lines in parts.items():
        (path / f"DS_{part}.txt").write_text("\n".join(map(str, lines)) + "\n")
    return path


def test_other_graphs_may_lack_a_node_label(tmp_path):
    own, fewer = tu_of_pairs(tmp_path / "own", [0, 1, 2]), tu_of_pairs(tmp_path / "few", [0, 2])
    model, out = tmp_path / "model.zip", tmp_path / "found.csv"
    done("train", "--data", own, "--out", model, "--set", "epochs=2", "--set", "layers=1")
    done("predict", model, "--data", fewer, "--out", out)
    few = load(fewer, **load(own).encoding)
    found = load_model(model).predict_proba(few).max(1)
    assert [row["probability"] for row in read(out)] == [f"{chance:.6g}" for chance in found]
    torch.save(few.to_data_list(), tmp_path / "few.pt")  # arrays hold the columns as they are
    done("predict", model, "--data", tmp_path / "few.pt", "--out", tmp_path / "arrays.csv")
    assert read(tmp_path / "arrays.csv") == read(out)
    words = ["predict", model, "--data", tu_of_pairs(tmp_path / "new", [0, 7]), "--out", out]
    result = CliRunner().invoke(main, [*map(str, words), "--force"])
    assert "DS_node_labels.txt:2: 'label' holds 7, none of 0, 1, 2" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--settings", "published"], "those of labels of nodes"),
        (["--backbone", "cat"], "use 'gat'"),
        (["--aggr", "pna"], "has no readout"),
        (["--split", "inductive"], "use 'folds'"),
        (["--set", "readout=median", "--settings", "default"], "unknown readout 'median'"),
    ],
)
def test_what_does_not_fit_graphs_says_so(tmp_path, words, message):
    path = folder(tmp_path)
    result = CliRunner().invoke(
        main, ["compare", "--data", str(path), "--out", str(tmp_path / "runs"), *words]
    )
    assert result.exit_code != 0 and message in " ".join(result.output.split())


def test_settings_of_graphs_do_not_fit_nodes(tmp_path):
    words = ["--data", "karate", "--settings", "graphs", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, ["compare", *words])
    assert result.exit_code != 0 and "use 'default'" in " ".join(result.output.split())
