"""The state file: what was admitted, in SQLite, so that it survives a crash.

Writes are group-committed: everything that waits goes out in one transaction. A write is durable when its `Pending` is
done. Only usage and identity are stored, never an object's content.
"""

from __future__ import annotations

import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol

import msgspec

from admission.ledger import Identity
from admission.quantity import Quantity
from admission.quota.observed import Observed
from admission.standalone.errors import StateError

SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    namespace TEXT NOT NULL, uid TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    no_uid INTEGER NOT NULL, observed TEXT, covered TEXT,
    PRIMARY KEY (namespace, uid)
) WITHOUT ROWID
"""
_BASES_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS bases (
    namespace TEXT NOT NULL, quota TEXT NOT NULL, used TEXT NOT NULL, adjust TEXT NOT NULL,
    PRIMARY KEY (namespace, quota)
) WITHOUT ROWID
"""
_SAVE_BASE: Final = "INSERT OR REPLACE INTO bases VALUES (?, ?, ?, ?)"
_LOAD_BASES: Final = "SELECT namespace, quota, used, adjust FROM bases"
_SAVE: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)"
_LOAD: Final = "SELECT namespace, uid, kind, name, no_uid, observed, covered FROM objects"
_REMOVE: Final = "DELETE FROM objects WHERE namespace = ? AND uid = ?"


class Row(NamedTuple):
    """What is kept of one object.

    `observed` is what it uses now, None once it is deleted. `covered` is what it used when the store first saw it, for
    an object that was there before the store was: what the files say is used already holds that.
    """

    identity: Identity
    observed: Observed | None
    covered: Observed | None

    def is_gone(self) -> bool:
        """Whether all that is left to remember is that the object was deleted."""
        return self.observed is None and self.covered is None


class BaseRow(NamedTuple):
    """The `status.used` that a quota started from, as printed, and what is to be added to it.

    `adjust` takes out what the store already knew of when a new `status.used` was given: that says what is used in all.
    """

    namespace: str
    quota: str
    used: dict[str, str]
    adjust: dict[str, Quantity]


Kept = Row | BaseRow


class Pending:
    """A write under way."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self.error: str | None = None

    def finish(self, error: str | None = None) -> None:
        """Say that the write is durable, or why it is not."""
        self.error = error
        self._done.set()

    def wait(self, seconds: float) -> bool:
        """Whether the write ended within this time."""
        return self._done.wait(max(0.0, seconds))


_DONE: Final = Pending()
_DONE.finish()


class State(Protocol):
    """Where rows are kept."""

    def rows(self) -> Iterator[Row]:
        """What is kept of objects."""

    def bases(self) -> Iterator[BaseRow]:
        """What is kept of quotas."""

    def write(self, row: Kept) -> Pending:
        """Keep a row in place of the one of the same object or quota."""

    def remove(self, identity: Identity) -> Pending:
        """Keep it no longer."""

    def close(self) -> None:
        """Finish what is under way."""


class MemoryState:
    """No file: what was admitted is forgotten when the process ends."""

    def rows(self) -> Iterator[Row]:
        """Nothing is ever known before."""
        return iter(())

    def bases(self) -> Iterator[BaseRow]:
        """Nothing is ever known before."""
        return iter(())

    def write(self, row: Kept) -> Pending:
        """Done at once."""
        return _DONE

    def remove(self, identity: Identity) -> Pending:
        """Done at once."""
        return _DONE

    def close(self) -> None:
        """Nothing is under way."""


class FileState:
    """A SQLite file (write-ahead log, one writer thread). One process at a time holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_file = _lock(path)
        try:
            self._connection = _connect(path)
        except BaseException:
            self._lock_file.close()
            raise
        self._inode = path.stat().st_ino
        self._queue: queue.SimpleQueue[tuple[Kept | Identity, Pending] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_batches, name="state-writer", daemon=True)
        self._writer.start()

    def rows(self) -> Iterator[Row]:
        """All rows; raises StateError where one cannot be read."""
        try:
            for namespace, uid, kind, name, no_uid, observed, covered in self._connection.execute(_LOAD):
                identity = Identity(namespace, kind, name, uid, not no_uid)
                yield Row(identity, _decode(observed), _decode(covered))
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            raise StateError(f"{self._path}: cannot be read: {error}") from None

    def bases(self) -> Iterator[BaseRow]:
        """All quotas' bases; raises StateError where one cannot be read."""
        try:
            for namespace, quota, used, adjust in self._connection.execute(_LOAD_BASES):
                yield BaseRow(namespace, quota, _decode_printed(used), _decode_amounts(adjust))
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            raise StateError(f"{self._path}: cannot be read: {error}") from None

    def write(self, row: Kept) -> Pending:
        """Queue a row for the next transaction."""
        return self._enqueue(row)

    def remove(self, identity: Identity) -> Pending:
        """Queue the removal of a row for the next transaction."""
        return self._enqueue(identity)

    def _enqueue(self, change: Kept | Identity) -> Pending:
        pending = Pending()
        self._queue.put((change, pending))
        return pending

    def close(self) -> None:
        """Write what is queued, then let go of the file."""
        self._queue.put(None)
        self._writer.join()
        self._connection.close()
        self._lock_file.close()

    def _write_batches(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            ended = False
            while not self._queue.empty() and len(batch) < 1000:
                item = self._queue.get()
                if item is None:
                    ended = True
                    break
                batch.append(item)
            error = self._commit([change for change, _ in batch])
            for _, pending in batch:
                pending.finish(error)
            if ended:
                return

    def _is_in_place(self) -> bool:
        """Whether the file is still the one that was opened: what is written to another is lost."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def _commit(self, changes: Sequence[Kept | Identity]) -> str | None:
        if not self._is_in_place():
            return f"{self._path} was removed or replaced; restart the server"
        try:
            with self._connection:
                for change in changes:
                    if isinstance(change, Identity):
                        self._connection.execute(_REMOVE, (change.namespace, change.uid))
                    elif isinstance(change, BaseRow):
                        values = (_encoder.encode(change.used), _encoder.encode(change.adjust))
                        self._connection.execute(_SAVE_BASE, (change.namespace, change.quota, *values))
                    else:
                        self._connection.execute(_SAVE, _values(change))
        except sqlite3.Error as error:
            return str(error)
        return None


def _lock(path: Path) -> IO[bytes]:
    try:
        descriptor = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        lock_file = os.fdopen(descriptor, "wb")
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock_file.close()
        raise StateError(f"{path}: another process uses this state file", busy=True) from None
    return lock_file


def _connect(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        # Only the writer thread uses the connection once the rows are read.
        connection = sqlite3.connect(path, check_same_thread=False)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA_VERSION):
            raise StateError(f"{path}: has schema version {version}, expected {SCHEMA_VERSION}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_SCHEMA)
        connection.execute(_BASES_SCHEMA)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.commit()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
    except sqlite3.Error as error:
        raise StateError(f"{path}: expected a state file of quota-admission: {error}") from None
    return connection


def _values(row: Row) -> tuple[str | bytes | int | None, ...]:
    identity = row.identity
    texts = (identity.namespace, identity.uid, identity.kind, identity.name)
    return (*texts, not identity.has_uid, _encode(row.observed), _encode(row.covered))


def _print_quantity(value: Any) -> str:
    return str(value)


_encoder = msgspec.json.Encoder(enc_hook=_print_quantity)
_decoder = msgspec.json.Decoder(Observed, dec_hook=lambda _type, text: Quantity.parse(text))
_decode_printed = msgspec.json.Decoder(dict[str, str]).decode
_decode_amounts = msgspec.json.Decoder(dict[str, Quantity], dec_hook=lambda _type, text: Quantity.parse(text)).decode


def _encode(observed: Observed | None) -> bytes | None:
    return None if observed is None else _encoder.encode(observed)


def _decode(text: bytes | None) -> Observed | None:
    return None if text is None else _decoder.decode(text)
