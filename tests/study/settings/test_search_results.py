"""Settings are chosen by validation nodes alone."""

from __future__ import annotations

import math

import pytest

from meanmax.study.settings.search import Search, Trial, best, rules_text, settled, tried
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
    return tried(Trial(number, "lp", {}), listed)


def test_nothing_but_validation_is_read():
    one = result(3, [80.0, 84.0], loss=0.5)
    assert (one.n, one.failed, one.score, one.loss) == (2, 0, 82.0, 0.5)
    assert one.std == pytest.approx(math.sqrt(8))
    assert best([result(0, [81.0, 82.0]), one]) is one


def test_ties_go_to_the_lower_loss_then_to_the_earlier_trial():
    high, low, later = result(0, [80.0], 0.9), result(1, [80.0], 0.4), result(2, [80.0], 0.4)
    assert best([later, high, low]) is low


def test_trials_with_failures_are_not_chosen():
    good = result(0, [50.0, 50.0])
    assert best([good, result(1, [99.0], failed=1)]) is good
    assert best([result(0, [], failed=2), result(1, [99.0], failed=1)]) is None
    assert result(0, [], failed=2).as_dict()["score"] is None


def test_what_was_chosen_is_a_settings_file(tmp_path):
    name = 'my "graph"\\'
    search = Search("gcn", name, budget=8, fixed={"epochs": 7, "learn": False})
    trials = {aggr: search.trials(aggr)[number] for aggr, number in (("none", 2), ("poly", 5))}
    chosen = {aggr: tried(trial, []) for aggr, trial in trials.items()}
    path = tmp_path / "mine.toml"
    path.write_text(rules_text(search, chosen, splits=3))
    assert len(read_rules(str(path))["rule"]) == len(read_rules("default")["rule"]) + 3
    for aggr, trial in trials.items():
        assert settings_for(str(path), "gcn", aggr, name) == trial.settings
    assert settings_for(str(path), "gcn", "lp", name) == settings_for("default", "gcn", "lp", name)
    assert "8 settings of each method" in path.read_text() and "on 3 splits" in path.read_text()
    shown = settled(search, trials["none"])
    assert list(shown) == ["hidden", "lr", "dropout", "weight_decay", "epochs"]
