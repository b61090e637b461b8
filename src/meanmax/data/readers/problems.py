r"""What is wrong with a person's files, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Literal, NoReturn

import numpy as np

from meanmax.data.files import DataError

SHOWN = 5
LISTED = 20


@dataclass(frozen=True)
class Problem:
    r"""One thing to repair (:obj:`"error"`) or to know (:obj:`"note"`).

    Args:
        severity (str): Whether the data cannot be read with it, or can.
        file (str): The name of the file.
        line (int, optional): Its line, counted from 1; :obj:`None` in files without lines.
        message (str): What was found.
        advice (str): What to do.
    """

    severity: Literal["error", "note"]
    file: str
    line: int | None
    message: str
    advice: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}; {self.advice}"


class OwnDataError(DataError):
    r"""Own files that cannot be read as a graph. The message shows the first few problems.

    Attributes:
        problems (tuple): All errors that were found.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = [str(problem) for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            shown.append(f"and {len(self.problems) - SHOWN} more; 'meanmax data check' lists them")
        super().__init__("\n".join(shown))

    def __reduce__(self) -> tuple[type[OwnDataError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)  # on its way from a worker process


class Diagnostics:
    r"""Collects problems while files are read, so that all of them are found and not only one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @property
    def errors(self) -> list[Problem]:
        r"""Those with which the data cannot be read."""
        return [problem for problem in self.in_order() if problem.severity == "error"]

    @property
    def notes(self) -> list[Problem]:
        r"""Those that only may surprise."""
        return [problem for problem in self.in_order() if problem.severity == "note"]

    def in_order(self) -> list[Problem]:
        r"""Errors before notes, each file's together and by line."""
        files = list(dict.fromkeys(problem.file for problem in self.problems))

        def place(problem: Problem) -> tuple[str, int, float]:
            line = inf if problem.line is None else problem.line
            return problem.severity, files.index(problem.file), line

        return sorted(self.problems, key=place)

    def error(self, file: str, line: int | None, message: str, advice: str) -> None:
        r"""Notes what has to be repaired, and goes on."""
        self.problems.append(Problem("error", file, line, _printable(message), advice))

    def note(self, file: str, line: int | None, message: str, advice: str) -> None:
        r"""Notes what is allowed but may surprise."""
        self.problems.append(Problem("note", file, line, _printable(message), advice))

    def fail(self, file: str, line: int | None, message: str, advice: str) -> NoReturn:
        r"""Notes an error after which nothing more can be looked at."""
        self.error(file, line, message, advice)
        raise OwnDataError(self.errors)

    def each(
        self,
        file: str,
        rows: Sequence[int] | np.ndarray,
        line: Callable[[int], int | None],
        describe: Callable[[int], str],
        advice: str,
    ) -> None:
        r"""An error for each of many rows: the first twenty, then how many more there are."""
        for row in rows[:LISTED]:
            self.error(file, line(int(row)), describe(int(row)), advice)
        if len(rows) > LISTED:
            message = f"and {len(rows) - LISTED:,} more of this kind"
            self.error(file, line(int(rows[LISTED])), message, advice)

    def stop_on_errors(self) -> None:
        r"""Raises if there are errors so far."""
        if self.errors:
            raise OwnDataError(self.errors)

    @contextmanager
    def parsing(self, file: str, kind: str, advice: str) -> Iterator[None]:
        r"""Turns whatever another library raises over a broken file into the one clear error."""
        try:
            yield
        except OwnDataError:
            raise
        except Exception as error:  # parsers document no closed list of what they raise
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            self.fail(file, None, f"is not a readable {kind} ({reason})", advice)


def _printable(text: str) -> str:
    """Messages quote files: a control character in one would reach the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
