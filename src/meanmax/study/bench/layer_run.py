r"""The bench of layers: whole training epochs on several shapes, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from meanmax.study.bench.layer_memory import layer_memory
from meanmax.study.bench.layers import (
    CITESEER,
    COMPUTERS,
    GEN_POWER,
    GEN_SOFTMAX,
    PPI,
    PUBMED,
    PYG_GAT,
    PYG_GCN,
    SPARSE,
    TRAINEES,
    Problem,
    Shape,
    Trainee,
)
from meanmax.study.bench.memory import ChildError
from meanmax.study.bench.run import Progress, Settings, Timing, quotient, threads, time_in_turns
from meanmax.study.runs.machine import machine_facts

PYG_BASELINES = {
    "faster_than_gen_softmax": GEN_SOFTMAX,
    "faster_than_gen_powermean": GEN_POWER,
    "faster_than_pyg_gat": PYG_GAT,
    "faster_than_pyg_gcn": PYG_GCN,
}
SHRINK = 40


def run_layers(
    settings: Settings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures epochs on every shape, and the memory of layers.

    Args:
        settings (Settings): Repeats, budget, threads and seed are used; :obj:`quick` shrinks all.
        progress (callable, optional): As of :func:`meanmax.study.bench.run_bench`.
    """
    settings = settings.resolved()
    result: dict[str, Any] = {
        "schema": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asdict(settings),
        "method": {
            "epoch": "forward, backward and Adam step of two layers, hidden 64 (GAT: 8 heads of "
            "8), dropout 0.5, all nodes in the loss, dense input unless stated",
            "own_linear": "the time as a multiple of that of the same model without aggregator",
        },
        "notes": ["quick sizes say nothing about speed"] if settings.quick else [],
    }
    with threads(settings.threads):
        result["shapes"] = [
            _measure(shape, trainees, settings, progress)
            for shape, trainees in (
                (PUBMED, TRAINEES),
                (COMPUTERS, TRAINEES),
                (PPI, TRAINEES),
                (CITESEER, SPARSE),
            )
        ]
    result["memory"], result["memory_error"] = None, None
    if settings.measure_memory:
        step = progress("layers: memory", 1)
        try:
            shrink = SHRINK if settings.quick else 1
            result["memory"] = layer_memory(settings.threads, settings.seed, shrink)
        except ChildError as error:
            result["memory_error"] = str(error)
        step()
    result["machine"] = machine_facts()
    return result


def _measure(
    shape: Shape, trainees: Mapping[str, Trainee], settings: Settings, progress: Progress
) -> dict[str, Any]:
    problem = Problem(shape.shrunk(SHRINK) if settings.quick else shape, settings.seed)
    timings = time_in_turns(
        {name: trainee.prepare(problem) for name, trainee in trainees.items()},
        repeats=settings.repeats,
        budget=settings.budget,
        seed=settings.seed,
        on_step=progress(f"{shape.name}: epochs", len(trainees) * (settings.repeats + 1)),
    )
    return {
        "name": shape.name,
        "num_nodes": problem.shape.nodes,
        "num_edges": problem.graph.num_edges,
        "features": problem.shape.features,
        "filled": float((problem.x != 0).float().mean()),
        "results": [_row(trainees[name], timing, timings) for name, timing in timings.items()],
    }


def _row(trainee: Trainee, timing: Timing, timings: Mapping[str, Timing]) -> dict[str, Any]:
    own = timings[trainee.baseline].median_ms if trainee.baseline else None
    row: dict[str, Any] = {
        "trainee": trainee.name,
        "label": trainee.label,
        "n": len(timing.seconds),
        "median_ms": timing.median_ms,
        "ratio_to_own": quotient(timing.median_ms, own),
        "times_ms": [1000 * seconds for seconds in timing.seconds],
        "error": timing.error,
    }
    for key, peer in PYG_BASELINES.items():
        theirs = timings[peer].median_ms if peer in timings else None
        row[key] = quotient(theirs, timing.median_ms)
    return row
