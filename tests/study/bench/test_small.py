"""Small graphs beside PyG: structure and ratios, never a time."""

from functools import lru_cache

import pytest
import torch

from meanmax.study.bench import BenchSettings
from meanmax.study.bench.report import failures
from meanmax.study.bench.small import OURS, PYG, ROUTES, SmallGraph, run_small

QUICK = BenchSettings(quick=True, repeats=1)


@lru_cache
def quick_result():
    return run_small(QUICK)


def test_every_route_is_measured_on_one_thread():
    result = quick_result()
    assert failures(result) == []
    assert result["settings"]["threads"] == 1
    assert [size["num_edges"] for size in result["small"]] == [200, 2000]
    wanted = [*((name, None) for name in PYG), *((name, r) for name in OURS for r in ROUTES)]
    for size in result["small"]:
        assert [(row["aggregator"], row["route"]) for row in size["results"]] == wanted


def test_ratios_are_those_of_the_medians():
    for size in quick_result()["small"]:
        theirs = {row["aggregator"]: row["median_ms"] for row in size["results"][: len(PYG)]}
        for row in size["results"]:
            assert row["n"] == len(row["times_ms"]) == 1
            for name in PYG:
                want = row["median_ms"] / theirs[name]
                assert row[f"ratio_to_{name}"] == pytest.approx(want)


def test_a_call_of_several_steps_counts_as_one_step(monkeypatch):
    """Without :obj:`quick` a call on 200 edges makes 100 steps."""
    made = []
    monkeypatch.setattr("meanmax.study.bench.small.SIZES", (200,))
    monkeypatch.setattr(
        "meanmax.study.bench.small._several", lambda step, times: made.append(times) or step
    )
    (size,) = run_small(BenchSettings(repeats=1, channels=2))["small"]
    assert set(made) == {size["steps_per_call"]} == {100}


@pytest.mark.parametrize("name", OURS)
def test_routes_give_the_same_gradients(name):
    graph = SmallGraph(200, BenchSettings(channels=3, dtype="float64"))
    steps = graph.routes(OURS[name]().double())
    assert tuple(steps) == ROUTES
    want = steps["Graph, reused"]()
    assert len(want) == 2 and all(float(grad.abs().sum()) > 0 for grad in want)
    for step in steps.values():
        torch.testing.assert_close(step(), want)
