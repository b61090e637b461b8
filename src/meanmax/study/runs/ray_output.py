r"""What Ray prints, kept apart from what its user prints."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, cast

_THREADS = "ray_"  # what the names of Ray's threads begin with


@contextmanager
def ray_prints_to_stderr() -> Iterator[None]:
    r"""Inside it, Ray's threads, which print what became of workers, print to stderr. Results
    belong on stdout, and whoever iterates over them goes on printing there.
    """
    with redirect_stdout(cast(Any, _ByThread(sys.stdout))):
        yield


class _ByThread:
    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def write(self, text: str) -> Any:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def _stream(self) -> Any:
        is_rays = threading.current_thread().name.startswith(_THREADS)
        return sys.stderr if is_rays else self._usual
