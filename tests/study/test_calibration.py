"""Outcomes of comparisons with a copy."""

import json
from dataclasses import asdict

import pytest

from meanmax.data.files import DataError
from meanmax.study.calibration import Case, Outcome, read_outcomes

OUTCOMES = [Outcome(Case(number, "wine"), [50.0, 60.0], [51.0, 60.0]) for number in range(3)]
LINES = [json.dumps(asdict(outcome)) + "\n" for outcome in OUTCOMES]


def test_what_was_written_is_read_without_a_line_in_part(tmp_path):
    path = tmp_path / "calibration.jsonl"
    assert read_outcomes(path) == []
    path.write_text("".join(LINES)[:-9])
    assert read_outcomes(path) == OUTCOMES[:2]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", '{"case": 3}', "\xff", LINES[0].replace("50.0", '"x"').strip(), "[" * 9999],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "calibration.jsonl"
    path.write_bytes(LINES[0].encode() + line.encode("latin-1") + b"\n")
    with pytest.raises(DataError, match=r"calibration.jsonl:2' cannot be read .*remove the line"):
        read_outcomes(path)
