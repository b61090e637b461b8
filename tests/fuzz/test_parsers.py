"""Some damaged files of every kind, and that what a reader must not do is found."""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from meanmax.data.files import DataError

from . import parsers
from .campaign import generator, run_case
from .parsers import case, damaged, judge, read
from .parsers_files import Format, formats

CASES = 300


def test_valid_files_are_read():
    counts = Counter()
    assert [read(name, kind.files, counts) for name, kind in formats().items()] == [None] * len(
        formats()
    )
    assert counts == {f"{name}: read": 1 for name in formats()}


def test_damaged_files_are_read_or_refused():
    counts = Counter()
    found = [run_case("parsers", case, 0, number, counts) for number in range(CASES)]
    failures = [f"{number}: {one.kind}\n{one.message}" for number, one in enumerate(found) if one]
    assert not failures, "\n".join(failures)
    refused = sum(count for name, count in counts.items() if name.endswith("refused"))
    assert counts.total() == CASES and CASES // 3 < refused < CASES


def test_cases_follow_from_their_numbers():
    files = formats()["csv"].files
    first, again = ([damaged(files, generator("parsers", 1, n)) for n in range(20)] for _ in "12")
    assert first == again and any(one != files for one in first)


def _refuse(error):
    def refuse(folder):
        raise error

    return refuse


def _warn(folder):
    warnings.warn("odd", RuntimeWarning, stacklevel=1)


def _take_memory(folder):
    try:
        return np.ones(1 << 40)
    except MemoryError as error:
        raise DataError("this file cannot be read, get it again") from error


@pytest.mark.parametrize(
    ("does", "kind"),
    [
        (_refuse(KeyError("x")), "KeyError in"),
        (_refuse(UnicodeDecodeError("utf-8", b"", 0, 1, "what is the matter")), "UnicodeDecodeErr"),
        (_refuse(TypeError("this is not what was asked for")), "TypeError in"),
        (_refuse(DataError("no")), "no sentence"),
        (_take_memory, "too much memory"),
        (_warn, "warns: RuntimeWarning"),
    ],
)
def test_faults_are_found(does, kind, tmp_path):
    _, failure = judge("made", Format({}, does, (DataError, ValueError)), tmp_path)
    assert kind in failure.kind


def test_what_is_allowed_is_no_fault(tmp_path):
    kind = Format({}, _refuse(DataError("there is no such file here")), (DataError,))
    assert judge("made", kind, tmp_path) == ("refused", None)
    assert judge("made", replace(kind, read=str), tmp_path) == ("read", None)


def test_endless_reading_is_found(tmp_path, monkeypatch):
    def spin(folder):
        while True:
            pass

    monkeypatch.setattr(parsers, "SECONDS", 0.05)
    _, failure = judge("made", Format({}, spin, (DataError,)), tmp_path)
    assert failure.kind == "made takes too long"
