r"""The facts about a machine that results mean little without."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from collections import Counter, deque
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numba
import torch

from meanmax.study.runs.row import Row

PACKAGES = ("meanmax", "torch", "torch-geometric", "numba", "numpy", "scipy")


def machine_facts() -> dict[str, Any]:
    r"""Processor, cores, system, versions and commit, as plain values."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "numba_threading_layer": _threading_layer(),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        "commit": commit(),
    }


def versions() -> dict[str, str]:
    r"""The installed versions of what results depend on."""
    return {name: package_version(name) for name in PACKAGES}


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


def _threading_layer() -> str | None:
    try:
        return str(numba.threading_layer())
    except ValueError:  # nothing has run in parallel yet
        return None


@cache
def commit() -> str | None:
    r"""The commit of the checkout that this file belongs to, if it does."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


MEMORY = 300.0  # seconds after which the load says no more of a run that ended

_ended: deque[float] = deque(maxlen=1)  # when the last run of this process did


def was_idle(threads: int) -> bool:
    r"""Whether the load is no more than that of the runs made here until now.

    Args:
        threads (int): Threads of those runs.
    """
    threads = min(threads, os.cpu_count() or threads)
    own = threads if _ended and time.monotonic() - _ended[-1] < MEMORY else 0
    return load() <= own + 0.5


def is_idle(threads: int) -> bool:
    r"""Whether the load is no more than that of the run that is being made.

    Args:
        threads (int): Its threads.
    """
    return load() <= min(threads, os.cpu_count() or threads) + 0.5


def run_ended() -> None:
    r"""Remembers that a run ended now."""
    _ended.append(time.monotonic())


def load() -> float:
    r"""The mean number of running threads in the last minute; NaN where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan


SHOWN = 5  # revisions that are named


def revision(row: Row) -> str:
    r"""The commit that a run was made with, or the version where there is no checkout."""
    return row.commit or f"version {row.versions.get('meanmax', 'unknown')}"


def revision_notes(rows: Sequence[Row]) -> list[str]:
    r"""Sentences on rows that different code has made: none if it was the same for all.

    Args:
        rows (sequence): The rows of one table.
    """
    notes = []
    made = Counter(revision(row) for row in rows)
    if len(made) > 1:
        listed = [f"{name} ({number})" for name, number in made.most_common(SHOWN)]
        listed += [f"{len(made) - SHOWN} more"] if len(made) > SHOWN else []
        notes.append(
            f"The {len(rows)} runs come from {len(made)} revisions of the code: "
            f"{', '.join(listed)}. Stored runs are not made anew when the code changes; in another "
            f"folder they are."
        )
    if several := _libraries(rows):
        notes.append(f"They were made with several versions of libraries: {several}.")
    return notes


def _libraries(rows: Sequence[Row]) -> str:
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, used in row.versions.items():
            found.setdefault(name, set()).add(used)
    return "; ".join(
        f"{name} {' and '.join(sorted(versions))}"
        for name, versions in sorted(found.items())
        if len(versions) > 1 and name != "meanmax"
    )
