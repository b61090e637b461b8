r"""Where runs are kept: an SQLite database of rows, and a folder of artefacts beside it.

Rows are only ever added. A row and the release of its claim are one transaction, and its artefact
is on disk before it; so a process that is killed at any moment loses the runs it was making and
nothing else. Several processes may fill one store at the same time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meanmax.experiments.owner import Owner, is_alive
from meanmax.experiments.row import NESTED, PLAIN, Artefact, Result, Row
from meanmax.training.archive import read_archive, write_archive

APPLICATION = 0x6D65616E  # "mean", in the file's header
VERSION = 1
ARTEFACT = "meanmax.artefact/1"
WAIT = 120.0  # seconds for which a write waits for those of other processes

_SCHEMA = (
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, "
    + ", ".join(f'"{name}"' for name in (*PLAIN, *NESTED))
    + ', UNIQUE ("key", "attempt"))',
    "CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)",
)


class StoreError(RuntimeError):
    r"""A store that cannot be read or written."""


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
        if not self.database.exists():
            if not create:
                raise StoreError(f"there is no store of runs in {self.folder}")
            with _reported(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            self._check(connection)

    def finished(self, *, failed: bool = True) -> set[str]:
        r"""The keys of the runs that are done.

        Args:
            failed (bool, optional): Whether those that failed count, of which one may want another
                attempt. Runs that diverged do in any case. (default: :obj:`True`)
        """
        query = 'SELECT DISTINCT "key" FROM runs'
        if not failed:
            query += " WHERE status != 'failed'"
        with self._connection() as connection:
            return {key for (key,) in connection.execute(query)}

    def claim(self, key: str, *, failed: bool = True) -> str:
        r"""Takes a run for this process, unless it is done or another living process has it.

        Args:
            key (str): The run.
            failed (bool, optional): Whether a failed attempt counts as done.
                (default: :obj:`True`)

        Returns:
            :obj:`"mine"`, :obj:`"done"` or :obj:`"taken"`.
        """
        owner = self._own()
        with self._connection() as connection, _transaction(connection):
            done = 'SELECT 1 FROM runs WHERE "key" = ?'
            done += "" if failed else " AND status != 'failed'"
            if connection.execute(done, (key,)).fetchone():
                return "done"
            found = connection.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
            if found is not None and found[0] != owner.name and is_alive(self._owners, found[0]):
                return "taken"
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", (key, owner.name))
        return "mine"

    def release(self, key: str) -> None:
        r"""Gives a claimed run back."""
        with self._connection() as connection, _transaction(connection):
            query = "DELETE FROM claims WHERE key = ? AND owner = ?"
            connection.execute(query, (key, self._own().name))

    def add(self, result: Result) -> Row:
        r"""Adds a row with its artefact and releases the run; the row as it was written."""
        row = result.row
        if result.artefact:
            with _reported(self.artefact_path(row.key)):
                self.artefact_path(row.key).parent.mkdir(parents=True, exist_ok=True)
                facts = {"format": ARTEFACT, "key": row.key}
                write_archive(self.artefact_path(row.key), facts, result.artefact, compress=True)
        with self._connection() as connection, _transaction(connection):
            written = _insert(connection, row)
            connection.execute("DELETE FROM claims WHERE key = ?", (row.key,))
        return written

    def merge(self, rows: Iterable[Row]) -> int:
        r"""Adds rows from elsewhere that are not there yet, all or none; how many were new."""
        added = 0
        with self._connection() as connection, _transaction(connection):
            query = 'SELECT status, finished FROM runs WHERE "key" = ?'
            for row in rows:
                known = connection.execute(query, (row.key,)).fetchall()
                if not any(status == "ok" or when == row.finished for status, when in known):
                    _insert(connection, row)
                    added += 1
        return added

    def rows(self) -> list[Row]:
        r"""The last attempt at every run, in the order in which they were added."""
        names = ", ".join(f'"{name}"' for name in (*PLAIN, *NESTED))
        with self._connection() as connection:
            listed = connection.execute(f"SELECT {names} FROM runs ORDER BY id").fetchall()
        latest: dict[str, Row] = {}
        for values in listed:
            row = _row(dict(zip((*PLAIN, *NESTED), values, strict=True)))
            latest[row.key] = row
        return list(latest.values())

    def artefact_path(self, key: str) -> Path:
        r"""The file of a run's artefact."""
        return self.folder / "artefacts" / key[:2] / f"{key}.zip"

    def artefact(self, key: str) -> Artefact | None:
        r"""The arrays of a run by name, or :obj:`None`."""
        try:
            _, arrays = read_archive(self.artefact_path(key), ARTEFACT)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StoreError(f"{error}: delete the file, or take it from a backup") from error
        return {name: array.numpy() for name, array in arrays.items()}

    def close(self) -> None:
        r"""Gives back all that this process has claimed."""
        if self._owner is not None:
            name = self._owner.name
            with self._connection() as connection, _transaction(connection):
                connection.execute("DELETE FROM claims WHERE owner = ?", (name,))
            self._owner.close()
            self._owner = None

    @property
    def _owners(self) -> Path:
        return self.folder / "owners"

    def _own(self) -> Owner:
        if self._owner is None:
            with _reported(self._owners):
                self._owner = Owner(self._owners)
        return self._owner

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        r"""A connection for one task: none outlives a fork or changes threads."""
        with _reported(self.database):
            connection = sqlite3.connect(self.database, timeout=WAIT, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
            finally:
                connection.close()

    def _check(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == 0 and tables == 0:
            with _transaction(connection):
                # Another process may have made it since.
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                for statement in _SCHEMA if tables == 0 else ():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        elif application != APPLICATION:
            raise StoreError(f"{self.database} is a database, but not one of meanmax's")
        elif version != VERSION:
            raise StoreError(
                f"{self.database} is of version {version}, but this meanmax reads {VERSION}: "
                f"export it with the meanmax that wrote it, and merge the export into a new store"
            )


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _reported(path: Path) -> Iterator[None]:
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
        else:
            advice = "move it away; the same command, or `meanmax results merge`, makes a new one"
        raise StoreError(f"{path}: {text}: {advice}") from error
    except OSError as error:
        raise StoreError(
            f"{error.filename or path}: {error.strerror or error}: make room or choose another "
            f"folder, and run the same command again; finished runs are kept"
        ) from error


def _insert(connection: sqlite3.Connection, row: Row) -> Row:
    query = 'SELECT coalesce(max(attempt) + 1, 0) FROM runs WHERE "key" = ?'
    (attempt,) = connection.execute(query, (row.key,)).fetchone()
    facts: Mapping[str, Any] = {**vars(row), "attempt": attempt}
    values = [facts[name] for name in PLAIN]
    values += [json.dumps(facts[name], sort_keys=True) for name in NESTED]
    marks = ", ".join("?" * len(values))
    names = ", ".join(f'"{name}"' for name in (*PLAIN, *NESTED))
    connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", values)
    return Row(**facts)


def _row(values: dict[str, Any]) -> Row:
    values["alone"] = bool(values["alone"])
    return Row.from_dict({**values, **{name: json.loads(values[name]) for name in NESTED}})
