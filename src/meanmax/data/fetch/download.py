r"""Downloads from public addresses."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from meanmax.data.errors import DataError
from meanmax.data.fetch.files import File
from meanmax.data.progress import Progress
from meanmax.data.fetch.verify import write_checked

_TIMEOUT = 20.0  # seconds without a byte
_CHUNK = 1 << 16


def download(file: File, folder: Path, progress: Progress | None = None) -> Path:
    r"""Downloads one file; proxies of the environment apply. What arrives must have the pinned
    size and hash, or nothing is left on disk.

    Args:
        file (File): The file, with its address.
        folder (Path): The data folder.
        progress (callable, optional): Called with the name, bytes done and bytes in total.
    """
    if file.url is None or urllib.parse.urlsplit(file.url).scheme not in ("http", "https"):
        raise DataError(f"'{file.name}' has no public address to download from (got {file.url})")
    request = urllib.request.Request(file.url, headers={"User-Agent": "meanmax"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            return write_checked(folder, file, _chunks(answer), progress)
    except (OSError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
        raise DataError(f"{file.url}: {_reason(error)}") from error


def _chunks(answer: IO[bytes]) -> Iterator[bytes]:
    while chunk := answer.read(_CHUNK):
        yield chunk


def _reason(error: Exception) -> str:
    inner = error.reason if type(error) is urllib.error.URLError else error
    return " ".join(str(inner).split()) or type(error).__name__
