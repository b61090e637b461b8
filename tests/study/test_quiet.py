import math

import pytest

from meanmax.study.runs import machine


@pytest.mark.parametrize(
    "load, threads, ended, was, now",
    [
        (0.3, 1, None, True, True),
        (0.9, 1, None, False, True),  # another process was at work before the first run
        (1.2, 1, 10.0, True, True),  # the run before this one was
        (1.2, 1, 400.0, False, True),
        (1.9, 1, 10.0, False, False),
        (2.2, 2, 10.0, True, True),
        (math.nan, 1, None, False, False),
    ],
)
def test_load_of_own_runs_is_no_load(monkeypatch, load, threads, ended, was, now):
    monkeypatch.setattr(machine, "load", lambda: load)
    monkeypatch.setattr(machine.time, "monotonic", lambda: 1000.0)
    machine._ended.clear()
    if ended is not None:
        machine._ended.append(1000.0 - ended)
    assert machine.was_idle(threads) == was
    assert machine.is_idle(threads) == now
    machine._ended.clear()
