r"""The facts about a machine that results mean little without."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numba
import torch

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
