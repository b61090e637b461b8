r"""Where data files lie."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

import platformdirs

from meanmax.data.fetch.files import File

VARIABLE = "MEANMAX_DATA"


def cache_folder() -> Path:
    r"""The folder of the user's cache that downloads go to."""
    return platformdirs.user_cache_path("meanmax", appauthor=False) / "data"


def search_folders(data_dir: str | PathLike[str] | None = None) -> list[Path]:
    r"""The folders that are looked through, in this order: :obj:`data_dir`, the one that the
    environment variable :obj:`MEANMAX_DATA` names, the user's cache.

    Args:
        data_dir (str or PathLike, optional): A folder to look through first.
    """
    named = [data_dir, os.environ.get(VARIABLE) or None, cache_folder()]
    return [Path(folder).expanduser() for folder in named if folder is not None]


def target_folder(data_dir: str | PathLike[str] | None = None) -> Path:
    r"""Where downloads are written: :obj:`data_dir` if given, else the user's cache."""
    return cache_folder() if data_dir is None else Path(data_dir).expanduser()


def locate(file: File, folder: Path) -> Path | None:
    r"""The path of :obj:`file` in :obj:`folder` or its subfolder, or :obj:`None`."""
    candidates = (folder / file.folder / file.name, folder / file.name)
    return next((path for path in candidates if path.is_file()), None)


def locate_all(files: tuple[File, ...], data_dir: str | PathLike[str] | None) -> list[Path] | None:
    r"""The paths of all :obj:`files` in the first folder that has them all, or :obj:`None`."""
    for folder in search_folders(data_dir):
        paths = [path for file in files if (path := locate(file, folder)) is not None]
        if files and len(paths) == len(files):
            return paths
    return None
