"""Everything that reads a file, on damaged copies of small valid files.

A reader may succeed, or raise an error of the library with a sentence. It may not raise anything
else, warn, take more memory than :obj:`MEMORY` beside what the process has, or compute for longer
than :obj:`SECONDS`. A case is one damaged input.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from meanmax.unpacking import max_unpacked

from .campaign import Failure
from .mutations import choice, mutate
from .parsers_files import Files, Format, formats

MEMORY = 1 << 30
SECONDS = 20  # of computing, so that a busy machine makes no difference
UNPACKED = "4M"  # small bombs are built and refused quickly
PLAIN = (ValueError, FileNotFoundError)  # what some readers are documented to raise
NO_MEMORY = ("MemoryError", "bad_alloc", "allocate", "ArrowMemoryError")


def case(rng: np.random.Generator, counts: Counter[str]) -> Failure | None:
    """Damages some files of one format, and reads it."""
    name = choice(rng, list(formats()))
    return read(name, damaged(formats()[name].files, rng), counts)


def damaged(files: Files, rng: np.random.Generator) -> Files:
    """A copy of which one or two files are damaged, missing or other ones."""
    found = dict(files)
    for _ in range(choice(rng, (1, 1, 1, 2))):
        name = choice(rng, list(files))
        match int(rng.integers(40)):
            case 0:
                found.pop(name, None)
            case 1:
                other = formats()[choice(rng, list(formats()))].files
                found[name] = choice(rng, list(other.values()))
            case _:
                found[name] = mutate(files[name], name, rng)
    return found


def read(name: str, files: Files, counts: Counter[str]) -> Failure | None:
    """Writes the files of a format to a folder, and reads them."""
    folder = _scratch()
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    outcome, failure = judge(name, formats()[name], folder)
    counts[f"{name}: {outcome}"] += 1
    return failure


def judge(name: str, kind: Format, folder: Path) -> tuple[str, Failure | None]:
    """Reads a folder; whether that was done or refused, and what was wrong with how."""
    try:
        with warnings.catch_warnings(record=True) as warned, limits(), max_unpacked(UNPACKED):
            warnings.simplefilter("always")
            kind.read(folder)
    except TooLong:
        return "failed", Failure(f"{name} takes too long", traceback.format_exc())
    except Exception as error:
        return "refused", _fault_of(name, kind, error)
    if warned:
        text = warnings.formatwarning(*(getattr(warned[0], part) for part in _WARNED))
        return "failed", Failure(f"{name} warns: {warned[0].category.__name__}", text)
    return "read", None


_WARNED = ("message", "category", "filename", "lineno")


def _fault_of(name: str, kind: Format, error: Exception) -> Failure | None:
    trace = "".join(traceback.format_exception(error))
    own = type(error).__module__.startswith("meanmax.") or type(error) in (
        ValueError,
        FileNotFoundError,
    )
    if not isinstance(error, kind.errors) or not own:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.name}"
        return Failure(f"{name}: {type(error).__name__} in {where}", trace)
    if any(word in trace for word in NO_MEMORY):
        return Failure(f"{name} asks for too much memory", trace)
    if len(str(error).split()) < 4:
        return Failure(f"{name}: no sentence", trace)
    return None


class TooLong(BaseException):
    """Not an Exception, which readers turn into errors of their own."""


@contextmanager
def limits() -> Iterator[None]:
    """Limits the memory and the time for computing of a block, where the system can."""
    if sys.platform != "linux":
        yield
        return
    import resource

    def stop(*_: object) -> None:
        raise TooLong

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGVTALRM, handler)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 3 * MEMORY // 1024:
            gc.collect()


@cache
def _scratch() -> Path:
    """A folder of this process, removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix=f"fuzz-{os.getpid()}-")
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []
