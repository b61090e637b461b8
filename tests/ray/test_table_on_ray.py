"""The command fills a table on a Ray cluster of two nodes, one of whose workers is killed."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

pytest.importorskip("ray", reason="needs the extra ray: make test-ray")
pytestmark = pytest.mark.ray

from tests.ray.test_ray import cluster  # noqa: E402, F401 - a fixture

COMMAND = """
import os, signal, sys
from functools import partial
from meanmax.cli import main
from meanmax.study.runs import run_missing

flag, in_parallel = sys.argv.pop(1), run_missing.in_parallel

def run_and_die_once(run, task):
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    steps = []

    def step(*_):
        steps.append(1)
        if len(steps) == 10:  # in the middle of a training, and in one worker only
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    handle = register_optimizer_step_pre_hook(step)
    try:
        return run(task)
    finally:
        handle.remove()

def with_a_death(run, tasks, **options):
    return in_parallel(partial(run_and_die_once, run), tasks, **options)

run_missing.in_parallel = with_a_death
main(prog_name="meanmax")
"""


def test_a_worker_killed_in_the_middle_of_a_table_loses_nothing(cluster, tmp_path):  # noqa: F811
    store, flag = tmp_path / "runs", tmp_path / "died"
    words = ["compare", "--data", "karate", "--splits", "4", "--aggr", "none,lp", "--engine", "ray"]
    words += ["--set", "epochs=30", "--set", "patience=30", "--out", str(store), "--json"]
    command = [sys.executable, "-c", COMMAND, str(flag), *words]
    done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert flag.exists(), "no worker died"
    lines = json.loads(done.stdout)["lines"]
    assert [(line["n"], line["failed"]) for line in lines] == [(4, 0), (4, 0)]
    with closing(sqlite3.connect(store / "runs.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (8,)
