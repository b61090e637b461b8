"""Stores that processes fill which are killed, together or alone."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from meanmax.study.runs import run_missing as module
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from ..made_runs import failed
from .missing_runs_server import DEATHS, POLLS, Spec, Task

PROGRAM = Path(__file__).with_name("missing_runs_server.py")
NUMBER = 12


class Server:
    """The program beside this file, with the stores in one folder."""

    def __init__(self, folder):
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def fill(self, folder, jobs=1, number=NUMBER, die_at=None):
        """Starts a process that fills a store and dies at an event, if one is given; its id."""
        traces_of(folder).mkdir(exist_ok=True)
        line = [str(folder), str(traces_of(folder)), jobs, number, die_at]
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def fill_until(self, folder, number, die_at=None):
        """Fills a store, and waits for the end: where the process died, or None if it did not."""
        before = deaths(folder)
        pid = self.fill(folder, number=number, die_at=die_at)
        wait_until(lambda: not is_there(pid))
        died = deaths(folder)[len(before) :]
        return died[0] if died else None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    with server.process:  # closes its input, with which it ends
        yield server
    assert server.process.returncode == 0
    assert "Traceback" not in server.errors.read_text()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


def count(folder):
    if not (folder / "runs.sqlite").exists():
        return 0
    with closing(sqlite3.connect(folder / "runs.sqlite", timeout=60)) as connection:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection.execute("SELECT count(*) FROM runs").fetchone()[0] if tables else 0


def is_there(pid):
    return Path(f"/proc/{pid}").exists()


def wait_until(condition, seconds=300):
    """Waits for an event; the bound, far above what it takes, only turns a hang into a failure."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        time.sleep(0.01)


def traces_of(folder):
    return folder.with_name(f"{folder.name}-traces")


def lines_of(folder, name):
    path = traces_of(folder) / name
    return path.read_text().splitlines() if path.exists() else []


def deaths(folder):
    return lines_of(folder, DEATHS)


def started(folder):
    """The processes that started each run, in order."""
    keys = (path.name for path in traces_of(folder).iterdir() if path.name.isdecimal())
    return {key: [int(pid) for pid in lines_of(folder, key)] for key in keys}


def hold(folder, *keys):
    """Lets runs wait until these files are deleted."""
    traces_of(folder).mkdir(exist_ok=True)
    files = [traces_of(folder) / f"{key}.hold" for key in keys]
    for file in files:
        file.touch()
    return files


def assert_each_run_once(folder, number=NUMBER):
    with closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
        query = "SELECT key, attempt FROM runs WHERE status = 'ok' ORDER BY key"
        rows = connection.execute(query).fetchall()
        claims = connection.execute("SELECT * FROM claims").fetchall()
    assert rows == [(f"{key:02d}", 0) for key in range(number)]
    assert claims == []
    store = Store(folder, create=False)
    for key in range(number):
        array = store.artefact(f"{key:02d}")["number"]
        assert array.shape == (20_000,) and (array == key).all()
    assert [path.name for path in folder.rglob(".*")] == []  # nothing that was being written


POINTS = {
    "os.mkdir",
    "CREATE TABLE runs",  # half of a new store
    "INSERT OR REPLACE",  # while a run is being claimed
    "run",
    "half an artefact",
    "os.rename",  # an artefact that does not have its name yet
    "INSERT INTO runs",  # with an artefact and without a row
    "DELETE FROM claims",  # in a transaction, with a row
    "COMMIT",
    "os.remove",
}


def test_killed_at_every_event(server, folder):
    """A process is killed at its k-th event, for each k that there is; the next one finishes."""
    points = []
    while True:
        here = folder.with_name(f"runs{len(points)}")
        point = server.fill_until(here, 2, die_at=len(points) + 1)
        if point is None:
            break
        points.append(point)
        assert server.fill_until(here, 2) is None
        assert_each_run_once(here, 2)
    assert_each_run_once(here, 2)
    assert set(points) >= POINTS
    assert len(points) > 40


def test_killed_again_and_again(server, folder):
    """Many processes in a row, each of which is killed after some events, fill one store."""
    random.seed(5)
    while server.fill_until(folder, NUMBER, die_at=random.randint(1, 60)) is not None:
        assert len(deaths(folder)) < 200
    assert_each_run_once(folder)
    assert len(deaths(folder)) > 10
    assert len(set(deaths(folder))) > 5


def test_killed_with_workers(server, folder):
    deadly = f"{NUMBER}"
    for kill, first, second in ((os.killpg, "02", "03"), (os.kill, "06", "07")):
        held = hold(folder, first, second)
        pid = server.fill(folder, 2)
        wait_until(lambda keys={first, second}: keys <= started(folder).keys())
        workers = {started(folder)[key][-1] for key in (first, second)}
        assert len(workers) == 2  # both are at work, and what they did before is being stored
        wait_until(lambda stored=int(first): count(folder) == stored)
        kill(pid, signal.SIGKILL)
        wait_until(lambda pids=(pid, *workers): not any(map(is_there, pids)))
        for file in held:
            file.unlink()
    traces_of(folder).joinpath(f"{deadly}.die").touch()
    pid = server.fill(folder, 2, NUMBER + 1)
    wait_until(lambda: not is_there(pid))
    assert_each_run_once(folder)
    *_, last = sorted(Store(folder).rows(), key=lambda row: row.key)
    assert (last.key, last.status) == (deadly, "failed")
    assert last.error.startswith("Lost: two workers died on this task")
    workers = {pid for pids in started(folder).values() for pid in pids}
    wait_until(lambda: not any(map(is_there, workers)))


def test_many_processes_fill_one_store(server, folder):
    keys = ["00", "01", "02", "03", "04"]
    held = hold(folder, *keys)  # so that each process has a run to make
    pids = [server.fill(folder) for _ in keys]
    wait_until(lambda: started(folder).keys() >= set(keys))
    for file in held:
        file.unlink()
    wait_until(lambda: not any(map(is_there, pids)))
    assert_each_run_once(folder)
    made = Counter(pid for made in started(folder).values() for pid in made)
    assert sum(made.values()) == NUMBER  # no run was made twice
    assert set(made) == set(pids)
    assert list((folder / "owners").iterdir()) == []


def test_another_process_takes_over(server, folder):
    (held,) = hold(folder, "00")
    first = server.fill(folder)
    wait_until(lambda: started(folder).get("00"))
    second = server.fill(folder)
    wait_until(lambda: count(folder) == NUMBER - 1)
    polls = len(lines_of(folder, POLLS))
    wait_until(lambda: len(lines_of(folder, POLLS)) > polls + 3)  # waits while the first one lives
    assert started(folder)["00"] == [first] and count(folder) == NUMBER - 1
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: started(folder)["00"] == [first, second])
    held.unlink()
    wait_until(lambda: not is_there(second))
    assert_each_run_once(folder)
    assert set(lines_of(folder, POLLS)) == {str(second)}


def test_what_another_process_retries_in_vain_is_not_retried_here(folder, monkeypatch):
    store, other = Store(folder), Store(folder)
    lost, key = failed(1), failed(1).key
    store.add(Result(lost, {}))
    assert other.claim(key, failures=1) == "mine"
    # While this process waits for the other one, that one fails again.
    monkeypatch.setattr(module.time, "sleep", lambda _: other.add(Result(lost, {})))
    task, made = Task(Spec(key), ""), []

    def run(task):
        made.append(task.spec.key)
        return Result(lost, {})

    workers = module.Workers(jobs=1)
    assert module.run_missing(store, [task], workers, retry_failed=True, run=run) == []
    assert made == [] and store.rows()[0].attempt == 1
    (row,) = module.run_missing(store, [task], workers, retry_failed=True, run=run)
    assert made == [key] and row.attempt == 2
