from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.store.store import Store

QUICK = ["--settings", "default", "--splits", "3", "--jobs", "1", "--set", "epochs=8"]
QUICK += ["--aggr", "none,softmax", "--no-references"]


def run(*words):
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def test_compare_prints_a_table_and_writes_what_it_is_made_of(tmp_path):
    result = run("--data", "karate", "--out", tmp_path, *QUICK)
    assert result.exit_code == 0, result.output
    assert "softmax" in result.stdout
    assert "Splits of the same data overlap" in result.stdout
    facts = json.loads((tmp_path / "compare-karate-gcn-default__epochs=8.json").read_text())
    assert [line["aggr"] for line in facts["lines"]] == ["none", "softmax"]
    assert [line["n"] for line in facts["lines"]] == [3, 3]
    text = (tmp_path / "compare-karate-gcn-default__epochs=8.jsonl").read_text()
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


def test_a_backbone_without_aggregators_has_nothing_to_compare(tmp_path):
    result = run("--data", "karate", "--out", tmp_path, *QUICK, "--backbone", "mlp")
    assert result.exit_code == 1
    text = " ".join(result.stderr.split())
    assert "mlp+softmax: backbone 'mlp' ignores the edges and takes no aggregator" in text


def test_json_is_for_scripts(tmp_path):
    result = run("--data", "karate", "--out", tmp_path, *QUICK, "--json")
    facts = json.loads(result.stdout)
    assert facts["data"] == "karate"
    assert facts["lines"][1]["paired"]["n"] == 3


def test_the_baseline_and_pyg_baselines_are_compared_too(tmp_path):
    words = ["--settings", "default", "--splits", "2", "--jobs", "1", "--set", "epochs=4"]
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
        (["--data", "karate", "--set", "hidden=none"], "'hidden' needs a value"),
        (["--data", "karate", "--backbone", "gatt"], "did you mean 'gat'"),
        (["--data", "karate", "--set", "lr=-1"], "'lr' must be a number and not negative"),
        (["--data", "karate", "--split", "citation"], "too few"),
        (["--data", "karate", "--backbone", "cat", "--aggr", "pyg-softmax"], "no layer"),
    ],
)
@pytest.mark.parametrize("settings", ["auto", "default"])
def test_bad_input_is_refused_before_anything_runs(tmp_path, words, message, settings):
    result = run(*words, "--out", tmp_path / "runs", "--settings", settings)
    assert result.exit_code != 0
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def own_graph(folder, name, split=None):
    r"""A folder of two files, with a column of parts if a split is given."""
    path = folder / name
    path.mkdir(parents=True)
    lines = ["id,label,f" + (",split" if split else "")]
    for i in range(30):
        part = f",{split[i]}" if split else ""
        lines.append(f"n{i},{'ab'[i % 2]},{i % 2 + i / 90}{part}")
    (path / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = [f"n{i},n{(i + 2) % 30}\n" for i in range(30)]
    (path / "edges.csv").write_text("source,target\n" + "".join(edges))
    return path


def test_a_copy_of_a_graph_needs_no_new_runs(tmp_path):
    first = run("--data", own_graph(tmp_path, "one"), "--out", tmp_path / "runs", *QUICK, "--json")
    second = run("--data", own_graph(tmp_path, "two"), "--out", tmp_path / "runs", *QUICK, "--json")
    assert second.exit_code == 0, second.output
    assert len(Store(tmp_path / "runs").rows()) == 6
    lines = [json.loads(result.stdout)["lines"] for result in (first, second)]
    assert lines[0] == lines[1]


def test_a_folder_with_the_name_of_a_benchmark_is_not_that_benchmark(tmp_path):
    result = run("--data", own_graph(tmp_path, "photo"), "--out", tmp_path / "runs", *QUICK)
    assert result.exit_code == 0, result.output
    rows = Store(tmp_path / "runs").rows()
    assert {row.data for row in rows} == {"photo (own)"}
    assert all(row.settings["scale"] and row.settings["weight_decay"] == 5e-4 for row in rows)


def test_a_name_is_a_name_also_beside_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = ["--settings", "default", "--jobs", "1", "--set", "epochs=2", "--aggr", "none"]
    for splits in ("1", "2"):  # the second time the first one's folder is there
        result = run("--data", "karate", "--out", "karate", "--splits", splits, *quick)
        assert result.exit_code == 0, result.output
    assert {row.data for row in Store(tmp_path / "karate").rows()} == {"karate"}


def test_embeddings_are_pictured_on_request(tmp_path):
    words = ["--splits", "1", "--jobs", "1", "--set", "epochs=2", "--aggr", "none", "--tsne"]
    words += ["--settings", "default"]
    result = run("--data", "karate", "--out", tmp_path, *words)
    assert result.exit_code == 0, result.output
    assert 'class="scatter"' in (tmp_path / "report.html").read_text("utf-8")


def test_seeds_on_one_split_are_not_called_splits(tmp_path):
    split = ["train"] * 10 + ["val"] * 10 + ["test"] * 10
    result = run("--data", own_graph(tmp_path, "g", split), "--out", tmp_path / "runs", *QUICK)
    assert "differ only in their seeds" in result.stdout
    assert "3 paired splits" not in result.stdout


def test_a_split_without_validation_nodes_is_refused(tmp_path):
    split = ["train"] * 20 + ["test"] * 10
    result = run("--data", own_graph(tmp_path, "g", split), "--out", tmp_path / "runs", *QUICK)
    assert result.exit_code == 1
    assert "no validation nodes" in result.stderr


def test_settings_without_effect_are_named_and_others_have_files_of_their_own(tmp_path):
    result = run("--data", "karate", "--out", tmp_path, *QUICK, "--set", "heads=4")
    assert "No effect on these methods: heads." in result.stdout
    run("--data", "karate", "--out", tmp_path, *QUICK, "--set", "lr=0.02")
    assert len(list(tmp_path.glob("compare-*.json"))) == 2


def test_maxness_of_the_maximum_is_one(tmp_path):
    words = ["--splits", "2", "--jobs", "1", "--set", "epochs=3", "--aggr", "none,max", "--json"]
    words += ["--settings", "default"]
    lines = json.loads(run("--data", "karate", "--out", tmp_path, *words).stdout)["lines"]
    assert [line["maxness"] for line in lines] == [0.0, 1.0]


def test_one_class_is_refused(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label,f\n" + "".join(f"n{i},a,{i}\n" for i in range(9)))
    edges = "".join(f"n{i},n{i + 1}\n" for i in range(8))
    (folder / "edges.csv").write_text("source,target\n" + edges)
    result = run("--data", folder, "--out", tmp_path / "runs")
    assert result.exit_code != 0
    assert "one class" in result.stderr


@pytest.mark.parametrize("command", ["compare", "train", "tune"])
def test_a_graph_without_labels_is_refused(tmp_path, command):
    folder = own_graph(tmp_path, "g")
    nodes = folder / "nodes.csv"
    nodes.write_text(nodes.read_text().replace(",a,", ",,").replace(",b,", ",,"))
    words = [command, "--data", str(folder)]
    words += ["--out", str(tmp_path / "m.zip")] if command == "train" else []
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "no node of 'g' has a label: label some to learn from" in result.stderr


def test_a_table_that_cannot_be_written_says_what_to_do(tmp_path):
    assert run("--data", "karate", "--out", tmp_path, *QUICK).exit_code == 0
    table = tmp_path / "compare-karate-gcn-default__epochs=8.md"
    table.unlink()
    table.mkdir()
    result = run("--data", "karate", "--out", tmp_path, *QUICK)
    assert result.exit_code == 1
    assert "choose a folder that you may write to" in result.stderr
    assert "finished runs are kept" in result.stderr


def test_runs_that_diverge_are_told_and_all_of_them_is_an_error(tmp_path):
    words = ["--splits", "2", "--jobs", "1", "--set", "lr=1e30", "--set", "epochs=30"]
    words += ["--settings", "default", "--no-references"]
    result = run("--data", "karate", "--out", tmp_path, *words, "--aggr", "none,lp")
    assert result.exit_code == 1
    assert "lower the learning rate" in result.stderr
    assert {row.status for row in Store(tmp_path).rows()} == {"diverged"}
