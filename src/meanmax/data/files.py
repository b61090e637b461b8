r"""Numpy arrays read without pickle and without trusting their headers, and atomic writes."""

from __future__ import annotations

import io
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy


class DataError(ValueError):
    r"""Data that is missing, broken or not what it claims to be.

    The message names the file or argument, what was got, what is expected and what to do next.
    Readers raise nothing else for bad content, so that a caller can catch this alone.
    """


@contextmanager
def refusing(what: str, advice: str = "get the file again") -> Iterator[None]:
    r"""Raises :class:`DataError` for every exception of the block, so that broken or hostile
    content ends in one kind of error, whichever library stumbles over it.

    Args:
        what (str): What is being read, such as a file's name.
        advice (str, optional): What to do about it.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"'{what}' cannot be read ({reason}); {advice}") from error


MOST_BYTES = 1 << 30
r"""The largest array or archive member that is unpacked: a small zip can claim any size."""


def read_npz(content: bytes, keys: tuple[str, ...], what: str) -> dict[str, np.ndarray]:
    r"""The named arrays of an :obj:`.npz` file; others are not looked at.

    Args:
        content (bytes): The file.
        keys (tuple): The arrays that it must hold.
        what (str): The name to use in errors.
    """
    with refusing(what):
        members = {key: f"{key}.npy" for key in keys}
        unpacked = read_zip(content, tuple(members.values()), what)
        return {key: read_npy(unpacked[name], f"{what}: {key}") for key, name in members.items()}


def read_zip(content: bytes, members: tuple[str, ...], what: str) -> dict[str, bytes]:
    r"""The named members of a zip file, each of them within :obj:`MOST_BYTES`.

    Args:
        content (bytes): The file.
        members (tuple): Their names.
        what (str): The name to use in errors.
    """
    with refusing(what), zipfile.ZipFile(io.BytesIO(content)) as archive:
        missing = sorted(set(members) - set(archive.namelist()))
        if missing:
            raise DataError(f"'{what}' lacks {', '.join(missing)}")
        return {name: _unpack(archive, name, what) for name in members}


def read_npy(content: bytes, what: str) -> np.ndarray:
    r"""An array of numbers or text from an :obj:`.npy` file.

    Args:
        content (bytes): The file.
        what (str): The name to use in errors.
    """
    with refusing(what):
        stream = io.BytesIO(content)
        version = npy.read_magic(stream)
        header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in header:
            raise DataError(f"'{what}' is an npy file of unknown version {version}")
        shape, fortran, dtype = header[version](stream)
        if dtype.kind not in "biufUS" or dtype.itemsize == 0:
            raise DataError(f"'{what}' must hold numbers or text, no Python objects (got {dtype})")
        data = content[stream.tell() :]
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
            raise DataError(f"'{what}' holds {len(data)} bytes, which does not fit its shape")
        flat = np.frombuffer(data, dtype)
        return flat.reshape(shape, order="F" if fortran else "C")


def _unpack(archive: zipfile.ZipFile, name: str, what: str) -> bytes:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise DataError(f"'{what}' claims that {name} is larger than {MOST_BYTES:,} bytes")
    with archive.open(name) as member:  # zipfile stops at the size that the archive claims
        return member.read(MOST_BYTES)


Progress: TypeAlias = Callable[[str, int, int | None], None]
r"""Called as :obj:`progress(what, done, total)`, for example with the name of a file and its bytes;
:obj:`total` is :obj:`None` where it is not known. The last call for a thing has
:obj:`done == total`."""


def report(progress: Progress | None, what: str, done: int, total: int | None) -> None:
    r"""Calls :obj:`progress` if there is one."""
    if progress is not None:
        progress(what, done, total)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    r"""Yields an empty temporary file beside :obj:`path`, which replaces it at the end of the
    block. If the block fails, the temporary file is deleted and :obj:`path` is left as it was.

    Args:
        path (Path): The file; its folder is created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not by tempfile, whose files no one else may read, whatever the umask says.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    r"""As :func:`replacing`, with the temporary file open for writing."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        yield file


def write_text(path: Path, text: str) -> None:
    r"""Writes a UTF-8 text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
