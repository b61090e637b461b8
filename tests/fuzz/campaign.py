"""A seeded loop over random cases that can be interrupted and resumed.

A fuzzer is a module of this folder with a function

    case(rng: numpy.random.Generator, counts: Counter[str]) -> Failure | None

which draws one case (or a few that share their preparation), adds what it tried to ``counts``, one
for every case, under the kind of the case, and returns what went wrong. An exception is a failure
too. Nothing but ``rng`` may decide what is drawn: a case is known by its seed and number.

The folder of a campaign holds ``state.json``, which is replaced as a whole every few seconds, and
``failures/``, one small script for each failure that repeats it. What a state counts is what its
cases reported. SIGINT and SIGTERM end the loop after the running case; a second one ends that too.
If the process was killed or crashed, the case it was at is tried again in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO

import numpy as np

ROOT = Path(__file__).parents[2]
KEPT = 20  # scripts for each kind of failure; more are only counted
SLICE = 2.0  # seconds that a fuzzer has before another's turn
SAVED = 5.0  # seconds between two states on disk
REPORTED = 60.0  # seconds between two lines of progress where stderr is no terminal


@dataclass(frozen=True)
class Failure:
    """What went wrong in a case.

    Args:
        kind: A short name that failures of one cause share.
        message: What was got and what should have been.
        script: Python source that shows the failure without the fuzzer; if None, the kept script
            draws the case again.
    """

    kind: str
    message: str
    script: str | None = None


Case = Callable[[np.random.Generator, Counter[str]], Failure | None]


def load_case(name: str) -> Case:
    """The function of a fuzzer."""
    return import_module(f"tests.fuzz.{name}").case


def generator(name: str, seed: int, number: int) -> np.random.Generator:
    """The random numbers of a case."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), number])


def run_case(name: str, case: Case, seed: int, number: int, counts: Counter[str]) -> Failure | None:
    """Runs one case; an exception is a failure."""
    try:
        return case(generator(name, seed, number), counts)
    except Exception as error:
        counts["raised"] += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} in {Path(place.filename).name}:{place.name}"
        return Failure(kind, traceback.format_exc())


def replay(name: str, seed: int, number: int) -> None:
    """Runs one case and raises what went wrong."""
    failure = load_case(name)(generator(name, seed, number), Counter())
    assert failure is None, f"{failure.kind}: {failure.message}"


@dataclass
class Progress:
    """How far a fuzzer has come."""

    next: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    skipped: list[int] = field(default_factory=list)  # cases that end the process

    @property
    def cases(self) -> int:
        return self.counts.total()


class Campaign:
    """The fuzzers with their progress, in a folder.

    Args:
        folder: Where the state and the failures are kept; a state that is there is resumed.
        names: The fuzzers to run.
        seed: The seed of all cases; None stands for that of the state, or 0.
    """

    def __init__(self, folder: Path, names: list[str], seed: int | None = None) -> None:
        self.folder, self.names = folder, names
        (folder / "failures").mkdir(parents=True, exist_ok=True)
        self.parts: dict[str, Progress] = {}
        self.seed = self._resume(seed)
        self.cases = {name: load_case(name) for name in names}
        for name in names:
            self.parts.setdefault(name, Progress())
        self._check_interrupted()

    def run(self, minutes: float | None = None, most: int | None = None) -> bool:
        """Runs until the time is over or each fuzzer has tried that many cases in all, or until
        SIGINT or SIGTERM. Returns whether no case has failed, earlier ones included.
        """
        begin = time.monotonic()
        end = float("inf") if minutes is None else begin + 60 * minutes
        used = dict.fromkeys(self.names, 0.0)
        line = _Line()
        with _signals() as received, open(self._current, "wb", buffering=0) as current:
            while (now := time.monotonic()) < end and not received:
                left = [n for n in self.names if most is None or self.parts[n].cases < most]
                if not left:
                    break
                name = min(left, key=used.__getitem__)
                for _ in self._slice(name, most, current):
                    if received or time.monotonic() > min(end, now + SLICE):
                        break
                used[name] += time.monotonic() - now
                self._save(at_least_every=SAVED)
                line.show(self.summary(), end - time.monotonic())
        self._save()
        self._current.unlink()
        line.close(self.summary())
        return not any(part.failed for part in self.parts.values())

    def summary(self) -> str:
        """One line on each fuzzer."""
        texts = []
        for name, part in self.parts.items():
            rate = part.cases / part.seconds if part.seconds else 0.0
            texts.append(
                f"{name}: {part.cases:,} cases ({rate:.0f}/s), {part.failed.total()} failed"
            )
        return "; ".join(texts)

    def _slice(self, name: str, most: int | None, current: IO[bytes]) -> Iterator[None]:
        """Runs cases of one fuzzer as long as more are asked for."""
        part, case = self.parts[name], self.cases[name]
        while most is None or part.cases < most:
            begin, number = time.monotonic(), part.next
            current.seek(0)
            current.write(f"{name} {number}\n".encode())
            if number not in part.skipped:
                counts: Counter[str] = Counter()
                failure = run_case(name, case, self.seed, number, counts)
                part.counts += counts
                if failure is not None:
                    self._keep(name, number, failure)
            part.next += 1
            part.seconds += time.monotonic() - begin
            yield

    def _keep(self, name: str, number: int, failure: Failure) -> None:
        part = self.parts[name]
        part.failed[failure.kind] += 1
        if part.failed[failure.kind] > KEPT:
            return
        script = failure.script or (
            f"from tests.fuzz.campaign import replay\n\nreplay({name!r}, {self.seed}, {number})\n"
        )
        head = f"{name}, seed {self.seed}, case {number}: {failure.kind}\n{failure.message}"
        comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
        path = self.folder / "failures" / f"{name}-{self.seed}-{number}.py"
        path.write_text(f"{comment}\n{script}", encoding="utf-8")

    @property
    def _current(self) -> Path:
        return self.folder / "running"

    def _resume(self, seed: int | None) -> int:
        path = self.folder / "state.json"
        if not path.exists():
            return seed or 0
        state = json.loads(path.read_text(encoding="utf-8"))
        if seed not in (None, state["seed"]):
            raise SystemExit(
                f"{path} is of seed {state['seed']} (got {seed}); take another folder with --out"
            )
        for name, part in state["fuzzers"].items():
            part["counts"], part["failed"] = Counter(part["counts"]), Counter(part["failed"])
            self.parts[name] = Progress(**part)
        return state["seed"]

    def _save(self, at_least_every: float = 0.0) -> None:
        path = self.folder / "state.json"
        if path.exists() and time.time() - path.stat().st_mtime < at_least_every:
            return
        fuzzers = {name: vars(part) for name, part in self.parts.items()}
        text = json.dumps({"seed": self.seed, "fuzzers": fuzzers}, indent=1, sort_keys=True)
        new = path.with_suffix(".new")
        new.write_text(text + "\n", encoding="utf-8")
        os.replace(new, path)

    def _check_interrupted(self) -> None:
        """Tries the case that was running when the process ended, in a process of its own."""
        text = self._current.read_text() if self._current.exists() else ""
        name, _, number = text.partition("\n")[0].rpartition(" ")
        if name not in self.parts:
            return
        code = f"from tests.fuzz.campaign import replay; replay({name!r}, {self.seed}, {number})"
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code], cwd=ROOT, text=True,
            capture_output=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        if done.returncode < 0:
            self.parts[name].skipped.append(int(number))
            kind = f"ended by {signal.Signals(-done.returncode).name}"
            self._keep(name, int(number), Failure(kind, done.stderr))


class _Line:
    """Progress: one line that is written over on a terminal, else one line a minute."""

    def __init__(self) -> None:
        self._terminal, self._last = sys.stderr.isatty(), 0.0

    def show(self, text: str, left: float) -> None:
        now = time.monotonic()
        if now - self._last < (1.0 if self._terminal else REPORTED):
            return
        self._last = now
        ahead = "" if left == float("inf") else f"; {max(left, 0) / 60:.1f} min left"
        start, stop = ("\r\x1b[K", "") if self._terminal else ("", "\n")
        print(f"{start}{text}{ahead}", end=stop, file=sys.stderr, flush=True)

    def close(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self._terminal else text, file=sys.stderr, flush=True)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The first SIGINT or SIGTERM is only noted; a second one interrupts."""
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
