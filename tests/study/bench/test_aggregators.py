import sys
from dataclasses import replace
from statistics import median

import pytest
import torch

from meanmax.study.bench import aggregators
from meanmax.study.bench.aggregators import peak_memory, run_bench
from meanmax.study.bench.competitors import COMPETITORS, FORWARD, LINEAR, PASSES, SWEPT, TRAIN
from meanmax.study.bench.graphs import GraphSource
from meanmax.study.bench.measure import ChildError
from meanmax.study.bench.report import failures

from .small import SMALL, small_result, write_amazon

NODES, EDGES, CHANNELS = 10_000, 200_000, 64


def medians(entry, key):
    return {row["competitor"]: row["median_ms"] for row in entry["results"] if row["pass"] == key}


def assert_consistent(entry, names):
    for key in PASSES:
        measured = medians(entry, key)
        assert list(measured) == list(names)
        floor = min(measured[name] for name in LINEAR)
        assert entry["floor"][key]["median_ms"] == floor
        assert measured[entry["floor"][key]["competitor"]] == floor
        for row in (row for row in entry["results"] if row["pass"] == key):
            assert row["error"] is None
            assert row["median_ms"] > 0
            assert row["n"] == len(row["times_ms"]) > 0
            assert row["median_ms"] == pytest.approx(median(row["times_ms"]))
            assert row["ratio_to_floor"] == pytest.approx(row["median_ms"] / floor)
            for peer in ("softmax", "powermean"):
                want = measured[f"pyg-{peer}"] / row["median_ms"]
                assert row[f"faster_than_pyg_{peer}"] == pytest.approx(want)


def test_every_competitor_is_measured():
    (entry,) = small_result()["graphs"]
    assert (entry["num_nodes"], entry["num_edges"], entry["channels"]) == (60, 400, 4)
    assert_consistent(entry, COMPETITORS)


def test_facts():
    result = small_result()
    machine = result["machine"]
    assert machine["cpu"]
    assert machine["versions"]["torch"] == torch.__version__
    assert machine["kernel_threads"] in ("PyTorch's OpenMP", "Python threads")
    assert result["settings"]["threads"] == 2
    assert result["settings"]["dtype"] == "float32"
    assert result["created"].endswith("+00:00")


def test_missing_data_is_noted(tmp_path):
    (note,) = small_result()["notes"]
    assert "pass --data-dir or set MEANMAX_DATA" in note


def test_real_graph_is_measured_where_present(tmp_path):
    write_amazon(tmp_path)
    result = run_bench(replace(SMALL, data_dir=str(tmp_path), repeats=1, dtype="float64"))
    assert [entry["name"] for entry in result["graphs"]] == ["power-law", "amazon-computers"]
    assert result["notes"] == []
    assert_consistent(result["graphs"][1], COMPETITORS)


def test_sweep(monkeypatch):
    monkeypatch.setattr(aggregators, "SWEEP_EDGES", (1000, 2000, 4000))
    monkeypatch.setattr(aggregators, "PYG_MOST_ENTRIES", 2000 * 64)
    sweep = run_bench(replace(SMALL, sweep=True, max_edges=2000, repeats=1))["sweep"]
    assert [point["num_edges"] for point in sweep["edges"]] == [1000, 2000]
    assert [point["channels"] for point in sweep["channels"]] == [16, 64, 256]
    for point in [*sweep["edges"], *sweep["channels"][:2]]:
        assert_consistent(point, SWEPT)
    largest = medians(sweep["channels"][2], PASSES[0])
    assert list(largest) == [name for name in SWEPT if not name.startswith("pyg-")]


def test_memory_and_cold_start_reach_the_result(monkeypatch):
    monkeypatch.setattr(
        aggregators,
        "peak_memory",
        lambda *args: {name: dict.fromkeys(PASSES, 1920) for name in args[-1]},
    )
    cold = {"error": None, "compile": {}, "cached": {}}
    monkeypatch.setattr(aggregators, "cold_start", lambda threads: {**cold, "threads": threads})
    result = run_bench(replace(SMALL, measure_memory=True, cold=True, repeats=1))
    assert result["cold"] == {**cold, "threads": 2}
    for row in result["graphs"][0]["results"]:
        assert row["memory_mb"] == 1920 / 1e6
        assert row["memory_arrays"] == 1920 / (60 * 4 * 4)


def test_a_child_that_fails_does_not_lose_the_timings(monkeypatch):
    def fail(*_):
        raise ChildError("ended with -9")

    monkeypatch.setattr(aggregators, "peak_memory", fail)
    monkeypatch.setattr(aggregators, "cold_start", fail)
    result = run_bench(replace(SMALL, measure_memory=True, cold=True, repeats=1))
    assert_consistent(result["graphs"][0], COMPETITORS)
    assert failures(result) == ["power-law, memory: ended with -9", "cold start: ended with -9"]


def test_number_of_threads_is_restored():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        run_bench(replace(SMALL, repeats=1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_two_processes_share_one_cache(monkeypatch):
    """The children compile for a minute, so only what is asked of them is tested."""
    asked = []

    def child(module, request, env):
        asked.append((module, request, env["MEANMAX_KERNEL_CACHE"]))
        return {"run": len(asked)}

    monkeypatch.setattr(aggregators, "run_child", child)
    result = aggregators.cold_start(threads=2)
    assert asked[0] == asked[1]
    assert (result["compile"], result["cached"]) == ({"run": 1}, {"run": 2})


def test_first_calls_of_this_process():
    answer = aggregators.measure_first_calls(threads=2)
    first = answer["first_call_seconds"]
    assert list(first) == ["lp-numba", "polynomial-numba", "softmax-numba", "exact-numba"]
    assert all(seconds > 0 for seconds in first.values())
    assert answer["three_aggregators_seconds"] == sum(list(first.values())[:3])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/clear_refs")
def test_messages_of_pyg_are_seen_and_ours_have_none():
    source = GraphSource("power-law", NODES, EDGES)
    names = ["linear-torch", "lp-numba", "pyg-sum"]
    peaks = peak_memory(source, CHANNELS, "float32", 2, 0, names)
    if peaks is None:
        pytest.skip("the system does not let a process reset its high-water mark")
    one_array, messages = 4 * NODES * CHANNELS, 4 * EDGES * CHANNELS
    assert list(peaks) == names
    assert messages < peaks["pyg-sum"][FORWARD] < 3 * messages
    assert messages < peaks["pyg-sum"][TRAIN]
    assert one_array < peaks["lp-numba"][TRAIN] < messages
    assert 1.5 * one_array < peaks["linear-torch"][TRAIN] < messages
