"""Stores of runs that processes fill while they are killed.

A case is a store that one to three processes fill at once, several times, each of which is killed
by SIGKILL right before some event: a file that is opened, renamed or removed, an SQL statement, a
run, half of an artefact. After every round the store has to be readable, with every row and
artefact that was there before, and nothing that is half-written. At the end an undisturbed process
completes it. Each process that was killed counts.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from meanmax.study.store.exports import export_rows, read_rows
from meanmax.study.store.store import Store
from tests.study.runs.missing_runs_server import DEATHS, run_missing_here

from .campaign import Failure
from .mutations import choice

EXPORT = "rows.jsonl"
Rows = dict[str, str]


def case(rng: np.random.Generator, counts: Counter[str]) -> Failure | None:
    """Fills a store with processes that are killed, and completes it."""
    number = int(rng.integers(1, 5))
    with tempfile.TemporaryDirectory() as place:
        folder, traces = Path(place) / "runs", Path(place) / "traces"
        traces.mkdir()
        known: Rows = {}
        for _ in range(int(rng.integers(1, 6))):
            events = [
                int(rng.integers(1, 10 + 12 * number)) for _ in range(choice(rng, (1, 1, 2, 3)))
            ]
            errors = fill(folder, traces, number, events)
            counts["ended before its kill"] += len(events) - _killed(traces, counts)
            failure = errors or check(folder, known)
            if failure is not None:
                return failure
        return fill(folder, traces, number, [0]) or check(folder, known, complete=number)


def fill(folder: Path, traces: Path, number: int, events: list[int]) -> Failure | None:
    """Forks a process for each event before which it dies (0: none), and waits for them."""
    report = traces / "report"
    children = [_fork(folder, traces, number, die_at, report) for die_at in events]
    for child in children:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            return Failure(f"a process ended with {code}", report.read_text())
    return None


def _fork(folder: Path, traces: Path, number: int, die_at: int, report: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run_missing_here(str(folder), str(traces), 1, number, die_at)
        export_rows(Store(folder, create=False).rows(), folder / EXPORT)
        code = 0
    except BaseException:
        report.write_text(traceback.format_exc())
    os._exit(code)


def _killed(traces: Path, counts: Counter[str]) -> int:
    """Counts and forgets the deaths since the last time, by what they came before."""
    file = traces / DEATHS
    found = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    counts.update(f"killed before {event}" for event in found)
    return len(found)


def check(folder: Path, known: Rows, complete: int | None = None) -> Failure | None:
    """Compares a store with the rows that it had, which are updated."""
    if not (folder / "runs.sqlite").exists():
        return Failure("the database is gone", str(known)) if known else None
    store = Store(folder)  # where the tables were not made yet, they are now
    rows = store.rows()
    found = {row.key: row.to_json() for row in rows}
    for key, text in known.items():
        if found.get(key) != text:
            return Failure("a row is lost", f"{key}: {text} became {found.get(key)}")
    known.update(found)
    for key in found:
        arrays = store.artefact(key)
        if arrays is None or not (arrays["number"] == int(key)).all():
            return Failure("a row without its artefact", key)
    if (folder / EXPORT).exists() and {row.key for row in read_rows(folder / EXPORT)} - set(found):
        return Failure("an export with other rows", (folder / EXPORT).read_text())
    if complete is not None:
        left = [str(path) for path in folder.rglob(".*") if EXPORT not in path.name]
        if left or len(found) != complete or len(rows) != complete:
            return Failure("not completed", f"{sorted(found)} of {complete}, left over: {left}")
    return None
