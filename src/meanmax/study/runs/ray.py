r"""Workers of a Ray cluster.

This uses tasks of Ray, not its backend for joblib. That backend cannot return results one by one
(joblib refuses its generators), it assigns tasks in turn, whether a worker is free or not, and a
dead worker keeps its turn, so that every later task of that turn fails.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout
from typing import Any, cast

from meanmax.study.runs.engine import EngineError, Outcome, Pool, R, T, attempt_in_worker

_THREADS = "ray_"  # the prefix of the names of Ray's threads


@contextmanager
def ray_prints_to_stderr() -> Iterator[None]:
    r"""Sends what Ray's threads print about workers to stderr; stdout is for results."""
    with redirect_stdout(cast(Any, _ByThread(sys.stdout))):
        yield


class _ByThread:
    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def write(self, text: str) -> Any:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def _stream(self) -> Any:
        is_rays = threading.current_thread().name.startswith(_THREADS)
        return sys.stderr if is_rays else self._usual


class RayPool(Pool[T, R]):
    r"""The CPUs of the cluster that runs here, or of the one at :obj:`RAY_ADDRESS`.

    Every node needs meanmax with the same versions. Nodes may join and leave at any time.

    Args:
        function (callable): Run on each task; pickled, by value where it cannot be imported.
        jobs (int, optional): The largest number of tasks at once. If :obj:`None`, as many as the
            nodes' CPUs allow. (default: :obj:`None`)
        threads (int): Threads, that is CPUs, of each task. (default: 1)
    """

    def __init__(self, function: Callable[[T], R], jobs: int | None = None, threads: int = 1):
        self._ray = _import_ray()
        self._jobs = jobs
        self._threads = threads
        self._function = function
        self._running: dict[Future[Outcome[R]], Any] = {}
        self._connected_here = not self._ray.is_initialized()
        self._redirection = ray_prints_to_stderr()
        self._redirection.__enter__()
        try:
            if self._connected_here:
                _connect(self._ray)
            self._check_threads()
        except BaseException:
            self.close()
            raise
        # Ray's own retries would repeat a task that needs too much memory forever.
        self._attempt = self._ray.remote(num_cpus=threads, max_retries=0)(attempt_in_worker)

    def slots(self) -> int:
        r"""The number of tasks that can run at once, on the nodes that are alive now."""
        room = sum(cpus // self._threads for cpus in self._cpus())
        return max(1, room if self._jobs is None else min(room, self._jobs))

    def submit(self, task: T) -> Future[Outcome[R]]:
        r"""Gives a task to the cluster."""
        reference = self._attempt.remote(self._function, task, self._threads)
        future: Future[Outcome[R]] = reference.future()
        self._running[future] = reference
        # Ray keeps a result in memory while a reference to it exists.
        future.add_done_callback(lambda done: self._running.pop(done, None))
        return future

    def died(self, error: BaseException) -> bool:
        r"""Whether the worker or its node died."""
        exceptions = self._ray.exceptions
        own = isinstance(error, exceptions.RayTaskError)  # raised by Python code in the worker
        return isinstance(error, exceptions.RayError) and not own

    def close(self) -> None:
        r"""Cancels running tasks, and ends the connection if it was made here."""
        for reference in list(self._running.values()):
            self._ray.cancel(reference, force=True)
        if self._connected_here and self._ray.is_initialized():
            self._ray.shutdown()
        self._redirection.__exit__(None, None, None)

    def _cpus(self) -> list[int]:
        nodes = (node for node in self._ray.nodes() if node["Alive"])
        return [int(node["Resources"].get("CPU", 0)) for node in nodes]

    def _check_threads(self) -> None:
        most = max(self._cpus(), default=0)
        if most < self._threads:
            raise EngineError(
                f"no node of the Ray cluster has {self._threads} CPUs for the threads of a task "
                f"(the largest has {most}): use fewer threads, or add a larger node"
            )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            "engine 'ray' needs Ray, which is not installed: pip install 'meanmax[ray]', here "
            "and on every node; or use the engine 'processes'"
        ) from error
    return ray


def _connect(ray: Any) -> None:
    try:
        _check_address(os.environ.get("RAY_ADDRESS", ""))
        ray.init(address="auto", logging_level=logging.WARNING, log_to_driver=False)
    except OSError as error:  # ConnectionError is one of them
        raise EngineError(
            f"no Ray cluster was found ({' '.join(str(error).split())}). Start one with "
            "'ray start --head' here and 'ray start --address=HOST:6379' on the other machines, "
            "or set RAY_ADDRESS=HOST:6379 to a cluster that runs; or use the engine 'processes'"
        ) from error


def _check_address(address: str) -> None:
    # Ray itself tries an address at which nothing answers for minutes.
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise ConnectionError(f"RAY_ADDRESS={address}: {error}") from error
