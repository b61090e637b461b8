"""The study: counts, its statement and the commands for what is missing."""

from __future__ import annotations

import json
import math
import shlex

import numpy as np
import pytest

from meanmax.cli import main
from meanmax.names import AGGREGATORS
from meanmax.study.report.study import AUTHORS, METHODS, PLANNED, Study
from meanmax.study.runs.row import json_safe
from tests.study.rows import cora, searched

BASE = [80.0, 81.0, 79.0, 82.0, 78.0, 80.5, 81.5, 79.5, 82.5, 78.5]
UP = [0.9, 1.1, 1.2, 0.8, 1.0, 1.3, 0.7, 1.4, 0.6, 1.0]
MIXED = [0.5, -0.4, 0.3, -0.6, 0.1, -0.2, 0.7, -0.3, 0.2, -0.1]
REACH = "reach:hops=2,degree=8,test_degree=64,graphs=20,nodes=1000,seed=0"


def compared(data, changes, **facts):
    """A baseline and aggregators that differ from it by known points."""
    rows = searched("none", BASE, data=data, **facts)
    for aggr, change in changes.items():
        moved = [base + more for base, more in zip(BASE, change, strict=True)]
        rows += searched(aggr, moved, data=data, **facts)
    return rows


def negative(change):
    return [-value for value in change]


def test_tasks_are_counted_by_the_judgement_of_their_learned_aggregators():
    study = Study.of(
        compared("wine", {"lp": UP, "softmax": MIXED, "max": negative(UP)})
        + compared("cancer", {"lp": negative(UP), "max": UP})
        + compared("digits", {"lp": UP, "poly": negative(UP)})
        + compared("karate", {"softmax": MIXED, "max": UP})
    )
    assert {task.group.data: task.outcome for task in study.tasks} == {
        "wine": "better",
        "cancer": "worse",
        "digits": "both",
        "karate": "level",
    }
    assert study.counts == {"better": 1, "worse": 1, "both": 1, "level": 1, "too few": 0}
    assert "on 4 tasks (4 data sets), a learned aggregator is clearly" in study.statement
    assert "of 4, 0.2 would differ by chance" in study.statement


def test_few_splits_and_no_aggregator_are_not_level():
    few = [row for row in compared("wine", {"lp": UP, "softmax": MIXED}) if row.split_seed < 4]
    study = Study.of(few + searched("none", BASE, data="cancer"))
    assert [task.outcome for task in study.tasks] == [None, "too few"]
    assert sum(study.counts.values()) == study.counts["too few"] == 1
    assert Study.of(searched("none", BASE)).statement.startswith("No task has")
    assert Study.of([]).sentences == Study.of(searched("none", BASE)).sentences


def test_only_searched_settings_with_a_baseline_belong_to_it():
    assert Study.of(cora("none", BASE) + cora("lp", BASE)).tasks == []
    assert Study.of(searched("lp", BASE)).tasks == []


def test_differences_are_adjusted_over_the_whole_study():
    study = Study.of(
        compared("wine", {"lp": UP, "softmax": MIXED}) + compared("cancer", {"poly": negative(UP)})
    )
    first, middle, last = study.differences
    assert [(one.task, one.aggr, one.n) for one in (first, last)] == [
        ("wine, gcn", "lp", 10),
        ("cancer, gcn", "poly", 10),
    ]
    assert first.difference == pytest.approx(np.mean(UP))
    least = 2 / 2**10  # ten differences of one sign
    assert (first.p, first.p_in_task, last.p_in_task) == pytest.approx((least, 2 * least, least))
    assert first.p_overall == last.p_overall == pytest.approx(3 * least)
    assert (middle.aggr, middle.p_in_task) == ("softmax", middle.p)
    assert first.reachable_p == pytest.approx(3 * least)


def test_generated_data_do_not_count():
    study = Study.of(compared("wine", {"lp": MIXED}) + compared(REACH, {"lp": UP}))
    assert {task.group.data: task.is_generated for task in study.tasks} == {
        "wine": False,
        REACH: True,
    }
    assert (study.counts["better"], study.counts["level"]) == (0, 1)
    assert {one.task for one in study.differences} == {"wine, gcn"}
    assert study.over_data.n == 1


def test_the_aggregator_of_a_task_is_chosen_by_validation_alone():
    rows = compared("wine", {"lp": UP}) + searched("poly", [score - 5 for score in BASE], val=20.0)
    (task,) = Study.of(rows).tasks
    assert task.chosen.aggr == "poly"
    assert Study.of(rows).over_data.difference == pytest.approx(-5.0)


def test_a_lower_error_is_better_in_every_choice():
    facts = {"metric": "mae"}
    rows = searched("none", [2.0] * 10, **facts) + searched("lp", [1.5] * 10, **facts)
    rows += searched("poly", [3.0] * 10, **facts)
    rows += searched("none", [2.5] * 10, backbone="majority", **facts)
    rows += searched("none", [1.0] * 10, backbone="logistic", **facts)
    (task,) = Study.of(rows).tasks
    assert (task.chosen.aggr, task.best_reference.aggr) == ("lp", "ridge regression")
    assert task.outcome == "both"  # 0.5 lower and 1.0 higher on all splits
    assert Study.of(rows).over_data is None, "an MAE has no points"


def test_data_sets_are_the_sample_of_the_overall_difference():
    rows = compared("wine", {"lp": [1.0] * 10}) + compared("cancer", {"lp": [3.0] * 10})
    rows += compared("wine", {"lp": [2.0] * 10}, backbone="sage")
    pair = Study.of(rows).over_data
    assert (pair.n, pair.difference) == (2, pytest.approx((1.5 + 3.0) / 2))
    assert (
        "Over 2 data sets, the aggregator that validation chooses differs"
        in Study.of(rows).statement
    )


def test_missing_methods_are_filled_by_commands_that_can_be_parsed():
    commands = Study.of([]).missing
    assert len(commands) == len(PLANNED) == len(set(commands))
    compare = main.get_command(None, "compare")
    for command in commands:
        program, name, *words = shlex.split(command)
        assert (program, name) == ("meanmax", "compare")
        given = compare.make_context("compare", words).params
        assert given["aggrs"] == list(METHODS)
        assert given["splits"] == 10


def test_the_authors_splits_the_budget_and_folders_are_named():
    by_task = dict(zip([(p.data, p.backbone) for p in PLANNED], Study.of([]).missing, strict=True))
    assert by_task["cora", "gcn"].endswith("--split file:FOLDER-OF/citation_splits.npz")
    gat = by_task["cora", "gat"]  # one search for all random splits
    assert "--split" not in gat and gat.endswith("--budget 8")
    assert "--data FOLDER-OF/actor.npz " in by_task["actor", "sage"]
    mutag = by_task["mutag", "gin"]
    assert "--data mutag --data-dir FOLDER-OF/data " in mutag and mutag.endswith("--budget 8")
    assert "--data-dir" not in by_task["photo", "gcn"] + by_task["digits-graphs", "sage"]


def test_only_what_is_missing_is_asked_for():
    learned = {aggr: MIXED for aggr in AGGREGATORS}
    rows = compared("digits", {**learned, "spread": MIXED})
    assert _of_digits(rows) == [_command("digits", "none")], "references are missing"
    rows += searched("none", BASE, data="digits", backbone="logistic")
    assert _of_digits(rows) == []
    short = [row for row in rows if (row.aggr, row.split_seed) != ("poly", 9)]
    assert _of_digits(short) == [_command("digits", "none,poly")]
    bad = searched("poly", BASE, data="digits")[9:]
    failed = [type(row)(**{**vars(row), "status": "failed", "metrics": {}}) for row in bad]
    assert _of_digits(short + failed) == [_command("digits", "none,poly") + " --retry-failed"]


def test_runs_on_other_splits_do_not_fill_the_authors_splits():
    methods = {aggr: MIXED for aggr in AGGREGATORS}
    elsewhere = compared("cora", methods, split="citation, pool")
    there = compared("cora", methods, split=AUTHORS)
    references = searched("none", BASE, data="cora", backbone="logistic", split=AUTHORS)
    whole = next(iter(Study.of([]).missing))
    assert whole in Study.of(elsewhere).missing
    assert whole not in Study.of(elsewhere + there + references).missing
    headings = [task.heading for task in Study.of(elsewhere + there).tasks]
    assert headings == [
        "cora, gcn, splits citation, pool",
        "cora, gcn, splits file:citation_splits.npz",
    ]


def test_the_study_is_strict_json():
    rows = compared("wine", {"lp": UP}) + searched("none", BASE, data="cancer")
    text = json.dumps(json_safe(Study.of(rows).as_dict()), allow_nan=False)
    facts = json.loads(text)
    assert [task["outcome"] for task in facts["tasks"]] == [None, "better"]
    assert [task["chosen"] for task in facts["tasks"]] == [None, "lp"]
    assert facts["counts"]["better"] == 1 and facts["over_data"]["n"] == 1


def test_the_half_width_of_intervals_tells_what_can_be_seen():
    study = Study.of(compared("wine", {"lp": MIXED}))
    (one,) = study.differences
    assert study.visible == pytest.approx((one.high - one.low) / 2)
    assert f"reach {study.visible:.1f} points to either side" in study.statement
    assert math.isnan(Study.of(searched("none", BASE)).visible)


def _of_digits(rows):
    return [command for command in Study.of(rows).missing if "--data digits " in command]


def _command(data, aggrs):
    return f"meanmax compare --data {data} --backbone gcn --aggr {aggrs}"
