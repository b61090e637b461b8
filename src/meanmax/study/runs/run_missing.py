r"""Makes the runs that a store does not have yet, alone or together with other processes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from meanmax.study.runs.engine import Outcome, in_parallel
from meanmax.study.runs.execute import Task, execute, failed_row
from meanmax.study.runs.row import Result, Row
from meanmax.study.store.store import Store, StoreError

POLL = 1.0  # seconds between two looks at what other processes have done


@dataclass(frozen=True)
class Workers:
    r"""Who makes the runs.

    Args:
        jobs (int, optional): Runs at once; :obj:`None` for as many as there are processors for.
        threads (int): Threads of each run.
        engine (str): See :func:`~meanmax.study.runs.engine.in_parallel`.
    """

    jobs: int | None = 1
    threads: int = 1
    engine: str = "processes"


def fill(
    store: Store,
    tasks: Sequence[Task],
    workers: Workers,
    *,
    retry_failed: bool = False,
    artefacts: bool = False,
    on_row: Callable[[Row], None] | None = None,
    run: Callable[[Task], Result] = execute,
) -> list[Row]:
    r"""Makes every run that is not done, each once, and adds it to the store as soon as it ends.

    A run that another process is making is left to it, and made here if that process dies. It
    returns when all of the runs are done, by whomever.

    Args:
        store (Store): Where rows go.
        tasks (sequence): The runs.
        workers (Workers): Who makes them.
        retry_failed (bool, optional): Whether runs that failed before are made again, once,
            whoever makes them. (default: :obj:`False`)
        artefacts (bool, optional): Whether runs are made again of which the row is there and the
            artefact is not. (default: :obj:`False`)
        on_row (callable, optional): Called with each row that was made here.
        run (callable, optional): What makes a run. (default: :func:`execute`)

    Returns:
        The rows that were made here.
    """
    made: list[Row] = []
    claimed: set[str] = set()
    waiting = _unique(tasks)
    failures = store.failures() if retry_failed else {}
    try:
        while waiting:
            left: list[Task] = []
            mine = _claimed(store, waiting, left, claimed, workers, failures, artefacts)
            first = next(mine, None)
            if first is not None:  # no workers are started for nothing
                for task, outcome in in_parallel(
                    run,
                    chain([first], mine),
                    jobs=workers.jobs,
                    threads=workers.threads,
                    engine=workers.engine,
                ):
                    row = store.add(_result(task, outcome))
                    claimed.discard(row.key)
                    made.append(row)
                    if on_row is not None:
                        on_row(row)
            waiting = left
            if waiting:
                time.sleep(POLL)
    finally:
        _give_back(store, claimed)
    return made


def _claimed(
    store: Store,
    tasks: Sequence[Task],
    left: list[Task],
    claimed: set[str],
    workers: Workers,
    failures: Mapping[str, int],
    artefacts: bool,
) -> Iterator[Task]:
    r"""The tasks that could be had, taken one by one; others' go to :obj:`left`."""
    done = store.finished(artefacts=artefacts) - failures.keys()
    for task in tasks:
        key = task.spec.key
        tried = failures.get(key, 0)
        answer = "done" if key in done else store.claim(key, failures=tried, artefacts=artefacts)
        if answer == "taken":
            left.append(task)
        elif answer == "mine":
            claimed.add(key)
            yield dataclasses.replace(
                task,
                threads=workers.threads,
                alone=workers.jobs == 1,
                checkpoints=str(store.checkpoints.resolve()),
            )


def _give_back(store: Store, claimed: set[str]) -> None:
    r"""Releases what was not done, if need be without the database: its disk may be full."""
    try:
        store.release(claimed)
    except StoreError:
        with suppress(StoreError):
            store.close()


def _result(task: Task, outcome: Outcome[Result]) -> Result:
    if outcome.result is not None:
        return outcome.result
    error = outcome.error
    return Result(failed_row(task, "failed", f"{type(error).__name__}: {error}"), {})


def _unique(tasks: Sequence[Task]) -> list[Task]:
    return list({task.spec.key: task for task in tasks}.values())
