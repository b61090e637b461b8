r"""The bench of cases: low and high degree, one graph and many, one thread and two, each alone and
next to a second process that does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

import torch

from meanmax.graph import Graph
from meanmax.study.bench import BenchSettings, measure
from meanmax.study.bench.aggregators import cold_part, floor_of
from meanmax.study.bench.competitors import COMPETITORS, LINEAR, OURS, TRAIN, Inputs
from meanmax.study.bench.graphs import power_law_graph
from meanmax.study.bench.measure import ChildError, Progress, Timing, quotient, time_in_turns
from meanmax.study.runs.machine import machine_facts, num_threads

DEGREES: Final = {"degree 4": (15_000, 61_000), "degree 36": (13_752, 505_000)}  # nodes, edges
ONE, MANY = "one graph", "512 graphs"
NUM_GRAPHS, NODES_OF_ONE, EDGES_OF_ONE = 512, 30, 120
GROUPS: Final = (*DEGREES, MANY)
r"""What is timed in the same rounds: a graph of one degree, or one graph and many."""

TIMED = (*LINEAR, *OURS)
THREADS = (1, 2)
SHRINK = 40
METHOD = {
    "timing": "forward+backward: gradients of features and parameter, in rounds as in the bench of "
    "aggregators",
    "ratio_to_floor": "the time as a multiple of that of the faster of two linear products in the "
    "same case, ours and PyTorch's",
    "neighbour": "the same rounds, while a second process on as many threads calls the same cases "
    "in turns without a pause; ratio_to_alone is the time as a multiple of that without it",
    "ratio_to_one_graph": "512 graphs of 30 nodes as a multiple of one graph with the same nodes "
    "and edges, in the same rounds",
}

Steps = Mapping[str, Callable[[], object]]


def run_cases(
    settings: BenchSettings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures every case on each number of threads; :obj:`quick` shrinks all graphs.

    :obj:`progress`: see :func:`meanmax.study.bench.aggregators.run_bench`.
    """
    settings = replace(settings.resolved(), threads=max(THREADS))  # each case has its own number
    result = measure.new_result(settings, METHOD)
    result["cases"] = [
        case
        for threads in THREADS
        for group in GROUPS
        for case in _measure(group, threads, settings, progress)
    ]
    result["cold"] = cold_part(settings, progress)
    result["machine"] = machine_facts()
    return result


def make_graphs(group: str, settings: BenchSettings) -> dict[str, Graph]:
    r"""The graphs of a group by name; one graph has the very edges of the many."""
    shrink = SHRINK if settings.quick else 1
    if group in DEGREES:
        nodes, edges = (size // shrink for size in DEGREES[group])
        return {group: power_law_graph(nodes, edges, settings.seed)}
    seeds = range(settings.seed, settings.seed + NUM_GRAPHS // shrink)
    many = Graph.batch([power_law_graph(NODES_OF_ONE, EDGES_OF_ONE, seed) for seed in seeds])
    one = Graph.from_csr(many.rowptr, many.col, edge_weight=many.weight, copy=False)
    return {ONE: one, MANY: many}


def loop_beside(group: str, threads: int, settings: dict[str, Any]) -> int:
    r"""Calls the steps of a group in turns in this process, until the parent ends it."""
    torch.set_num_threads(threads)
    given = BenchSettings(**settings)
    steps = _steps(make_graphs(group, given), given)
    return measure.repeat_until_released(lambda: [step() for step in steps.values()])


def _steps(graphs: Mapping[str, Graph], settings: BenchSettings) -> Steps:
    dtype = getattr(torch, settings.dtype)
    inputs = {
        name: Inputs(graph, settings.channels, dtype, settings.seed)
        for name, graph in graphs.items()
    }
    return {
        f"{name}/{competitor}": COMPETITORS[competitor].prepare(given)[TRAIN]
        for name, given in inputs.items()
        for competitor in TIMED
    }


def _measure(
    group: str, threads: int, settings: BenchSettings, progress: Progress
) -> list[dict[str, Any]]:
    r"""Times the graphs of a group alone, then next to the neighbour."""
    title = f"{group}, {threads} thread{'s' if threads > 1 else ''}"
    request = {"group": group, "threads": threads, "settings": asdict(settings)}
    with num_threads(threads):
        graphs = make_graphs(group, settings)
        steps = _steps(graphs, settings)
        alone = _time(steps, f"{title}: alone", settings, progress)
        try:
            with measure.neighbour(f"{__name__}:loop_beside", request):
                beside = _time(steps, f"{title}: with a neighbour", settings, progress)
        except ChildError as error:
            beside = {name: Timing(error=str(error)) for name in steps}
    return [
        {
            "name": name,
            "threads": threads,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_graphs": graph.num_graphs,
            "channels": settings.channels,
            "floor": floor_of(_of(name, alone)),
            "neighbour_floor": floor_of(_of(name, beside)),
            "results": _rows(name, alone, beside),
        }
        for name, graph in graphs.items()
    ]


def _time(
    steps: Steps, title: str, settings: BenchSettings, progress: Progress
) -> dict[str, Timing]:
    return time_in_turns(
        steps,
        repeats=settings.repeats,
        budget=settings.budget,
        seed=settings.seed,
        on_step=progress(title, len(steps) * (settings.repeats + 1)),
    )


def _of(graph: str, timed: Mapping[str, Timing]) -> dict[str, Timing]:
    return {name: timed[f"{graph}/{name}"] for name in TIMED}


def _rows(
    graph: str, alone: Mapping[str, Timing], beside: Mapping[str, Timing]
) -> list[dict[str, Any]]:
    floors = [floor_of(_of(graph, timed))["median_ms"] for timed in (alone, beside)]
    rows = []
    for name in TIMED:
        timing, busy = alone[f"{graph}/{name}"], beside[f"{graph}/{name}"]
        one = alone[f"{ONE}/{name}"].median_ms if graph == MANY else None
        rows.append(
            {
                "competitor": name,
                "label": COMPETITORS[name].label,
                "n": len(timing.seconds),
                "median_ms": timing.median_ms,
                "ratio_to_floor": quotient(timing.median_ms, floors[0]),
                "ratio_to_one_graph": quotient(timing.median_ms, one),
                "neighbour_ms": busy.median_ms,
                "neighbour_ratio_to_floor": quotient(busy.median_ms, floors[1]),
                "ratio_to_alone": quotient(busy.median_ms, timing.median_ms),
                "times_ms": [1000 * seconds for seconds in timing.seconds],
                "neighbour_times_ms": [1000 * seconds for seconds in busy.seconds],
                "error": timing.error or busy.error,
            }
        )
    return rows
