"""Settings that are tried: as many for each method, the same draws for all."""

from __future__ import annotations

import json

import pytest

from meanmax.names import METRICS
from meanmax.study.settings.search import LIMITS, Search, read_space, survivors
from meanmax.study.settings.settings import KINDS, SettingsError, packaged, settings_for
from meanmax.train.settings import SCALES

COMMON = ("scale", "hidden", "layers", "lr", "dropout", "weight_decay", "skip", "norm", "patience")
AGGRS = ("none", "lp", "poly", "softmax", "max", "pyg-softmax", "pna")
ALWAYS = {"metric": "accuracy", "select": "score", "epochs": 1000}


def search(backbone="gcn", data="cora", metric="accuracy", **given):
    return Search(backbone, data, metric, **given)


def distinct(trials):
    return {json.dumps(trial.settings, sort_keys=True) for trial in trials}


@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage"])
def test_every_method_has_the_same_number_of_different_trials(backbone):
    for aggr in AGGRS:
        trials = search(backbone, budget=30).trials(aggr)
        assert [trial.number for trial in trials] == list(range(30))
        assert len(distinct(trials)) == 30
        assert {trial.aggr for trial in trials} == {aggr}
        assert trials[0].settings == settings_for("default", backbone, aggr, "cora", ALWAYS)


def test_what_concerns_all_is_drawn_once_for_all():
    drawn = {
        aggr: [[t.settings.get(name) for name in COMMON] for t in search(budget=12).trials(aggr)]
        for aggr in ("none", "lp", "poly", "softmax", "max")
    }
    assert all(own == drawn["none"] for own in drawn.values())
    assert len({tuple(values) for values in drawn["none"]}) == 12
    # PyG's layers have neither norm nor skip: they share the others.
    names = [name for name in COMMON if name not in ("norm", "skip")]
    for aggr in ("pna", "pyg-softmax"):
        own = [[t.settings[name] for name in names] for t in search(budget=12).trials(aggr)]
        none = [[t.settings[name] for name in names] for t in search(budget=12).trials("none")]
        assert own == none


def test_the_anchors_come_first():
    anchors = packaged("search")["anchor"]
    for aggr in ("none", "softmax"):
        one = search(data="my graph", budget=12)
        trials = one.trials(aggr)
        for trial, anchor in zip(trials[1 : 1 + len(anchors)], anchors, strict=True):
            own = one.settings(aggr, anchor)
            assert {name: own.get(name) for name in COMMON} == {
                name: trial.settings.get(name) for name in COMMON
            }
    # What the file has already is not tried twice: the features of Cora come unscaled.
    assert anchors[0] == {"scale": False}
    five = search(data="cora", budget=6).trials("none")[1]
    assert five.settings["layers"] == anchors[1]["layers"] == 5


def test_draws_are_of_the_space_and_use_it():
    gat = search("gat", budget=150)
    for aggr in AGGRS:
        space, trials = gat.space(aggr), gat.trials(aggr)[1:]
        for name, values in space.items():
            found = {trial.settings.get(name, "none") for trial in trials}
            assert found >= set(values), (aggr, name)
    assert set(gat.space("none")) == set(COMMON)
    assert gat.space("lp")["per"] == ["layer", "head", "channel"]
    assert search().space("lp")["per"] == ["layer", "channel"]
    assert not {"norm", "skip"} & set(gat.space("pna"))


def test_weights_of_classes_are_searched_for_metrics_of_rare_classes():
    for metric in METRICS:
        rare = ("balanced_accuracy", "macro_f1", "roc_auc", "average_precision")
        assert ("class_weight" in search(metric=metric).space("none")) == (metric in rare)
    trials = search(metric="roc_auc", budget=20).trials("none")
    assert {t.settings.get("class_weight") for t in trials} == {None, "balanced"}
    assert {(t.settings["metric"], t.settings["select"]) for t in trials} == {("roc_auc", "score")}


def test_seeds_repeat_and_larger_budgets_contain_smaller_ones():
    ten, twenty = (search(budget=n).trials("lp") for n in (10, 20))
    assert twenty[:10] == ten
    anchors = len(packaged("search")["anchor"])
    other = search(budget=10, seed=1).trials("lp")
    assert all(a != b for a, b in zip(other[anchors:], ten[anchors:], strict=True))
    assert other[0] == ten[0]


def test_fixed_settings_are_not_searched():
    fixed = {"hidden": 32, "start": 1.5, "epochs": 7, "scale": "rows"}
    one = search(budget=9, fixed=fixed)
    for trial in one.trials("lp"):
        assert fixed.items() <= trial.settings.items()
    assert not fixed.keys() & one.space("lp").keys()


def test_values_that_fixed_settings_exclude_are_not_searched():
    def values(name, **fixed):
        one = Search("sage", "own", "accuracy", 12, fixed=fixed, level="graph")
        return {trial.settings.get(name) for trial in one.trials("softmax")}, one.space("softmax")

    assert values("readout")[0] == {"mean", "sum"} == set(values("readout")[1]["readout"])
    assert values("readout", beta=0.5)[0] == {"mean"}  # a sum is beta=1
    found, space = values("nonlinear", readout="mean,max")
    assert "readout" not in found and set(space["nonlinear"]) == {"all", "hidden"}
    assert "readout" in values("nonlinear", readout="sum")[1]["nonlinear"]


SMALL = """
[default]
lr = [0.01, 0.1]
hidden = [64, 8]

[[rule]]
when = { aggr = ["lp"], metric = ["accuracy"] }
start = [1.5, 2.0]
"""


def space_file(tmp_path, text, name="space.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_space_of_ones_own(tmp_path):
    path = space_file(tmp_path, SMALL)
    assert search(space_name=path).space("none") == {"lr": [0.01, 0.1], "hidden": [64, 8]}
    own = {"lr": [0.01, 0.1], "hidden": [64, 8], "start": [1.5, 2.0]}
    assert search(space_name=path).space("lp") == own
    assert "start" not in search(metric="macro_f1", space_name=path).space("lp")
    assert len(distinct(search(space_name=path, budget=4).trials("none"))) == 4


def test_a_budget_beyond_the_space_is_refused(tmp_path):
    path = space_file(tmp_path, SMALL)
    with pytest.raises(SettingsError, match="the space has 4 different settings of the baseline"):
        search(space_name=path, budget=5).trials("lp")


def test_none_is_no_value_but_of_an_activation(tmp_path):
    path = space_file(tmp_path, '[default]\nactivation = ["elu", "none"]\nskip = ["none"]\n')
    found = search(space_name=path).settings("none", {"activation": "none", "skip": "none"})
    assert found["activation"] == "none" and "skip" not in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[default]\nlearning_rate = [1]\n", "there is no setting 'learning_rate'"),
        ("[default]\nlr = 0.1\n", r"must list the values of 'lr'.*\(got 0.1\)"),
        ("[default]\nlr = []\n", r"must list the values of 'lr'.*\(got \[\]\)"),
        ("lr = [0.1]\n", r"must have a table \[default\].*\(got lr\)"),
        ("", r"must have a table \[default\].*\(got nothing\)"),
        ("default = 3\n", r"must have a table \[default\]"),
        ("[default]\n[rule]\nlr = [1]\n", r"may have \[\[anchor\]\] and \[\[rule\]\]"),
        ("[default]\n[[rule]]\nlr = [0.1]\n", r"with when = \{"),
        ("[default]\n[[rule]]\nwhen = { size = [1] }\n", r"with when = \{"),
        ("[default]\n[[rule]]\nwhen = { aggr = 'lp' }\n", r"with when = \{"),
        ("[default]\n[[rule]]\nwhen = { aggr = ['lp'] }\nstar = [1]\n", "did you mean 'start'"),
        ("[default]\n[[anchor]]\nlayer = 3\n", "did you mean 'layers'"),
        ("[default]\nanchor = 3\n", "there is no setting 'anchor'"),
        ("[default", "cannot be read"),
    ],
)
def test_a_space_that_is_not_one_says_why(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message):
        read_space(space_file(tmp_path, text))


def test_a_space_that_is_missing_or_has_wrong_values(tmp_path):
    with pytest.raises(SettingsError, match=r"no\.toml' cannot be read"):
        read_space(str(tmp_path / "no.toml"))
    path = space_file(tmp_path, '[default]\nlr = ["fast"]\n')
    with pytest.raises(SettingsError, match="'lr' must be of type float"):
        search(space_name=path).space("none")


def test_every_searched_setting_is_known_and_of_its_type():
    content = packaged("search")
    for table in [content["default"], *content["rule"]]:
        for name, values in table.items():
            if name == "when":
                continue
            assert len(set(values)) == len(values) > 1, name
            for value in values:
                known = value == "none" or (name == "scale" and value in SCALES)
                assert known or type(value) is KINDS[name], name
    for anchor in content["anchor"]:
        for name, value in anchor.items():
            assert value in content["default"][name], name


def test_fewer_trials_reach_later_rounds():
    assert [survivors(12, rung) for rung in range(3)] == [12, 4, 2]
    assert [survivors(1, rung) for rung in range(3)] == [1, 1, 1]
    assert [survivors(9, rung) for rung in range(3)] == [9, 3, 1]
    assert [survivors(27, rung) for rung in range(3)] == [27, 9, 3]
    assert all(list(limits) == sorted(limits) for limits in LIMITS.values())


@pytest.mark.parametrize(
    ("fact", "value"), [("aggr", "lpp"), ("backbone", "gnc"), ("metric", "auc")]
)
def test_a_rule_for_what_does_not_exist_is_refused(tmp_path, fact, value):
    rule = f'[[rule]]\nwhen = {{ {fact} = ["{value}"] }}\nlr = [0.1]\n'
    path = space_file(tmp_path, f"{SMALL}\n{rule}")
    with pytest.raises(SettingsError, match=f"space.toml.*rule for {fact} '{value}'"):
        read_space(path)
