r"""Runs one function on many tasks in parallel, with results as they come and workers that may die.

joblib's :obj:`Parallel` has generators for this, but it takes as many tasks ahead as it has jobs,
in a thread of its own. Here a task is taken only when a worker is free, by the thread that iterates
over the results, because taking a task may mean claiming it in a store that others use too.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

ENGINES: dict[str, str] = {
    "processes": "worker processes on this machine",
    "ray": "workers of a Ray cluster, on one machine or many",
}
r"""The engines of :func:`in_parallel`."""


class EngineError(RuntimeError):
    r"""Workers could not be started."""


class Lost(RuntimeError):
    r"""Two workers died on the same task. The last report is the :obj:`__cause__`."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    r"""The outcome of a task.

    Args:
        result (optional): What the function returned.
        error (BaseException, optional): What it raised instead, with the worker's traceback as a
            note; or :class:`Lost`. (default: :obj:`None`)
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
    the workers.

    Example:
        >>> for task, outcome in in_parallel(abs, [-2, "two"], jobs=1):
        ...     print(task, outcome.result, outcome.error)
        -2 2 None
        two None bad operand type for abs(): 'str'

    Args:
        function (callable): Called with a task in a worker; it and its result are pickled.
        tasks (iterable): The tasks, taken one by one; pickled too.
        jobs (int, optional): The largest number of tasks at once. One job of the engine
            :obj:`processes` runs in this process, which then dies with it. If :obj:`None`, as many
            as there are CPUs for the threads: on this machine, or in the cluster.
            (default: :obj:`None`)
        threads (int): Threads of each job. (default: 1)
        engine (str): A key of :obj:`ENGINES`. (default: :obj:`"processes"`)
    """
    if engine not in ENGINES:
        raise ValueError(f"'engine' must be one of {', '.join(ENGINES)} (got {engine!r})")
    _check_count("threads", threads)
    if jobs is not None:
        _check_count("jobs", jobs)
    if engine == "ray":
        from meanmax.study.runs.ray import RayPool

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
    try:
        while True:
            while len(running) < pool.slots():
                try:
                    task = next(tasks)
                except StopIteration:
                    break
                running[pool.submit(task)] = task, False
            if not running:
                return
            future = wait(running, return_when=FIRST_COMPLETED).done.pop()
            (task, again), error = running.pop(future), future.exception()
            if error is None:
                yield task, future.result()
            elif not pool.died(error):  # such as a result that cannot be pickled
                yield task, Outcome(error=error)
            elif again:
                yield task, Outcome(error=_lost(error))
            else:
                running[pool.submit(task)] = task, True
    finally:
        pool.close()


def _lost(error: BaseException) -> Lost:
    lost = Lost(
        "two workers died on this task, one after the other; a common cause is too little memory: "
        f"use fewer jobs. The last report: {' '.join(str(error).split())}"
    )
    lost.__cause__ = error
    return lost


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"'{name}' must be a whole number from 1 on (got {value!r})")


def attempt(function: Callable[[T], R], task: T, threads: int) -> Outcome[R]:
    r"""Runs a task in this process with a number of threads; an error becomes the outcome.

    Example:
        >>> attempt(abs, -3, threads=1)
        Outcome(result=3, error=None)
        >>> attempt(abs, "three", threads=1).error
        TypeError("bad operand type for abs(): 'str'")
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return Outcome(function(task))
    except (Exception, SystemExit) as error:
        return Outcome(error=error)
    finally:
        torch.set_num_threads(before)


def attempt_in_worker(function: Callable[[T], R], task: T, threads: int) -> Outcome[R]:
    r"""Runs a task like :func:`attempt`, with an error that can be sent to another process."""
    outcome = attempt(function, task, threads)
    return outcome if outcome.error is None else Outcome(error=_portable(outcome.error))


def _portable(error: BaseException) -> BaseException:
    trace = "".join(traceback.format_exception(error))
    error.add_note(f"In the worker:\n{trace}")  # a traceback is not pickled, a note is
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # often, if __init__ of the exception has arguments of its own
        return RuntimeError(trace)
    return error


_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


class ProcessPool(Pool[T, R]):
    r"""Worker processes of this machine, each of them a loky pool of one process.

    When a process dies, loky ends the whole pool that it belongs to and does not say which task
    it ran. In pools of one the task is known, and the other workers continue.

    Args:
        function (callable): Run on each task; pickled, by value where it cannot be imported.
        jobs (int): The number of processes. They start when there is a task for them.
        threads (int): Threads of each.
    """

    def __init__(self, function: Callable[[T], R], jobs: int, threads: int):
        self._function = function
        self._threads = threads
        self._slots = jobs
        self._executors: set[Any] = set()
        self._idle: SimpleQueue[Any] = SimpleQueue()
        # loky replaces a worker whose memory has grown, and warns of it in a thread of its own.
        # Where warnings are errors, that thread would end and the task never finish.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        for _ in range(jobs):
            self._idle.put(self._new_executor())

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
        r"""Ends the processes."""
        for executor in self._executors:
            executor.shutdown(kill_workers=True)

    def _send(self, executor: Any, task: T) -> Future[Outcome[R]]:
        future: Future[Outcome[R]] = executor.submit(
            attempt_in_worker, self._function, task, self._threads
        )
        return future

    def _new_executor(self) -> Any:
        from loky import ProcessPoolExecutor

        executor = ProcessPoolExecutor(
            max_workers=1,
            initializer=_begin_worker,
            initargs=(os.getpid(),),
            env=dict.fromkeys(_THREAD_VARIABLES, str(self._threads)),
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
