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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meanmax.experiments import fill as filling
from meanmax.experiments.row import Result, Row
from meanmax.experiments.store import Store

SECONDS = 0.05


@dataclass(frozen=True)
class Spec:
    key: str


@dataclass(frozen=True)
class Task:
    spec: Spec
    traces: str
    threads: int = 1
    alone: bool = False
    checkpoints: str | None = None


def run(task):
    key, trace = task.spec.key, Path(task.traces) / task.spec.key
    with trace.open("a") as file:
        file.write(f"{os.getpid()}\n")
    held = trace.with_suffix(".hold")
    time.sleep(300 if held.exists() else SECONDS)
    facts = dict.fromkeys(("data", "data_hash", "split", "split_hash", "backbone", "aggr"), "x")
    row = Row(
        key, "ok", **facts, split_seed=0, seed=0, settings_name="x", settings={}, finished="now"
    )
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
