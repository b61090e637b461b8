r"""What becomes of a task that a worker runs."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

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
