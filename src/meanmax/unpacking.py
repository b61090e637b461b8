r"""How much compressed input may unpack to: one definition for all that is read.

A file of a few kilobytes can unpack to gigabytes. What it unpacks to is at most 64 times its size
plus 256 MiB, unless more is allowed: by :class:`max_unpacked`, or by the environment variable
:obj:`MEANMAX_MAX_UNPACKED`. It is compared with what the file claims before anything is unpacked,
and with what comes out.
"""

from __future__ import annotations

import gzip
import io
import os
import pickletools
import re
import stat
import zipfile
from collections.abc import Iterable
from contextvars import ContextVar, Token
from os import PathLike
from pathlib import Path
from typing import BinaryIO

MULTIPLE, BOUND = 64, 1 << 28
DENSEST = 1032  # bytes that one byte of gzip can unpack to
VARIABLE = "MEANMAX_MAX_UNPACKED"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_given: ContextVar[int | None] = ContextVar("max_unpacked", default=None)


class UnpackedError(ValueError):
    r"""Compressed input that unpacks to more than is allowed."""

    advice = "if you trust it, allow more with max_unpacked= (--max-unpacked 4G)"


class max_unpacked:  # noqa: N801 - used like a function
    r"""Allows files that are read inside a :obj:`with` block to unpack to this many bytes.

    Args:
        size (int or str, optional): The bytes, or a text such as :obj:`"4G"`; :obj:`None` leaves
            the limit as it is.

    Example:
        >>> with max_unpacked("2G"):
        ...     limit(1000)
        2147483648
        >>> limit(1000)
        268499456
    """

    def __init__(self, size: int | str | None) -> None:
        self.size = None if size is None else as_size(size)
        self._tokens: list[Token[int | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_given.set(_given.get() if self.size is None else self.size))

    def __exit__(self, *_: object) -> None:
        _given.reset(self._tokens.pop())


def as_size(value: int | str) -> int:
    r"""Bytes, from a number or from a text with K, M, G or T."""
    found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
    if isinstance(value, bool) or found is None or int(found[1]) == 0:
        raise ValueError(
            f"'max_unpacked' must be a number of bytes, such as 500M or 4G (got {value!r})"
        )
    return int(found[1]) * _UNITS[found[2].upper()]


def limit(packed: int) -> int:
    r"""The bytes that a file of :obj:`packed` bytes may unpack to."""
    given = _given.get()
    if given is None and (text := os.environ.get(VARIABLE)):
        given = as_size(text)
    return max(packed, MULTIPLE * packed + BOUND if given is None else given)


def check_unpacked(size: int, packed: int, what: str | PathLike[str]) -> None:
    r"""Raises an :class:`UnpackedError` if this many bytes are too many for a file of
    :obj:`packed` bytes.
    """
    if size > (most := limit(packed)):
        raise UnpackedError(
            f"'{os.fspath(what)}' has {packed:,} bytes and unpacks to more than the {most:,} that "
            f"are allowed; {UnpackedError.advice}"
        )


def check_members(
    members: Iterable[zipfile.ZipInfo], packed: int, what: str | PathLike[str]
) -> None:
    r"""The same of members of a zip file; :mod:`zipfile` reads no further than they claim."""
    check_unpacked(sum(member.file_size for member in members), packed, what)


def check_regular(path: Path) -> None:
    r"""Raises a :class:`ValueError` for a pipe or a device: reading one may wait, or never end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(
            f"'{path}' is a pipe or a device: copy what it gives to a file, and name that"
        )


def check_pickles(archive: zipfile.ZipFile) -> None:
    r"""Raises a :class:`ValueError` if a file of :func:`torch.save` names a class that its reader
    calls with sizes: a hundred bytes could ask for all of the memory.
    """
    for member in archive.infolist():
        if member.filename.rpartition("/")[2] == "data.pkl":
            for opcode, argument, _ in pickletools.genops(archive.read(member)):
                name = str(argument).rpartition(" ")[2].rpartition(".")[2]
                if opcode.name == "GLOBAL" and name in _SIZED:
                    raise ValueError(f"it builds a {name}, which saved tensors do not need")


_SIZED = ("bytearray", "Tensor")


def open_packed(path: Path) -> BinaryIO:
    r"""A file open for reading, unpacked if its name ends in :obj:`.gz`, within the limit."""
    check_regular(path)
    if path.suffix != ".gz":
        return path.open("rb")
    packed = path.stat().st_size
    with path.open("rb") as file:  # its last four bytes claim the size, unless it is cut off
        file.seek(max(0, packed - 4))
        claimed = int.from_bytes(file.read(), "little")
    if claimed <= DENSEST * packed:
        check_unpacked(claimed, packed, path)
    return io.BufferedReader(_Limited(path, packed))


class _Limited(io.RawIOBase):
    r"""The unpacked bytes of a gzipped file, counted, since it may claim too little."""

    def __init__(self, path: Path, packed: int) -> None:
        self._stream, self._path, self._packed = gzip.open(path), path, packed
        self._read = 0

    def readable(self) -> bool:
        r"""Yes."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        r"""Reads what fits."""
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        self._read += len(piece)
        check_unpacked(self._read, self._packed, self._path)
        return len(piece)

    def close(self) -> None:
        r"""Closes the file."""
        self._stream.close()
        super().close()
