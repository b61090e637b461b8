"""Tasks on a Ray cluster of two nodes on this machine, whose workers and nodes are killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the extra ray: make test-ray")
pytestmark = pytest.mark.ray

DRIVER = """
import json, os, sys, time
from pathlib import Path
from meanmax.study.runs.engine import in_parallel

folder, threads = Path(sys.argv[1]), int(sys.argv[2])

def run(task):
    import ray, torch
    name = f"{task} {os.getpid()} {ray.get_runtime_context().get_node_id()} {time.time_ns()}"
    (folder / name).touch()
    if task == "wrong":
        raise KeyError("no such run")
    if task == "deadly":
        os._exit(1)
    while task == "hold" and not (folder / "go").exists():
        time.sleep(0.05)
    return torch.ones(200_000), torch.get_num_threads()

for task, outcome in in_parallel(run, iter(sys.argv[3:]), threads=threads, engine="ray"):
    error = type(outcome.error).__name__
    result = outcome.result and (float(outcome.result[0].sum()), outcome.result[1])
    print(json.dumps([task, result, error]), flush=True)
"""


@pytest.fixture
def cluster():
    # Sockets lie in it, whose names must be short.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        nodes = Cluster(Path(folder))
        try:
            head = f"--port={nodes.port}", f"--temp-dir={folder}", "--include-dashboard=false"
            nodes.start("--head", *head)
            nodes.start(f"--address=127.0.0.1:{nodes.port}")
            yield nodes
        finally:
            nodes.stop()


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.nodes = []
        self.drivers = []
        self.env = os.environ | {
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": uuid.uuid4().hex,
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        }

    def start(self, *options):
        """Starts a node with one CPU as a process group of its own and waits until it is there."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
        command += ["--disable-usage-stats", "--object-store-memory=100000000", *options]
        env = {name: value for name, value in self.env.items() if name != "RAY_ADDRESS"}
        log = self.folder / f"node{len(self.nodes)}.log"
        with open(log, "w") as out:
            node = subprocess.Popen(
                command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.nodes.append(node)
        wait_until(lambda: "Ray runtime started" in log.read_text(), log, node)

    def drive(self, folder, threads, tasks):
        command = [sys.executable, "-c", DRIVER, str(folder), str(threads), *tasks]
        pipe = subprocess.PIPE
        driver = subprocess.Popen(command, env=self.env, stdout=pipe, stderr=pipe, text=True)
        self.drivers.append(driver)
        return driver

    def stop(self):
        for driver in self.drivers:
            driver.kill()
            driver.communicate()
        for node in reversed(self.nodes):
            node.terminate()
        for node in self.nodes:
            with suppress(subprocess.TimeoutExpired):
                node.wait(timeout=40)  # Ray lets tasks end for 30 seconds
            with suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()


def test_every_task_once(cluster, tmp_path):
    tasks = ["a", "wrong", "b", "deadly", "c"]
    got = results(cluster.drive(tmp_path, 1, tasks))
    assert sorted(got) == [
        ["a", [200_000.0, 1], "NoneType"],
        ["b", [200_000.0, 1], "NoneType"],
        ["c", [200_000.0, 1], "NoneType"],
        ["deadly", None, "Lost"],
        ["wrong", None, "KeyError"],
    ]
    assert len(runs(tmp_path, "deadly")) == 2
    assert len(runs(tmp_path, "a")) == 1


@pytest.mark.parametrize("killed", ["worker", "node"])
def test_the_task_of_what_was_killed_runs_again(cluster, tmp_path, killed):
    driver = cluster.drive(tmp_path, 1, ["hold", "hold", "a", "b", "c", "d"])
    log = cluster.folder / "node0.log"
    wait_until(lambda: len(runs(tmp_path, "hold")) == 2, log, driver)
    begun = runs(tmp_path, "hold")
    assert len({node for _, _, node in begun}) == 2
    raylet = child(cluster.nodes[1].pid, "raylet")
    (worker,) = (int(pid) for _, pid, _ in begun if parent(pid) == raylet)
    os.kill(worker if killed == "worker" else raylet, signal.SIGKILL)
    wait_until(lambda: not alive(worker), log)
    (tmp_path / "go").touch()

    got = results(driver)
    assert sorted(task for task, _, _ in got) == ["a", "b", "c", "d", "hold", "hold"]
    assert {(*result, error) for _, result, error in got} == {(200_000.0, 1, "NoneType")}
    assert len(runs(tmp_path, "hold")) == 3
    assert sum(len(runs(tmp_path, task)) for task in "abcd") == 4


def test_too_many_threads(cluster, tmp_path):
    driver = cluster.drive(tmp_path, 2, ["a"])
    _, said = driver.communicate(timeout=300)
    assert "no node of the Ray cluster has 2 CPUs" in said
    assert runs(tmp_path, "a") == []


def test_an_interrupt_ends_the_tasks(cluster, tmp_path):
    driver = cluster.drive(tmp_path, 1, ["hold", "hold", "a"])
    wait_until(lambda: len(runs(tmp_path, "hold")) == 2, cluster.folder / "node0.log", driver)
    os.kill(driver.pid, signal.SIGINT)
    _, said = driver.communicate(timeout=300)
    assert "KeyboardInterrupt" in said
    for _, pid, _ in runs(tmp_path, "hold"):
        wait_until(lambda pid=pid: not alive(int(pid)), cluster.folder / "node0.log")


def test_without_cluster(tmp_path):
    env = os.environ | {"RAY_ADDRESS": f"127.0.0.1:{free_port()}"}
    command = [sys.executable, "-c", DRIVER, str(tmp_path), "1", "a"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "EngineError: no Ray cluster was found (RAY_ADDRESS=127.0.0.1:" in done.stderr
    assert "ray start --head" in done.stderr


def results(driver):
    out, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    return [json.loads(line) for line in out.splitlines() if line.startswith("[")]


def runs(folder, task):
    """Task, process and node of each time that a task was begun."""
    begun = (path.name.split() for path in folder.iterdir())
    return [name[:3] for name in begun if name[0] == task]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, log, process=None):
    deadline = time.monotonic() + 300
    while not condition():
        assert process is None or process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def stat(pid):
    """State and parent of a process."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:2]
    return state, int(parent)


def alive(pid):
    try:
        return stat(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def parent(pid):
    return stat(pid)[1]


def child(pid, name):
    """The one child process of that name."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = (c for c in children if Path(f"/proc/{c}/comm").read_text().strip() == name)
    return int(found)
