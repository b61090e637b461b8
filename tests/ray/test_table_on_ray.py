"""The command fills a table on a Ray cluster of two nodes, one of whose workers is killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the extra ray: make test-ray")
pytestmark = pytest.mark.ray

from tests.ray.test_ray import cluster  # noqa: E402, F401 - a fixture

COMMAND = "from meanmax.cli import main; main(prog_name='meanmax')"


def test_a_worker_killed_in_the_middle_of_a_table_loses_nothing(cluster, tmp_path):  # noqa: F811
    words = ["compare", "--data", "karate", "--splits", "4", "--aggr", "none,lp", "--engine", "ray"]
    words += ["--set", "epochs=600", "--set", "patience=600", "--out", str(tmp_path), "--json"]
    command = [sys.executable, "-c", COMMAND, *words]
    pipe = subprocess.PIPE
    filling = subprocess.Popen(command, env=cluster.env, stdout=pipe, stderr=pipe, text=True)
    cluster.drivers.append(filling)
    database, killed = tmp_path / "runs.sqlite", []
    while filling.poll() is None:
        if not killed and database.exists() and 1 <= rows(database) < 8:
            killed = [pid for pid in [next(ray_workers(cluster), None)] if pid and kill(pid)]
        time.sleep(0.1)
    out, err = filling.communicate()
    assert filling.returncode == 0, err
    assert killed, "no worker was seen at work"
    lines = json.loads(out)["lines"]
    assert [(line["n"], line["failed"]) for line in lines] == [(4, 0), (4, 0)]
    assert rows(database) == 8


def rows(database):
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0


def ray_workers(cluster):  # noqa: F811
    r"""Processes of this cluster that run a task now; others' clusters are left alone."""
    own = f"RAY_AUTH_TOKEN={cluster.env['RAY_AUTH_TOKEN']}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes().decode(errors="replace")
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if title.startswith("ray::attempt_in_worker") and own in environment:
            yield int(folder.name)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
