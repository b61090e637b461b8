r"""How time and memory are measured: calls in turns, and peaks in separate processes.

**Peak memory of a call** is read from the kernel's high-water mark of resident memory. A child
process calls every case once to prepare what is kept (compiled code, the graph's plan), returns
free memory to the system, resets the mark (Linux: :obj:`/proc/self/clear_refs`), notes what is
resident, calls the case again and reads the mark. The difference counts every page that the call
touches, from PyTorch, numpy and numba, including outputs and gradients, but not the features and
the prepared graph. The child's malloc maps each array of 64 KiB or more separately, so that a freed
array leaves resident memory at once. The kernel counts resident pages per thread or processor
before it adds them up, so the numbers are accurate to a few tenths of a megabyte.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from meanmax.study.bench import BenchSettings

WARM_UP_CALLS = 2
MIN_CALLS = 3
PAUSE = 0.005  # seconds in which OpenMP's waiting threads stop spinning

STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")
Progress = Callable[[str, int], Callable[[], None]]
READY = "ready\n"
SEPARATE_ARRAYS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def new_result(settings: BenchSettings, method: dict[str, str]) -> dict[str, Any]:
    r"""What every result begins with."""
    return {
        "schema": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asdict(settings),
        "method": method,
        "notes": ["quick sizes say nothing about speed"] if settings.quick else [],
    }


@dataclass
class Timing:
    r"""The seconds that the calls of one case took, or the error that ended it."""

    seconds: list[float] = field(default_factory=list)  # one entry per call
    error: str | None = None  # why there are no (more) calls

    @property
    def median_ms(self) -> float | None:
        r"""The median in milliseconds; :obj:`None` if the case failed."""
        return None if self.error is not None else 1000 * median(self.seconds)


def time_in_turns(
    cases: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    budget: float,
    seed: int = 0,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    r"""Warms all cases up, then calls each of them once per round, in a new order each time.

    A case leaves the rounds once its calls took :obj:`budget` seconds in total, but not before
    three calls. :obj:`on_step`: called after each case's warm-up and after each round's turn of
    each case, :obj:`len(cases) * (repeats + 1)` times.
    """
    timings = {name: Timing() for name in cases}
    for name, call in cases.items():
        for _ in range(WARM_UP_CALLS):
            _attempt(call, timings[name])
        timings[name].seconds.clear()
        on_step()
    shuffled = random.Random(seed)
    with _no_collection():
        for _ in range(repeats):
            for name in shuffled.sample(list(cases), len(cases)):
                timing = timings[name]
                if len(timing.seconds) < MIN_CALLS or sum(timing.seconds) < budget:
                    _attempt(cases[name], timing)
                on_step()
            gc.collect()
    return timings


def _attempt(call: Callable[[], object], timing: Timing) -> None:
    r"""Times one call; a case that failed once is not called again."""
    if timing.error is not None:
        return
    time.sleep(PAUSE)
    start = time.perf_counter()
    try:
        result = call()
    except (RuntimeError, ValueError, MemoryError) as error:
        timing.error = f"{type(error).__name__}: {error}"
        return
    timing.seconds.append(time.perf_counter() - start)
    del result  # freed outside the timing


@contextmanager
def _no_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def quotient(upper: float | None, lower: float | None) -> float | None:
    r"""Their ratio, or :obj:`None` unless both were measured."""
    return None if upper is None or lower is None else upper / lower


class ChildError(RuntimeError):
    r"""A child process that failed; the message ends with the last line of its stderr."""


def run_child(target: str, request: dict[str, Any], env: dict[str, str] | None = None) -> Any:
    r"""Calls the function :obj:`"module:name"` with the keyword arguments :obj:`request` in a new
    process, with more environment variables, and returns its result, both as JSON.
    """
    with _start(target, env) as child:
        try:
            return _finish(target, child, json.dumps(request))
        except BaseException:
            child.kill()
            raise


@contextmanager
def neighbour(target: str, request: dict[str, Any]) -> Iterator[None]:
    r"""Keeps a second process busy in a :obj:`with` block, which begins once that process is ready.

    :obj:`target`: as of :func:`run_child`, a function that ends with
    :func:`repeat_until_released`. A process that fails, also inside of the block, is a
    :class:`ChildError`.
    """
    with _start(target) as child:
        assert child.stdin is not None and child.stdout is not None
        with suppress(BrokenPipeError):  # it ended: there is no answer either
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
        ready = child.stdout.readline() == READY
        if ready:
            yield
        _finish(target, child)
        if not ready:
            raise ChildError(f"{target} in a child process ended before it was ready")


def repeat_until_released(call: Callable[[], object]) -> int:
    r"""Calls a function again and again until the parent, see :func:`neighbour`, closes stdin or
    ends, and returns the number of calls. The first call, which may compile, precedes the block.
    """
    call()
    released = threading.Event()

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        released.set()

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write(READY)
    sys.stdout.flush()
    calls = 0
    while not released.is_set():
        call()
        calls += 1
    return calls


def _start(target: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-m", __name__, target],
        env=inherited | (env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(target: str, child: subprocess.Popen[str], request: str | None = None) -> Any:
    r"""Closes the child's stdin, waits for its end, and returns what it answers."""
    answer, complaints = child.communicate(request)
    if child.returncode != 0:
        last = (complaints.strip().splitlines() or ["no message"])[-1]
        raise ChildError(f"{target} in a child process ended with {child.returncode}: {last}")
    return json.loads(answer)


def try_child(progress: Progress, title: str, call: Callable[[], Any]) -> tuple[Any, str | None]:
    r"""The result of a call that needs a child process, or :obj:`None` and why that failed: timings
    are worth keeping without it.
    """
    step = progress(title, 1)
    try:
        return call(), None
    except ChildError as error:
        return None, str(error)
    finally:
        step()


class PrivatePeak:
    r"""Samples :func:`private_bytes` in a thread, each :obj:`every` seconds of a :obj:`with`."""

    def __init__(self, every: float = 0.01) -> None:
        self.peak = 0
        self._every = every
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PrivatePeak:
        self.peak = private_bytes()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            self.peak = max(self.peak, private_bytes())


def private_bytes() -> int:
    r"""Resident memory that belongs to no file (RssAnon). Pages of mapped files do not count, since
    the system reclaims them at need.
    """
    return _status("RssAnon")


def can_reset_peak() -> bool:
    r"""Whether the system has a high-water mark that this process may reset."""
    try:
        PEAK_RESET.write_text("5")
    except OSError:
        return False
    return True


def peak_of(call: Callable[[], object]) -> int | None:
    r"""Bytes that a call adds at its peak; :obj:`None` if it fails."""
    from meanmax.ops.numba import memory

    try:
        call()
        gc.collect()
        memory.release()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # absent from musl
            trim(0)
        PEAK_RESET.write_text("5")
        before = _status("VmRSS")
        result = call()
        peak = _status("VmHWM")
        del result
    except (RuntimeError, ValueError, MemoryError):
        return None  # the timing reports why
    return max(peak - before, 0)


def _status(key: str) -> int:
    r"""A field of the process's status, in bytes."""
    lines = STATUS.read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{key}:"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":  # the child of run_child
    module, _, name = sys.argv[1].partition(":")
    request = json.loads(sys.stdin.readline())  # stdin stays open for a neighbour
    json.dump(getattr(import_module(module), name)(**request), sys.stdout)
