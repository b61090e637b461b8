r"""Whether a machine has nothing else to do, as far as its load says."""

from __future__ import annotations

import math
import os
import time
from collections import deque

MEMORY = 300.0  # seconds after which the load says no more of a run that ended

_ended: deque[float] = deque(maxlen=1)  # when the last run of this process did


def was_quiet(threads: int) -> bool:
    r"""Whether the load is no more than that of the runs made here until now.

    Args:
        threads (int): Threads of those runs.
    """
    threads = min(threads, os.cpu_count() or threads)
    own = threads if _ended and time.monotonic() - _ended[-1] < MEMORY else 0
    return load() <= own + 0.5


def is_quiet(threads: int) -> bool:
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
