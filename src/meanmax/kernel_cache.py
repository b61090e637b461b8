r"""Compiled code on disk.

The key of a file is what it was made from: the content of all sources that kernels are written in,
the types of the arguments, the processor, and the versions of numba and Python. A file is written
under a temporary name and then renamed, and its name is unique to its key, so that processes may
compile at the same time, in any order.

Files are looked for next to the sources and in the user's cache folder, and written to the first of
these that can be written to. If the environment variable :obj:`MEANMAX_KERNEL_CACHE` is set, its
value is the only folder: with an empty one, every kernel is compiled.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import user_cache_dir

SUFFIX = ".kernel"
VARIABLE = "MEANMAX_KERNEL_CACHE"


class DiskCache(_Cache):  # type: ignore[misc]
    r"""The cache of one kernel, as numba's dispatchers use it.

    Args:
        function (callable): The kernel's function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        # Taken now, with the code that is imported: the files may change before it is compiled.
        self._digest = source_digest(Path(function.__code__.co_filename))

    @property
    def cache_path(self) -> str:
        r"""The folder that is written to first."""
        return str(next(folders()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        r"""The compiled code for a signature, or :obj:`None`."""
        # Not refresh, half a second in every process: what it loads is needed to compile, which
        # does it then, and not to run what is compiled.
        rtsys.initialize(target_context)
        name = self._file_name(sig, target_context)
        for folder in folders() if self._digest else ():
            with suppress(OSError):
                content = (folder / name).read_bytes()
                digest, data = content[:32], content[32:]
                if hashlib.sha256(data).digest() == digest:  # else it is damaged: compile again
                    return CompileResult._rebuild(target_context, *pickle.loads(data))
        announce()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        r"""Stores compiled code; where nothing can be written, every process compiles."""
        content = dumps(data._reduce())
        content = hashlib.sha256(content).digest() + content
        name = self._file_name(sig, data.target_context)
        for folder in folders() if self._digest else ():
            with suppress(OSError):
                _write(folder / name, content)
                return

    def enable(self) -> None:
        r"""Does nothing: it is always enabled."""

    def disable(self) -> None:
        r"""Does nothing: it is always enabled."""

    def flush(self) -> None:
        r"""Removes the files of this kernel."""
        for folder in folders():
            for path in folder.glob(f"{self._name}-*{SUFFIX}"):
                path.unlink(missing_ok=True)

    def _file_name(self, sig: Any, target_context: Any) -> str:
        facts = (
            self._name, sig, target_context.codegen().magic_tuple(), numba.__version__,
            sys.version_info[:2], self._digest,
        )  # fmt: skip
        return f"{self._name}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}{SUFFIX}"


def compiled(function: Callable[..., Any]) -> Any:
    r"""Compiles a function that runs on one thread."""
    dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True)(function)
    dispatcher._cache = DiskCache(function)
    return dispatcher


@cache
def source_digest(source: Path) -> str | None:
    r"""A hash of the file and of all others that its kernels may call into; :obj:`None`, with which
    nothing is kept, where the sources are not files.
    """
    own = Path(__file__)
    try:
        parts = [
            path.read_bytes() for path in (source, own, *sorted(own.parent.glob("ops/**/*.py")))
        ]
    except OSError:
        return None
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def folders() -> Iterator[Path]:
    r"""Where compiled kernels may lie."""
    if given := os.environ.get(VARIABLE):
        yield Path(given)
        return
    yield Path(__file__).parent / "__pycache__"
    yield Path(user_cache_dir("meanmax"), "kernels")


@cache
def announce() -> None:
    r"""Says once, in a terminal, why the first call takes seconds."""
    if sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty():
        print("meanmax: compiling kernels, once per machine ...", file=sys.stderr, flush=True)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
