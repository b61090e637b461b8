r"""Runs made from a command, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from meanmax.cli.run_bars import run_bar
from meanmax.study.runs.execute import Task
from meanmax.study.runs.run_missing import (Workers, fill)
from meanmax.study.runs.row import Row
from meanmax.study.store.store import Store


def filled(
    folder: Path,
    tasks: Sequence[Task],
    workers: Workers,
    *,
    retry_failed: bool,
    artefacts: bool = False,
    score: str = "test",
) -> list[Row]:
    r"""Makes the runs that a folder does not have yet; the rows of all of them.

    Args:
        folder (Path): The folder of the store.
        tasks (sequence): The runs.
        workers (Workers): Who makes them.
        retry_failed (bool): Whether runs that failed are made again.
        artefacts (bool, optional): Whether runs are made again of which the row is there and the
            artefact is not. (default: :obj:`False`)
        score (str, optional): Whose score is told of each run: that of :obj:`"test"` or of
            :obj:`"val"` nodes. (default: :obj:`"test"`)
    """
    store = Store(folder)
    keys = {task.spec.key for task in tasks}
    try:
        done = store.finished(failed=not retry_failed, artefacts=artefacts) & keys
        with run_bar(len(keys), len(done), score) as on_row:
            fill(
                store,
                tasks,
                workers,
                retry_failed=retry_failed,
                artefacts=artefacts,
                on_row=on_row,
            )
    finally:
        store.close()
    return [row for row in store.rows() if row.key in keys]
