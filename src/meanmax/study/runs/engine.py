r"""One function on many tasks in parallel, with results as they come and workers that may die.

joblib's :obj:`Parallel` has generators for this, but takes as many tasks ahead as it has jobs, and
takes them in a thread of its own. Here a task is taken, which may mean that it is claimed in a
table that others fill too, when a worker is free, and by the thread that asks for the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait

from joblib import cpu_count

from meanmax.study.runs.process_pool import EngineError, Lost, Outcome, ProcessPool, R, T, attempt
from meanmax.study.runs.ray import RayPool

__all__ = ["ENGINES", "EngineError", "Lost", "Outcome", "in_parallel"]

ENGINES: dict[str, str] = {
    "processes": "worker processes on this machine",
    "ray": "workers of a Ray cluster, on one machine or many",
}
r"""What :func:`in_parallel` knows."""


def in_parallel(
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    jobs: int | None = None,
    threads: int = 1,
    engine: str = "processes",
) -> Iterator[tuple[T, Outcome[R]]]:
    r"""Yields every task once with its outcome, in the order in which they are done.

    A task is taken from :obj:`tasks` only when a worker is free for it, by the thread that
    iterates. A task whose worker dies runs again; if its worker dies again it is
    :class:`Lost`, and the others go on. Ending the iteration, by an error too, ends the workers.

    Example:
        >>> for task, outcome in in_parallel(abs, [-2, "two"], jobs=1):
        ...     print(task, outcome.result, outcome.error)
        -2 2 None
        two None bad operand type for abs(): 'str'

    Args:
        function (callable): Called with a task in a worker; it and what it returns are pickled.
        tasks (iterable): The tasks, taken one by one; pickled too.
        jobs (int, optional): The most tasks at once. One job of the engine :obj:`processes` runs
            in this process, which then dies with it. If :obj:`None`, as many as there are CPUs
            for the threads: on this machine, or in the cluster. (default: :obj:`None`)
        threads (int): Threads of each job. (default: 1)
        engine (str): A key of :obj:`ENGINES`. (default: :obj:`"processes"`)
    """
    if engine not in ENGINES:
        raise ValueError(f"'engine' must be one of {', '.join(ENGINES)} (got {engine!r})")
    _check_count("threads", threads)
    if jobs is not None:
        _check_count("jobs", jobs)
    if engine == "ray":
        return _in_pool(lambda: RayPool(function, jobs, threads), iter(tasks))
    number = max(1, cpu_count() // threads) if jobs is None else jobs
    if number == 1:
        return ((task, attempt(function, task, threads)) for task in tasks)
    return _in_pool(lambda: ProcessPool(function, number, threads), iter(tasks))


def _in_pool(
    start: Callable[[], ProcessPool[T, R] | RayPool[T, R]], tasks: Iterator[T]
) -> Iterator[tuple[T, Outcome[R]]]:
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
        "two workers died on this task, one after the other; often memory is short: use fewer "
        f"jobs. The last report: {' '.join(str(error).split())}"
    )
    lost.__cause__ = error
    return lost


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"'{name}' must be a whole number from 1 on (got {value!r})")
