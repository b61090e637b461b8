"""Settings are chosen by validation nodes alone."""

from __future__ import annotations

import math

import pytest

from meanmax.study.settings.search import Search, Trial, changes, ranked, settings_file, tried
from meanmax.study.settings.settings import read_rules, settings_for
from tests.study.rows import row


class OnlyValidation(dict):
    """Metrics of which no other may be looked at."""

    def __getitem__(self, name):
        assert name in ("val_score", "val_loss"), f"{name} was read"
        return super().__getitem__(name)

    def _refuse(self, *args):
        raise AssertionError("all metrics were read")

    items = values = keys = get = __iter__ = _refuse


def result(number, scores, loss=1.0, failed=0):
    listed = [
        row("lp", seed, metrics=OnlyValidation(val_score=score, val_loss=loss, test_score=0.0))
        for seed, score in enumerate(scores)
    ]
    listed += [row("lp", 90 + i, status="diverged", error="nan", metrics={}) for i in range(failed)]
    return tried(Trial(number, "lp", {}), listed, 40)


def test_nothing_but_validation_is_read():
    one = result(3, [80.0, 84.0], loss=0.5)
    assert (one.n, one.failed, one.score, one.loss, one.epochs) == (2, 0, 82.0, 0.5, 40)
    assert one.std == pytest.approx(math.sqrt(8))
    other = result(0, [81.0, 82.0])
    assert ranked([other, one], "accuracy") == [one, other]


def test_ties_go_to_the_lower_loss_then_to_the_earlier_trial():
    high, low, later = result(0, [80.0], 0.9), result(1, [80.0], 0.4), result(2, [80.0], 0.4)
    for metric in ("accuracy", "mae"):
        assert ranked([later, high, low], metric) == [low, later, high]


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_lower_errors_are_better(metric):
    small, large = result(1, [0.5]), result(0, [2.0])
    assert ranked([large, small], metric) == [small, large]
    assert ranked([large, small], "r2") == [large, small]


def test_trials_with_failures_are_not_chosen():
    good = result(0, [50.0, 50.0])
    assert ranked([good, result(1, [99.0], failed=1)], "accuracy") == [good]
    assert ranked([result(0, [], failed=2), result(1, [99.0], failed=1)], "accuracy") == []
    assert ranked([result(0, [math.nan]), good], "accuracy") == [good]
    facts = result(0, [], failed=2).as_dict()
    assert facts["score"] is None and (facts["number"], facts["aggr"]) == (0, "lp")


def test_what_was_chosen_is_a_settings_file(tmp_path):
    name = 'my "graph"\\'
    fixed = {"epochs": 7, "learn": False}
    search = Search("gcn", name, "macro_f1", budget=12, fixed=fixed)
    trials = {aggr: search.trials(aggr)[number] for aggr, number in (("none", 2), ("poly", 5))}
    trials["lp"] = search.contained(trials["none"], "lp")[1]
    mlp = Search("mlp", name, "macro_f1", budget=12, fixed=fixed).trials("none")[3]
    chosen = {("gcn", aggr): tried(trial, [], 7) for aggr, trial in trials.items()}
    path = tmp_path / "mine.toml"
    path.write_text(settings_file({**chosen, ("mlp", "none"): tried(mlp, [], 7)}, name, budget=12))
    assert len(read_rules(str(path))["rule"]) == len(read_rules("default")["rule"]) + 5
    for aggr, trial in trials.items():
        assert settings_for(str(path), "gcn", aggr, name) == trial.settings
    assert settings_for(str(path), "mlp", "none", name) == mlp.settings
    other = settings_for(str(path), "gcn", "softmax", name)
    assert other == settings_for("default", "gcn", "softmax", name)
    assert "12 trials of each method" in path.read_text()


def test_a_file_leaves_out_what_the_choice_lacks(tmp_path):
    assert settings_for("default", "gcn", "none", "ppi")["skip"] == "linear"
    search = Search("gcn", "ppi", "micro_f1", budget=3)
    trial = Trial(1, "none", search.settings("none", {"skip": "none", "layers": 2}))
    assert "skip" not in trial.settings
    path = tmp_path / "mine.toml"
    path.write_text(settings_file({("gcn", "none"): tried(trial, [], 9)}, "ppi", budget=3))
    assert settings_for(str(path), "gcn", "none", "ppi") == trial.settings


def test_the_searched_settings_in_words():
    search = Search("gcn", "cora", "accuracy", budget=6, fixed={"lr": 0.01, "patience": 50})
    trial = search.trials("none")[1]  # the first anchor that differs from the file
    listed = "layers=5, hidden=64, dropout=0.2, norm=layer, skip=linear, weight_decay=0.0"
    assert changes(search, trial) == f"{listed}, scale=standard"
    assert "start=1.0, learn=false" in changes(search, search.contained(trial, "lp")[1])
