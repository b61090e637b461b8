"""Successive halving, with made-up scores instead of training."""

from __future__ import annotations

import pytest
import torch

from meanmax.data.dataset import Split
from meanmax.study.runs.plan import DataRef, Task
from meanmax.study.runs.row import Row, RunSpec
from meanmax.study.runs.search import Method, SearchRuns
from meanmax.study.settings.search import Search

SPLIT = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]), "made")
LOSS = 0.5


class Made:
    """Runs of which a function of the task makes the score, or None for one that failed."""

    def __init__(self, score, loss=lambda task: LOSS):
        self.score, self.loss = score, loss
        self.rounds = []

    def __call__(self, what, tasks):
        self.rounds.append((what, list(tasks)))
        return [self.row(task) for task in tasks]

    def row(self, task):
        facts = {**vars(task.spec), "key": task.spec.key, "settings_name": "default"}
        score = self.score(task)
        if score is None:
            return Row(**facts, status="diverged", error="the loss is not finite")
        # The score of test nodes is the reverse: nothing may depend on it.
        metrics = {"val_score": score, "val_loss": self.loss(task), "test_score": -score}
        return Row(**facts, status="ok", metrics=metrics)


def searched(aggrs, groups, metric="accuracy", budget=9, fixed=None):
    search = Search("gcn", "made", metric, budget=budget, fixed=fixed or {})
    seeds = sorted({seed for group in groups for seed in group})
    bare = {
        ("gcn", aggr): {
            seed: Task(
                RunSpec("made", "d0", "random", seed, f"s{seed}", seed, "gcn", aggr, {}),
                DataRef("made"),
                SPLIT,
                "default",
            )
            for seed in seeds
        }
        for aggr in aggrs
    }
    methods = [Method(search, aggr) for aggr in aggrs]
    return search, SearchRuns(methods, groups, bare)


def numbers(search, aggr, tasks):
    """The trials of tasks by their number; -1 for those that are no trial of the method."""
    found = {repr({**t.settings, "epochs": 0}): t.number for t in search.trials(aggr)}
    own = [task for task in tasks if task.spec.aggr == aggr]
    return [found.get(repr({**task.spec.settings, "epochs": 0}), -1) for task in own]


def number_of(search):
    return lambda task: float(numbers(search, task.spec.aggr, [task])[0])


def test_the_best_third_and_then_the_best_ninth_go_on():
    search, runs = searched(["none"], [(0,)])
    made = Made(number_of(search))
    found = runs.run(made)
    first, second, third, contained = made.rounds
    assert numbers(search, "none", first[1]) == list(range(9))
    deep = [trial.number for trial in search.trials("none") if trial.settings["layers"] >= 4]
    assert deep and not set(deep) & {6, 7, 8}, "the best deep one is added"
    assert numbers(search, "none", second[1]) == [8, 7, 6, max(deep)]
    assert numbers(search, "none", third[1]) == [8]
    assert contained[1] == []
    limits = [{task.spec.settings["epochs"] for task in tasks} for _, tasks in made.rounds[:3]]
    assert limits == [{40}, {120}, {1000}]
    assert all(task.brief for _, tasks in made.rounds for task in tasks)
    assert [one.trial.number for one in found[("gcn", "none"), (0,)]] == [8]
    titles = [what for what, _ in made.rounds]
    assert titles == [f"search, round {number} of 4" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("epochs", "limits"), [(7, [7, 7, 7]), (60, [40, 60, 60]), (500, [40, 120, 500])]
)
def test_the_epochs_of_settings_are_those_of_the_last_round(epochs, limits):
    search, runs = searched(["none"], [(0,)], fixed={"epochs": epochs})
    made = Made(number_of(search))
    (best,) = runs.run(made)[("gcn", "none"), (0,)]
    for (_, tasks), limit in zip(made.rounds[:3], limits, strict=True):
        assert {task.spec.settings["epochs"] for task in tasks} == {limit}
    assert best.epochs == limits[-1] and best.trial.settings["epochs"] == epochs
    assert runs.epochs == 9 * limits[0] + 4 * limits[1] + limits[2]


def test_the_most_runs_are_known_before():
    search, runs = searched(["none", "lp"], [(0, 1), (2,)], budget=9)
    number = number_of(search)
    made = Made(number)  # no deep trial is among the best, so that one is added
    runs.run(made)
    assert runs.runs == sum(len(tasks) for _, tasks in made.rounds)


def test_every_group_is_searched_for_itself():
    search, runs = searched(["none"], [(0,), (1,)], budget=3)
    number = number_of(search)
    made = Made(lambda task: number(task) if task.spec.split_seed else -number(task))
    found = runs.run(made)
    best = {group: found[("gcn", "none"), group][0].trial.number for group in runs.groups}
    assert best == {(0,): 0, (1,): 2}
    assert len(made.rounds[0][1]) == 6
    # Trial 2 is deep: the first group adds it to its best one.
    assert len(made.rounds[1][1]) == 3


def test_a_group_of_several_splits_has_one_choice_by_the_mean():
    search, runs = searched(["none"], [(0, 1)], budget=3)
    scores = {(0, 0): 50.0, (0, 1): 50.0, (1, 0): 99.0, (1, 1): 10.0, (2, 0): 60.0, (2, 1): 61.0}
    number = number_of(search)
    made = Made(lambda task: scores[int(number(task)), task.spec.split_seed])
    (best,) = runs.run(made)[("gcn", "none"), (0, 1)]
    assert (best.trial.number, best.score, best.n) == (2, 60.5, 2)


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_low_errors_go_on(metric):
    search, runs = searched(["none"], [(0,)], metric)
    made = Made(number_of(search))
    (best,) = runs.run(made)[("gcn", "none"), (0,)]
    assert numbers(search, "none", made.rounds[1][1]) == [0, 1, 2] and best.trial.number == 0


def test_failed_trials_are_dropped_and_ties_go_to_the_lower_loss_then_number():
    search, runs = searched(["none"], [(0,)])
    number = number_of(search)
    made = Made(
        lambda task: None if number(task) in (0, 1) else 80.0,
        lambda task: 0.1 if number(task) == 7 else LOSS,
    )
    (best,) = runs.run(made)[("gcn", "none"), (0,)]
    assert numbers(search, "none", made.rounds[1][1]) == [7, 2, 3]
    assert best.trial.number == 7


def test_a_trial_that_fails_on_one_split_of_a_group_is_dropped():
    search, runs = searched(["none"], [(0, 1)], budget=3)
    number = number_of(search)
    made = Made(
        lambda task: None if (number(task), task.spec.split_seed) == (2.0, 1) else number(task)
    )
    assert runs.run(made)[("gcn", "none"), (0, 1)][0].trial.number == 1


def test_a_method_whose_trials_all_fail_has_no_candidate():
    _, runs = searched(["none", "lp"], [(0,)], budget=3)
    made = Made(lambda task: None if task.spec.aggr == "none" else 50.0)
    found = runs.run(made)
    assert found[("gcn", "none"), (0,)] == []
    assert [one.trial.number for one in found[("gcn", "lp"), (0,)]] == [0]
    assert made.rounds[-1][1] == []  # nothing of the baseline to take over
    assert all(task.spec.aggr == "lp" for task in made.rounds[1][1])


def test_aggregators_get_the_choice_of_the_baseline_in_the_same_group():
    search, runs = searched(["none", "lp", "max"], [(0,), (1,)], budget=3)
    number = number_of(search)

    def score(task):
        behind = 50.0 if task.spec.aggr == "lp" else 0.0
        return (number(task) if task.spec.split_seed else -number(task)) - behind

    made = Made(score, lambda task: 0.1 if task.spec.aggr == "none" else LOSS)
    found = runs.run(made)
    every = [task for _, tasks in made.rounds for task in tasks]
    assert not any(task.spec.settings.get("learn") is False for task in every), "it is the baseline"
    last = made.rounds[-1][1]
    assert [(task.spec.aggr, task.spec.split_seed) for task in last] == [("lp", 0), ("lp", 1)]
    assert [task.spec.settings["epochs"] for task in last] == [1000] * 2
    shared = search.space("none")
    for group in runs.groups:
        own = found[("gcn", "none"), group][0]
        base, best = own.trial, found[("gcn", "lp"), group][0]
        assert best.trial.number == 4 and best.trial.settings["learn"] is False
        assert best.trial.settings["start"] == 1.0
        assert (best.score, best.loss, best.n) == (own.score, 0.1, 1)
        assert own.score == (2.0 if group == (1,) else 0.0)
        (task,) = [task for task in last if task.spec.split_seed == group[0]]
        for name in shared:
            for settings in (best.trial.settings, task.spec.settings):
                assert settings.get(name) == base.settings.get(name), name
        assert [one.trial.number for one in found[("gcn", "max"), group]] == [base.number]
    each = 3 * 40 + 2 * 120 + 1000
    assert runs.epochs == 2 * (3 * each + 1000)


def test_the_baselines_choice_may_be_the_best_to_learn_with():
    search, runs = searched(["none", "lp"], [(0,)], budget=3)
    number = number_of(search)
    made = Made(lambda task: 90.0 if number(task) < 0 else number(task))
    found = runs.run(made)
    assert found[("gcn", "none"), (0,)][0].trial.number == 2
    (task,) = made.rounds[-1][1]
    first, second, *_ = found[("gcn", "lp"), (0,)]
    assert (first.trial.number, first.score) == (3, 90.0)
    assert first.trial.settings == task.spec.settings and first.trial.settings["learn"] is True
    assert (second.trial.number, second.score) == (2, 2.0), "before the frozen one, which is equal"
