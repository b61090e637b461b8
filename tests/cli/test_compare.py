from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.experiments.store import Store

QUICK = ["--splits", "3", "--jobs", "1", "--set", "epochs=8", "--aggr", "none,softmax"]


def run(*words):
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def test_compare_prints_a_table_and_writes_what_it_is_made_of(tmp_path):
    result = run("--data", "karate", "--out", tmp_path, *QUICK)
    assert result.exit_code == 0, result.output
    assert "softmax" in result.stdout
    assert "Random splits of one graph overlap" in result.stdout
    facts = json.loads((tmp_path / "compare-karate-gcn-tuned.json").read_text())
    assert [line["aggr"] for line in facts["lines"]] == ["none", "softmax"]
    assert [line["n"] for line in facts["lines"]] == [3, 3]
    text = (tmp_path / "compare-karate-gcn-tuned.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    softmax = [row for row in rows if row["aggr"] == "softmax"]
    none = [row for row in rows if row["aggr"] == "none"]
    assert [row["split_hash"] for row in none] == [row["split_hash"] for row in softmax]
    mean = sum(row["metrics"]["test_score"] for row in softmax) / 3
    assert facts["lines"][1]["mean"] == pytest.approx(mean)
    assert f"{mean:.2f}" in result.stdout


def test_the_second_time_nothing_is_run(tmp_path):
    first = run("--data", "karate", "--out", tmp_path, *QUICK)
    before = [row.finished for row in Store(tmp_path).rows()]
    database = (tmp_path / "runs.sqlite").read_bytes()
    second = run("--data", "karate", "--out", tmp_path, *QUICK)
    assert [row.finished for row in Store(tmp_path).rows()] == before
    assert (tmp_path / "runs.sqlite").read_bytes() == database
    assert second.stdout == first.stdout
    more = run("--data", "karate", "--out", tmp_path, *QUICK, "--splits", "4")
    assert more.exit_code == 0
    assert [row.finished for row in Store(tmp_path).rows()][:6] == before


def test_json_is_for_scripts(tmp_path):
    result = run("--data", "karate", "--out", tmp_path, *QUICK, "--json")
    facts = json.loads(result.stdout)
    assert facts["data"] == "karate"
    assert facts["lines"][1]["paired"]["n"] == 3


def test_the_baseline_and_peers_are_compared_too(tmp_path):
    words = ["--splits", "2", "--jobs", "1", "--set", "epochs=4"]
    aggrs = "max,pyg-softmax,pyg-powermean,pna"
    result = run("--data", "karate", "--out", tmp_path, *words, "--aggr", aggrs, "--json")
    lines = json.loads(result.stdout)["lines"]
    assert [line["aggr"] for line in lines] == ["none", *aggrs.split(",")]
    assert all((line["n"], line["failed"]) == (2, 0) for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "coraa"], "did you mean 'cora'"),
        (["--data", "karate", "--aggr", "sofmax"], "did you mean 'softmax'"),
        (["--data", "karate", "--set", "epoch=3"], "did you mean 'epochs'"),
        (["--data", "karate", "--set", "per=node"], "'per' must be one of"),
        (["--data", "karate", "--set", "lr=-1"], "'lr' must be a number and not negative"),
        (["--data", "karate", "--split", "citation"], "too few"),
        (["--data", "karate", "--backbone", "cat", "--aggr", "pyg-softmax"], "no layer"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(tmp_path, words, message):
    result = run(*words, "--out", tmp_path / "runs")
    assert result.exit_code != 0
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_one_class_is_refused(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label,f\n" + "".join(f"n{i},a,{i}\n" for i in range(9)))
    edges = "".join(f"n{i},n{i + 1}\n" for i in range(8))
    (folder / "edges.csv").write_text("source,target\n" + edges)
    result = run("--data", folder, "--out", tmp_path / "runs")
    assert result.exit_code != 0
    assert "one class" in result.stderr


def test_runs_that_diverge_are_told_and_all_of_them_is_an_error(tmp_path):
    words = ["--splits", "2", "--jobs", "1", "--set", "lr=1e30", "--set", "epochs=30"]
    result = run("--data", "karate", "--out", tmp_path, *words, "--aggr", "none,lp")
    assert result.exit_code == 1
    assert "lower the learning rate" in result.stderr
    assert {row.status for row in Store(tmp_path).rows()} == {"diverged"}
