r"""Files: atomic writes, archives of arrays read without trusting them, optional dependencies."""

from __future__ import annotations

import importlib
import io
import math
import os
import re
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy

from meanmax.unpacking import UnpackedError, check_members

Progress: TypeAlias = Callable[[str, int, int | None], None]
r"""Called as :obj:`progress(what, done, total)`, for example with a file name and bytes;
:obj:`total` is :obj:`None` if unknown. The last call for an item has :obj:`done == total`."""


class DataError(ValueError):
    r"""Data that is missing, broken or not what it claims to be.

    The message names the file or argument, what was found, what is expected and what to do next.
    Readers raise no other exception for bad content.

    Example:
        >>> from meanmax.data import load
        >>> load("corra") # doctest: +ELLIPSIS
        Traceback (most recent call last):
        meanmax.data.files.DataError: there is no data set 'corra': did you mean 'cora'? ...
    """


class MissingExtraError(DataError, ImportError):
    r"""A feature whose optional dependency is not installed."""


def optional(module: str, feature: str, extra: str = "study") -> Any:
    r"""Imports a module that only an extra installs. If it is missing, the error message says that
    :obj:`feature` needs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"{feature} needs {module.partition('.')[0]}: pip install 'meanmax[{extra}]'"
        raise MissingExtraError(message) from error


def report(progress: Progress | None, what: str, done: int, total: int | None) -> None:
    r"""Calls :obj:`progress` if there is one."""
    if progress is not None:
        progress(what, done, total)


@contextmanager
def refusing(what: str, advice: str = "get the file again") -> Iterator[None]:
    r"""Turns every exception of the block into a :class:`DataError` on the file :obj:`what`."""
    try:
        yield
    except DataError:
        raise
    except UnpackedError as error:
        raise DataError(str(error)) from error
    except Exception as error:
        raise DataError(f"'{what}' cannot be read ({reason_of(error)}); {advice}") from error


def reason_of(error: Exception) -> str:
    r"""The message of an exception on one line, or its type if it has none."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def read_npz(content: bytes, keys: tuple[str, ...], what: str) -> dict[str, np.ndarray]:
    r"""Reads the named arrays of an :obj:`.npz` file, and no others."""
    members = read_zip(content, tuple(f"{key}.npy" for key in keys), what)
    return {key: read_npy(members[f"{key}.npy"], f"{what}: {key}") for key in keys}


def read_zip(content: bytes, members: tuple[str, ...], what: str) -> dict[str, bytes]:
    r"""Reads the named members of a zip file, within the limit of :mod:`~meanmax.unpacking`."""
    with refusing(what), zipfile.ZipFile(io.BytesIO(content)) as archive:
        missing = sorted(set(members) - set(archive.namelist()))
        if missing:
            raise DataError(f"'{what}' lacks {', '.join(missing)}; get the file again")
        check_members(map(archive.getinfo, members), len(content), what)
        return {name: archive.read(name) for name in members}


def read_npy(content: bytes, what: str) -> np.ndarray:
    r"""Reads an array of numbers or text from an :obj:`.npy` file."""
    with refusing(what):
        stream = io.BytesIO(content)
        version = npy.read_magic(stream)
        header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in header:
            raise DataError(f"'{what}' is an npy file of unknown version {version}")
        shape, fortran, dtype = header[version](stream)
        if dtype.kind == "O":
            raise DataError(
                f"'{what}' holds Python objects, which are never loaded: convert it, numbers in "
                f"rows of equal length with np.array(values.tolist(), float), text with "
                f"values.astype(str), and save it again with np.savez"
            )
        if dtype.kind not in "biufUS" or dtype.itemsize == 0:
            raise DataError(f"'{what}' must hold numbers or text (got {dtype})")
        data = content[stream.tell() :]
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
            raise DataError(f"'{what}' holds {len(data)} bytes, which does not fit its shape")
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    r"""Yields an empty file next to :obj:`path` that replaces it at the end of the block. If the
    block fails, the new file is deleted and :obj:`path` stays as it was. Without :obj:`durable`, it
    does not wait for the disk, and a power failure may damage the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files are private to the user, whatever the umask says.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        if durable:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(path), None  # a full disk names no file
        raise


@contextmanager
def atomic_write(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    r"""Like :func:`replacing`, but yields the new file open for writing."""
    with replacing(path, durable=durable) as temporary, temporary.open("wb") as file:
        yield file


# Programs strip space in front, tabs and line breaks too, and take full-width signs for the others.
_FORMULA = re.compile(r"'*\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def escaped(cell: str) -> str:
    r"""A text for csv that no spreadsheet runs as a formula: an apostrophe in front of what begins
    with :obj:`=`, :obj:`+`, :obj:`-` or :obj:`@` and is no number.

    Example:
        >>> escaped("=1+2"), escaped("-1.5"), unescaped(escaped("@home"))
        ("'=1+2", '-1.5', '@home')
    """
    return f"'{cell}" if _is_formula(cell) else cell


def unescaped(cell: str) -> str:
    r"""The text that :func:`escaped` was given."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(cell: str) -> bool:
    return _FORMULA.match(cell) is not None and _NUMBER.fullmatch(cell) is None


def write_text(path: Path, text: str) -> None:
    r"""Writes a text file in UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
