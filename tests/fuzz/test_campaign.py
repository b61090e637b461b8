"""The loop of the fuzzers: what is counted, kept, resumed and repeated."""

import json
import os
import signal

import pytest

from . import campaign
from .campaign import Campaign, Failure, replay


@pytest.fixture
def cases(monkeypatch):
    """Two fuzzers: one fails where its number divides by ten, one raises now and then."""
    drawn = []

    def dice(rng, counts):
        number = int(rng.integers(10))
        drawn.append(number)
        counts["even" if number % 2 == 0 else "odd"] += 1
        return Failure("zero", f"drew {number}", "raise SystemExit(3)\n") if number == 0 else None

    def raising(rng, counts):
        counts["tried"] += 1
        raise KeyError("lost")

    monkeypatch.setattr(campaign, "load_case", {"dice": dice, "raising": raising}.__getitem__)
    return drawn


def test_cases_are_counted_and_failures_kept(cases, tmp_path):
    assert not Campaign(tmp_path, ["dice"], seed=3).run(most=100)
    state = json.loads((tmp_path / "state.json").read_text())["fuzzers"]["dice"]
    assert state["next"] == len(cases) == 100
    assert state["counts"] == {
        "even": sum(number % 2 == 0 for number in cases),
        "odd": sum(number % 2 for number in cases),
    }
    assert state["failed"] == {"zero": cases.count(0)}
    scripts = {path.name for path in (tmp_path / "failures").iterdir()}
    assert scripts == {f"dice-3-{i}.py" for i, number in enumerate(cases) if number == 0}


def test_resumed_campaign_draws_what_one_run_draws(cases, tmp_path):
    for most in (7, 30):
        Campaign(tmp_path / "two", ["dice"], seed=1).run(most=most)
    in_two = list(cases)
    cases.clear()
    Campaign(tmp_path / "one", ["dice"], seed=1).run(most=30)
    assert in_two == cases
    with pytest.raises(SystemExit, match="is of seed 1"):
        Campaign(tmp_path / "one", ["dice"], seed=2)


def test_exception_is_a_failure_that_can_be_repeated(cases, tmp_path):
    assert not Campaign(tmp_path, ["raising"]).run(most=2)
    script = (tmp_path / "failures" / "raising-0-0.py").read_text()
    assert "KeyError: 'lost'" in script and "replay('raising', 0, 0)" in script
    with pytest.raises(KeyError, match="lost"):
        replay("raising", 0, 0)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signal_keeps_what_is_done(name, monkeypatch, tmp_path):
    def stopping(rng, counts):
        counts["done"] += 1
        if rng.integers(5) == 0:
            os.kill(os.getpid(), getattr(signal, name))

    monkeypatch.setattr(campaign, "load_case", lambda _: stopping)
    assert Campaign(tmp_path, ["stopping"]).run(most=1000)
    state = json.loads((tmp_path / "state.json").read_text())["fuzzers"]["stopping"]
    assert state["next"] == state["counts"]["done"] < 1000
    assert not (tmp_path / "running").exists()


def test_case_that_ends_the_process_is_found_and_skipped(cases, monkeypatch, tmp_path):
    (tmp_path / "running").write_text("dice 2\n")
    died = type("Done", (), {"returncode": -signal.SIGSEGV, "stderr": "Fatal Python error"})
    monkeypatch.setattr(campaign.subprocess, "run", lambda command, **_: died)
    run = Campaign(tmp_path, ["dice"])
    assert run.parts["dice"].skipped == [2]
    assert run.parts["dice"].failed == {"ended by SIGSEGV": 1}
    run.run(most=5)
    assert run.parts["dice"].next == 6 and len(cases) == 5
