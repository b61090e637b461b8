r"""The whole bench: graphs, sweep and cold start, into one plain result."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch

from meanmax.graph import Graph
from meanmax.study.bench import memory
from meanmax.study.bench.coldstart import cold_start
from meanmax.study.bench.competitors import (
    COMPETITORS,
    LINEAR,
    PASSES,
    PYG_POWER_MEAN,
    PYG_SOFTMAX,
    SWEPT,
    Inputs,
)
from meanmax.study.bench.graphs import GraphSource, find_amazon
from meanmax.study.bench.memory import ChildError
from meanmax.study.runs.machine import machine_facts

WARM_UP_CALLS = 2
MIN_CALLS = 3
PAUSE = 0.005  # lets OpenMP's waiting threads stop spinning, which would slow the next case down


@dataclass
class Timing:
    r"""The seconds that the calls of one case took, or the error that ended it.

    Args:
        seconds (list, optional): One entry per call. (default: :obj:`[]`)
        error (str, optional): Why there are no (more) calls. (default: :obj:`None`)
    """

    seconds: list[float] = field(default_factory=list)
    error: str | None = None

    @property
    def median_ms(self) -> float | None:
        r"""The median in milliseconds; :obj:`None` if the case failed."""
        return None if self.error is not None else 1000 * median(self.seconds)


def time_in_turns(
    cases: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    budget: float,
    seed: int = 0,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    r"""Warms all cases up, then calls each of them once per round, in a new order each time.

    A case leaves the rounds once its calls took :obj:`budget` together, but not before three.

    Args:
        cases (dict): The calls to time, by name.
        repeats (int): The number of rounds.
        budget (float): Seconds that the timed calls of one case may take.
        seed (int, optional): The seed of the orders. (default: :obj:`0`)
        on_step (callable, optional): Called after each case's warm-up and after each round's turn
            of each case: :obj:`len(cases) * (repeats + 1)` times. (default: does nothing)
    """
    timings = {name: Timing() for name in cases}
    for name, call in cases.items():
        for _ in range(WARM_UP_CALLS):
            _attempt(call, timings[name])
        timings[name].seconds.clear()
        on_step()
    shuffled = random.Random(seed)
    with _no_collection():
        for _ in range(repeats):
            for name in shuffled.sample(list(cases), len(cases)):
                timing = timings[name]
                if len(timing.seconds) < MIN_CALLS or sum(timing.seconds) < budget:
                    _attempt(cases[name], timing)
                on_step()
            gc.collect()
    return timings


def _attempt(call: Callable[[], object], timing: Timing) -> None:
    r"""Times one call; a case that failed once is not called again."""
    if timing.error is not None:
        return
    time.sleep(PAUSE)
    start = time.perf_counter()
    try:
        result = call()
    except (RuntimeError, ValueError, MemoryError) as error:
        timing.error = f"{type(error).__name__}: {error}"
        return
    timing.seconds.append(time.perf_counter() - start)
    del result  # freed outside the clock, for all alike


@contextmanager
def _no_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Timed = Mapping[str, Timing]


def floors(timed: Timed) -> dict[str, Any]:
    r"""The faster of the linear products."""
    medians = {name: timed[name].median_ms for name in LINEAR}
    measured = {name: value for name, value in medians.items() if value is not None}
    if not measured:
        return {"competitor": None, "median_ms": None}
    fastest = min(measured, key=measured.__getitem__)
    return {"competitor": fastest, "median_ms": measured[fastest]}


def rows_of(key: str, timed: Timed) -> list[dict[str, Any]]:
    r"""One row per competitor in the pass :obj:`key`; a failed one has an error and no numbers."""
    floor = floors(timed)["median_ms"]
    return [
        {
            "competitor": name,
            "label": COMPETITORS[name].label,
            "pass": key,
            "n": len(timing.seconds),
            "median_ms": timing.median_ms,
            "ratio_to_floor": quotient(timing.median_ms, floor),
            "faster_than_pyg_softmax": _speedup(timing, timed, PYG_SOFTMAX),
            "faster_than_pyg_powermean": _speedup(timing, timed, PYG_POWER_MEAN),
            "times_ms": [1000 * seconds for seconds in timing.seconds],
            "error": timing.error,
        }
        for name, timing in timed.items()
    ]


def _speedup(timing: Timing, timed: Timed, peer: str) -> float | None:
    return quotient(timed[peer].median_ms, timing.median_ms) if peer in timed else None


def quotient(upper: float | None, lower: float | None) -> float | None:
    r"""Their ratio, where both were measured."""
    return None if upper is None or lower is None else upper / lower


SWEEP_EDGES = (10_000, 100_000, 1_000_000, 10_000_000)
SWEEP_CHANNELS = (16, 64, 256)
SWEEP_EDGES_OF_CHANNELS = 500_000
EDGES_PER_NODE = 16
PYG_MOST_ENTRIES = 150_000_000  # of one [edges, channels] array; PyG holds about ten of them

Progress = Callable[[str, int], Callable[[], None]]


@dataclass(frozen=True)
class Settings:
    r"""The options of :obj:`meanmax bench`.

    Args:
        nodes (int, optional): Nodes of the power-law graph. (default: :obj:`13_752`)
        edges (int, optional): Its edges, self-loops counted. (default: :obj:`505_000`)
        channels (int, optional): The number of channels. (default: :obj:`64`)
        dtype (str, optional): The type of the features. (default: :obj:`"float32"`)
        repeats (int, optional): Rounds of timing. (default: :obj:`15`)
        budget (float, optional): Seconds of timed calls after which a competitor leaves the
            rounds. (default: :obj:`10.0`)
        threads (int, optional): The number of threads. (default: :obj:`2`)
        seed (int, optional): The seed of graph and features. (default: :obj:`0`)
        data_dir (str, optional): The folder of the real graph. (default: :obj:`None`)
        sweep (bool, optional): Whether to time several sizes. (default: :obj:`False`)
        max_edges (int, optional): The largest size of the sweep. (default: :obj:`10_000_000`)
        cold (bool, optional): Whether to time first calls. (default: :obj:`False`)
        measure_memory (bool, optional): Whether to measure memory. (default: :obj:`True`)
        quick (bool, optional): Whether the sizes are for trying only. (default: :obj:`False`)
    """

    nodes: int = 13_752
    edges: int = 505_000
    channels: int = 64
    dtype: str = "float32"
    repeats: int = 15
    budget: float = 10.0
    threads: int = 2
    seed: int = 0
    data_dir: str | None = None
    sweep: bool = False
    max_edges: int = SWEEP_EDGES[-1]
    cold: bool = False
    measure_memory: bool = True
    quick: bool = False

    def resolved(self) -> Settings:
        r"""The settings that are run: at :obj:`quick`, small sizes in place of those given."""
        if not self.quick:
            return self
        return replace(
            self,
            nodes=500,
            edges=5_000,
            channels=8,
            repeats=min(self.repeats, 3),
            budget=min(self.budget, 1.0),
            max_edges=min(self.max_edges, SWEEP_EDGES[0]),
        )


def run_bench(
    settings: Settings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures everything that the settings ask for.

    Args:
        settings (Settings): What to measure.
        progress (callable, optional): Called with a title and a number of steps before each part;
            what it returns is called after each step. (default: shows nothing)
    """
    settings = settings.resolved()
    real, note = find_amazon(Path(settings.data_dir) if settings.data_dir else None)
    notes = [note] if note else []
    if settings.quick:
        notes.append("quick sizes try the command; they say nothing about speed")
    made = GraphSource("power-law", settings.nodes, settings.edges, settings.seed)
    sources = [made] if real is None else [made, real]
    result: dict[str, Any] = {
        "schema": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asdict(settings),
        "method": _method(),
        "notes": notes,
    }
    with threads(settings.threads):
        loaded = [(source, source.load()) for source in sources]  # bad files fail before the work
        result["graphs"] = [_measure(*pair, settings, progress) for pair in loaded]
        result["sweep"] = _sweep(settings, progress) if settings.sweep else None
    result["cold"] = _cold(settings, progress) if settings.cold else None
    result["machine"] = machine_facts()  # last, when numba knows its threading layer
    return result


def _measure(
    source: GraphSource, graph: Graph, settings: Settings, progress: Progress
) -> dict[str, Any]:
    r"""Times all competitors on one graph, then measures their memory in another process."""
    names = list(COMPETITORS)
    entry = _time(source.name, graph, settings, names, progress)
    peaks, entry["memory_error"] = None, None
    if settings.measure_memory:
        step = progress(f"{source.name}: memory", 1)
        try:
            peaks = memory.peak_memory(
                source, settings.channels, settings.dtype, settings.threads, settings.seed, names
            )
        except ChildError as error:  # the timings are worth keeping
            entry["memory_error"] = str(error)
        step()
    array = graph.num_nodes * settings.channels * getattr(torch, settings.dtype).itemsize
    for row in entry["results"]:
        peak = None if peaks is None else peaks[row["competitor"]][row["pass"]]
        row["memory_mb"] = None if peak is None else peak / 1e6
        row["memory_arrays"] = None if peak is None else peak / array
    return entry


def _time(
    name: str, graph: Graph, settings: Settings, names: Sequence[str], progress: Progress
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
        "floor": {key: floors(timed) for key, timed in by_pass.items()},
        "results": [row for key, timed in by_pass.items() for row in rows_of(key, timed)],
    }


def _sweep(settings: Settings, progress: Progress) -> dict[str, list[dict[str, Any]]]:
    r"""Our aggregators and the floor at growing numbers of edges, then of channels."""
    edges = [size for size in SWEEP_EDGES if size <= settings.max_edges]
    fixed = min(SWEEP_EDGES_OF_CHANNELS, settings.max_edges)
    return {
        "edges": [_sweep_point(size, 64, settings, progress) for size in edges],
        "channels": [_sweep_point(fixed, size, settings, progress) for size in SWEEP_CHANNELS],
    }


def _sweep_point(
    edges: int, channels: int, settings: Settings, progress: Progress
) -> dict[str, Any]:
    nodes = edges // EDGES_PER_NODE // 2 * 2  # even, so that no edge is left over
    source = GraphSource("power-law", nodes, edges, settings.seed)
    with_pyg = edges * channels <= PYG_MOST_ENTRIES
    names = [name for name in SWEPT if with_pyg or not COMPETITORS[name].is_pyg]
    title = f"{edges:,} edges, {channels} channels"
    return _time(title, source.load(), replace(settings, channels=channels), names, progress)


def _cold(settings: Settings, progress: Progress) -> dict[str, Any]:
    step = progress("cold start", 1)
    try:
        measured = cold_start(settings.threads)
    except ChildError as error:
        measured = {"error": str(error)}
    step()
    return measured


def _method() -> dict[str, Any]:
    return {
        "timing": (
            f"{WARM_UP_CALLS} warm-up calls per competitor and pass, then rounds in which each is "
            f"called once, in a new order per round, after a pause of {PAUSE:g} s; one leaves the "
            f"rounds after {MIN_CALLS} calls or more once they took the budget, so n differs"
        ),
        "forward": "without recording for a backward pass",
        "forward+backward": "gradients of features and parameter",
        "floor": "the faster median of the two linear products, per graph and pass",
        "memory": memory.WHAT,
    }


@contextmanager
def threads(number: int) -> Iterator[None]:
    r"""Computes on this many threads inside a :obj:`with` block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
