r"""Worker processes of this machine, from joblib's own pool of processes, loky."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from queue import SimpleQueue
from typing import Any, Generic

from joblib.externals.loky import ProcessPoolExecutor

from meanmax.study.runs.outcome import (Outcome, R, T, attempt_in_worker)

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
