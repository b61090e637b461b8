r"""Worker processes of this machine, from joblib's own pool of processes, loky."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch
from joblib.externals.loky import ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")


class EngineError(RuntimeError):
    r"""Workers could not be started."""


class Lost(RuntimeError):
    r"""Two workers died on the same task. The last report is the :obj:`__cause__`."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    r"""What became of a task.

    Args:
        result (optional): What the function returned.
        error (BaseException, optional): What it raised instead, with the worker's traceback as a
            note; or :class:`Lost`. (default: :obj:`None`)
    """

    result: R | None = None
    error: BaseException | None = None


def attempt(function: Callable[[T], R], task: T, threads: int) -> Outcome[R]:
    r"""Runs a task in this process with so many threads; what it raises is part of the outcome.

    Example:
        >>> attempt(abs, -3, threads=1)
        Outcome(result=3, error=None)
        >>> attempt(abs, "three", threads=1).error
        TypeError("bad operand type for abs(): 'str'")

    Args:
        function (callable): Called with the task.
        task: Its argument.
        threads (int): Threads of PyTorch. The compiled kernels take as many.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return Outcome(function(task))
    except (Exception, SystemExit) as error:
        return Outcome(error=error)
    finally:
        torch.set_num_threads(before)


def attempt_in_worker(function: Callable[[T], R], task: T, threads: int) -> Outcome[R]:
    r"""Runs a task as :func:`attempt` does, with an error that can be sent to another process."""
    outcome = attempt(function, task, threads)
    if outcome.error is None:
        return outcome
    return Outcome(error=_portable(outcome.error))


def _portable(error: BaseException) -> BaseException:
    trace = "".join(traceback.format_exception(error))
    error.add_note(f"In the worker:\n{trace}")  # a traceback is not pickled, a note is
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an exception whose __init__ has arguments of its own often cannot be read
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


class ProcessPool(Generic[T, R]):
    r"""So many workers, each of them a pool of one process.

    When a process dies, loky ends the whole pool that it belongs to and does not say which task
    it ran. In pools of one the task is known, and the other workers go on undisturbed.

    Args:
        function (callable): Run on each task; pickled, by value where it cannot be imported.
        jobs (int): Processes. They start when there is a task for them.
        threads (int): Threads of each.
    """

    def __init__(self, function: Callable[[T], R], jobs: int, threads: int):
        self._function = function
        self._threads = threads
        self._slots = jobs
        self._executors: set[Any] = set()
        self._idle: SimpleQueue[Any] = SimpleQueue()
        # loky exchanges a worker that has grown, and warns of it in a thread of its own. Where
        # warnings are errors, that thread would end and the task never be done; nothing is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        for _ in range(jobs):
            self._idle.put(self._new_executor())

    def slots(self) -> int:
        r"""How many tasks can run at once."""
        return self._slots

    def submit(self, task: T) -> Future[Outcome[R]]:
        r"""Gives a task to an idle worker; there is one while fewer tasks run than slots."""
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
        r"""Whether a future's error says that the worker died."""
        return isinstance(error, BrokenExecutor)

    def close(self) -> None:
        r"""Ends the workers, with what they still run."""
        for executor in self._executors:
            executor.shutdown(kill_workers=True)

    def _send(self, executor: Any, task: T) -> Future[Outcome[R]]:
        future: Future[Outcome[R]] = executor.submit(
            attempt_in_worker, self._function, task, self._threads
        )
        return future

    def _new_executor(self) -> Any:
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
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    # A caller that was killed closes nothing, and loky's workers would wait for tasks for ever.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
