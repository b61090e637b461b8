r"""Training steps on a whole large graph in memory: forward and backward, time and memory."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.nn import NodeModel, build_model
from meanmax.scale.folder import open_folder
from meanmax.study.bench.memory import PrivatePeak, answer, run_child


@dataclass(frozen=True)
class TrainingSettings:
    r"""What is measured.

    Args:
        folder (str): The graph folder.
        aggr (str): The aggregator, in both layers of two.
        hidden (int, optional): Channels of hidden layer and output. (default: :obj:`32`)
        steps (int, optional): Steps that are timed, after one that is not. (default: :obj:`3`)
        threads (int, optional): Threads. (default: :obj:`2`)
        seed (int, optional): Of the weights. (default: :obj:`0`)
    """

    folder: str
    aggr: str
    hidden: int = 32
    steps: int = 3
    threads: int = 2
    seed: int = 0


def run_training(settings: TrainingSettings) -> dict[str, Any]:
    r"""The row of one aggregator, measured in a fresh process."""
    row: dict[str, Any] = run_child("meanmax.study.bench.large_training", asdict(settings))
    return row


def respond(request: dict[str, Any]) -> dict[str, Any]:
    r"""Measures in this process."""
    settings = TrainingSettings(**request)
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    with PrivatePeak(0.05) as watch:
        graph, x = _loaded(settings.folder)
        width = settings.hidden
        model = build_model(
            "gcn", settings.aggr, x.size(1), width, width, dropout=0.0, nonlinear="all"
        )
        first = _step(model, x, graph)  # prepares the graph, loads the kernels
        times = [_step(model, x, graph) for _ in range(settings.steps)]
    return {
        "backbone": "gcn",
        "aggr": settings.aggr,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "channels": settings.hidden,
        "threads": settings.threads,
        "steps": settings.steps,
        "first_seconds": round(first, 2),
        "step_seconds": [round(seconds, 3) for seconds in times],
        "ns_per_edge": round(1e9 * median(times) / max(graph.num_edges, 1), 2),
        "private_peak_bytes": watch.peak,
    }


def _loaded(path: str) -> tuple[Graph, Tensor]:
    folder = open_folder(path)
    stored = (np.array(folder.arrays[name]) for name in ("rowptr", "col"))
    pointer, source = (torch.from_numpy(array) for array in stored)
    x = folder.x.read(0, folder.num_nodes)
    assert isinstance(x, Tensor)
    return Graph.from_csr(pointer, source), x


def _step(model: NodeModel, x: Tensor, graph: Graph) -> float:
    r"""Seconds of one forward and one backward pass of both layers."""
    model.zero_grad()
    start = time.perf_counter()
    model(x, graph).square().mean().backward()
    seconds = time.perf_counter() - start
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not all(bool(torch.isfinite(grad).all()) for grad in grads):
        raise FloatingPointError("a gradient is not finite")
    return seconds


if __name__ == "__main__":
    answer(respond)
