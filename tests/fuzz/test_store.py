"""Some stores under SIGKILL, and that what is lost or half-written is found."""

from collections import Counter

import pytest

from meanmax.study.store.store import Store, transaction

from .campaign import run_case
from .store import case, check, fill

CASES = 6


def test_killed_processes_lose_nothing():
    counts = Counter()
    found = [run_case("store", case, 0, number, counts) for number in range(CASES)]
    failures = [f"{number}: {one.kind}\n{one.message}" for number, one in enumerate(found) if one]
    assert not failures, "\n".join(failures)
    killed = sum(count for name, count in counts.items() if name.startswith("killed before"))
    assert killed > CASES


@pytest.fixture
def filled(tmp_path):
    (tmp_path / "traces").mkdir()
    assert fill(tmp_path / "runs", tmp_path / "traces", 2, [0]) is None
    known = {}
    assert check(tmp_path / "runs", known, complete=2) is None
    assert sorted(known) == ["00", "01"]
    return tmp_path / "runs", known


def test_a_row_that_is_lost_or_changed_is_found(filled):
    folder, known = filled
    store = Store(folder)
    with store._connection() as connection, transaction(connection):
        connection.execute("UPDATE runs SET seed = 5 WHERE key = '01'")
    assert check(folder, dict(known)).kind == "a row is lost"
    with store._connection() as connection, transaction(connection):
        connection.execute("DELETE FROM runs WHERE key = '01'")
    assert check(folder, dict(known)).kind == "a row is lost"
    (folder / "runs.sqlite").unlink()
    assert check(folder, dict(known)).kind == "the database is gone"


def test_artefacts_and_left_over_files_are_looked_at(filled):
    folder, known = filled
    (folder / "artefacts" / "00" / ".00.zip.half.zip").touch()
    assert check(folder, known, complete=2).kind == "not completed"
    Store(folder).artefact_path("00").unlink()
    assert check(folder, known).kind == "a row without its artefact"


def test_a_process_that_fails_is_reported(tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "runs").write_text("a file")
    failure = fill(tmp_path / "runs", tmp_path / "traces", 1, [0])
    assert failure.kind == "a process ended with 1" and "StoreError" in failure.message
