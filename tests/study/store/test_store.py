"""A store whose disk is full, whose files are damaged, and which others use too."""

import errno
import json
import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store, StoreError

from ..made_runs import failed, result, row


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture
def full(monkeypatch):
    """A database that cannot grow while the fixture's flag is up."""
    connect, state = sqlite3.connect, {"full": True}

    def limited(path, **options):
        connection = connect(path, **options)
        if state["full"]:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    return state


def test_what_is_added_comes_back(store):
    results = [result(n) for n in range(3)]
    assert [store.add(one) for one in results] == [one.row for one in results]
    again = Store(store.folder, create=False)
    assert again.rows() == [one.row for one in results]
    assert again.finished() == {one.row.key for one in results}
    arrays = again.artefact(results[2].row.key)
    assert arrays.keys() == results[2].artefact.keys()
    for name, array in arrays.items():
        assert array.dtype == results[2].artefact[name].dtype
        assert np.array_equal(array, results[2].artefact[name])
    assert again.artefact("f" * 20) is None


@pytest.mark.parametrize("durable", [True, False])
def test_what_is_quickly_repeated_does_not_wait_for_the_disk(tmp_path, durable):
    store = Store(tmp_path, durable=durable)
    with store._connection() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2 if durable else 0,)
    assert store.claim(row(1).key) == "mine"
    store.add(result(1))
    assert Store(tmp_path).rows() == [row(1)]


def test_attempts_are_counted_and_the_last_one_shown(store):
    assert store.add(Result(failed(1), {})).attempt == 0
    assert store.finished() == {row(1).key}
    assert store.finished(failed=False) == set()
    assert store.claim(row(1).key) == "done"
    assert store.failures() == {row(1).key: 1}
    assert store.claim(row(1).key, failures=1) == "mine"
    assert store.add(result(1)).attempt == 1
    assert store.rows() == [row(1, attempt=1)]
    assert store.claim(row(1).key, failures=1) == "done"
    assert store.failures() == {}


def test_a_failed_run_is_tried_again_by_one_process_only(store):
    other, key = Store(store.folder), row(1).key
    store.add(Result(failed(1), {}))
    known = store.failures()[key]
    assert store.claim(key, failures=known) == "mine"
    assert other.claim(key, failures=known) == "taken"
    assert store.add(Result(failed(1), {})).attempt == 1
    assert other.claim(key, failures=known) == "done"
    assert other.claim(key, failures=other.failures()[key]) == "mine"


def test_a_run_without_its_artefact_is_made_again_where_that_is_wanted(store):
    whole, bare = result(0), result(1)
    store.add(whole)
    store.merge([bare.row])
    store.add(Result(failed(2), {}))
    keys = [whole.row.key, bare.row.key, failed(2).key]
    assert store.finished() == set(keys)
    assert store.finished(artefacts=True) == {keys[0], keys[2]}
    assert [store.claim(key) for key in keys] == ["done"] * 3
    assert [store.claim(key, artefacts=True) for key in keys] == ["done", "mine", "done"]
    store.add(bare)
    assert store.claim(keys[1], artefacts=True) == "done"
    assert [row.attempt for row in store.rows()] == [0, 1, 0]


def test_a_claim_holds_as_long_as_its_owner_lives(store):
    other = Store(store.folder)
    assert store.claim("aa") == store.claim("bb") == "mine"
    assert store.claim("aa") == "mine"
    assert other.claim("aa") == other.claim("bb") == "taken"
    store.release(["aa"])
    assert other.claim("aa") == "mine"
    assert store.claim("aa") == "taken"
    store.close()
    assert other.claim("bb") == "mine"
    other.close()
    assert files(store.folder) == ["runs.sqlite"]


def test_what_a_killed_process_was_writing_is_removed(store):
    key = row(1).key
    with closing(sqlite3.connect(store.database)) as connection, connection:
        connection.execute("INSERT INTO claims VALUES (?, ?)", (key, "dead"))
    for final in (store.artefact_path(key), store.checkpoint_path(key)):
        final.parent.mkdir(parents=True)
        final.with_name(f".{final.name}.x1y2").touch()
        final.with_name(f".{'0' * 20}{final.suffix}.x1y2").touch()  # of another run
    assert store.claim(key) == "mine"
    store.add(result(1))
    store.close()
    others = [f".{'0' * 20}.pt.x1y2", f".{'0' * 20}.zip.x1y2"]
    assert files(store.folder) == [*others, f"{key}.zip", "runs.sqlite"]


@pytest.mark.parametrize("status, kept", [("ok", False), ("diverged", False), ("failed", True)])
def test_a_checkpoint_is_kept_for_another_attempt_only(store, status, kept):
    path = store.checkpoint_path(row().key)
    path.parent.mkdir()
    path.touch()
    store.add(Result(row(status=status), {}))
    assert path.exists() == kept


def test_a_full_disk_at_the_row(store, full):
    full["full"] = False
    store.add(result(0))
    full["full"] = True
    big = {"error": "x" * 100_000}
    with pytest.raises(StoreError, match=r"runs.sqlite: database or disk is full: make room and"):
        store.add(result(1, **big))
    with pytest.raises(StoreError, match="disk is full"):
        store.merge([row(2), row(3, **big)])
    assert store.rows() == [row(0)]
    full["full"] = False
    assert store.claim(row(1).key) == "mine"
    store.add(result(1, **big))
    assert store.rows() == [row(0), row(1, **big)]
    store.close()
    assert files(store.folder) == [f"{row(0).key}.zip", f"{row(1).key}.zip", "runs.sqlite"]


@pytest.mark.parametrize("module, call", [(os, "fsync"), (np.lib.format, "write_array")])
def test_a_full_disk_at_the_artefact(store, module, call, monkeypatch):
    store.add(result(0))

    def no_room(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(module, call, no_room)
        with pytest.raises(StoreError, match=r"\.zip: No space left on device: make room"):
            store.add(result(1))
    assert store.rows() == [row(0)]
    assert files(store.folder) == [f"{row(0).key}.zip", "runs.sqlite"]
    store.add(result(1))
    assert store.artefact(row(1).key)["train_loss"].tolist() == [1, 2, 3]


def overwritten(path):
    content = bytearray(path.read_bytes())
    content[100 : len(content)] = b"\xa5" * (len(content) - 100)
    path.write_bytes(content)


def foreign(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE runs (key)")


def newer(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 7")


@pytest.mark.parametrize(
    "damage, said",
    [
        (overwritten, "runs.sqlite: (database disk image is malformed|file is not a database)"),
        (lambda path: path.write_text("key,status\n" * 100), "file is not a database: take it"),
        (lambda path: path.write_bytes(b""), "is empty, but artefacts of runs are next to it"),
        (foreign, "is a database, but not one of meanmax's: choose another folder"),
        (newer, "is of version 7, but this meanmax reads 1: export it with the meanmax that"),
    ],
)
def test_a_database_that_is_none_of_ours(store, damage, said):
    store.add(result())
    damage(store.database)
    before = store.database.read_bytes()
    with pytest.raises(StoreError, match=said):
        Store(store.folder).rows()
    assert store.database.read_bytes() == before


def test_a_database_cut_short(store):
    for number in range(20):
        store.add(Result(row(number, error="x" * 3000), {}))
    content = store.database.read_bytes()
    store.database.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="malformed: take it from a backup, or move it away"):
        store.rows()


def test_a_process_killed_before_the_first_table(tmp_path):
    (tmp_path / "runs.sqlite").touch()
    with pytest.raises(StoreError, match="there is no store of runs in"):
        Store(tmp_path, create=False)
    Store(tmp_path).add(result())
    assert Store(tmp_path, create=False).rows() == [row()]


def test_a_damaged_row_is_named(store):
    store.add(result(5))
    with closing(sqlite3.connect(store.database)) as connection, connection:
        connection.execute("UPDATE runs SET settings = '{\"lr\": 0.'")
    with pytest.raises(StoreError, match=f"the row of run '{row(5).key}' is damaged"):
        store.rows()


def test_damaged_artefacts(store):
    large = Result(row(), {"embedding": np.random.default_rng(0).normal(size=(200, 8))})
    store.add(large)
    path = store.artefact_path(row().key)
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            got = store.artefact(row().key)
        except StoreError as error:
            assert str(path) in str(error) and "delete the file, or take it" in str(error)
        else:  # a byte of the zip that says nothing about the arrays
            assert np.array_equal(got["embedding"], large.artefact["embedding"])
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="or is damaged"):
        store.artefact(row().key)
    path.write_bytes(content)
    path.parent.joinpath(f"{row(1).key}.zip").write_bytes(content)
    with pytest.raises(StoreError, match=f"is of run '{row().key}'"):
        store.artefact(row(1).key)


def test_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file: File exists: choose a folder"):
        Store(tmp_path / "file")
    with pytest.raises(StoreError, match="there is no store of runs in .*none"):
        Store(tmp_path / "none", create=False)
    assert files(tmp_path) == ["file"]


def test_merge_adds_what_is_not_done(store):
    store.add(result(0))
    store.add(Result(failed(1), {}))
    store.add(Result(row(2, status="diverged", error="nan"), {}))
    late = "2027-01-01T00:00:00+00:00"
    rows = [
        row(0, finished=late),
        failed(1),
        row(1, finished=late),
        failed(2, finished=late),
        row(3),
    ]
    assert [one.key for one in store.unknown(rows)] == [row(1).key, row(3).key]
    assert store.merge(rows) == 2
    assert store.merge(rows) == 0
    statuses = [(one.key, one.status, one.attempt) for one in store.rows()]
    assert statuses == [
        (row(0).key, "ok", 0),
        (row(1).key, "ok", 1),
        (row(2).key, "diverged", 0),
        (row(3).key, "ok", 0),
    ]


def test_a_store_of_an_earlier_version_is_read(tmp_path):
    path = tmp_path / "runs.sqlite"
    facts = vars(row(1)) | {"attempt": 0}
    names = sorted(facts, reverse=True)  # columns are found by their names
    values = [json.dumps(x) if isinstance(x := facts[name], dict) else x for name in names]
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = ", ".join(f'"{name}"' for name in names)
        connection.execute(
            f'CREATE TABLE runs (id INTEGER PRIMARY KEY, {columns}, UNIQUE ("key", "attempt"))'
        )
        connection.execute("CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)")
        connection.execute("PRAGMA application_id = 0x6D65616E")
        connection.execute("PRAGMA user_version = 1")
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO runs ({columns}) VALUES ({marks})", values)
    store = Store(tmp_path, create=False)
    assert store.rows() == [row(1)]
    assert store.claim(row(1).key) == "done"
    store.add(result(2))
    assert store.rows() == [row(1), row(2)]
    store.close()
