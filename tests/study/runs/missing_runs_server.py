"""A server process that runs what stores miss in forked children, which a test may kill.

It imports once and forks for each line of its input, because importing takes longer than the runs.
A line holds the arguments of :func:`run_missing_here`; the answer is the process id of the child.
Each run leaves a trace: a file with one line, the process id, for each time that it was started. A
file ``KEY.hold`` next to the trace keeps the run of that key waiting for as long as the file
exists.

A child with ``die_at`` counts the events of the store, that is files opened, renamed and removed,
SQL statements, runs and halves of artefacts, and kills itself right before the event of that
number. So where a child dies depends on the number alone, and not on the speed of the machine.
"""

import json
import os
import signal
import sqlite3
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import meanmax.study.runs.execute  # noqa: F401  imported once, not in every child
from meanmax.study.runs import run_missing as module
from meanmax.study.runs.row import Result, Row
from meanmax.study.store.store import Store

FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.scandir")
DEATHS = "deaths"
POLLS = "polls"


@dataclass(frozen=True)
class Spec:
    key: str
    data: str = "none"
    data_hash: str = ""
    split: str = ""
    split_seed: int = 0
    split_hash: str = ""
    seed: int = 0
    backbone: str = ""
    aggr: str = ""
    settings: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    spec: Spec
    traces: str
    data: None = None
    settings_name: str = ""
    threads: int = 1
    alone: bool = False
    checkpoints: str | None = None


class Numbers:
    """An array that is asked for while its archive is being written."""

    def __init__(self, number):
        self.number = number

    def __array__(self, dtype=None, copy=None):
        sys.audit("half an artefact")
        return np.full(20_000, self.number)


class Death:
    """Kills this process right before an event of the store, and writes down which that was."""

    def __init__(self, folder, traces, die_at):
        self.folder = f"{folder}/"
        self.left = die_at
        self.deaths = os.open(Path(traces, DEATHS), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.connect, sqlite3.connect = sqlite3.connect, self.connected
        sys.addaudithook(self.on_audit)

    def connected(self, *args, **options):
        connection = self.connect(*args, **options)
        connection.set_trace_callback(self.on_event)
        return connection

    def on_audit(self, event, args):
        if event in ("run", "half an artefact"):
            self.on_event(event)
        elif event in FILE_EVENTS and f"{args[0]}/".startswith(self.folder):
            self.on_event(event)

    def on_event(self, event):
        self.left -= 1
        if self.left == 0:
            os.write(self.deaths, f"{' '.join(event.split()[:3])}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)


def run(task):
    key, trace = task.spec.key, Path(task.traces) / task.spec.key
    with trace.open("a") as file:
        file.write(f"{os.getpid()}\n")
    sys.audit("run")
    if trace.with_suffix(".die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while trace.with_suffix(".hold").exists():
        time.sleep(0.01)
    row = Row(**asdict(task.spec), status="ok", settings_name=task.settings_name)
    return Result(row, {"number": Numbers(int(key))})


def run_missing_here(folder, traces, jobs, number, die_at):
    def sleep(seconds):
        with Path(traces, POLLS).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.05)

    module.time = SimpleNamespace(sleep=sleep)  # between two looks at what others have done
    if die_at:
        Death(folder, traces, die_at)
    store = Store(Path(folder))
    tasks = [Task(Spec(f"{key:02d}"), traces) for key in range(number)]
    module.run_missing(store, tasks, module.Workers(jobs=jobs), run=run)
    store.close()


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that ended leave nothing behind
    for line in sys.stdin:
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        try:
            run_missing_here(*json.loads(line))
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(0)
