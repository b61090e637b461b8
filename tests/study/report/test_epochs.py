"""How long our baseline has to train to pass the paper's."""

import shlex

import pytest

from meanmax.cli import main
from meanmax.study.report.epochs import LIMITS, command, trainings
from tests.study.rows import cora, row


def limited(epochs, scores, **facts):
    return cora("none", scores, overrides={"epochs": epochs}, tag=epochs, **facts)


def test_the_first_limit_at_the_papers_mean_passes():
    rows = limited(10, [70.0, 72.0]) + limited(40, [81.0, 81.6]) + limited(160, [83.0])
    (one,) = trainings(rows)
    assert [(point.epochs, point.n, point.mean) for point in one.points] == [
        (10, 2, 71.0),
        (40, 2, pytest.approx(81.3)),
        (160, 1, 83.0),
    ]
    assert (one.data, one.split, one.paper.mean, one.passes) == ("cora", "citation", 81.24, 40)
    assert one.missing(2) == [("cora", limit, "citation") for limit in (5, 20, 80, 160, 400)]


def test_a_baseline_may_stay_below():
    (one,) = trainings(limited(10, [70.0]) + limited(40, [81.23]))
    assert one.passes is None


def test_other_runs_do_not_count():
    others = limited(40, [90.0], data="karate") + cora("none", [90.0], overrides={"hidden": 8})
    failed = [row("none", 5, 90.0, status="failed", overrides={"epochs": 40}, metrics={})]
    assert trainings(others) == []
    assert trainings(limited(10, [70.0]) + failed) == [], "one limit shows no course"


def test_kinds_of_splits_stand_apart():
    file = {"split": "file:citation_splits.npz"}
    rows = limited(10, [70.0]) + limited(20, [82.0])
    rows += [*limited(10, [75.0], **file), *limited(20, [76.0], **file)]
    first, second = trainings(rows)
    assert [point.mean for point in second.points] == [75.0, 76.0]
    assert second.split == "file:citation_splits.npz" and first.passes == 20


@pytest.mark.parametrize("split", ["citation", "file:citation_splits.npz", "random"])
def test_the_command_is_one_of_the_program(split):
    words = shlex.split(command("cora", LIMITS[0], split))[1:]
    given = main.get_command(None, words[0]).make_context("reproduce", words[1:]).params
    assert (given["what"], given["aggrs"]) == ("table2", ["none"])
    assert given["pairs"] == (f"epochs={LIMITS[0]}",)
    wanted = None if split == "citation" else split.replace("file:", "file:FOLDER-OF/")
    assert given["scheme"] == wanted
