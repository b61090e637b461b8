"""A process that fills stores in children of its own, which a test may kill.

It imports once and forks for each line of its input, because importing takes longer than the runs.
A line is the folder of the store, the folder of traces, the number of jobs, and how many runs;
the answer is the process that fills. Each run leaves a trace: a file with a line for each time
that it was made.
"""

import json
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from meanmax.study.runs import run_missing as filling
from meanmax.study.runs.row import Result, Row
from meanmax.study.store.store import Store

SECONDS = 0.05


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
    settings_name: str = ""
    threads: int = 1
    alone: bool = False
    checkpoints: str | None = None


def run(task):
    key, trace = task.spec.key, Path(task.traces) / task.spec.key
    with trace.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if trace.with_suffix(".die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(300 if trace.with_suffix(".hold").exists() else SECONDS)
    row = Row(**asdict(task.spec), status="ok", settings_name=task.settings_name)
    return Result(row, {"number": np.full(20_000, int(key))})


def fill_here(folder, traces, jobs, number):
    filling.POLL = 0.1
    store = Store(Path(folder))
    tasks = [Task(Spec(f"{key:02d}"), traces) for key in range(number)]
    filling.fill(store, tasks, filling.Workers(jobs=jobs), run=run)
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
            fill_here(*json.loads(line))
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(0)
