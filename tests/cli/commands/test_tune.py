from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.store.store import Store

QUICK = ["--data", "karate", "--aggr", "softmax", "--budget", "3", "--splits", "2"]
QUICK += ["--jobs", "1", "--set", "epochs=4", "--set", "per=layer", "--set", "nonlinear=first"]


def run(*words):
    return CliRunner().invoke(main, ["tune", *map(str, words)])


def test_settings_are_searched_once_and_written_for_other_commands(tmp_path):
    store, file = tmp_path / "tuning", tmp_path / "mine.toml"
    result = run(*QUICK, "--store", store, "--out", file)
    assert result.exit_code == 0, result.output
    assert file.read_text() in result.stdout
    assert "val " in result.stderr and "test" not in result.stderr
    rows = Store(store).rows()
    assert sorted(row.aggr for row in rows) == ["none"] * 6 + ["softmax"] * 6

    facts = json.loads(run(*QUICK, "--store", store, "--json").stdout)
    assert [row.finished for row in Store(store).rows()] == [row.finished for row in rows]
    for aggr in ("none", "softmax"):
        trials = facts["trials"][aggr]
        assert [trial["n"] for trial in trials] == [2, 2, 2]
        means = {
            trial["number"]: sum(
                row.metrics["val_score"] for row in rows if row.settings == trial["settings"]
            )
            / 2
            for trial in trials
        }
        assert {trial["number"]: trial["score"] for trial in trials} == means
        assert means[facts["chosen"][aggr]["number"]] == max(means.values())

    words = ["--data", "karate", "--aggr", "softmax", "--splits", "2", "--jobs", "1", "--json"]
    words += ["--settings", file, "--out", tmp_path / "runs"]
    compared = CliRunner().invoke(main, ["compare", *map(str, words)])
    assert compared.exit_code == 0, compared.output
    for row in Store(tmp_path / "runs").rows():
        assert row.settings == facts["chosen"][row.aggr]["settings"]
        assert row.settings_name == "mine.toml"


def test_test_scores_have_no_say(tmp_path):
    before = run(*QUICK, "--store", tmp_path).stdout
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection, connection:
        listed = connection.execute("SELECT id, metrics FROM runs").fetchall()
        for number, text in listed:
            metrics = json.loads(text)
            del metrics["all_score"]
            metrics["test_score"] = 100.0 * (number % 2)
            connection.execute(
                "UPDATE runs SET metrics = ? WHERE id = ?", (json.dumps(metrics), number)
            )
    assert run(*QUICK, "--store", tmp_path).stdout == before


def test_bad_input_is_refused_before_anything_runs(tmp_path):
    for words, message in (
        (["--budget", "1000"], "there are 96 different settings of the baseline"),
        (["--set", "lr=fast"], "'lr' must be a number"),
        (["--data", "karatee"], "did you mean 'karate'"),
        (["--out", tmp_path / "mine.txt"], "must end with .toml"),
        (["--set", "norm=no"], "norm"),
    ):
        result = run("--data", "karate", "--store", tmp_path / "runs", *words)
        assert result.exit_code != 0 and message in result.stderr, message
    assert not (tmp_path / "runs").exists()


def test_a_method_that_never_ends_well_is_an_error(tmp_path):
    words = ["--data", "karate", "--aggr", "none", "--budget", "2", "--splits", "1", "--jobs", "1"]
    result = run(*words, "--store", tmp_path, "--set", "lr=1e30", "--set", "epochs=30")
    assert result.exit_code == 1
    assert "no trial of none succeeded on all splits" in result.stderr
