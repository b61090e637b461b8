from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.settings.settings import settings_for
from meanmax.study.store.store import Store

QUICK = ["--data", "karate", "--aggr", "softmax", "--budget", "3", "--splits", "2"]
FIXED = {"epochs": 4, "per": "layer", "nonlinear": "first"}
QUICK += ["--jobs", "1"]
for name, value in FIXED.items():
    QUICK += ["--set", f"{name}={value}"]


def run(*words):
    return CliRunner().invoke(main, ["tune", *map(str, words)])


def test_settings_are_searched_once_and_written_for_other_commands(tmp_path):
    store, file = tmp_path / "tuning", tmp_path / "mine.toml"
    result = run(*QUICK, "--store", store, "--out", file)
    assert result.exit_code == 0, result.output
    assert file.read_text() in result.stdout
    assert "test" not in result.stderr
    assert result.stderr.startswith("Search: 3 trials of each of 2 methods on 2 splits, at most ")
    rows = Store(store).rows()
    # All rounds have the same few epochs, so only the first one runs, and the baseline's choice
    # unless it is a trial already. Frozen at the linear end it is the baseline and not run.
    assert sum(row.aggr == "none" for row in rows) == 6
    assert sum(row.aggr == "softmax" for row in rows) in (6, 8)
    assert not any(row.settings.get("learn") is False for row in rows)
    assert all(row.settings["epochs"] == 4 for row in rows)
    assert all(row.metrics.keys() == {"val_score", "val_loss"} for row in rows)

    facts = json.loads(run(*QUICK, "--store", store, "--json").stdout)
    assert [row.finished for row in Store(store).rows()] == [row.finished for row in rows]
    assert (facts["metric"], facts["budget"], facts["data"]) == ("accuracy", 3, "karate")
    base = facts["chosen"]["none"]
    made = [row.settings for row in rows if row.aggr == "softmax"]
    assert settings_for("default", "gcn", "softmax", "karate", FIXED | base["settings"]) in made
    for aggr in ("none", "softmax"):
        for one in facts["candidates"][aggr]:
            frozen = one["settings"].get("learn") is False
            settings = base["settings"] if frozen else one["settings"]
            own = [row.metrics["val_score"] for row in rows if row.settings == settings]
            assert one["n"] == len(own) == 2 and one["score"] == sum(own) / 2
        assert facts["chosen"][aggr] == facts["candidates"][aggr][0]
        means = {
            tuple(sorted(map(str, row.settings.items()))): sum(
                other.metrics["val_score"] / 2 for other in rows if other.settings == row.settings
            )
            for row in rows
            if row.aggr in (aggr, "none")
        }
        assert facts["chosen"][aggr]["score"] == max(means.values())

    words = ["--data", "karate", "--aggr", "softmax", "--splits", "2", "--jobs", "1", "--json"]
    words += ["--settings", file, "--out", tmp_path / "runs"]
    compared = CliRunner().invoke(main, ["compare", *map(str, words)])
    assert compared.exit_code == 0, compared.output
    runs = [row for row in Store(tmp_path / "runs").rows() if row.backbone == "gcn"]
    assert len(runs) == 4
    for row in runs:
        assert row.settings == facts["chosen"][row.aggr]["settings"]
        assert row.settings_name == "mine.toml"


def test_test_scores_have_no_say(tmp_path):
    before = run(*QUICK, "--store", tmp_path).stdout
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection, connection:
        listed = connection.execute("SELECT id, metrics FROM runs").fetchall()
        for number, text in listed:
            metrics = json.loads(text)
            assert not any("test" in name or "all" in name for name in metrics)
            metrics["test_score"] = 100.0 * (number % 2)
            connection.execute(
                "UPDATE runs SET metrics = ? WHERE id = ?", (json.dumps(metrics), number)
            )
    assert run(*QUICK, "--store", tmp_path).stdout == before


def test_another_metric_and_space(tmp_path):
    space = tmp_path / "space.toml"
    space.write_text('[default]\nlr = [0.01, 0.5]\nclass_weight = ["none", "balanced"]\n')
    words = [*QUICK, "--store", tmp_path / "runs", "--space", space, "--metric", "macro_f1"]
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["space"]["none"] == {"lr": [0.01, 0.5], "class_weight": ["none", "balanced"]}
    assert facts["space"]["softmax"] == facts["space"]["none"]
    rows = Store(tmp_path / "runs").rows()
    assert {(row.settings["metric"], row.settings["select"]) for row in rows} == {
        ("macro_f1", "score")
    }
    assert "validation macro-F1" in run(*words).stdout


def test_bad_input_is_refused_before_anything_runs(tmp_path):
    space = tmp_path / "space.toml"
    space.write_text("[default]\nlr = [0.01, 0.1]\n")
    for words, message in (
        (["--budget", "5", "--space", space], "the space has 2 different settings of the baseline"),
        (["--budget", "0"], "Invalid value for '--budget'"),
        (["--set", "lr=fast"], "'lr' must be a number"),
        (["--data", "karatee"], "did you mean 'karate'"),
        (["--out", tmp_path / "mine.txt"], "must end with .toml"),
        (["--set", "norm=no"], "norm"),
        (["--metric", "r2"], "'metric' must be one of 'accuracy'"),
        (["--metric", "macro_f1", "--set", "metric=accuracy"], "contradicts --set metric=accuracy"),
    ):
        result = run("--data", "karate", "--store", tmp_path / "runs", *words)
        assert result.exit_code != 0 and message in " ".join(result.stderr.split()), message
    assert not (tmp_path / "runs").exists()


def test_a_method_that_never_ends_well_is_an_error(tmp_path):
    words = ["--data", "karate", "--aggr", "none", "--budget", "2", "--splits", "1", "--jobs", "1"]
    result = run(*words, "--store", tmp_path, "--set", "lr=1e30", "--set", "epochs=30")
    assert result.exit_code == 1
    assert "no trial of gcn+none succeeded" in result.stderr
    assert {row.status for row in Store(tmp_path).rows()} == {"diverged"}


def test_force_without_a_file():
    result = run(*QUICK, "--force")
    assert result.exit_code == 2 and "--force has no effect without --out" in result.stderr
