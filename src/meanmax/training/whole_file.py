r"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    r"""A new file beside :obj:`path` to write to, which takes its place at the end of the block.
    Should the block fail, it is deleted, and what was at :obj:`path` stays.

    Args:
        path (Path): The file; its folder must exist.
    """
    # Not by tempfile, whose files no one else may read, whatever the umask says.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
