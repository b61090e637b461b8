"""Degrees, batches, threads and a neighbour: structure and ratios, never a time."""

from dataclasses import replace
from functools import lru_cache
from statistics import median
from unittest import mock

import pytest
import torch

from meanmax.study.bench import BenchSettings, cases
from meanmax.study.bench.cases import MANY, ONE, TIMED, make_graphs, run_cases
from meanmax.study.bench.competitors import LINEAR
from meanmax.study.bench.report import failures, write_files

QUICK = BenchSettings(quick=True, repeats=1)
NAMES = ["degree 4", "degree 36", ONE, MANY]


@lru_cache
def quick_result():
    """On two threads only: each start of a neighbour takes seconds."""
    with mock.patch.object(cases, "THREADS", (2,)):
        return run_cases(QUICK)


def by_name(case):
    return {row["competitor"]: row for row in case["results"]}


def test_every_case_is_measured():
    result = quick_result()
    assert failures(result) == []
    got = [(case["threads"], case["name"]) for case in result["cases"]]
    assert got == [(2, name) for name in NAMES]
    assert all(list(by_name(case)) == list(TIMED) for case in result["cases"])


def test_ratios_are_those_of_the_medians():
    for case in quick_result()["cases"]:
        rows = by_name(case)
        floor = min(rows[name]["median_ms"] for name in LINEAR)
        busy_floor = min(rows[name]["neighbour_ms"] for name in LINEAR)
        assert case["floor"]["median_ms"] == floor
        for row in rows.values():
            alone, busy = row["median_ms"], row["neighbour_ms"]
            assert alone == pytest.approx(median(row["times_ms"]))
            assert busy == pytest.approx(median(row["neighbour_times_ms"]))
            assert row["ratio_to_floor"] == pytest.approx(alone / floor)
            assert row["neighbour_ratio_to_floor"] == pytest.approx(busy / busy_floor)
            assert row["ratio_to_alone"] == pytest.approx(busy / alone)


def test_many_graphs_are_compared_with_one():
    one, many = quick_result()["cases"][2:4]
    assert (one["num_graphs"], many["num_graphs"]) == (1, 12)
    assert all(row["ratio_to_one_graph"] is None for row in one["results"])
    for name, row in by_name(many).items():
        want = row["median_ms"] / by_name(one)[name]["median_ms"]
        assert row["ratio_to_one_graph"] == pytest.approx(want)


def test_sizes():
    settings = replace(QUICK, quick=False)
    graph = make_graphs("degree 4", settings)["degree 4"]
    assert (graph.num_nodes, graph.num_edges) == (15_000, 61_000)
    one, many = make_graphs(MANY, settings).values()
    assert (many.num_graphs, many.num_nodes, many.num_edges) == (512, 512 * 30, 512 * 120)
    assert one.num_graphs == 1
    for part in ("rowptr", "col", "weight"):
        assert torch.equal(getattr(one, part), getattr(many, part))


def test_a_neighbour_that_fails_does_not_lose_the_times_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(cases, "GROUPS", ("degree 4",))
    monkeypatch.setattr(cases, "THREADS", (1,))
    monkeypatch.setattr(cases, "__name__", "meanmax.study.bench.nothing")
    result = run_cases(QUICK)
    for row in result["cases"][0]["results"]:
        assert row["median_ms"] > 0
        assert row["neighbour_ms"] is row["ratio_to_alone"] is None
    assert "No module named 'meanmax.study.bench.nothing'" in failures(result)[0]
    (written,) = write_files(result, tmp_path, "cases")
    assert written.name == "cases.json"
