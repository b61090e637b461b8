r"""Processes that hold claims: alive exactly as long as they hold the lock on a file of theirs.

The system releases the lock when a process ends in whatever way, so that nothing has to be said by
a process that was killed, and no clock has to be believed.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from filelock import FileLock, Timeout


class Owner:
    r"""This process, as others see it.

    Args:
        folder (Path): The folder of locks.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = uuid.uuid4().hex
        self._lock = FileLock(_path(folder, self.name), thread_local=False)
        self._lock.acquire(blocking=False)

    def close(self) -> None:
        r"""Ends the ownership of everything."""
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)


def is_alive(folder: Path, name: str) -> bool:
    r"""Whether the owner of that name still runs."""
    path = _path(folder, name)
    if not path.exists():
        return False
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    path.unlink(missing_ok=True)
    return False


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"
