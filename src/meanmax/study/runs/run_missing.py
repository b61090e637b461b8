r"""Executes the runs that a store does not have yet, alone or together with other processes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain

from meanmax.study.runs.engine import Outcome, in_parallel
from meanmax.study.runs.plan import Task
from meanmax.study.runs.prepared_data import DataCopies, data_copies
from meanmax.study.runs.row import Result, Row
from meanmax.study.store.store import Store, StoreError

POLL = 1.0  # seconds between two checks of runs that other processes are executing


@dataclass(frozen=True)
class Workers:
    r"""The workers that execute runs, see :func:`~meanmax.study.runs.engine.in_parallel`."""

    jobs: int | None = 1  # runs at once; None for as many as there are CPUs for
    threads: int = 1  # of each run
    engine: str = "processes"


def _execute(task: Task) -> Result:
    from meanmax.study.runs.execute import execute  # which imports torch

    return execute(task)


def run_missing(
    store: Store,
    tasks: Sequence[Task],
    workers: Workers,
    *,
    retry_failed: bool = False,
    artefacts: bool = False,
    on_row: Callable[[Row], None] | None = None,
    run: Callable[[Task], Result] = _execute,
) -> list[Row]:
    r"""Executes every run that is not done, each once, and adds its row to the store as soon as it
    ends. Returns the rows that were made here.

    A run that another process is executing is left to that process, and executed here if that
    process dies. The function returns when all runs are done, here or elsewhere.

    Args:
        retry_failed (bool, optional): Whether runs that failed before are tried once more, by any
            of the processes. (default: :obj:`False`)
        artefacts (bool, optional): Whether runs that have a row but no artefact are repeated.
            (default: :obj:`False`)
        on_row (callable, optional): Called with each row that was made here.
    """
    made: list[Row] = []
    claimed: set[str] = set()
    waiting = list({task.spec.key: task for task in tasks}.values())
    failures = store.failures() if retry_failed else {}
    with ExitStack() as stack:
        stack.callback(_release, store, claimed)
        alone = workers.jobs == 1 and workers.engine == "processes"
        copies = None if alone else stack.enter_context(data_copies())
        while waiting:
            left: list[Task] = []
            mine = _claim(store, waiting, left, claimed, workers, failures, artefacts, copies)
            first = next(mine, None)
            if first is not None:  # workers start only if there is a task
                for task, outcome in in_parallel(run, chain([first], mine), **vars(workers)):
                    row = store.add(_result(task, outcome))
                    claimed.discard(row.key)
                    made.append(row)
                    if on_row is not None:
                        on_row(row)
            waiting = left
            if waiting:
                time.sleep(POLL)
    return made


def _claim(
    store: Store,
    tasks: Sequence[Task],
    left: list[Task],
    claimed: set[str],
    workers: Workers,
    failures: Mapping[str, int],
    artefacts: bool,
    copies: DataCopies | None,
) -> Iterator[Task]:
    r"""Claims tasks one by one; those of other processes are added to :obj:`left`."""
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
                data=task.data if copies is None else copies.reference(task.data),
                threads=workers.threads,
                alone=workers.jobs == 1,
                checkpoints=str(store.checkpoints.resolve()),
            )


def _release(store: Store, claimed: set[str]) -> None:
    r"""Releases unfinished runs, through the lock alone if the database's disk is full."""
    try:
        store.release(claimed)
    except StoreError:
        with suppress(StoreError):
            store.close()


def _result(task: Task, outcome: Outcome[Result]) -> Result:
    if outcome.result is not None:
        return outcome.result
    from meanmax.study.runs.execute import failed_row

    error = outcome.error
    return Result(failed_row(task, "failed", f"{type(error).__name__}: {error}"), {})
