r"""Peak memory of a layer's forward and backward pass, beside that of its linear self."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import Module

from meanmax.nn import GATConv, GCNConv
from meanmax.study.bench.layers import AGGREGATORS, LARGE, PPI, Problem, Shape
from meanmax.study.bench.memory import OWN_MAPPINGS, PEAK_RESET, answer, peak_of, run_child

CASES: dict[str, tuple[Shape, Callable[[str | None], Module]]] = {
    "gat 4×256": (PPI, lambda aggr: GATConv(50, 256, 4, aggr=aggr)),  # type: ignore[arg-type]
    "gcn 64": (LARGE, lambda aggr: GCNConv(64, 64, aggr=aggr)),  # type: ignore[arg-type]
}


def layer_memory(threads: int, seed: int, shrink: int) -> list[dict[str, Any]] | None:
    r"""Bytes of every case and aggregator; :obj:`None` where the system cannot tell.

    Args:
        threads (int): The number of threads.
        seed (int): Of graph and features.
        shrink (int): How much smaller than their real sizes the graphs are.
    """
    request = {"threads": threads, "seed": seed, "shrink": shrink}
    measured: list[dict[str, Any]] | None
    measured = run_child("meanmax.study.bench.layer_memory", request, OWN_MAPPINGS)
    return measured


def respond(request: dict[str, Any]) -> list[dict[str, Any]] | None:
    r"""Measures in this process."""
    try:
        Path(PEAK_RESET).write_text("5")
    except OSError:
        return None
    torch.set_num_threads(request["threads"])
    rows = []
    for name, (shape, make) in CASES.items():
        if request["shrink"] > 1:
            small = shape.shrunk(request["shrink"])
            shape = replace(small, features=shape.features)
        problem = Problem(shape, request["seed"])
        peaks = {aggr: _peak(make, aggr, problem) for aggr in AGGREGATORS}
        linear = peaks["none"]
        for aggr, peak in peaks.items():
            ratio = None if not peak or not linear else peak / linear
            rows.append(
                {
                    "layer": name,
                    "aggr": aggr,
                    "num_nodes": shape.nodes,
                    "num_edges": problem.graph.num_edges,
                    "peak_mb": None if peak is None else peak / 1e6,
                    "ratio_to_linear": ratio,
                }
            )
    return rows


def _peak(make: Callable[[str | None], Module], aggr: str, problem: Problem) -> int | None:
    torch.manual_seed(0)
    layer = make(None if aggr == "none" else aggr)
    x = problem.x.clone().requires_grad_()
    leaves = [x, *layer.parameters()]
    return peak_of(lambda: torch.autograd.grad(layer(x, problem.graph).square().mean(), leaves))


if __name__ == "__main__":
    answer(respond)
