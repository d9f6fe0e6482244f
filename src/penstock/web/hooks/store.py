"""Messages on disk: what receivers have not taken yet, and what they never took.

Owns the file, an SQLite database with a write-ahead log that only its owner can read. What was committed outlives the
process; a power cut may cost the last moments. Every call meets the disk: for a thread of its own.
"""

import contextlib
import os
import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "hooks.sqlite"
_LAYOUT: Final = 1
_TABLES: Final = """
create table messages (
    number integer primary key autoincrement,
    hook text not null,
    id text not null unique,
    lane text not null,
    kind text not null,
    body blob not null,
    accepted_at real not null,
    attempts integer not null default 0,
    due_at real not null,
    reason text,
    dead_at real
);
create index living on messages (hook, number) where dead_at is null;
create index dead on messages (number) where dead_at is not null;
"""


class Message(NamedTuple):
    """What is to be sent. Times are in seconds since 1970."""

    hook: str
    id: str
    lane: str
    kind: str
    body: bytes
    accepted_at: float


class Waiting(NamedTuple):
    """A message that waits for its turn."""

    number: int
    lane: str
    due_at: float


class Attempted(NamedTuple):
    """A message about to be sent."""

    id: str
    body: bytes
    accepted_at: float
    attempts: int
    """Before this one."""


class DeadLetter(NamedTuple):
    """A message that was given up."""

    number: int
    hook: str
    id: str
    lane: str
    kind: str
    accepted_at: float
    dead_at: float
    attempts: int
    reason: str


class Store:
    """The database, opened. Errors are sqlite3's."""

    def __init__(self, folder: Path) -> None:
        """A file that is no database is moved out of the way, and `moved_to` says where."""
        self._path = folder / FILE_NAME
        self.moved_to: Path | None = None
        try:
            self._database = _open(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # the disk, or rights: the file may be whole
                raise
            self.moved_to = self._path.with_suffix(".broken")
            self._path.replace(self.moved_to)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
            self._database = _open(self._path)

    def close(self) -> None:
        self._database.close()

    def add(self, messages: Iterable[Message]) -> list[tuple[str, Waiting]]:
        """Keep messages, each for its hook, all or none. One that is there already is left out."""
        added = []
        with self._database:
            for each in messages:
                row = (each.hook, each.id, each.lane, each.kind, each.body, each.accepted_at, each.accepted_at)
                cursor = self._database.execute(
                    "insert or ignore into messages (hook, id, lane, kind, body, accepted_at, due_at)"
                    " values (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                if cursor.rowcount and cursor.lastrowid is not None:
                    added.append((each.hook, Waiting(cursor.lastrowid, each.lane, each.accepted_at)))
        return added

    def waiting(self, hook: str) -> list[Waiting]:
        """All that a hook has yet to take, the oldest first."""
        rows = self._database.execute(
            "select number, lane, due_at from messages where hook = ? and dead_at is null order by number", (hook,)
        )
        return [Waiting(*row) for row in rows]

    def attempted(self, number: int) -> Attempted | None:
        """A message with its body; None: it is not there."""
        row = self._database.execute(
            "select id, body, accepted_at, attempts from messages where number = ? and dead_at is null", (number,)
        ).fetchone()
        return None if row is None else Attempted(*row)

    def taken(self, number: int) -> None:
        """The receiver has it."""
        with self._database:
            self._database.execute("delete from messages where number = ?", (number,))

    def failed(self, number: int, reason: str, due_at: float) -> None:
        """The receiver has not taken it; it is tried again then."""
        with self._database:
            self._database.execute(
                "update messages set attempts = attempts + 1, reason = ?, due_at = ? where number = ?",
                (reason, due_at, number),
            )

    def given_up(self, number: int, reason: str, at: float) -> None:
        """The receiver has not taken it at the last attempt."""
        with self._database:
            self._database.execute(
                "update messages set attempts = attempts + 1, reason = ?, dead_at = ? where number = ?",
                (reason, at, number),
            )

    def displace(self, hook: str, count: int, spared: Collection[int], reason: str, at: float) -> list[int]:
        """Give up the oldest that wait for a hook. Which they were."""
        rows = self._database.execute(
            "select number from messages where hook = ? and dead_at is null order by number limit ?",
            (hook, count + len(spared)),
        )
        numbers = [number for (number,) in rows if number not in spared][:count]
        with self._database:
            self._database.executemany(
                "update messages set reason = ?, dead_at = ? where number = ?",
                [(reason, at, number) for number in numbers],
            )
        return numbers

    def orphan(self, hooks: Collection[str], reason: str, at: float) -> int:
        """Give up what waits for hooks other than these. How many."""
        marks = ", ".join("?" * len(hooks))
        with self._database:
            return self._database.execute(
                f"update messages set reason = ?, dead_at = ? where dead_at is null and hook not in ({marks})",  # noqa: S608 - question marks alone
                (reason, at, *hooks),
            ).rowcount

    def dead_letters(self, before: int | None, limit: int) -> list[DeadLetter]:
        """The newest first, from below a number on."""
        rows = self._database.execute(
            "select number, hook, id, lane, kind, accepted_at, dead_at, attempts, coalesce(reason, '') from messages"
            " where dead_at is not null and number < ? order by number desc limit ?",
            (2**62 if before is None else before, limit),
        )
        return [DeadLetter(*row) for row in rows]

    def replay(self, ids: Collection[str] | None, hooks: Collection[str], at: float) -> list[tuple[str, Waiting]]:
        """Have dead letters sent again, behind all that wait: these, or all. Those of other hooks stay.

        They are as young as new ones, and have the ids that they had.
        """
        replayed = []
        with self._database:
            rows = self._database.execute(
                "select number, hook, id, lane from messages where dead_at is not null order by number"
            ).fetchall()
            for number, hook, message_id, lane in rows:
                if hook not in hooks or (ids is not None and message_id not in ids):
                    continue
                last: int = self._database.execute(
                    "select seq from sqlite_sequence where name = 'messages'"
                ).fetchone()[0]
                self._database.execute(
                    "update messages set number = ?, dead_at = null, attempts = 0, accepted_at = ?, due_at = ?"
                    " where number = ?",
                    (last + 1, at, at, number),
                )
                # SQLite counts up by inserts alone.
                self._database.execute("update sqlite_sequence set seq = ? where name = 'messages'", (last + 1,))
                replayed.append((hook, Waiting(last + 1, lane, at)))
        return replayed

    def forget(self, dead_before: float, most: int) -> int:
        """Drop dead letters of before a time, and the oldest beyond so many. How many."""
        with self._database:
            old = self._database.execute("delete from messages where dead_at < ?", (dead_before,))
            beyond = self._database.execute(
                "delete from messages where number in (select number from messages where dead_at is not null"
                " order by number desc limit -1 offset ?)",
                (most,),
            )
            return old.rowcount + beyond.rowcount


def _open(path: Path) -> sqlite3.Connection:
    # SQLite gives its other two files the rights of this one.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(path, timeout=5.0)
    try:
        _prepare(database)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = normal")
    (layout,) = database.execute("pragma user_version").fetchone()
    if layout == 0:
        database.executescript(f"begin;{_TABLES}pragma user_version = {_LAYOUT};commit;")
    elif layout != _LAYOUT:
        raise sqlite3.OperationalError(f"{FILE_NAME} is of layout {layout}, and this version knows {_LAYOUT}")
