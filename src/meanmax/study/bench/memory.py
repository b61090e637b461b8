r"""Peak memory of a call, from the kernel's own high-water mark of resident memory.

A child process runs every case once to prepare what is kept (compiled code, the graph's plan),
gives free memory back, resets the mark (Linux: :obj:`/proc/self/clear_refs`), notes what is
resident, runs the case once more and reads the mark. The difference counts every page that the
call touches, of PyTorch, numpy and numba alike, its outputs and gradients included, but not the
features and the prepared graph. The child's malloc maps each array of its own (64 KiB and more), so
that a freed one leaves resident memory at once. The kernel counts resident pages per thread or
processor before it adds them up, so that numbers are good to a few tenths of a megabyte.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from meanmax.study.bench.competitors import COMPETITORS, Inputs
from meanmax.study.bench.graphs import GraphSource

STATUS = Path("/proc/self/status")


def private_bytes() -> int:
    r"""What is resident and belongs to no file (RssAnon); pages of mapped files do not count, the
    system takes them back when it wants them.
    """
    for line in STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


class PrivatePeak:
    r"""Samples :func:`private_bytes` in a thread inside a :obj:`with` block.

    Args:
        every (float, optional): Seconds between samples. (default: :obj:`0.01`)
    """

    def __init__(self, every: float = 0.01) -> None:
        self.peak = 0
        self._every = every
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PrivatePeak:
        self.peak = private_bytes()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            self.peak = max(self.peak, private_bytes())


class ChildError(RuntimeError):
    r"""A child process that failed; the message ends with what it said."""


def run_child(module: str, request: dict[str, Any], env: dict[str, str] | None = None) -> Any:
    r"""Runs :obj:`python -m module` and returns what it answers.

    Args:
        module (str): The module; it reads one JSON value from stdin and writes one to stdout.
        request (dict): What to write to its stdin.
        env (dict, optional): Environment variables to set on top. (default: :obj:`None`)
    """
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        env=inherited | (env or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise ChildError(f"python -m {module} ended with {done.returncode}: {said[-1]}")
    return json.loads(done.stdout)


def answer(respond: Any) -> None:
    r"""The child's side: answers the request on stdin."""
    json.dump(respond(json.load(sys.stdin)), sys.stdout)


WHAT = (
    "peak resident memory of one call beyond features and prepared graph, outputs and gradients "
    "included, in a child process; good to a few tenths of a MB"
)
PEAK_RESET = "/proc/self/clear_refs"
OWN_MAPPINGS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def peak_memory(
    source: GraphSource, channels: int, dtype: str, threads: int, seed: int, names: list[str]
) -> dict[str, dict[str, int | None]] | None:
    r"""Bytes of every competitor and pass; :obj:`None` where the system has no mark to reset.

    Args:
        source (GraphSource): The graph.
        channels (int): The number of channels.
        dtype (str): The type of the features.
        threads (int): The number of threads.
        seed (int): The seed of the features.
        names (list): The competitors.
    """
    if not sys.platform.startswith("linux"):
        return None
    request = {
        "source": asdict(source),
        "channels": channels,
        "dtype": dtype,
        "threads": threads,
        "seed": seed,
        "names": names,
    }
    measured: dict[str, dict[str, int | None]] | None
    measured = run_child("meanmax.study.bench.memory", request, OWN_MAPPINGS)
    return measured


def respond(request: dict[str, Any]) -> dict[str, dict[str, int | None]] | None:
    r"""Measures in this process; see :func:`peak_memory`."""
    try:
        Path(PEAK_RESET).write_text("5")
    except OSError:
        return None
    torch.set_num_threads(request["threads"])
    graph = GraphSource(**request["source"]).load()
    dtype = getattr(torch, request["dtype"])
    inputs = Inputs(graph, request["channels"], dtype, request["seed"])
    peaks: dict[str, dict[str, int | None]] = {}
    for name in request["names"]:
        passes = COMPETITORS[name].prepare(inputs)
        peaks[name] = {key: peak_of(call) for key, call in passes.items()}
    return peaks


def peak_of(call: Callable[[], object]) -> int | None:
    r"""Bytes that a call adds at its peak; :obj:`None` if it fails."""
    try:
        call()
        _give_back()
        Path(PEAK_RESET).write_text("5")
        before = _status("VmRSS")
        result = call()
        peak = _status("VmHWM")
        del result
    except (RuntimeError, ValueError, MemoryError):
        return None  # the timing reports why
    return max(peak - before, 0)


def _give_back() -> None:
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # absent from musl
    if trim is not None:
        trim(0)


def _status(key: str) -> int:
    r"""A field of the process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{key}:"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    answer(respond)
