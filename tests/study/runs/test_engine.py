"""Tasks in worker processes. Functions are made inside of tests, so that they travel by value."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from meanmax.study.runs.engine import EngineError, Lost, in_parallel, keep_workers

SLEEPING = """
import os, signal, sys, time
from pathlib import Path
from meanmax.study.runs.engine import in_parallel

def sleep(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(3000)

if __name__ == "__main__":
    # As in a terminal, also where the tests run in the background of a shell, which ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    list(in_parallel(sleep, [sys.argv[1]] * 3, jobs=2))
"""


def test_every_task_has_its_outcome():
    def run(task):
        if task == "raise":
            raise KeyError("no such run")
        if task == "exit":
            sys.exit(3)
        if task == "interrupt":  # as Ctrl-C does, which is for the caller
            os.kill(os.getpid(), signal.SIGINT)
            return "went on"
        if task == "lambda":
            return lambda: None, threading.Lock()
        if task == "own error":

            class OwnError(Exception):
                def __init__(self, first, second):
                    super().__init__(f"{first} and {second}")

            raise OwnError("this", "that")
        return np.full(300_000, task)

    tasks = [0, "raise", 1, "exit", 2, "lambda", 3, "own error", "interrupt"]
    got = dict(in_parallel(run, tasks, jobs=2))

    assert set(got) == set(tasks)
    for task in range(4):
        assert got[task].error is None
        assert np.array_equal(got[task].result, np.full(300_000, task))
    assert type(got["raise"].error) is KeyError
    assert "in run" in got["raise"].error.__notes__[0]
    assert type(got["exit"].error) is SystemExit
    assert "pickle" in str(got["lambda"].error)
    assert got["interrupt"].result == "went on"
    assert "OwnError: this and that" in str(got["own error"].error)


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_have_their_threads(threads):
    def run(task):
        import numba
        import torch

        omp = os.environ["OMP_NUM_THREADS"]
        return torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS, omp, os.getpid()

    before = torch.get_num_threads()
    ((_, outcome),) = in_parallel(run, [None], jobs=2, threads=threads)
    assert outcome.result[:3] == (threads, threads, str(threads))
    assert outcome.result[3] != os.getpid()
    assert torch.get_num_threads() == before


def test_one_job_runs_here():
    def run(task):
        return os.getpid(), torch.get_num_threads(), task / 2

    before = torch.get_num_threads()
    got = list(in_parallel(run, [3, "a"], jobs=1, threads=before + 1))
    assert got[0][1].result == (os.getpid(), before + 1, 1.5)
    assert type(got[1][1].error) is TypeError
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_is_taken_when_a_worker_is_free(jobs):
    taken = []

    def tasks():
        for task in range(7):
            assert threading.current_thread() is threading.main_thread()
            taken.append(task)
            yield task

    results = in_parallel(abs, tasks(), jobs=jobs)
    assert taken == []
    for number, _ in enumerate(results, start=1):
        running = 0 if jobs == 1 else jobs  # one job runs here, between two results
        assert len(taken) <= number + running
    assert taken == list(range(7))


def test_workers_go_on_while_the_caller_stores_a_result(tmp_path):
    def run(task):
        (tmp_path / str(task)).touch()

    for number, _ in enumerate(in_parallel(run, range(4), jobs=2)):
        wait_until((tmp_path / str(min(number + 1, 3))).exists)
        wait_until((tmp_path / str(min(number + 2, 3))).exists)


def test_a_result_is_not_lost_when_no_task_can_be_taken():
    def tasks():
        yield from (1, 2)
        raise OSError("the disk is full")

    found = []
    with pytest.raises(OSError, match="full"):
        for task, outcome in in_parallel(abs, tasks(), jobs=2):
            found.append((task, outcome.result))
    assert len(found) == 1


def test_a_result_comes_when_it_is_there(tmp_path):
    def run(task):
        if task == "slow":
            wait_until((tmp_path / "seen").exists)

    order = []
    for task, outcome in in_parallel(run, ["slow", "quick"], jobs=2):
        (tmp_path / "seen").touch()
        assert outcome.error is None
        order.append(task)
    assert order == ["quick", "slow"]


def test_a_worker_that_dies_loses_only_its_task(tmp_path):
    def started(task):
        path = tmp_path / str(task)
        return path.stat().st_size if path.exists() else 0

    def run(task):
        with open(tmp_path / str(task), "a") as file:
            file.write("x")
        tries = started(task)
        if task == "always" or (task == "once" and tries == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if task == 0:  # is under way while a worker beside it dies
            wait_until(lambda: started("always") == 2)
        return tries

    tasks = [0, "always", 1, "once", 2, 3, 4]
    results = list(in_parallel(run, tasks, jobs=2))
    got = dict(results)

    assert len(results) == len(got) == 7
    assert [got[task].result for task in range(5)] == [1] * 5  # the others ran undisturbed
    assert got["once"].result == 2
    assert type(got["always"].error) is Lost
    assert "SIGKILL" in str(got["always"].error)
    assert (tmp_path / "always").read_text() == "xx"


def test_an_idle_worker_that_dies_is_replaced():
    def run(task):
        return os.getpid()

    def processes():
        return {outcome.result for _, outcome in in_parallel(run, range(4), jobs=2)}

    with keep_workers():
        first = processes()
        for process in first:
            os.kill(process, signal.SIGKILL)
            wait_for_end(process)
        second = processes()
    assert None not in second and not first & second


@pytest.mark.parametrize("ended_by", ["close", "tasks"])
def test_the_end_of_the_iteration_ends_the_workers(tmp_path, ended_by):
    def run(task):
        (tmp_path / str(os.getpid())).touch()
        if task == "long":
            time.sleep(600)
            (tmp_path / "done").touch()

    def both_started():
        return len(list(tmp_path.iterdir())) == 2

    def tasks():
        yield from ("long", "short")
        wait_until(both_started)
        raise ValueError("no more")

    results = in_parallel(run, tasks(), jobs=2)
    assert next(results)[0] == "short"
    if ended_by == "close":
        wait_until(both_started)
        results.close()
    else:
        with pytest.raises(ValueError, match="no more"):
            next(results)
    assert not (tmp_path / "done").exists()  # the long task was not waited for
    for path in tmp_path.iterdir():
        wait_for_end(int(path.name))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_caller(tmp_path, sent):
    script = tmp_path / "script.py"
    script.write_text(SLEEPING)
    seen = tmp_path / "seen"
    seen.mkdir()
    command = [sys.executable, str(script), str(seen)]
    caller = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: caller.poll() is not None or len(list(seen.iterdir())) == 2)
        assert caller.poll() is None
        if sent == signal.SIGINT:
            os.killpg(caller.pid, sent)  # as a terminal does
        else:
            os.kill(caller.pid, sent)
        _, said = caller.communicate(timeout=300)
    finally:
        caller.kill()
    assert caller.returncode == -sent
    assert said.count("Traceback") == (1 if sent == signal.SIGINT else 0), said
    for path in seen.iterdir():
        wait_for_end(int(path.name))


def test_a_worker_that_grows_is_exchanged(tmp_path, monkeypatch):
    monkeypatch.setenv("LOKY_MAX_MEMORY_LEAK_SIZE", "3e8")

    def run(task):
        turn, megabytes = task
        for name, module in list(sys.modules.items()):
            if name.endswith("loky.process_executor"):
                module._MEMORY_LEAK_CHECK_DELAY = -1.0  # memory is looked at after every task
        vars(sys).setdefault("kept", []).append(np.ones(megabytes * 125_000))
        (tmp_path / f"{turn} {os.getpid()}").touch()
        wait_until(lambda: len(list(tmp_path.glob(f"{turn} *"))) == 2)  # one task for each worker
        return os.getpid()

    turns = [("first", 8), ("large", 400), ("last", 8)]
    got = list(in_parallel(run, [turn for turn in turns for _ in range(2)], jobs=2))
    assert [outcome.error for _, outcome in got] == [None] * 6
    pids = {
        name: {outcome.result for (turn, _), outcome in got if turn == name} for name, _ in turns
    }
    assert pids["first"] == pids["large"] and not pids["large"] & pids["last"]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"engine": "threads"}, "'engine' must be one of processes, ray .got 'threads'"),
        ({"jobs": 0}, "'jobs' must be a whole number from 1 on .got 0"),
        ({"jobs": 2.0}, "'jobs' must be a whole number"),
        ({"threads": True}, "'threads' must be a whole number from 1 on .got True"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(ValueError, match=said):
        in_parallel(abs, [1], **options)


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"pip install 'meanmax\[ray\]'"):
        next(in_parallel(abs, [1], engine="ray"))


def test_without_ray_cluster(monkeypatch):
    def init(**options):
        raise ConnectionError("Could not find\nany running Ray instance.")

    ray = SimpleNamespace(init=init, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(EngineError, match=r"find any running Ray instance.*'ray start --head'"):
        next(in_parallel(abs, [1], engine="ray"))


def wait_until(condition):
    """Waits for an event; the bound, far above what it takes, only turns a hang into a failure."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        time.sleep(0.02)


def wait_for_end(pid):
    wait_until(lambda: not is_alive(pid))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_workers_are_kept_for_later_calls_and_then_ended():
    def processes():
        outcomes = in_parallel(lambda task: os.getpid(), range(4), jobs=2)
        return {outcome.result for _, outcome in outcomes}

    with keep_workers():
        first = processes()
        assert processes() <= first and os.getpid() not in first
    for process in first:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert not processes() & first
