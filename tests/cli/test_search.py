"""What the commands that search settings share."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from meanmax.cli.progress import clock, search_bar
from meanmax.cli.search import Searched, chosen_grid, metric_of
from meanmax.data import Dataset, Split, load
from meanmax.study.runs.plan import DataRef, Plan
from meanmax.study.settings.search import Search, Trial, Tried
from meanmax.study.settings.settings import SettingsError, parse_overrides
from tests.study.rows import row


def tried(number, score, **settings):
    return Tried(Trial(number, "lp", settings), 1, 0, score, 0.0, 1.0, 9)


def searched(listed, metric="accuracy"):
    found = {(("gcn", "lp"), (seed,)): own for seed, own in enumerate(listed)}
    return Searched(found, {"gcn": Search("gcn", "karate", metric)}, [g for _, g in found])


def test_the_usual_choice_is_that_of_most_splits():
    often = [[tried(1, 70.0, lr=0.1)], [tried(1, 60.0, lr=0.1)], [tried(2, 90.0, lr=0.2)]]
    assert searched(often).usual("gcn", "lp").trial.settings == {"lr": 0.1}
    even = searched([[tried(1, 70.0, lr=0.1)], [tried(2, 90.0, lr=0.2)]])
    assert even.usual("gcn", "lp").trial.number == 2
    lower = searched([[tried(1, 7.0, lr=0.1)], [tried(2, 9.0, lr=0.2)]], "mae")
    assert lower.usual("gcn", "lp").trial.number == 1


def test_candidates_of_the_baseline_with_one_number_have_different_settings():
    listed = [[tried(12, 90.0, lr=x)] for x in (0.1, 0.2)] + [[tried(3, 80.0, lr=0.5)]] * 2
    assert searched(listed).usual("gcn", "lp").trial.number == 3


def test_methods_without_a_successful_trial_are_named_once():
    found = searched([[], [tried(1, 70.0)], []])
    assert found.missing() == {("gcn", "lp"): 2} and found.best("gcn", "lp", (0,)) is None
    assert found.usual("gcn", "lp").trial.number == 1
    assert found.settings("gcn", "lp", (0,)) == found.searches["gcn"].trials("lp")[0].settings


def test_the_chosen_sets_are_shown_whole_and_can_be_used_again():
    search = Search("gcn", "karate", "accuracy")
    one, other = (
        Tried(trial, 1, 0, 80.0, 0.0, 1.0, 9)
        for trial in (search.trials("lp")[3], search.contained(search.trials("none")[1], "lp")[1])
    )
    found = searched([[one], [other], [other]])
    (often, seldom) = chosen_grid(found, 12, "accuracy").rows
    assert often[:2] == ["gcn+lp", "2 of 3"] and seldom[:2] == ["gcn+lp", "1 of 3"]
    for text, chosen in ((often[2], other), (seldom[2], one)):
        given = parse_overrides(text.split(", "))
        assert search.settings("lp", given) == chosen.trial.settings
    assert "learn=false" in often[2] and "shift=consistent" not in often[2]
    several = [[tried(n, 70.0, lr=0.1 * n)] for n in range(1, 6)]
    assert chosen_grid(searched(several), 12, "accuracy").rows[-1][1:] == [
        "2 of 5",
        "another set each",
    ]
    assert chosen_grid(searched([[], []]), 12, "accuracy").rows == [
        ["gcn+lp", "0", "no trial succeeded"]
    ]


def plan(settings_name="default", **overrides):
    given = ["gcn"], ["none", "lp"], range(1), settings_name, "given"
    return Plan(DataRef("mine"), *given, overrides)


def dataset(y, train, val):
    count = len(y)
    edges = torch.stack([torch.arange(count - 1), torch.arange(1, count)])
    test = torch.tensor([i for i in range(count) if i not in train + val])
    split = Split(torch.tensor(train), torch.tensor(val), test, "given")
    y = torch.tensor(y)
    names = () if y.is_floating_point() else tuple("abc"[: int(y.max()) + 1])
    return Dataset("mine", torch.ones(count, 2), y, edges, class_names=names, split=split)


RARE = dataset([0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0], [0, 1, 2, 3], [4, 5, 6, 7])
EVEN = dataset([0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1], [0, 1, 2, 3], [4, 5, 6, 7])
NUMBERS = dataset([0.5, 1, 2, 3, 1, 2, 3, 4, 5, 6], [0, 1, 2], [3, 4, 5])


def test_the_default_metric_follows_from_training_and_validation_labels():
    assert metric_of(RARE, plan(), None) == "roc_auc"
    assert metric_of(EVEN, plan(), None) == "accuracy"
    assert metric_of(NUMBERS, plan(), None) == "r2"
    # With the labels of test nodes, no class would be rare.
    assert torch.bincount(RARE.y).tolist() == [7, 6]


def test_a_rare_class_is_seen_where_splits_take_as_many_nodes_of_each():
    y = [int(i % 20 == 0) for i in range(1200)]
    data = replace(dataset(y, [0, 1], [2, 3]), split=None)
    balanced = replace(plan(), scheme="balanced")
    split = balanced.tasks(data)[0].split
    assert torch.bincount(data.y[split.train]).tolist() == [20, 18]
    for pool in (False, True):
        assert metric_of(data, replace(balanced, pool=pool), None) == "roc_auc"


def test_folds_without_a_rare_class_have_another_default():
    y = [int(i < 3) for i in range(40)]
    data = replace(dataset(y, [0, 1], [2, 3]), split=None)
    folds = replace(plan(), scheme="folds", splits=range(10))
    assert metric_of(data, folds, None) == "balanced_accuracy"
    with pytest.raises(SettingsError, match=r"split \d+: ROC AUC is not defined"):
        metric_of(data, folds, "roc_auc")
    often = replace(data, y=torch.tensor([int(i < 10) for i in range(40)]))
    assert metric_of(often, folds, None) == "roc_auc"


def test_a_given_metric_wins_and_has_to_fit(tmp_path):
    assert metric_of(RARE, plan(), "accuracy") == "accuracy"
    assert metric_of(RARE, plan(metric="macro_f1"), None) == "macro_f1"
    assert metric_of(NUMBERS, plan(metric="mae"), "mae") == "mae"
    file = tmp_path / "mine.toml"
    file.write_text('base = "default"\n[[rule]]\nwhen = {}\nmetric = "mse"\n')
    assert metric_of(NUMBERS, plan(str(file)), None) == "mse"
    assert metric_of(NUMBERS, plan(str(file)), "mae") == "mae"
    other = tmp_path / "other.toml"
    other.write_text('base = "default"\n[[rule]]\nwhen = { aggr = ["lp"] }\nmetric = "mse"\n')
    with pytest.raises(SettingsError, match="different metrics: choose one with --metric"):
        metric_of(NUMBERS, plan(str(other)), None)
    with pytest.raises(SettingsError, match="--metric mae contradicts --set metric=r2"):
        metric_of(NUMBERS, plan(metric="r2"), "mae")
    with pytest.raises(SettingsError, match="'metric' must be one of 'r2', 'mse', 'mae'"):
        metric_of(NUMBERS, plan(), "accuracy")
    one_class = replace(RARE.split, val=torch.tensor([4, 6]))
    with pytest.raises(SettingsError, match="split 0: .*for the validation nodes.*--metric acc"):
        metric_of(replace(RARE, split=one_class), plan(), None)  # which is ROC AUC here
    one_class = replace(RARE.split, test=torch.tensor([8, 9]))
    with pytest.raises(SettingsError, match="not defined for the test nodes"):
        metric_of(replace(RARE, split=one_class), plan(), "roc_auc")


def test_the_bar_tells_how_far_all_rounds_are(capsys):
    karate = load("karate")
    tasks = Plan(DataRef("karate"), ["gcn"], ["none"], range(4), "default").tasks(karate)
    keys = [task.spec.key for task in tasks]
    rows = [replace(row("none", seed), key=key) for seed, key in enumerate(keys)]
    with search_bar(3200) as bar:  # of 400 epochs each
        bar.title("round 1")
        on_row = bar.stage(tasks, {keys[0]})
        on_row(rows[1])
        on_row(replace(rows[2], status="diverged", error="the loss is not finite"))
        bar.end_stage()  # the last one was made elsewhere
        bar.title("round 2")
        on_row = bar.stage(tasks, set())
        for each in rows:
            on_row(each)
        bar.end_stage()
    said = capsys.readouterr().err.splitlines()
    shares = [re.match(r"(round \d): (\d+) %, about \d+:\d\d left", line) for line in said]
    found = [match.groups() for match in shares if match]
    assert [one for one, _ in found] == ["round 1"] * 3 + ["round 2"] * 4
    # What is stored already is counted, and told with the first run that is made.
    assert [int(share) for _, share in found] == [25, 38, 50, 62, 75, 88, 100]
    assert "round 1: gcn+none, split 2: diverged: the loss is not finite" in said
    assert clock(3661) == "1:01:01"
