r"""What the first call costs: once ever per machine, and once per process after that."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch

from meanmax.study.bench.competitors import COMPETITORS, TRAIN, Inputs
from meanmax.study.bench.graphs import power_law_graph
from meanmax.study.bench.memory import answer, run_child

FIRST_CALLS = ("lp-numba", "polynomial-numba", "softmax-numba", "exact-numba")
WHAT = (
    "seconds of the first forward+backward pass of each aggregator at float32, one after the "
    "other in a fresh process; 'compile' with an empty NUMBA_CACHE_DIR, 'cached' with the one that "
    "it filled; 'exact' is what rows on the exact path need on top"
)


def cold_start(threads: int) -> dict[str, Any]:
    r"""First calls with an empty cache, then in another process with the cache they filled.

    Args:
        threads (int): The number of threads.
    """
    with tempfile.TemporaryDirectory(prefix="meanmax-cold-") as folder:
        env, request = {"NUMBA_CACHE_DIR": folder}, {"threads": threads}
        runs = {
            key: run_child("meanmax.study.bench.coldstart", request, env)
            for key in ("compile", "cached")
        }
    return {"what": WHAT, "error": None, **runs}


def respond(request: dict[str, Any]) -> dict[str, Any]:
    r"""Calls every aggregator for the first time in this process; see :func:`cold_start`."""
    torch.set_num_threads(request["threads"])
    inputs = Inputs(power_law_graph(200, 2000), channels=16)
    first = {}
    for name in FIRST_CALLS:
        call = COMPETITORS[name].prepare(inputs)[TRAIN]
        start = time.perf_counter()
        call()
        first[name] = time.perf_counter() - start
    total = sum(seconds for name, seconds in first.items() if name != "exact-numba")
    return {"first_call_seconds": first, "three_aggregators_seconds": total}


if __name__ == "__main__":
    answer(respond)
