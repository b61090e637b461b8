from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.store.exports import export_rows
from meanmax.study.store.store import Store

WORDS = ["table2", "--data", "karate", "--splits", "2", "--jobs", "1", "--set", "epochs=5"]


def run(*words):
    return CliRunner().invoke(main, ["reproduce", *map(str, words)])


def cora_rows(aggr, scores):
    settings = settings_for("published", "gcn", aggr, "cora")
    return [
        Row(
            key=f"{aggr}{seed}",
            status="ok",
            data="cora",
            data_hash="d",
            split="citation",
            split_seed=seed,
            split_hash=f"s{seed}",
            seed=seed,
            backbone="gcn",
            aggr=aggr,
            settings_name="published",
            settings=settings,
            metrics={"test_score": score, "all_score": score},
        )
        for seed, score in enumerate(scores)
    ]


def test_cells_are_printed_beside_the_papers_from_a_file_of_rows(tmp_path):
    file = tmp_path / "rows.jsonl"
    export_rows(cora_rows("none", [80.0, 82.0]) + cora_rows("lp", [82.0, 84.0]), file)
    words = ["table2", "--no-run", "--store", file, "--data", "cora", "--backbone", "gcn"]
    text = run(*words).stdout
    assert "≈ 81.00 ± 1.41 (2)" in text
    assert "≥ 83.00 ± 1.41 (2)" in text
    assert "82.57 ± 1.88" in text
    assert "missing" in text
    assert "meanmax reproduce table2 --data cora --backbone gcn --splits 10" in text
    facts = json.loads(run(*words, "--json").stdout)["table2"]
    cell = next(cell for cell in facts["cells"] if cell["aggr"] == "lp")
    assert (cell["mean"], cell["n"], cell["mark"]) == (83.0, 2, "at or above")
    assert facts["claims"][0]["paired"]["difference"] == 2.0


def test_runs_are_made_once_and_serve_both_tables(tmp_path):
    words = [*WORDS, "--backbone", "gcn", "--aggr", "none,lp", "--store", tmp_path, "--json"]
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert [cell["n"] for cell in json.loads(first.stdout)["table2"]["cells"]] == [2, 2]
    words[0] = "table3"
    second = run(*words)
    assert "[" not in second.stderr, "runs were made again"
    cell = json.loads(second.stdout)["table3"]["cells"][0]
    assert cell["n"] == 2
    assert set(cell["extra"]) == {"kmeans_accuracy", "kmeans_nmi", "kmeans_ari"}


def test_runs_without_artefacts_are_made_again_only_where_asked(tmp_path):
    words = [*WORDS, "--backbone", "gcn", "--aggr", "none", "--json", "--store"]
    assert run(*words, tmp_path / "made").exit_code == 0
    bare = Store(tmp_path / "bare")
    bare.merge(Store(tmp_path / "made").rows())
    keys = [row.key for row in bare.rows()]
    assert "[" not in run(*words, tmp_path / "bare").stderr
    assert [bare.artefact(key) for key in keys] == [None, None]
    again = run(*words, tmp_path / "bare", "--artefacts")
    assert again.exit_code == 0, again.output
    assert all("embedding" in bare.artefact(key) for key in keys)
    assert [row.attempt for row in bare.rows()] == [1, 1]
    assert "[" not in run(*words, tmp_path / "bare", "--artefacts").stderr


def test_runs_on_a_split_file_are_found_again(tmp_path):
    file = tmp_path / "splits.npz"
    parts = {"train": range(0, 10), "val": range(10, 20), "test": range(20, 34)}
    np.savez(file, **{name: np.array([nodes, nodes]) for name, nodes in parts.items()})
    words = [*WORDS, "--backbone", "gcn", "--aggr", "none", "--store", tmp_path / "s", "--json"]
    result = run(*words, "--split", f"file:{file}")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)["table2"]
    assert (facts["cells"][0]["n"], facts["missing"]) == (2, [])


def test_fewer_splits_are_fewer_rows_and_other_splits_are_not_the_papers(tmp_path):
    file = tmp_path / "rows.jsonl"
    other = [
        replace(row, split="random", key=f"r{i}")
        for i, row in enumerate(cora_rows("none", [1.0] * 5))
    ]
    export_rows(cora_rows("none", [80.0, 82.0]) + other, file)
    words = ["table2", "--no-run", "--store", file, "--data", "cora", "--backbone", "gcn", "--json"]
    cell = json.loads(run(*words).stdout)["table2"]["cells"][0]
    assert (cell["mean"], cell["n"]) == (81.0, 2)
    cell = json.loads(run(*words, "--splits", "1").stdout)["table2"]["cells"][0]
    assert (cell["mean"], cell["n"]) == (80.0, 1)


def test_commands_for_missing_cells_say_what_to_make(tmp_path):
    file = tmp_path / "rows.jsonl"
    failed = replace(cora_rows("lp", [0.0])[0], status="failed", error="x", metrics={})
    export_rows([*cora_rows("none", [80.0]), failed], file)
    words = ["--no-run", "--data", "cora", "--backbone", "gcn", "--aggr", "none,lp"]
    words += ["--splits", "1", "--store", file, "--json"]
    facts = json.loads(run("table2", *words).stdout)["table2"]
    expected = "meanmax reproduce table2 --data cora --backbone gcn --splits 1 --aggr none,lp"
    assert facts["missing"] == [f"{expected} --retry-failed"]


def test_lines_of_the_ablation_that_are_missing_name_their_command(tmp_path):
    file = tmp_path / "rows.jsonl"
    export_rows(cora_rows("none", [80.0]), file)
    text = run("ablation", "--no-run", "--data", "cora", "--splits", "3", "--store", file).stdout
    assert "Lines with fewer than 3 runs are filled by:" in text
    assert "meanmax reproduce ablation --data cora --splits 3" in text


def test_json_has_no_numbers_that_json_has_not(tmp_path):
    file = tmp_path / "rows.jsonl"
    export_rows(cora_rows("none", [80.0]), file)
    text = run("table3", "--no-run", "--store", file, "--json").stdout
    assert "NaN" not in text
    assert json.loads(text)["table3"]["cells"][1]["mean"] is None


def test_no_run_runs_nothing(tmp_path):
    words = [word for word in WORDS if word not in ("--jobs", "1")]
    result = run(*words, "--no-run", "--store", tmp_path / "none")
    assert result.exit_code == 1, result.output
    assert "there is no file or folder" in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table5"], "table5"),
        (["table2", "--data", "photos"], "did you mean 'photo'"),
        (["table2", "--backbone", "gnn"], "did you mean"),
        (["table4", "--data", "cora"], "has no column for cora"),
        (["ablation", "--backbone", "gat"], "--backbone has no effect"),
        (["table1", "--set", "lr=1"], "--set has no effect"),
    ],
)
def test_unknown_names_are_refused(tmp_path, words, message):
    result = run(*words, "--store", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    "words",
    [("table2", "--no-run", "--jobs", 2), ("study", "--retry-failed"), ("table1", "--threads", 2)],
)
def test_options_of_runs_where_nothing_is_run(words):
    result = run(*words)
    assert (
        result.exit_code == 2
        and f"{words[-2 if words[-1] == 2 else -1]} has no effect" in result.stderr
    )
