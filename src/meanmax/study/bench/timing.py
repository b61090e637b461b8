r"""Timing in turns: one call of every case per round, so that noise hits all alike."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

WARM_UP_CALLS = 2
MIN_CALLS = 3
PAUSE = 0.005  # lets OpenMP's waiting threads stop spinning, which would slow the next case down


@dataclass
class Timing:
    r"""The seconds that the calls of one case took, or the error that ended it.

    Args:
        seconds (list, optional): One entry per call. (default: :obj:`[]`)
        error (str, optional): Why there are no (more) calls. (default: :obj:`None`)
    """

    seconds: list[float] = field(default_factory=list)
    error: str | None = None

    @property
    def median_ms(self) -> float | None:
        r"""The median in milliseconds; :obj:`None` if the case failed."""
        return None if self.error is not None else 1000 * median(self.seconds)


def time_in_turns(
    cases: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    budget: float,
    seed: int = 0,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    r"""Warms all cases up, then calls each of them once per round, in a new order each time.

    A case leaves the rounds once its calls took :obj:`budget` together, but not before three.

    Args:
        cases (dict): The calls to time, by name.
        repeats (int): The number of rounds.
        budget (float): Seconds that the timed calls of one case may take.
        seed (int, optional): The seed of the orders. (default: :obj:`0`)
        on_step (callable, optional): Called after each case's warm-up and after each round's turn
            of each case: :obj:`len(cases) * (repeats + 1)` times. (default: does nothing)
    """
    timings = {name: Timing() for name in cases}
    for name, call in cases.items():
        for _ in range(WARM_UP_CALLS):
            _attempt(call, timings[name])
        timings[name].seconds.clear()
        on_step()
    shuffled = random.Random(seed)
    with _no_collection():
        for _ in range(repeats):
            for name in shuffled.sample(list(cases), len(cases)):
                timing = timings[name]
                if len(timing.seconds) < MIN_CALLS or sum(timing.seconds) < budget:
                    _attempt(cases[name], timing)
                on_step()
            gc.collect()
    return timings


def _attempt(call: Callable[[], object], timing: Timing) -> None:
    r"""Times one call; a case that failed once is not called again."""
    if timing.error is not None:
        return
    time.sleep(PAUSE)
    start = time.perf_counter()
    try:
        result = call()
    except (RuntimeError, ValueError, MemoryError) as error:
        timing.error = f"{type(error).__name__}: {error}"
        return
    timing.seconds.append(time.perf_counter() - start)
    del result  # freed outside the clock, for all alike


@contextmanager
def _no_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
