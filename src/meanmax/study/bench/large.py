r"""Layer-wise inference of a large graph on disk within a limit of memory."""

from __future__ import annotations

import math
import resource
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meanmax.nn import build_model
from meanmax.scale.features import scratch_files
from meanmax.scale.folder import open_folder
from meanmax.scale.inference import run_layers, scratch_bytes
from meanmax.study.bench.memory import PrivatePeak, answer, run_child


@dataclass(frozen=True)
class LargeSettings:
    r"""What is measured.

    Args:
        folder (str): The graph folder; the scratch files are made beside it.
        backbone (str, optional): The layers. (default: :obj:`"gcn"`)
        aggregators (list, optional): The aggregators, in both layers of two.
        hidden (int, optional): Channels of hidden layer and output. (default: :obj:`32`)
        limit (int, optional): Bytes of data that the process may have (RLIMIT_DATA), Python and
            PyTorch included; 0 for no limit. (default: 4 GiB)
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        threads (int, optional): Threads. (default: :obj:`2`)
        seed (int, optional): Of the weights. (default: :obj:`0`)
    """

    folder: str
    backbone: str = "gcn"
    aggregators: list[str] = field(default_factory=lambda: ["none", "lp", "poly", "softmax", "max"])
    hidden: int = 32
    limit: int = 4 << 30
    memory: int = 1 << 30
    threads: int = 2
    seed: int = 0


def run_large(settings: LargeSettings) -> list[dict[str, Any]]:
    r"""A row for each aggregator, measured in a fresh process."""
    rows: list[dict[str, Any]] = []
    for name in settings.aggregators:
        request = {**asdict(settings), "aggregators": [name]}
        rows += run_child("meanmax.study.bench.large", request)
    return rows


def respond(request: dict[str, Any]) -> list[dict[str, Any]]:
    r"""Measures in this process, which keeps to the limit from here on."""
    settings = LargeSettings(**request)
    torch.set_num_threads(settings.threads)
    if settings.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (settings.limit, settings.limit))
    return [_measured(settings, name) for name in settings.aggregators]


def _measured(settings: LargeSettings, name: str) -> dict[str, Any]:
    folder = open_folder(settings.folder)
    torch.manual_seed(settings.seed)
    width = settings.hidden
    model = build_model(
        settings.backbone, name, folder.manifest.num_features, width, width, nonlinear="all"
    )
    start, busy = time.perf_counter(), time.process_time()
    needed = scratch_bytes(model, folder.x)
    with PrivatePeak() as watch, scratch_files(Path(settings.folder).parent, needed) as store:
        out = run_layers(model, folder.x, folder.edges, store, settings.memory)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        total = float(np.add.reduce(out.array, axis=None, dtype=np.float64))
    if not math.isfinite(total):
        raise FloatingPointError(f"the output of {name} is not finite")
    edges = folder.manifest.num_edges
    return {
        "backbone": settings.backbone,
        "aggr": name,
        "nodes": folder.num_nodes,
        "edges": edges,
        "channels": width,
        "threads": settings.threads,
        "limit_bytes": settings.limit,
        "block_bytes": settings.memory,
        "private_peak_bytes": watch.peak,
        "scratch_bytes": needed,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(busy, 2),
        "ns_per_edge": round(1e9 * seconds / max(edges, 1), 2),
        "output_sum": total,
    }


if __name__ == "__main__":
    answer(respond)
