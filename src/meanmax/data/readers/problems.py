r"""Problems in a user's files: where they are, what they are and how to fix them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from meanmax.data.files import DataError, Progress, reason_of, report
from meanmax.graph.checks import memory
from meanmax.unpacking import UnpackedError, check_unpacked, open_packed

SHOWN = 5
LISTED = 20
LONGEST = 500  # characters of a message
PIECE = 1 << 24


@dataclass(frozen=True)
class DataProblem:
    r"""One thing to fix (:obj:`"error"`) or to know (:obj:`"note"`)."""

    severity: Literal["error", "note"]  # an error prevents reading the data, a note does not
    file: str
    line: int | None  # counted from 1; None in files without lines
    message: str  # what was found
    advice: str  # what to do

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}; {self.advice}"


class OwnDataError(DataError):
    r"""A user's files cannot be read as a graph. The message shows the first few problems.

    Attributes:
        problems (tuple): All errors that were found.
    """

    def __init__(self, problems: Sequence[DataProblem]) -> None:
        self.problems = tuple(problems)
        shown = [str(problem) for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            shown.append(f"and {len(self.problems) - SHOWN} more; 'meanmax data check' lists them")
        super().__init__("\n".join(shown))

    def __reduce__(self) -> tuple[type[OwnDataError], tuple[tuple[DataProblem, ...]]]:
        return type(self), (self.problems,)  # to be sent from a worker process


@dataclass
class Diagnostics:
    r"""Collects the problems of a file, so that reading can continue and find all of them. The list
    includes those of other files.
    """

    file: str
    problems: list[DataProblem] = field(default_factory=list)

    def of(self, file: str) -> Diagnostics:
        r"""The same list of problems, for reports on another file."""
        return Diagnostics(file, self.problems)

    @property
    def errors(self) -> list[DataProblem]:
        r"""The problems that prevent reading the data."""
        return [problem for problem in self.in_order() if problem.severity == "error"]

    def in_order(self) -> list[DataProblem]:
        r"""All problems: errors before notes, grouped by file and sorted by line."""
        files = list(dict.fromkeys(problem.file for problem in self.problems))

        def place(problem: DataProblem) -> tuple[str, int, float]:
            line = inf if problem.line is None else problem.line
            return problem.severity, files.index(problem.file), line

        return sorted(self.problems, key=place)

    def error(self, message: str, advice: str, line: int | None = None) -> None:
        r"""Records an error, and continues."""
        self._add("error", message, advice, line)

    def note(self, message: str, advice: str, line: int | None = None) -> None:
        r"""Records something that is allowed but may be unexpected."""
        self._add("note", message, advice, line)

    def fail(self, message: str, advice: str, line: int | None = None) -> NoReturn:
        r"""Records an error after which nothing more can be checked, and raises."""
        self.error(message, advice, line)
        raise OwnDataError(self.errors)

    def each(
        self,
        items: Sequence[Any] | np.ndarray,
        describe: Callable[[Any], str],
        advice: str,
        line: Callable[[Any], int | None] = lambda item: None,
    ) -> None:
        r"""Records an error for each of the first twenty items, then the number of the others."""
        first = items[: LISTED + 1]
        first = first.tolist() if isinstance(first, np.ndarray) else first
        for item in first[:LISTED]:
            self.error(describe(item), advice, line(item))
        if len(items) > LISTED:
            message = f"and {len(items) - LISTED:,} more of this kind"
            self.error(message, advice, line(first[LISTED]))

    def stop_on_errors(self) -> None:
        r"""Raises if there are errors so far."""
        if self.errors:
            raise OwnDataError(self.errors)

    @contextmanager
    def parsing(self, kind: str, advice: str) -> Iterator[None]:
        r"""Turns every exception of the block into an error on a file of this :obj:`kind`."""
        try:
            yield
        except OwnDataError:
            raise
        except Exception as error:  # parsers document no closed list of what they raise
            self.fail(f"is not a readable {kind} ({reason_of(error)})", advice)

    def check_size(self, size: int) -> None:
        r"""Fails if this number of bytes would fill more than half of the memory."""
        if size > memory() // 2:
            self.fail(
                f"takes {size:,} bytes unpacked, more than half of this machine's memory",
                "use a smaller file, or a machine with more memory",
            )

    def check_unpacked(self, size: int, packed: int) -> None:
        r"""Fails if a file of :obj:`packed` bytes unpacks to more than is allowed."""
        self.check_size(size)
        try:
            check_unpacked(size, packed, self.file)
        except UnpackedError as error:
            self._too_large(error)

    def _too_large(self, error: UnpackedError) -> NoReturn:
        self.fail(str(error).partition("; ")[0], error.advice)

    def read(self, path: Path, progress: Progress | None = None) -> bytes:
        r"""Reads the file, and unpacks it if its name ends in :obj:`.gz`."""
        packed, data = path.suffix == ".gz", bytearray()
        with self.parsing("file", "check that it exists, is complete and may be read"):
            size = path.stat().st_size
            self.check_size(size)
            try:
                with open_packed(path) as stream:
                    while piece := stream.read(PIECE):
                        data += piece
                        self.check_size(len(data))
                        total = None if packed else max(size, len(data))
                        report(progress, f"reading {path.name}", len(data), total)
            except UnpackedError as error:
                self._too_large(error)
            report(progress, f"reading {path.name}", len(data), len(data))
        return bytes(data)

    def _add(
        self, severity: Literal["error", "note"], message: str, advice: str, line: int | None
    ) -> None:
        # Messages quote files; a control character would reach the terminal.
        found = (_printable(text) for text in (message, advice))
        self.problems.append(DataProblem(severity, self.file, line, *found))


def _printable(text: str) -> str:
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return "".join(sign if sign.isprintable() else "?" for sign in shown)
