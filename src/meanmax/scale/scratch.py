r"""Where the rows that layers make are kept: in memory, or in files that are deleted afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from meanmax.scale.edges import Array
from meanmax.scale.edges_errors import BatchingError


class Store(Protocol):
    r"""Gives arrays out and takes them back."""

    def array(self, rows: int, width: int) -> Array:
        r"""An array, float32, :obj:`[rows, width]`, with anything in it."""

    def release(self, array: Array) -> None:
        r"""Takes back an array that it gave out; of others nothing is known."""


class MemoryStore:
    r"""Arrays in memory."""

    def array(self, rows: int, width: int) -> Array:
        r"""An array, float32, :obj:`[rows, width]`."""
        return np.empty((rows, width), np.float32)

    def release(self, array: Array) -> None:
        r"""Nothing: it goes with its last reference."""


class FileStore:
    r"""Arrays in files of one folder, mapped into memory, so that they are on disk as soon as
    memory is wanted for something else.

    Args:
        folder (Path): The folder, which is there and empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths: dict[int, Path] = {}
        self._count = 0

    def array(self, rows: int, width: int) -> Array:
        r"""An array, float32, :obj:`[rows, width]`, whose place on disk is taken at once."""
        path = self.folder / f"{self._count}.f32"
        self._count += 1
        size = 4 * rows * width
        with path.open("wb") as file:
            take_place(file.fileno(), size, self.folder)
        if size == 0:
            return np.empty((rows, width), np.float32)
        array = np.memmap(path, np.float32, "r+", shape=(rows, width))
        self._paths[id(array)] = path
        return array

    def release(self, array: Array) -> None:
        r"""Deletes the file; what is still mapped stays readable."""
        path = self._paths.pop(id(array), None)
        if path is not None:
            path.unlink()


@contextmanager
def scratch_files(folder: Path | None, needed: int) -> Iterator[FileStore]:
    r"""A store of files that is gone at the end of the block, whatever happens in it.

    Args:
        folder (Path, optional): Where its folder is made; the system's place for temporary files
            if :obj:`None`.
        needed (int): The most bytes that it is going to hold, which must be free.
    """
    parent = Path(tempfile.gettempdir() if folder is None else folder)
    if not parent.is_dir():
        raise BatchingError(f"'scratch' must be a folder that is there (got {parent})")
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise BatchingError(
            f"hidden layers need {needed:,} bytes of disk at {parent}, where {free:,} are free: "
            f"free some, or name another folder"
        )
    own = Path(tempfile.mkdtemp(prefix="meanmax-scratch-", dir=parent))
    try:
        yield FileStore(own)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def take_place(descriptor: int, size: int, where: Path) -> None:
    r"""Makes a file so long that writing to its mapping cannot run out of disk, which would end
    the process without a word.
    """
    try:
        if size > 0 and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    except OSError as error:
        raise BatchingError(
            f"no room for {size:,} bytes at {where} ({error.strerror}): free some, or name another "
            f"folder"
        ) from error
