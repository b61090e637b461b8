r"""The store of runs: an SQLite database of rows, and a folder of artefacts next to it.

Rows are only ever added. A row and the release of its claim are one transaction, and its artefact
is on disk before that; so a process that is killed at any moment loses only the runs that it was
executing. Several processes may use one store at the same time.
"""

from __future__ import annotations

import errno
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from meanmax.study.runs.row import COLUMNS, Artefact, Result, Row

APPLICATION = 0x6D65616E  # "mean", in the file's header
VERSION = 1
WAIT = 120.0  # seconds for which a write waits for the writes of other processes
ARTEFACT = "meanmax.artefact/1"
DEFAULT_STORE = "meanmax-runs"
r"""The folder in the current one that commands use by default."""

_COLUMNS = ", ".join(f'"{name}"' for name in COLUMNS)
_SCHEMA = (
    f'CREATE TABLE runs (id INTEGER PRIMARY KEY, {_COLUMNS}, UNIQUE ("key", "attempt"))',
    "CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_HEADER = (  # application, version and number of tables, from one query
    "SELECT (SELECT application_id FROM pragma_application_id), "
    "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
)
_AGAIN = "run the same command again; finished runs are kept"
_HELD = "another process holds it; run the same command again"
_WRITABLE = "choose a folder that you may write to"
_ADVICE = {  # by a word of the database's message; the first that occurs counts
    "full": f"make room and {_AGAIN}",
    "locked": _HELD,
    "busy": _HELD,
    "readonly": _WRITABLE,
    "unable to open": _WRITABLE,
    "I/O": f"check the disk and {_AGAIN}",
    "": "take it from a backup, or move it away; the same command, or `meanmax results merge`, "
    "makes a new one",
}


class StoreError(RuntimeError):
    r"""Runs that cannot be read or written."""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    r"""A transaction: all of the block takes effect or none of it, and no other process writes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def make_or_check(path: Path, connection: sqlite3.Connection) -> None:
    r"""Creates the tables in an empty database; a :class:`StoreError` if it is of another kind."""
    application, version, tables = connection.execute(_HEADER).fetchone()
    if application == 0 and tables == 0:
        with transaction(connection):
            # Another process may have created them since.
            application, version, tables = connection.execute(_HEADER).fetchone()
            if tables == 0:
                for statement in _SCHEMA:
                    connection.execute(statement)
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


@contextmanager
def reported(path: Path) -> Iterator[None]:
    r"""Turns errors of disk and database into a :class:`StoreError` that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        found = (advice for word, advice in _ADVICE.items() if word in str(error))
        raise StoreError(f"{path}: {error}: {next(found)}") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "make room" if full else _WRITABLE
        what = f"{error.filename or path}: {error.strerror or error}"
        raise StoreError(f"{what}: {advice}, and {_AGAIN}") from error


class ProcessLock:
    r"""A locked file that shows other processes that this one is alive."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = uuid.uuid4().hex
        self._lock = FileLock(folder / f"{self.name}.lock", thread_local=False)
        self._lock.acquire(blocking=False)

    def close(self) -> None:
        r"""Unlocks and deletes the file."""
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)


def is_alive(folder: Path, name: str) -> bool:
    r"""Whether the process that holds the lock of that name is alive."""
    path = folder / f"{name}.lock"
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


class Store:
    r"""A folder with :obj:`runs.sqlite`, :obj:`artefacts` and :obj:`checkpoints`, which is created
    if it is missing and :obj:`create` is set.

    Every change waits until the disk has it, some hundredths of a second. Without :obj:`durable` it
    does not, for runs that are quickly repeated: a power failure may then damage the database.
    """

    def __init__(self, folder: Path, *, create: bool = True, durable: bool = True) -> None:
        self.folder = Path(folder)
        self._synchronous = "FULL" if durable else "OFF"
        self.database = self.folder / "runs.sqlite"
        self.checkpoints = self.folder / "checkpoints"
        self._locks = self.folder / "owners"
        self._lock: ProcessLock | None = None
        with reported(self.folder):
            size = self.database.stat().st_size if self.database.exists() else 0
            if size == 0 and not create:
                raise StoreError(f"there is no store of runs in {self.folder}: name another folder")
            if self.database.exists() and size == 0 and (self.folder / "artefacts").exists():
                raise StoreError(
                    f"{self.database} is empty, but artefacts of runs are next to it: take it from "
                    f"a backup, or delete it to repeat the runs"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            make_or_check(self.database, connection)

    def finished(self, *, failed: bool = True, artefacts: bool = False) -> set[str]:
        r"""The keys of the runs that are done. Diverged runs are, and failed ones if wanted.

        With :obj:`artefacts` a run of status :obj:`"ok"` counts only with its artefact, which a row
        from an export does not have.
        """
        with self._connection() as connection:
            listed = connection.execute('SELECT "key", status FROM runs').fetchall()
        listed = [(key, status) for key, status in listed if failed or status != "failed"]
        bare = {key for key, status in listed if artefacts and self._is_bare(key, status)}
        return {key for key, _ in listed} - bare

    def failures(self) -> dict[str, int]:
        r"""The number of attempts at each run that only ever failed."""
        query = 'SELECT "key", count(*) FROM runs GROUP BY "key" HAVING min(status = \'failed\')'
        with self._connection() as connection:
            return dict(connection.execute(query).fetchall())

    def claim(self, key: str, *, failures: int = 0, artefacts: bool = False) -> str:
        r"""Claims a run for this process, unless it is done or another living process has it.

        :obj:`failures` is the number of failed attempts that do not count as done, which
        :meth:`failures` returned when this process began. A later failure counts: another process
        has tried again in the meantime. With :obj:`artefacts` a run of status :obj:`"ok"` is done
        only with its artefact. Returns :obj:`"mine"`, :obj:`"done"` or :obj:`"taken"`.
        """
        own = self._process_lock().name
        with self._connection() as connection, transaction(connection):
            query = 'SELECT status FROM runs WHERE "key" = ?'
            query += " AND (status != 'failed' OR attempt >= ?)"
            done = [status for (status,) in connection.execute(query, (key, failures))]
            if done and not (artefacts and any(self._is_bare(key, status) for status in done)):
                return "done"
            found = connection.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
            if found is not None and found[0] != own:
                if is_alive(self._locks, found[0]):
                    return "taken"
                self._sweep(key)
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", (key, own))
        return "mine"

    def release(self, keys: Iterable[str]) -> None:
        r"""Releases claimed runs."""
        claims = [(key, self._process_lock().name) for key in keys]
        if claims:
            with self._connection() as connection, transaction(connection):
                connection.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", claims)

    def add(self, result: Result) -> Row:
        r"""Adds a row with its artefact, and releases the run. Returns the row as written."""
        from meanmax.train.checkpoint import write_archive

        row, path = result.row, self.artefact_path(result.row.key)
        if result.artefact:
            with reported(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                facts = {"format": ARTEFACT, "key": row.key}
                write_archive(path, facts, result.artefact, compress=True)
        with self._connection() as connection, transaction(connection):
            written = _insert(connection, row)
            connection.execute("DELETE FROM claims WHERE key = ?", (row.key,))
        if row.status != "failed":  # another attempt resumes from the checkpoint
            with reported(self.checkpoints):
                self.checkpoint_path(row.key).unlink(missing_ok=True)
        return written

    def unknown(self, rows: Iterable[Row]) -> list[Row]:
        r"""The rows that :meth:`merge` would add."""
        with self._connection() as connection:
            return [row for row in rows if not _known(connection, row)]

    def merge(self, rows: Iterable[Row]) -> int:
        r"""Adds new rows from elsewhere, all or none, and returns their number.

        Runs that are done here keep their row; failed ones get another attempt.
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
            listed = connection.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY id").fetchall()
        latest: dict[str, Row] = {}
        for values in listed:
            facts = dict(zip(COLUMNS, values, strict=True))
            facts["alone"] = bool(facts["alone"])
            try:
                row = Row.from_flat(facts)
            except (TypeError, ValueError) as error:
                raise StoreError(
                    f"{self.database}: the row of run {values[0]!r} is damaged ({error}): take the "
                    f"file from a backup, or move it away to repeat the runs"
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
        r"""The wanted arrays of a run by name, or :obj:`None` if it has no artefact.

        Decompressing the embeddings of 800 runs takes a minute.
        """
        from meanmax.train.checkpoint import read_archive

        path = self.artefact_path(key)
        try:
            facts, arrays = read_archive(path, ARTEFACT, wanted)
            if facts.get("key") != key:
                raise ValueError(f"{path} is of run {facts.get('key')!r}")
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StoreError(f"{error}: delete the file, or take it from a backup") from error
        return {name: array.numpy() for name, array in arrays.items()}

    def close(self) -> None:
        r"""Releases everything that this process has claimed."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            with self._connection() as connection, transaction(connection):
                connection.execute("DELETE FROM claims WHERE owner = ?", (lock.name,))
        finally:
            lock.close()  # this alone makes its claims void

    def _process_lock(self) -> ProcessLock:
        if self._lock is None:
            with reported(self._locks):
                self._lock = ProcessLock(self._locks)
        return self._lock

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        r"""A connection for one task, so that none outlives a fork or changes threads."""
        with reported(self.database):
            connection = sqlite3.connect(self.database, timeout=WAIT, isolation_level=None)
            try:
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                yield connection
            finally:
                connection.close()

    def _is_bare(self, key: str, status: str) -> bool:
        return status == "ok" and not self.artefact_path(key).exists()

    def _sweep(self, key: str) -> None:
        r"""Removes the temporary files of a killed process for a run."""
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
    written = replace(row, attempt=attempt)
    flat = written.to_flat()
    marks = ", ".join("?" * len(flat))
    connection.execute(f"INSERT INTO runs ({_COLUMNS}) VALUES ({marks})", list(flat.values()))
    return written
