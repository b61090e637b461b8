r"""The private memory of this process at its peak, sampled while it works."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

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
