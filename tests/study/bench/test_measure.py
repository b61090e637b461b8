import gc
from pathlib import Path

import numpy as np
import pytest

from meanmax.study.bench.measure import (
    MIN_CALLS,
    WARM_UP_CALLS,
    ChildError,
    PrivatePeak,
    neighbour,
    private_bytes,
    run_child,
    time_in_turns,
)


def test_every_case_is_called_once_per_round():
    calls, steps = [], []
    cases = {name: lambda name=name: calls.append(name) for name in "abc"}
    timings = time_in_turns(cases, repeats=4, budget=10.0, on_step=lambda: steps.append(0))
    rounds = calls[3 * WARM_UP_CALLS :]
    assert [sorted(rounds[i : i + 3]) for i in range(0, 12, 3)] == [["a", "b", "c"]] * 4
    assert len(steps) == 3 * (4 + 1)
    assert all(len(timing.seconds) == 4 and timing.median_ms > 0 for timing in timings.values())
    assert gc.isenabled()


def test_budget_ends_a_case_but_not_before_the_least():
    timings = time_in_turns({"a": lambda: None}, repeats=10, budget=0.0)
    assert len(timings["a"].seconds) == MIN_CALLS


def test_a_case_that_fails_does_not_end_the_others():
    def fail():
        raise RuntimeError("not enough memory")

    timings = time_in_turns({"bad": fail, "good": lambda: None}, repeats=2, budget=1.0)
    assert timings["bad"].error == "RuntimeError: not enough memory"
    assert timings["bad"].median_ms is None
    assert len(timings["good"].seconds) == 2


def test_a_child_that_fails_says_why():
    with pytest.raises(ChildError, match="No module named 'meanmax.study.bench.nothing'"):
        run_child("meanmax.study.bench.nothing:work", {})


def test_request_and_environment_reach_the_child(tmp_path, monkeypatch):
    (tmp_path / "echo.py").write_text(
        "import os\n\n\ndef work(a):\n    return [a, os.environ['COLOUR']]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run_child("echo:work", {"a": 1}, {"COLOUR": "red"}) == [1, "red"]


LOOP = """
from pathlib import Path
from meanmax.study.bench.measure import repeat_until_released

def work(path):
    calls = []
    def call():
        calls.append(0)
        Path(path).write_text(str(len(calls)))
    repeat_until_released(call)
    Path(path).write_text("ended")

def fail_later(path):
    calls = []
    def call():
        calls.append(0)
        if len(calls) > 1:
            Path(path).write_text("failing")
            raise ValueError("too hot")
    repeat_until_released(call)
"""


def test_a_neighbour_is_busy_inside_of_the_block_only(tmp_path, monkeypatch):
    (tmp_path / "loop.py").write_text(LOOP)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "calls"
    with neighbour("loop:work", {"path": str(path)}):
        first = path.read_text()
        while path.read_text() in ("", first):
            pass
    assert path.read_text() == "ended"


@pytest.mark.parametrize("failing", [True, False])
def test_a_neighbour_ends_with_an_error_of_the_block(tmp_path, monkeypatch, failing):
    """Either its own error or that of the block is seen, and no process is left."""
    (tmp_path / "loop.py").write_text(LOOP)
    monkeypatch.syspath_prepend(tmp_path)
    path = str(tmp_path / "calls")
    if failing:
        with (
            pytest.raises(ChildError, match="too hot"),
            neighbour("loop:fail_later", {"path": path}),
        ):
            while not Path(path).exists():
                pass
    else:
        with pytest.raises(KeyError), neighbour("loop:work", {"path": path}):
            raise KeyError("own")
        assert Path(path).read_text() == "ended"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_private_memory_is_seen():
    before = private_bytes()
    with PrivatePeak(0.001) as watch:
        held = np.ones(1 << 23)
        while watch.peak < before + held.nbytes // 2:
            pass
    assert watch.peak >= before + held.nbytes // 2
