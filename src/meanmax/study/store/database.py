r"""The SQLite database of a store: its tables, its transactions, and what its errors mean."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meanmax.study.runs.row import (NESTED, PLAIN)

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
