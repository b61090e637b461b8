r"""The bytes of a file, unpacked, and never more of them than memory can hold."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from meanmax.data.readers.problems import Findings
from meanmax.data.progress import (Progress, report)

PIECE = 1 << 24


def contents(path: Path, findings: Findings, progress: Progress | None = None) -> bytes:
    r"""Reads a file, and unpacks it if its name ends in :obj:`.gz`.

    Args:
        path (Path): The file.
        findings (Findings): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    packed = path.suffix == ".gz"
    with findings.parsing(path.name, "file", "check that it is there, complete and yours to read"):
        size = path.stat().st_size
        check_size(path.name, size, findings)
        pieces: list[bytes] = []
        with gzip.open(path) if packed else path.open("rb") as stream:
            done = 0
            while piece := stream.read(PIECE):
                pieces.append(piece)
                done += len(piece)
                check_size(path.name, done, findings)
                report(progress, f"reading {path.name}", done, None if packed else max(size, done))
        report(progress, f"reading {path.name}", done, done)
    return b"".join(pieces)


def check_size(file: str, size: int, findings: Findings) -> None:
    r"""Stops before a file, or what a small packed file claims to hold, fills the memory."""
    limit = memory() // 2
    if size > limit:
        findings.fail(
            file,
            None,
            f"takes {size:,} bytes unpacked, more than half of this machine's memory",
            "use a smaller file, or a machine with more memory",
        )


def memory() -> int:
    r"""Bytes of memory, 16 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 34
