r"""Two layers on a large graph: inference from disk within a memory limit, or training steps."""

from __future__ import annotations

import math
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.nn import NodeModel, build_model
from meanmax.scale.features import scratch_files
from meanmax.scale.folder import open_folder
from meanmax.scale.inference import run_layers, scratch_bytes
from meanmax.study.bench.measure import PrivatePeak, run_child


@dataclass(frozen=True)
class LargeCase:
    r"""One aggregator on one graph folder."""

    folder: str  # the graph folder; scratch files are created next to it
    aggr: str  # the aggregator, in both layers
    backbone: str = "gcn"  # the layers
    hidden: int = 32  # channels of hidden layer and output
    # Bytes of data that an inference process may have (RLIMIT_DATA), Python and PyTorch included; 0
    # for no limit; by default 4 GiB
    limit: int = 4 << 30
    memory: int = 1 << 30  # bytes that the arrays of a block may take; by default 1 GiB
    steps: int = 3  # timed training steps, after one that is not
    threads: int = 2
    seed: int = 0  # the seed of the weights

    def facts(self, nodes: int, edges: int) -> dict[str, Any]:
        r"""The case and the sizes of its graph, for its row."""
        method = {"backbone": self.backbone, "aggr": self.aggr}
        sizes = {"nodes": nodes, "edges": edges, "channels": self.hidden}
        return {**method, **sizes, "threads": self.threads}

    def model(self, features: int, **options: Any) -> NodeModel:
        r"""The two layers."""
        torch.manual_seed(self.seed)
        sizes = (features, self.hidden, self.hidden)
        built: NodeModel = build_model(self.backbone, self.aggr, *sizes, nonlinear="all", **options)
        return built


def run_large(case: LargeCase, what: Literal["inference", "training"]) -> dict[str, Any]:
    r"""Measures one case in a new process and returns its row."""
    row: dict[str, Any] = run_child(f"{__name__}:measure_{what}", asdict(case))
    return row


def measure_inference(**request: Any) -> dict[str, Any]:
    r"""Times inference layer by layer in this process, which keeps to the limit from here on."""
    case = LargeCase(**request)
    torch.set_num_threads(case.threads)
    if case.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (case.limit, case.limit))
    folder = open_folder(case.folder)
    model = case.model(folder.manifest.num_features)
    start, busy = time.perf_counter(), time.process_time()
    needed = scratch_bytes(model, folder.x)
    with PrivatePeak() as watch, scratch_files(Path(case.folder).parent, needed) as store:
        out = run_layers(model, folder.x, folder.edges, store, case.memory)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        total = float(np.add.reduce(out.array, axis=None, dtype=np.float64))
    if not math.isfinite(total):
        raise FloatingPointError(f"the output of {case.aggr} is not finite")
    edges = folder.manifest.num_edges
    return {
        **case.facts(folder.num_nodes, edges),
        "limit_bytes": case.limit,
        "block_bytes": case.memory,
        "private_peak_bytes": watch.peak,
        "scratch_bytes": needed,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(busy, 2),
        "ns_per_edge": round(1e9 * seconds / max(edges, 1), 2),
        "output_sum": total,
    }


def measure_training(**request: Any) -> dict[str, Any]:
    r"""Times forward and backward over the whole graph in the memory of this process."""
    case = LargeCase(**request)
    torch.set_num_threads(case.threads)
    with PrivatePeak(0.05) as watch:
        graph, x = _in_memory(case.folder)
        model = case.model(x.size(1), dropout=0.0)
        first = _step(model, x, graph)  # prepares the graph, loads the kernels
        times = [_step(model, x, graph) for _ in range(case.steps)]
    return {
        **case.facts(graph.num_nodes, graph.num_edges),
        "steps": case.steps,
        "first_seconds": round(first, 2),
        "step_seconds": [round(seconds, 3) for seconds in times],
        "ns_per_edge": round(1e9 * median(times) / max(graph.num_edges, 1), 2),
        "private_peak_bytes": watch.peak,
    }


def _in_memory(path: str) -> tuple[Graph, Tensor]:
    folder = open_folder(path)
    stored = (np.array(folder.arrays[name]) for name in ("rowptr", "col"))
    pointer, source = (torch.from_numpy(array) for array in stored)
    x = folder.x.read(0, folder.num_nodes)
    assert isinstance(x, Tensor)
    return Graph.from_csr(pointer, source, copy=False), x


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
