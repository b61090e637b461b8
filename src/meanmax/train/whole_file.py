r"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    r"""An empty file beside :obj:`path`, which takes its place at the end of the block. Should the
    block fail, it is deleted, and what was at :obj:`path` stays.

    Args:
        path (Path): The file; its folder is made.
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
def whole_file(path: Path) -> Iterator[BinaryIO]:
    r"""The same as a file that is open for writing.

    Args:
        path (Path): The file; its folder is made.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        yield file


def write_text(path: Path, text: str) -> None:
    r"""Writes a text file in UTF-8."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
