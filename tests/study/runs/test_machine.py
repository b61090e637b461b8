from __future__ import annotations

import math

import numpy
import pytest
import torch
from threadpoolctl import threadpool_info

from meanmax.study.paper.reproduction import ablation
from meanmax.study.paper.result_tables import table
from meanmax.study.runs import machine
from meanmax.study.runs.machine import revision_notes
from tests.study.rows import row


def test_rows_of_one_revision_need_no_word():
    rows = [row(seed=seed, commit="aa", versions={"meanmax": "1", "torch": "2"}) for seed in (0, 1)]
    assert revision_notes(rows) == revision_notes([]) == []


def test_revisions_are_named_with_their_numbers_of_runs():
    rows = [row(seed=seed, commit="aa" if seed else "bb-dirty") for seed in range(4)]
    (note,) = revision_notes(rows)
    assert note.startswith("The 4 runs come from 2 revisions of the code: aa (3), bb-dirty (1). ")


def test_versions_stand_for_commits_where_there_is_no_checkout():
    rows = [row(seed=seed, versions={"meanmax": f"1.{seed}"}) for seed in range(8)]
    (note,) = revision_notes(rows)
    assert "8 revisions of the code: version 1.0 (1), " in note
    assert "version 1.4 (1), 3 more. " in note


def test_versions_of_libraries_are_named():
    rows = [row(seed=s, commit="aa", versions={"torch": f"2.{s}", "numpy": "2"}) for s in (1, 0)]
    (note,) = revision_notes(rows)
    assert note == "They were made with several versions of libraries: torch 2.0 and 2.1."


def test_tables_tell_of_the_rows_that_they_show_and_of_no_others():
    rows = [row("none", 0, commit="aa"), row("lp", 0, commit="bb"), row("poly", 0, commit="cc")]
    rows.append(row("none", 0, backbone="gat", commit="dd"))
    rows.append(row("lp", 0, overrides={"nonlinear": "all"}, tag="all", commit="ee"))
    tabled = table(rows, 2, data=["cora"], backbones=["gcn"], aggrs=["none", "lp"])
    (note,) = tabled.notes
    assert "The 2 runs come from 2 revisions of the code: aa (1), bb (1)." in note
    (note,) = ablation(rows, ["cora"]).notes
    assert "The 4 runs come from 4 revisions of the code: aa (1), bb (1), cc (1), ee (1)." in note


@pytest.mark.parametrize(
    "load, threads, ended, was, now",
    [
        (0.3, 1, None, True, True),
        (0.9, 1, None, False, True),  # another process was at work before the first run
        (1.2, 1, 10.0, True, True),  # the run before this one was
        (1.2, 1, 400.0, False, True),
        (1.9, 1, 10.0, False, False),
        (2.2, 2, 10.0, True, True),
        (math.nan, 1, None, False, False),
    ],
)
def test_the_load_of_own_runs_does_not_count(monkeypatch, load, threads, ended, was, now):
    monkeypatch.setattr(machine, "load", lambda: load)
    monkeypatch.setattr(machine.time, "monotonic", lambda: 1000.0)
    machine._ended.clear()
    if ended is not None:
        machine._ended.append(1000.0 - ended)
    assert machine.was_idle(threads) == was
    assert machine.is_idle(threads) == now
    machine._ended.clear()


def test_threads_are_those_of_all_libraries():
    numpy.linalg.inv(numpy.eye(2))
    before, given = torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info()]
    with machine.num_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {before + 1}
    assert torch.get_num_threads() == before
    assert [pool["num_threads"] for pool in threadpool_info()] == given
