r"""Where runs are kept: an SQLite database of rows, and a folder of artefacts beside it.

Rows are only ever added. A row and the release of its claim are one transaction, and its artefact
is on disk before it; so a process that is killed at any moment loses the runs it was making and
nothing else. Several processes may fill one store at the same time.
"""

from __future__ import annotations

import errno
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from meanmax.study.runs.row import NESTED, PLAIN, Artefact, Result, Row
from meanmax.train.checkpoint import read_archive, write_archive

APPLICATION = 0x6D65616E  # "mean", in the file's header
VERSION = 1
WAIT = 120.0  # seconds for which a write waits for those of other processes
COLUMNS = ", ".join(f'"{name}"' for name in (*PLAIN, *NESTED))

_SCHEMA = (
    f'CREATE TABLE runs (id INTEGER PRIMARY KEY, {COLUMNS}, UNIQUE ("key", "attempt"))',
    "CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)",
)


class StoreError(RuntimeError):
    r"""Runs that cannot be read or written."""


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    r"""A connection for one task: none outlives a fork or changes threads."""
    with reported(path):
        connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
        finally:
            connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    r"""All of what is done inside, or nothing of it; no other process writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def make_or_check(path: Path, connection: sqlite3.Connection) -> None:
    r"""Makes the tables of an empty database; a :class:`StoreError` if it is not a store's."""
    application, version, tables = _header(connection)
    if application == 0 and tables == 0:
        with transaction(connection):
            # Another process may have made it since.
            application, version, tables = _header(connection)
            if tables == 0:
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                return
    if application != APPLICATION:
        raise StoreError(
            f"{path} is a database, but not one of meanmax's: choose another folder, or move it "
            f"away"
        )
    if version != VERSION:
        raise StoreError(
            f"{path} is of version {version}, but this meanmax reads {VERSION}: export it with the "
            f"meanmax that wrote it, and merge the export into a new store"
        )


def _header(connection: sqlite3.Connection) -> tuple[int, int, int]:
    r"""Application, version and number of tables, all of one moment."""
    query = (
        "SELECT (SELECT application_id FROM pragma_application_id), "
        "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    )
    application, version, tables = connection.execute(query).fetchone()
    return application, version, tables


@contextmanager
def reported(path: Path) -> Iterator[None]:
    r"""Errors of the disk and of the database as one kind that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "full" in text:
            advice = "make room and run the same command again; finished runs are kept"
        elif "locked" in text or "busy" in text:
            advice = "another process holds it; run the same command again"
        elif "readonly" in text or "unable to open" in text:
            advice = "choose a folder that you may write to"
        elif "I/O" in text:
            advice = "see to the disk and run the same command again; finished runs are kept"
        else:
            advice = (
                "take it from a backup, or move it away; the same command, or `meanmax results "
                "merge`, makes a new one"
            )
        raise StoreError(f"{path}: {text}: {advice}") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "make room" if full else "choose a folder that you may write to"
        raise StoreError(
            f"{error.filename or path}: {error.strerror or error}: {advice}, and run the same "
            f"command again; finished runs are kept"
        ) from error


class Owner:
    r"""This process, as others see it.

    Args:
        folder (Path): The folder of locks.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = uuid.uuid4().hex
        self._lock = FileLock(_path(folder, self.name), thread_local=False)
        self._lock.acquire(blocking=False)

    def close(self) -> None:
        r"""Ends the ownership of everything."""
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)


def is_alive(folder: Path, name: str) -> bool:
    r"""Whether the owner of that name still runs."""
    path = _path(folder, name)
    if not path.exists():
        return False
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    path.unlink(missing_ok=True)
    return False


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"


__all__ = ["DEFAULT_STORE", "Store", "StoreError"]

DEFAULT_STORE = "meanmax-runs"
r"""The folder that commands take, in the current one, if none is named."""

ARTEFACT = "meanmax.artefact/1"


class Store:
    r"""A folder with :obj:`runs.sqlite`, :obj:`artefacts` and :obj:`checkpoints`.

    Args:
        folder (Path): The folder.
        create (bool, optional): Whether it is made if it is not there. (default: :obj:`True`)
    """

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self.folder = Path(folder)
        self.database = self.folder / "runs.sqlite"
        self.checkpoints = self.folder / "checkpoints"
        self._owner: Owner | None = None
        with reported(self.folder):
            size = self.database.stat().st_size if self.database.exists() else 0
            if size == 0 and not create:
                raise StoreError(f"there is no store of runs in {self.folder}: name another folder")
            if self.database.exists() and size == 0 and (self.folder / "artefacts").exists():
                raise StoreError(
                    f"{self.database} is empty, but artefacts of runs are beside it: take it from "
                    f"a backup, or delete it to make the runs again"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            make_or_check(self.database, connection)

    def finished(self, *, failed: bool = True, artefacts: bool = False) -> set[str]:
        r"""The keys of the runs that are done.

        Args:
            failed (bool, optional): Whether those that failed count, of which one may want another
                attempt. Runs that diverged do in any case. (default: :obj:`True`)
            artefacts (bool, optional): Whether a run that ended well counts only with its
                artefact, which rows of an export have left behind. (default: :obj:`False`)
        """
        query = 'SELECT "key", status FROM runs'
        if not failed:
            query += " WHERE status != 'failed'"
        with self._connection() as connection:
            listed = connection.execute(query).fetchall()
        bare = {key for key, status in listed if artefacts and self._is_bare(key, status)}
        return {key for key, _ in listed} - bare

    def failures(self) -> dict[str, int]:
        r"""The runs of which all attempts failed, and how many those were."""
        query = (
            'SELECT "key", count(*) FROM runs GROUP BY "key" HAVING count(*) = '
            "sum(status = 'failed')"
        )
        with self._connection() as connection:
            return dict(connection.execute(query).fetchall())

    def claim(self, key: str, *, failures: int = 0, artefacts: bool = False) -> str:
        r"""Takes a run for this process, unless it is done or another living process has it.

        Args:
            key (str): The run.
            failures (int, optional): So many failed attempts, those that :meth:`failures` knew
                when this process began, do not count as done. A later one does: another process
                tried again meanwhile. (default: :obj:`0`)
            artefacts (bool, optional): Whether a run that ended well is done only with its
                artefact. (default: :obj:`False`)

        Returns:
            :obj:`"mine"`, :obj:`"done"` or :obj:`"taken"`.
        """
        owner = self._own()
        with self._connection() as connection, transaction(connection):
            query = 'SELECT status FROM runs WHERE "key" = ?'
            query += " AND (status != 'failed' OR attempt >= ?)"
            done = [status for (status,) in connection.execute(query, (key, failures))]
            if done and not (artefacts and any(self._is_bare(key, status) for status in done)):
                return "done"
            found = connection.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
            if found is not None and found[0] != owner.name:
                if is_alive(self._owners, found[0]):
                    return "taken"
                self._sweep(key)
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", (key, owner.name))
        return "mine"

    def release(self, keys: Iterable[str]) -> None:
        r"""Gives claimed runs back."""
        claims = [(key, self._own().name) for key in keys]
        if claims:
            with self._connection() as connection, transaction(connection):
                connection.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", claims)

    def add(self, result: Result) -> Row:
        r"""Adds a row with its artefact and releases the run; the row as it was written."""
        row = result.row
        if result.artefact:
            with reported(self.artefact_path(row.key)):
                self.artefact_path(row.key).parent.mkdir(parents=True, exist_ok=True)
                facts = {"format": ARTEFACT, "key": row.key}
                write_archive(self.artefact_path(row.key), facts, result.artefact, compress=True)
        with self._connection() as connection, transaction(connection):
            written = _insert(connection, row)
            connection.execute("DELETE FROM claims WHERE key = ?", (row.key,))
        if row.status != "failed":  # another attempt at it goes on from there
            with reported(self.checkpoints):
                self.checkpoint_path(row.key).unlink(missing_ok=True)
        return written

    def unknown(self, rows: Iterable[Row]) -> list[Row]:
        r"""Those of the rows that :meth:`merge` would add."""
        with self._connection() as connection:
            return [row for row in rows if not _known(connection, row)]

    def merge(self, rows: Iterable[Row]) -> int:
        r"""Adds rows from elsewhere that are not there yet, all or none; how many were new.

        A run that is done here stays as it is; a failed one is only added to.
        """
        added = 0
        with self._connection() as connection, transaction(connection):
            for row in rows:
                if not _known(connection, row):
                    _insert(connection, row)
                    added += 1
        return added

    def rows(self) -> list[Row]:
        r"""The last attempt at every run, in the order in which they were added."""
        with self._connection() as connection:
            listed = connection.execute(f"SELECT {COLUMNS} FROM runs ORDER BY id").fetchall()
        latest: dict[str, Row] = {}
        for values in listed:
            try:
                row = _row(dict(zip((*PLAIN, *NESTED), values, strict=True)))
            except (TypeError, ValueError) as error:
                raise StoreError(
                    f"{self.database}: the row of run {values[0]!r} is damaged ({error}): take the "
                    f"file from a backup, or move it away to make the runs again"
                ) from error
            latest[row.key] = row
        return list(latest.values())

    def artefact_path(self, key: str) -> Path:
        r"""The file of a run's artefact."""
        return self.folder / "artefacts" / key[:2] / f"{key}.zip"

    def checkpoint_path(self, key: str) -> Path:
        r"""The file of a run's checkpoint."""
        return self.checkpoints / f"{key}.pt"

    def artefact(
        self, key: str, wanted: Callable[[str], bool] = lambda name: True
    ) -> Artefact | None:
        r"""The arrays of a run by name, or :obj:`None` if it has no artefact.

        Args:
            key (str): The run.
            wanted (callable, optional): Selects arrays by name; decompressing the embeddings of
                800 runs takes a minute. (default: all)
        """
        try:
            facts, arrays = read_archive(self.artefact_path(key), ARTEFACT, wanted)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StoreError(f"{error}: delete the file, or take it from a backup") from error
        if facts.get("key") != key:
            raise StoreError(
                f"{self.artefact_path(key)} is of run {facts.get('key')!r}: delete the file, or "
                f"take it from a backup"
            )
        return {name: array.numpy() for name, array in arrays.items()}

    def close(self) -> None:
        r"""Gives back all that this process has claimed."""
        if self._owner is None:
            return
        owner, self._owner = self._owner, None
        try:
            with self._connection() as connection, transaction(connection):
                connection.execute("DELETE FROM claims WHERE owner = ?", (owner.name,))
        finally:
            owner.close()  # which alone makes its claims void

    @property
    def _owners(self) -> Path:
        return self.folder / "owners"

    def _own(self) -> Owner:
        if self._owner is None:
            with reported(self._owners):
                self._owner = Owner(self._owners)
        return self._owner

    def _connection(self) -> AbstractContextManager[sqlite3.Connection]:
        return connected(self.database)

    def _is_bare(self, key: str, status: str) -> bool:
        return status == "ok" and not self.artefact_path(key).exists()

    def _sweep(self, key: str) -> None:
        r"""Removes what a killed process was writing for a run."""
        for final in (self.artefact_path(key), self.checkpoint_path(key)):
            for path in final.parent.glob(f".{final.name}.*"):
                path.unlink(missing_ok=True)


def _known(connection: sqlite3.Connection, row: Row) -> bool:
    query = 'SELECT status, finished FROM runs WHERE "key" = ?'
    listed = connection.execute(query, (row.key,)).fetchall()
    return any(status != "failed" or when == row.finished for status, when in listed)


def _insert(connection: sqlite3.Connection, row: Row) -> Row:
    query = 'SELECT coalesce(max(attempt) + 1, 0) FROM runs WHERE "key" = ?'
    (attempt,) = connection.execute(query, (row.key,)).fetchone()
    facts: Mapping[str, Any] = {**vars(row), "attempt": attempt}
    values = [facts[name] for name in PLAIN]
    values += [json.dumps(facts[name], sort_keys=True) for name in NESTED]
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO runs ({COLUMNS}) VALUES ({marks})", values)
    return Row(**facts)


def _row(values: dict[str, Any]) -> Row:
    values["alone"] = bool(values["alone"])
    return Row.from_dict({**values, **{name: json.loads(values[name]) for name in NESTED}})
