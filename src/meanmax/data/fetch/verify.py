r"""Nothing is parsed, and nothing enters the cache, before its hash was found right."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from meanmax.data.fetch.catalog import File
from meanmax.data.files import DataError, Progress, report

_MOST_BYTES = 1 << 28
_MOST_BYTES_OF_A_COPY = 1 << 26  # of a file that is pinned by its content


def read_checked(path: Path, file: File) -> bytes:
    r"""The content of a file on disk, if it is the pinned one.

    Args:
        path (Path): Where it lies.
        file (File): What it must be.
    """
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise DataError(f"'{path}' is no copy of {file.name}: it has {size:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"'{path}' cannot be read ({error.strerror or error})") from error
    check(content, file, str(path))
    return content


def check(content: bytes, file: File, where: str) -> None:
    r"""Raises unless :obj:`content` has the pinned sha256 or, for a file that is also pinned by
    its content, holds that content.

    Args:
        content (bytes): What was read.
        file (File): What it must be.
        where (str): The path or address to name in the error.
    """
    got = hashlib.sha256(content).hexdigest()
    if got == file.sha256 or (file.content is not None and _content_fits(content, file)):
        return
    raise DataError(_mismatch(where, file, got, len(content)))


def write_checked(
    folder: Path, file: File, chunks: Iterable[bytes], progress: Progress | None
) -> Path:
    r"""Writes a file under a temporary name and gives it its own only when size and hash are
    right, or its content for a file that is also pinned by that; otherwise nothing is left behind.

    Args:
        folder (Path): The data folder.
        file (File): What the chunks must add up to.
        chunks (iterable): The content, piece by piece; not read beyond the pinned size
            (64 MiB for a file that is pinned by its content).
        progress (callable, optional): Called after each piece.
    """
    path = folder / file.folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            _write(stream, file, chunks, progress)
            stream.flush()
            os.fsync(stream.fileno())
        check(Path(temporary).read_bytes(), file, file.name)
        os.chmod(temporary, 0o644)  # mkstemp lets only its owner read
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def _write(
    stream: IO[bytes], file: File, chunks: Iterable[bytes], progress: Progress | None
) -> None:
    """All chunks, but no more than one beyond the size that the file may have."""
    most = file.size if file.content is None else _MOST_BYTES_OF_A_COPY
    total = file.size if file.content is None else None
    size = 0
    for chunk in chunks:
        size += len(chunk)
        stream.write(chunk)
        if size > most:
            return
        report(progress, file.name, size, total)
    if total is None:
        report(progress, file.name, size, size)


def _content_fits(content: bytes, file: File) -> bool:
    from meanmax.data.benchmarks.amazon import read_amazon
    from meanmax.data.dataset import fingerprint

    name = file.name.removeprefix("amazon_electronics_").removesuffix(".npz")
    try:
        return fingerprint(read_amazon(name, {file.name: content})) == file.content
    except DataError:
        return False


def _mismatch(where: str, file: File, got: str, size: int) -> str:
    other = "" if file.content is None else ", or other bytes with the same graph"
    return (
        f"'{where}' is not the published {file.name}: expected sha256 {file.sha256} and "
        f"{file.size:,} bytes{other}, got sha256 {got} and {size:,} bytes; it was not used. Remove "
        "it and get it again"
    )
