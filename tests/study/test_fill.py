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

from meanmax.study.runs import run_missing as filling
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from .filling import Spec, Task
from .made_runs import failed

PROGRAM = Path(__file__).with_name("filling.py")
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

    def fill(self, folder, jobs=1, number=NUMBER):
        """Starts to fill a store; the process."""
        traces = folder.with_name(f"{folder.name}-traces")
        traces.mkdir(exist_ok=True)
        self.process.stdin.write(json.dumps([str(folder), str(traces), jobs, number]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


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


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        time.sleep(0.01)


def traces(folder):
    paths = folder.with_name(f"{folder.name}-traces").iterdir()
    return {path.name: [int(pid) for pid in path.read_text().split()] for path in paths}


def assert_each_run_once(folder):
    with closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
        query = "SELECT key, attempt FROM runs WHERE status = 'ok' ORDER BY key"
        rows = connection.execute(query).fetchall()
        claims = connection.execute("SELECT * FROM claims").fetchall()
    assert rows == [(f"{key:02d}", 0) for key in range(NUMBER)]
    assert claims == []
    store = Store(folder, create=False)
    for key in range(NUMBER):
        array = store.artefact(f"{key:02d}")["number"]
        assert array.shape == (20_000,) and (array == key).all()
    assert [path.name for path in folder.rglob(".*")] == []  # nothing that was being written


def test_killed_at_many_moments(server, folder):
    moments = random.Random(5)
    kills = 0
    while count(folder) < NUMBER:
        pid = server.fill(folder)
        wait_until(lambda: (folder / "owners").exists() or count(folder) == NUMBER)
        time.sleep(moments.uniform(0, 0.25))
        if is_there(pid):
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: not is_there(pid))
            kills += 1
        assert kills < 100
    pid = server.fill(folder)
    wait_until(lambda: not is_there(pid))
    assert kills > 3
    assert_each_run_once(folder)


def test_killed_with_workers(server, folder):
    for kill, rows in ((os.killpg, 2), (os.kill, 6)):
        pid = server.fill(folder, 2)
        wait_until(lambda rows=rows: count(folder) >= rows)
        kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not is_there(pid))
    assert count(folder) < NUMBER
    deadly = f"{NUMBER}"
    folder.with_name(f"{folder.name}-traces").joinpath(f"{deadly}.die").touch()
    pid = server.fill(folder, 2, NUMBER + 1)
    wait_until(lambda: not is_there(pid))
    assert_each_run_once(folder)
    *_, last = sorted(Store(folder).rows(), key=lambda row: row.key)
    assert (last.key, last.status) == (deadly, "failed")
    assert last.error.startswith("Lost: two workers died on this task")
    workers = {pid for pids in traces(folder).values() for pid in pids}
    wait_until(lambda: not any(map(is_there, workers)))


def test_many_processes_fill_one_store(server, folder):
    pids = [server.fill(folder) for _ in range(5)]
    wait_until(lambda: not any(map(is_there, pids)))
    assert_each_run_once(folder)
    made = Counter(pid for made in traces(folder).values() for pid in made)
    assert sum(made.values()) == NUMBER  # no run was made twice
    assert len(made) > 1 and set(made) <= set(pids)
    assert list((folder / "owners").iterdir()) == []


def test_another_process_takes_over(server, folder):
    held = folder.with_name("runs-traces") / "00.hold"
    held.parent.mkdir()
    held.touch()
    first = server.fill(folder)
    wait_until(lambda: "00" in traces(folder))
    second = server.fill(folder)
    wait_until(lambda: count(folder) == NUMBER - 1)
    held.unlink()
    time.sleep(0.5)
    assert is_there(second) and count(folder) == NUMBER - 1  # waits while the first one lives
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_there(second))
    assert_each_run_once(folder)
    assert traces(folder)["00"] == [first, second]


def test_what_another_process_retries_in_vain_is_not_retried_here(folder, monkeypatch):
    store, other = Store(folder), Store(folder)
    lost, key = failed(1), failed(1).key
    store.add(Result(lost, {}))
    assert other.claim(key, failures=1) == "mine"
    # While this process waits for the other one, that one fails again.
    monkeypatch.setattr(filling.time, "sleep", lambda _: other.add(Result(lost, {})))
    task, made = Task(Spec(key), ""), []

    def run(task):
        made.append(task.spec.key)
        return Result(lost, {})

    workers = filling.Workers(jobs=1)
    assert filling.fill(store, [task], workers, retry_failed=True, run=run) == []
    assert made == [] and store.rows()[0].attempt == 1
    (row,) = filling.fill(store, [task], workers, retry_failed=True, run=run)
    assert made == [key] and row.attempt == 2
