r"""Runs from elsewhere into a store: an export, or another store with its artefacts."""

from __future__ import annotations

import shutil
from pathlib import Path

from meanmax.study.store.database import reported
from meanmax.study.store.exports import read_rows
from meanmax.study.runs.row import Row
from meanmax.study.store.store import (Store, StoreError)
from meanmax.train.whole_file import replacing


def merge_source(store: Store, source: Path) -> int:
    r"""Adds the runs of a source that a store does not have, all or none; how many were new.

    Args:
        store (Store): Where they go.
        source (Path): A :obj:`.jsonl` or :obj:`.parquet` file, or the folder of another store,
            whose artefacts come along.
    """
    source = Path(source)
    rows = read_rows(source)
    copied: list[Path] = []
    try:
        if source.is_dir():
            with reported(store.folder):
                _copy_artefacts(Store(source, create=False), store, store.unknown(rows), copied)
        return store.merge(rows)
    except BaseException:
        for path in copied:
            path.unlink(missing_ok=True)
        raise


def _copy_artefacts(source: Store, target: Store, rows: list[Row], copied: list[Path]) -> None:
    for row in rows:
        path = target.artefact_path(row.key)
        if source.artefact(row.key) is None or path.exists():
            continue
        with replacing(path) as temporary:
            shutil.copyfile(source.artefact_path(row.key), temporary)
        copied.append(path)


def check_sources(store: Path, sources: tuple[Path, ...]) -> None:
    r"""A :class:`StoreError` if a store is to be merged into itself."""
    for source in sources:
        if source.resolve() == store.resolve():
            raise StoreError(f"{source} is the store itself: name other sources, or another store")
