r"""The bench of aggregators: graphs, sweep, memory and cold start, as one plain result."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from meanmax import kernel_cache
from meanmax.graph import Graph
from meanmax.study.bench import BenchSettings, measure
from meanmax.study.bench.competitors import COMPETITORS, LINEAR, PASSES, SWEPT, TRAIN, Inputs
from meanmax.study.bench.graphs import GraphSource, find_amazon, power_law_graph
from meanmax.study.bench.measure import Progress, Timing, quotient, run_child, time_in_turns
from meanmax.study.runs.machine import machine_facts, num_threads

SWEEP_EDGES = (10_000, 100_000, 1_000_000, 10_000_000)
SWEEP_CHANNELS = (16, 64, 256)
SWEEP_EDGES_OF_CHANNELS = 500_000
EDGES_PER_NODE = 16
PYG_MOST_ENTRIES = 150_000_000  # of one [edges, channels] array; PyG holds about ten of them
FIRST_CALLS = ("lp-numba", "polynomial-numba", "softmax-numba", "exact-numba")
METHOD = {
    "timing": (
        f"{measure.WARM_UP_CALLS} warm-up calls per competitor and pass, then rounds in which each "
        f"is called once, in a new order per round, after a pause of {measure.PAUSE:g} s; one "
        f"leaves the rounds after {measure.MIN_CALLS} calls or more once they took the budget, so "
        f"n differs"
    ),
    "forward": "without recording for a backward pass",
    "forward+backward": "gradients of features and parameter",
    "floor": "the faster median of the two linear products, per graph and pass",
    "memory": "peak resident memory of one call beyond features and prepared graph, outputs and "
    "gradients included, in a child process; good to a few tenths of a MB",
}
COLD_START = (
    "seconds of the first forward+backward pass of each aggregator at float32, one after the "
    "other in a fresh process; 'compile' with one empty folder for compiled kernels, 'cached' with "
    "that folder filled; 'exact' is what rows on the exact path need on top"
)

Timed = Mapping[str, Timing]


def floor_of(timed: Timed) -> dict[str, Any]:
    r"""The faster of the linear products."""
    medians = {name: timed[name].median_ms for name in LINEAR}
    measured = {name: value for name, value in medians.items() if value is not None}
    if not measured:
        return {"competitor": None, "median_ms": None}
    fastest = min(measured, key=measured.__getitem__)
    return {"competitor": fastest, "median_ms": measured[fastest]}


def rows_of(key: str, timed: Timed) -> list[dict[str, Any]]:
    r"""One row per competitor in the pass :obj:`key`; a failed one has an error and no numbers."""
    floor = floor_of(timed)["median_ms"]
    medians = {name: timing.median_ms for name, timing in timed.items()}
    return [
        {
            "competitor": name,
            "label": COMPETITORS[name].label,
            "pass": key,
            "n": len(timing.seconds),
            "median_ms": medians[name],
            "ratio_to_floor": quotient(medians[name], floor),
            "faster_than_pyg_softmax": quotient(medians.get("pyg-softmax"), medians[name]),
            "faster_than_pyg_powermean": quotient(medians.get("pyg-powermean"), medians[name]),
            "times_ms": [1000 * seconds for seconds in timing.seconds],
            "error": timing.error,
        }
        for name, timing in timed.items()
    ]


def run_bench(
    settings: BenchSettings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures everything that the settings select.

    :obj:`progress`: called with a title and a number of steps before each part; what it returns is
    called after each step.
    """
    settings = settings.resolved()
    real, note = find_amazon(Path(settings.data_dir) if settings.data_dir else None)
    made = GraphSource("power-law", settings.nodes, settings.edges, settings.seed)
    sources = [made] if real is None else [made, real]
    result = measure.new_result(settings, METHOD)
    result["notes"] = [*([note] if note else []), *result["notes"]]
    with num_threads(settings.threads):
        loaded = [(source, source.load()) for source in sources]  # bad files fail before the work
        result["graphs"] = [_measure(*pair, settings, progress) for pair in loaded]
        result["sweep"] = _sweep(settings, progress) if settings.sweep else None
    result["cold"] = cold_part(settings, progress)
    result["machine"] = machine_facts()
    return result


def _measure(
    source: GraphSource, graph: Graph, settings: BenchSettings, progress: Progress
) -> dict[str, Any]:
    r"""Times all competitors on one graph, then measures their memory in another process."""
    names = list(COMPETITORS)
    entry = _time(source.name, graph, settings, names, progress)
    peaks, entry["memory_error"] = None, None
    if settings.measure_memory:
        wanted = (settings.channels, settings.dtype, settings.threads, settings.seed, names)
        peaks, entry["memory_error"] = measure.try_child(
            progress, f"{source.name}: memory", lambda: peak_memory(source, *wanted)
        )
    array = graph.num_nodes * settings.channels * getattr(torch, settings.dtype).itemsize
    for row in entry["results"]:
        peak = None if peaks is None else peaks[row["competitor"]][row["pass"]]
        row["memory_mb"] = None if peak is None else peak / 1e6
        row["memory_arrays"] = None if peak is None else peak / array
    return entry


def _time(
    name: str, graph: Graph, settings: BenchSettings, names: Sequence[str], progress: Progress
) -> dict[str, Any]:
    inputs = Inputs(graph, settings.channels, getattr(torch, settings.dtype), settings.seed)
    prepared = {name: COMPETITORS[name].prepare(inputs) for name in names}
    cases = {
        f"{name}/{key}": call for name, passes in prepared.items() for key, call in passes.items()
    }
    timings = time_in_turns(
        cases,
        repeats=settings.repeats,
        budget=settings.budget,
        seed=settings.seed,
        on_step=progress(f"{name}: timing", len(cases) * (settings.repeats + 1)),
    )
    by_pass = {key: {name: timings[f"{name}/{key}"] for name in names} for key in PASSES}
    return {
        "name": name,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "channels": settings.channels,
        "floor": {key: floor_of(timed) for key, timed in by_pass.items()},
        "results": [row for key, timed in by_pass.items() for row in rows_of(key, timed)],
    }


def _sweep(settings: BenchSettings, progress: Progress) -> dict[str, list[dict[str, Any]]]:
    r"""Our aggregators and the floor at growing numbers of edges, then of channels."""
    edges = [size for size in SWEEP_EDGES if size <= settings.max_edges]
    fixed = min(SWEEP_EDGES_OF_CHANNELS, settings.max_edges)
    return {
        "edges": [_sweep_point(size, 64, settings, progress) for size in edges],
        "channels": [_sweep_point(fixed, size, settings, progress) for size in SWEEP_CHANNELS],
    }


def _sweep_point(
    edges: int, channels: int, settings: BenchSettings, progress: Progress
) -> dict[str, Any]:
    nodes = edges // EDGES_PER_NODE // 2 * 2  # even, so that no edge is left over
    source = GraphSource("power-law", nodes, edges, settings.seed)
    with_pyg = edges * channels <= PYG_MOST_ENTRIES
    names = [name for name in SWEPT if with_pyg or not COMPETITORS[name].is_pyg]
    title = f"{edges:,} edges, {channels} channels"
    return _time(title, source.load(), replace(settings, channels=channels), names, progress)


def peak_memory(
    source: GraphSource, channels: int, dtype: str, threads: int, seed: int, names: list[str]
) -> dict[str, dict[str, int | None]] | None:
    r"""Bytes of every competitor and pass; :obj:`None` where the system cannot measure them."""
    if not sys.platform.startswith("linux"):
        return None
    request = {"source": asdict(source), "channels": channels, "dtype": dtype, "seed": seed}
    request |= {"threads": threads, "names": names}
    measured: dict[str, dict[str, int | None]] | None
    measured = run_child(f"{__name__}:measure_peaks", request, measure.SEPARATE_ARRAYS)
    return measured


def measure_peaks(
    source: dict[str, Any], channels: int, dtype: str, threads: int, seed: int, names: list[str]
) -> dict[str, dict[str, int | None]] | None:
    r"""Measures in this process; see :func:`peak_memory`."""
    if not measure.can_reset_peak():
        return None
    torch.set_num_threads(threads)
    inputs = Inputs(GraphSource(**source).load(), channels, getattr(torch, dtype), seed)
    return {
        name: {k: measure.peak_of(call) for k, call in COMPETITORS[name].prepare(inputs).items()}
        for name in names
    }


def cold_part(settings: BenchSettings, progress: Progress) -> dict[str, Any] | None:
    r"""The cold start if the settings select it, or why it failed."""
    if not settings.cold:
        return None
    cold, error = measure.try_child(progress, "cold start", lambda: cold_start(settings.threads))
    return cold or {"error": error}


def cold_start(threads: int) -> dict[str, Any]:
    r"""First calls with an empty compilation cache, then in a new process with the filled one."""
    with tempfile.TemporaryDirectory(prefix="meanmax-cold-") as folder:
        env, request = {kernel_cache.VARIABLE: folder}, {"threads": threads}
        runs = {
            key: run_child(f"{__name__}:measure_first_calls", request, env)
            for key in ("compile", "cached")
        }
    labels = {name: COMPETITORS[name].label for name in FIRST_CALLS}
    return {"what": COLD_START, "error": None, "labels": labels, **runs}


def measure_first_calls(threads: int) -> dict[str, Any]:
    r"""Calls every aggregator for the first time in this process; see :func:`cold_start`."""
    torch.set_num_threads(threads)
    inputs = Inputs(power_law_graph(200, 2000), channels=16)
    first = {}
    for name in FIRST_CALLS:
        call = COMPETITORS[name].prepare(inputs)[TRAIN]
        start = time.perf_counter()
        call()
        first[name] = time.perf_counter() - start
    total = sum(seconds for name, seconds in first.items() if name != "exact-numba")
    return {"first_call_seconds": first, "three_aggregators_seconds": total}
