r"""Facts about the machine and the code that made a result."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from meanmax.study.runs.row import Row

PACKAGES = ("meanmax", "torch", "torch-geometric", "numba", "numpy", "scipy")


def machine_facts() -> dict[str, Any]:
    r"""Processor, cores, system, versions and commit, as JSON values."""
    import torch

    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "kernel_threads": _kernel_threads(),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        "commit": commit(),
    }


def versions() -> dict[str, str]:
    r"""The installed versions of the packages that results depend on."""
    return {name: package_version(name) for name in PACKAGES}


@cache
def package_version(name: str) -> str:
    r"""The installed version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@cache
def cpu_model() -> str:
    r"""The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _kernel_threads() -> str | None:
    from meanmax.ops.dispatch import numba_error

    if numba_error() is not None:
        return None
    from meanmax.ops.numba.launch import runtime

    return runtime()


@cache
def commit() -> str | None:
    r"""The commit of the checkout that this file is in; :obj:`None` if it is in none."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


MEMORY = 300.0  # seconds for which the load average still includes a finished run

_ended: deque[float] = deque(maxlen=1)  # when the last run of this process ended


def was_idle(threads: int) -> bool:
    r"""Whether the load is no higher than the runs that this process has made explain."""
    return is_idle(threads if _ended and time.monotonic() - _ended[-1] < MEMORY else 0)


def is_idle(threads: int) -> bool:
    r"""Whether the load is no higher than the present run explains."""
    return load() <= min(threads, os.cpu_count() or threads) + 0.5


def run_ended() -> None:
    r"""Records that a run has ended now."""
    _ended.append(time.monotonic())


def load() -> float:
    r"""The mean number of running threads in the last minute; NaN where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan


SHOWN = 5  # revisions that a note lists


def revision_notes(rows: Sequence[Row]) -> list[str]:
    r"""Sentences about rows that different code made; none if it was the same for all."""
    notes = []
    # the commit, or the version where there was no checkout
    made = Counter(
        row.commit or f"version {row.versions.get('meanmax', 'unknown')}" for row in rows
    )
    if len(made) > 1:
        listed = [f"{name} ({number})" for name, number in made.most_common(SHOWN)]
        listed += [f"{len(made) - SHOWN} more"] if len(made) > SHOWN else []
        notes.append(
            f"The {len(rows)} runs come from {len(made)} revisions of the code: "
            f"{', '.join(listed)}. Stored runs are not repeated when the code changes; use "
            f"another folder to repeat them."
        )
    used: dict[str, set[str]] = {}
    for row in rows:
        for name, own in row.versions.items():
            used.setdefault(name, set()).add(own)
    several = [
        f"{name} {' and '.join(sorted(found))}"
        for name, found in sorted(used.items())
        if len(found) > 1 and name != "meanmax"
    ]
    if several:
        notes.append(f"They were made with several versions of libraries: {'; '.join(several)}.")
    return notes


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    r"""Computes on :obj:`count` threads inside a :obj:`with` block: those of PyTorch, and those of
    numpy, scipy and scikit-learn, where they are loaded.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    if before == count:  # as in workers, whose environment says so to all of them
        yield
        return
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)
