"""Settings that are tried: as many for each method, the same draws for all."""

from __future__ import annotations

import json

import pytest

from meanmax.study.settings.search import Search
from meanmax.study.settings.settings import KINDS, SettingsError, packaged, settings_for

COMMON = ("hidden", "lr", "dropout", "weight_decay")
AGGRS = ("none", "lp", "poly", "softmax", "max", "pyg-softmax", "pna")


def distinct(trials):
    return {json.dumps(trial.settings, sort_keys=True) for trial in trials}


@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage"])
def test_every_method_has_the_same_number_of_different_trials(backbone):
    search = Search(backbone, "cora", budget=30)
    for aggr in AGGRS:
        trials = search.trials(aggr)
        assert [trial.number for trial in trials] == list(range(30))
        assert len(distinct(trials)) == 30
        assert trials[0].settings == settings_for("default", backbone, aggr, "cora")


def test_what_concerns_all_is_drawn_once_for_all():
    search = Search("gcn", "cora", budget=12)
    drawn = {
        aggr: [[trial.settings[name] for name in COMMON] for trial in search.trials(aggr)]
        for aggr in AGGRS
    }
    assert all(own == drawn["none"] for own in drawn.values())
    assert len({tuple(values) for values in drawn["none"]}) == 12


def test_draws_are_of_the_space_and_use_it():
    search = Search("gat", "cora", budget=60)
    for aggr in AGGRS:
        space, trials = search.space(aggr), search.trials(aggr)[1:]
        for name, values in space.items():
            assert {trial.settings[name] for trial in trials} == set(values), (aggr, name)
    assert set(search.space("none")) == set(COMMON)
    assert "order" not in search.space("lp")
    assert "order" in Search("gcn", "cora").space("lp")


def test_seeds_repeat_and_larger_budgets_go_on():
    ten, twenty = (Search("gcn", "cora", budget=n).trials("lp") for n in (10, 20))
    assert twenty[:10] == ten
    assert Search("gcn", "cora", budget=10, seed=1).trials("lp")[1:] != ten[1:]


def test_fixed_settings_are_not_searched():
    search = Search("gcn", "cora", budget=9, fixed={"hidden": 32, "start": 1.5, "epochs": 7})
    for trial in search.trials("lp"):
        chosen = [trial.settings[name] for name in ("hidden", "start", "epochs")]
        assert chosen == [32, 1.5, 7]
    assert not {"hidden", "start"} & set(search.space("lp"))


def test_a_budget_beyond_the_space_is_refused():
    assert len(Search("gcn", "cora", budget=96).trials("none")) == 96
    with pytest.raises(SettingsError, match="there are 96 different settings of the baseline"):
        Search("gcn", "cora", budget=97).trials("lp")


def test_every_searched_setting_is_known_and_of_its_type():
    content = packaged("search")
    for table in [content["default"], *content["rule"]]:
        for name, values in table.items():
            if name != "when":
                assert all(type(value) is KINDS[name] for value in values), name
                assert len(set(values)) == len(values) > 1, name
