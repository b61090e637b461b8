r"""Runs one function on many tasks in parallel, by processes or by Ray, whose workers may die.

joblib's :obj:`Parallel` has generators for this, but it takes as many tasks ahead as it has jobs,
in a separate thread. Here a task is taken only when a worker is free, by the thread that iterates
over the results, because taking a task may mean claiming it in a store that others use too.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

from meanmax.study.runs.machine import num_threads

T = TypeVar("T")
R = TypeVar("R")

ENGINES: dict[str, str] = {
    "processes": "worker processes on this machine",
    "ray": "workers of a Ray cluster, on one machine or many",
}
r"""The engines of :func:`in_parallel`."""


_LOST = (
    "two workers died on this task, one after the other; a common cause is too little memory: use "
    "fewer jobs"
)


class EngineError(RuntimeError):
    r"""Workers could not be started."""


class Lost(RuntimeError):
    r"""Two workers died on the same task. The last report is the :obj:`__cause__`."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    r"""What the function returned, or the error that it raised, with the worker's traceback as a
    note; or :class:`Lost`.
    """

    result: R | None = None
    error: BaseException | None = None


class Pool(ABC, Generic[T, R]):
    r"""Workers that run tasks."""

    @abstractmethod
    def slots(self) -> int:
        r"""The number of tasks that can run at once."""

    @abstractmethod
    def submit(self, task: T) -> Future[Outcome[R]]:
        r"""Gives a task to an idle worker; one exists while fewer tasks run than slots."""

    @abstractmethod
    def died(self, error: BaseException) -> bool:
        r"""Whether a future's error means that the worker died."""

    @abstractmethod
    def close(self) -> None:
        r"""Ends the workers and the tasks that they still run."""


def in_parallel(
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    jobs: int | None = None,
    threads: int = 1,
    engine: str = "processes",
) -> Iterator[tuple[T, Outcome[R]]]:
    r"""Yields every task once with its outcome, in the order in which tasks end.

    A task is taken from :obj:`tasks` only when a worker is free for it, by the thread that
    iterates. A task whose worker dies runs again; if its worker dies again the outcome is
    :class:`Lost`, and the other tasks continue. The end of the iteration, also by an error, ends
    the workers. Function, tasks and results are pickled.

    Example:
        >>> for task, outcome in in_parallel(abs, [-2, "two"], jobs=1):
        ...     print(task, outcome.result, outcome.error)
        -2 2 None
        two None bad operand type for abs(): 'str'

    Args:
        jobs (int, optional): The largest number of tasks at once. One job of the engine
            :obj:`processes` runs in this process, which then dies with it. If :obj:`None`, as many
            as there are CPUs for the threads: on this machine, or in the cluster.
            (default: :obj:`None`)
        threads (int): Threads of each job. (default: 1)
        engine (str): A key of :obj:`ENGINES`. (default: :obj:`"processes"`)
    """
    if engine not in ENGINES:
        raise ValueError(f"'engine' must be one of {', '.join(ENGINES)} (got {engine!r})")
    for name, value in {"threads": threads, "jobs": 1 if jobs is None else jobs}.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"'{name}' must be a whole number from 1 on (got {value!r})")
    if engine == "ray":
        return _in_pool(lambda: RayPool(function, jobs, threads), iter(tasks))
    if jobs is None:
        from loky import cpu_count

        jobs = max(1, cpu_count() // threads)
    number = jobs
    if number == 1:
        return ((task, attempt(function, task, threads)) for task in tasks)
    return _in_pool(lambda: ProcessPool(function, number, threads), iter(tasks))


def _in_pool(start: Callable[[], Pool[T, R]], tasks: Iterator[T]) -> Iterator[tuple[T, Outcome[R]]]:
    pool = start()
    running: dict[Future[Outcome[R]], tuple[T, bool]] = {}  # the task, and if its worker has died
    ended: list[tuple[T, Outcome[R]]] = []  # none or one, not yielded yet
    problem: Exception | None = None
    try:
        while True:
            try:
                while len(running) < pool.slots():
                    task = next(tasks)
                    running[pool.submit(task)] = task, False
            except StopIteration:
                pass
            except Exception as error:
                problem = error
            # After the idle worker has its next task, because the caller takes a while to store it.
            yield from ended
            ended.clear()
            if problem is not None:
                raise problem
            if not running:
                return
            future = wait(running, return_when=FIRST_COMPLETED).done.pop()
            (task, again), died = running.pop(future), future.exception()
            if died is None:
                ended.append((task, future.result()))
            elif not pool.died(died):  # such as a result that cannot be pickled
                ended.append((task, Outcome(error=died)))
            elif again:
                lost = Lost(f"{_LOST}. The last report: {' '.join(str(died).split())}")
                lost.__cause__ = died
                ended.append((task, Outcome(error=lost)))
            else:
                running[pool.submit(task)] = task, True
    finally:
        pool.close()


def attempt(function: Callable[[T], R], task: T, threads: int) -> Outcome[R]:
    r"""Runs a task in this process with a number of threads; an error becomes the outcome.

    Example:
        >>> attempt(abs, -3, threads=1)
        Outcome(result=3, error=None)
        >>> attempt(abs, "three", threads=1).error
        TypeError("bad operand type for abs(): 'str'")
    """
    with num_threads(threads):
        try:
            return Outcome(function(task))
        except (Exception, SystemExit) as error:
            return Outcome(error=error)


def attempt_in_worker(function: Callable[[T], R], task: T, threads: int) -> Outcome[R]:
    r"""Runs a task like :func:`attempt`, with an error that can be sent to another process."""
    outcome = attempt(function, task, threads)
    if (error := outcome.error) is not None:
        trace = "".join(traceback.format_exception(error))
        error.add_note(f"In the worker:\n{trace}")  # a traceback is not pickled, a note is
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # often, if __init__ of the exception takes other arguments
            return Outcome(error=RuntimeError(trace))
    return outcome


_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR")
GROWTH = 2 * 10**9
r"""Bytes by which a worker may grow before loky replaces it, which takes seconds: a data set in
memory is no leak.
"""
_GROWTH = "LOKY_MAX_MEMORY_LEAK_SIZE"  # loky's variable for it
_THREAD_VARIABLES = (*(f"{name}_NUM_THREADS" for name in _LIBRARIES), "VECLIB_MAXIMUM_THREADS")


_kept: list[tuple[int, Any]] | None = None  # threads and executors of pools that have ended


@contextmanager
def keep_workers() -> Iterator[None]:
    r"""Inside, worker processes are used again by later calls of :func:`in_parallel`: each takes
    seconds to start. At the end they are ended.
    """
    global _kept
    _kept = []
    try:
        yield
    finally:
        ended, _kept = _kept, None
        for _, executor in ended:
            executor.shutdown(kill_workers=True)


class ProcessPool(Pool[T, R]):
    r"""Worker processes of this machine, each of them a loky pool of one process.

    When a process dies, loky ends the whole pool that it belongs to and does not say which task
    it ran. In pools of one the task is known, and the other workers continue. A process starts when
    there is a task for it.
    """

    def __init__(self, function: Callable[[T], R], jobs: int, threads: int):
        self._function = function
        self._threads = threads
        self._slots = jobs
        self._executors: set[Any] = set()
        self._idle: SimpleQueue[Any] = SimpleQueue()
        # loky replaces a worker whose memory has grown, and warns about it in a separate thread.
        # Where warnings are errors, that thread would end and the task never finish.
        message = "A worker (stopped|was restarted) while some jobs"
        warnings.filterwarnings("ignore", message, UserWarning)
        for _ in range(jobs):
            self._idle.put(self._kept_executor() or self._new_executor())

    def slots(self) -> int:
        r"""The number of processes."""
        return self._slots

    def submit(self, task: T) -> Future[Outcome[R]]:
        r"""Gives a task to an idle process."""
        executor = self._idle.get()
        try:
            future = self._send(executor, task)
        except BrokenExecutor:
            self._executors.remove(executor)
            executor.shutdown()
            executor = self._new_executor()
            future = self._send(executor, task)
        future.add_done_callback(lambda _: self._idle.put(executor))
        return future

    def died(self, error: BaseException) -> bool:
        r"""Whether the process died."""
        return isinstance(error, BrokenExecutor)

    def close(self) -> None:
        r"""Ends the processes, or leaves the idle ones to the next pool: see
        :func:`keep_workers`.
        """
        idle = set()
        while _kept is not None and not self._idle.empty():
            idle.add(self._idle.get())
        for executor in self._executors:
            if _kept is not None and executor in idle:
                _kept.append((self._threads, executor))
            else:
                executor.shutdown(kill_workers=True)

    def _send(self, executor: Any, task: T) -> Future[Outcome[R]]:
        sent = executor.submit(attempt_in_worker, self._function, task, self._threads)
        return cast("Future[Outcome[R]]", sent)

    def _kept_executor(self) -> Any:
        kept = _kept or []
        for place, (threads, executor) in enumerate(kept):
            if threads == self._threads:
                del kept[place]
                self._executors.add(executor)
                return executor
        return None

    def _new_executor(self) -> Any:
        from loky import ProcessPoolExecutor

        executor = ProcessPoolExecutor(
            max_workers=1,
            initializer=_begin_worker,
            initargs=(os.getpid(),),
            env={
                **dict.fromkeys(_THREAD_VARIABLES, str(self._threads)),
                _GROWTH: os.environ.get(_GROWTH, str(GROWTH)),
            },
        )
        self._executors.add(executor)
        return executor


def _begin_worker(parent: int) -> None:
    # Ctrl-C in a terminal reaches the workers too; they leave it to the caller, who ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    # A caller that was killed closes nothing, and loky's workers would wait for tasks forever.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


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
        is_rays = threading.current_thread().name.startswith("ray_")
        return sys.stderr if is_rays else self._usual


class RayPool(Pool[T, R]):
    r"""The CPUs of the cluster that runs here, or of the one at :obj:`RAY_ADDRESS`.

    Every node needs meanmax with the same versions. Nodes may join and leave at any time.

    This uses tasks of Ray, not its backend for joblib. That backend cannot return results one by
    one (joblib refuses its generators), it assigns tasks in turn, whether a worker is free or not,
    and a dead worker keeps its turn, so that every later task of that turn fails.
    """

    def __init__(self, function: Callable[[T], R], jobs: int | None, threads: int):
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
            if (most := max(self._cpus(), default=0)) < threads:
                raise EngineError(
                    f"no node of the Ray cluster has {threads} CPUs for the threads of a task "
                    f"(the largest has {most}): use fewer threads, or add a larger node"
                )
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
