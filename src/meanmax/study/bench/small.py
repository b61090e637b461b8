r"""The bench of small graphs: what a step costs beside PyG's aggregations, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg

from meanmax.aggr import LpAggregation, PolynomialAggregation, SoftmaxAggregation
from meanmax.graph import Graph
from meanmax.study.bench import BenchSettings, measure
from meanmax.study.bench.measure import Progress, Timing, quotient, time_in_turns
from meanmax.study.runs.machine import machine_facts, num_threads

SIZES = (200, 2_000, 20_000, 200_000)  # edges
QUICK_SIZES = SIZES[:2]
EDGES_PER_NODE = 5
EDGES_PER_CALL = 20_000  # small graphs are stepped through several times in a timed call
ROUTES = ("Graph, fresh", "Graph, reused", "drop-in, fresh", "drop-in, reused")
METHOD = {
    "step": "forward+backward on one thread: gradients of features and parameter; of small graphs, "
    "a timed call makes several steps in a row, and times are those of one step",
    "graph": "random edges in no order, five for each node; features are not negative, as PyG's "
    "power mean needs them",
    "Graph": "aggregation(x, graph); fresh: with Graph.from_edge_index in each step",
    "drop-in": "aggregation(x.index_select(0, source), target), as inside a PyG layer",
    "fresh": "with a copy of edge_index in each step, which is timed with it; PyG's aggregations, "
    "which keep nothing between steps, are spared the copy",
    "ratio_to_pyg": "the time as a multiple of that of PyG's aggregation with learn=True, in the "
    "same rounds",
}

Step = Callable[[], object]


class SmallGraph:
    r"""Edges, features and incoming gradient of a size."""

    def __init__(self, num_edges: int, settings: BenchSettings) -> None:
        generator = torch.Generator().manual_seed(settings.seed)
        self.num_nodes: Final = num_edges // EDGES_PER_NODE
        self.edge_index: Final = torch.randint(self.num_nodes, (2, num_edges), generator=generator)
        size, dtype = (self.num_nodes, settings.channels), getattr(torch, settings.dtype)
        self.x: Final = torch.randn(size, generator=generator, dtype=dtype).abs().requires_grad_()
        self.grad: Final = torch.randn(size, generator=generator, dtype=dtype)

    def step(self, aggregation: torch.nn.Module, call: Callable[[], Tensor]) -> Step:
        r"""Forward and backward of a call that uses the aggregation."""
        leaves = [self.x, *aggregation.parameters()]
        return lambda: torch.autograd.grad(call(), leaves, self.grad)

    def drop_in(self, aggregation: torch.nn.Module, edge_index: Tensor) -> Tensor:
        r"""Calls an aggregation, ours or PyG's, with messages."""
        source, target = edge_index
        out: Tensor = aggregation(self.x.index_select(0, source), target, dim_size=self.num_nodes)
        return out

    def routes(self, aggregation: torch.nn.Module) -> dict[str, Step]:
        r"""The steps of one of our aggregations by route."""
        edges, nodes = self.edge_index, self.num_nodes
        graph = Graph.from_edge_index(edges, nodes)
        calls: tuple[Callable[[], Tensor], ...] = (
            lambda: aggregation(self.x, Graph.from_edge_index(edges.clone(), nodes)),
            lambda: aggregation(self.x, graph),
            lambda: self.drop_in(aggregation, edges.clone()),
            lambda: self.drop_in(aggregation, edges),
        )
        return {
            route: self.step(aggregation, call) for route, call in zip(ROUTES, calls, strict=True)
        }


OURS: Final[dict[str, Callable[[], torch.nn.Module]]] = {
    "lp": LpAggregation,
    "polynomial": PolynomialAggregation,
    "softmax": SoftmaxAggregation,
}
PYG: Final[dict[str, Callable[[], torch.nn.Module]]] = {
    "pyg_softmax": lambda: pyg.SoftmaxAggregation(learn=True),
    "pyg_powermean": lambda: pyg.PowerMeanAggregation(learn=True),
}
LABELS: Final = {"pyg_softmax": "PyG softmax", "pyg_powermean": "PyG power mean"}


def run_small(
    settings: BenchSettings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures every size; :obj:`quick` leaves out the large ones.

    :obj:`progress`: see :func:`meanmax.study.bench.aggregators.run_bench`.
    """
    settings = replace(settings.resolved(), threads=1)
    result = measure.new_result(settings, METHOD)
    with num_threads(1):
        sizes = QUICK_SIZES if settings.quick else SIZES
        result["small"] = [_measure(size, settings, progress) for size in sizes]
    result["machine"] = machine_facts()
    return result


def _measure(num_edges: int, settings: BenchSettings, progress: Progress) -> dict[str, Any]:
    graph = SmallGraph(num_edges, settings)
    repeated = 1 if settings.quick else max(1, EDGES_PER_CALL // num_edges)
    dtype = getattr(torch, settings.dtype)
    steps: dict[tuple[str, str | None], Step] = {}
    for name, make in PYG.items():
        steps[name, None] = _pyg_step(graph, make().to(dtype))
    for name, make in OURS.items():
        for route, step in graph.routes(make().to(dtype)).items():
            steps[name, route] = step
    name = f"{num_edges:,} edges"
    timings = time_in_turns(
        {label_of(*key): _several(step, repeated) for key, step in steps.items()},
        repeats=settings.repeats,
        budget=settings.budget,
        seed=settings.seed,
        on_step=progress(f"{name}: timing", len(steps) * (settings.repeats + 1)),
    )
    for timing in timings.values():
        timing.seconds = [seconds / repeated for seconds in timing.seconds]
    return {
        "name": name,
        "num_nodes": graph.num_nodes,
        "num_edges": num_edges,
        "channels": settings.channels,
        "steps_per_call": repeated,
        "results": [_row(*key, timings) for key in steps],
    }


def label_of(aggregator: str, route: str | None) -> str:
    r"""What tables call an aggregator on a route."""
    return LABELS[aggregator] if route is None else f"{aggregator}, {route}"


def _pyg_step(graph: SmallGraph, aggregation: torch.nn.Module) -> Step:
    return graph.step(aggregation, lambda: graph.drop_in(aggregation, graph.edge_index))


def _several(step: Step, times: int) -> Step:
    def call() -> None:
        for _ in range(times):
            step()

    return call


def _row(aggregator: str, route: str | None, timings: Mapping[str, Timing]) -> dict[str, Any]:
    label = label_of(aggregator, route)
    timing = timings[label]
    row = {
        "aggregator": aggregator,
        "route": route,
        "label": label,
        "n": len(timing.seconds),
        "median_ms": timing.median_ms,
    }
    for name in PYG:
        row[f"ratio_to_{name}"] = quotient(timing.median_ms, timings[LABELS[name]].median_ms)
    times = [1000 * seconds for seconds in timing.seconds]
    return row | {"times_ms": times, "error": timing.error}
