"""A follower: a cursor that may lag far behind, for a consumer that must miss nothing it can help, such as a recorder.

Owns what such a consumer has yet to take or has taken and not given back, within an allowance of its own; beyond it
whole GOPs are dropped, oldest first, and the next batch says how much is missing before it. It keeps segments alive,
so payload bytes exist once however many consumers there are.

All calls belong to the thread of the log. A batch may be read in another thread between `take` and `done`: its entries
and the bytes they name never change.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from penstock.relay.codec_config import CodecConfig
from penstock.relay.readable_log import Flush, ReadableLog
from penstock.relay.segment import Entry, Segment


@dataclass(frozen=True, slots=True)
class FollowerLimits:
    """How far a follower may lag."""

    max_bytes: int = 64 * 1024 * 1024
    max_age_s: float = 30.0
    max_key_wait_s: float = 10.0
    """After everything had to be dropped, how long to wait for a key frame before going on without one."""


class FollowerBatch(NamedTuple):
    """Messages to take, all in one segment. To be given back by `done`."""

    segment: Segment
    entries: list[Entry]
    at: float
    config: CodecConfig
    """What was in force before the first of these messages, dropped ones counted."""
    dropped_messages: int
    """How many are missing just before these."""
    dropped_bytes: int


class Follower:
    """One lagging consumer of a log."""

    def __init__(self, log: ReadableLog, limits: FollowerLimits) -> None:
        self._log = log
        self._limits = limits
        self._backlog: deque[FollowerBatch] = deque()
        self._config = log.config
        """In force behind the last flush."""
        self._waits_since: float | None = None
        """Since when it waits for a key frame, having had to drop everything."""
        self._missing_messages = 0
        self._missing_bytes = 0
        self.backlog_bytes = 0
        """Bytes not taken yet."""
        self.held_bytes = 0
        """Those, and bytes taken and not given back."""
        self.dropped_messages = 0
        self.dropped_bytes = 0

    @property
    def has_backlog(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._backlog)

    def on_flush(self, flush: Flush, now: float) -> None:
        """New messages are there."""
        config, self._config = self._config, self._log.config
        entries = flush.entries
        if self._waits_since is not None:
            first = self._first_wanted(entries, now)
            self._count_dropped(entries[:first])
            config = self._config if _has_config(entries[:first]) else config
            entries = entries[first:]
            if not entries:
                return
            self._waits_since = None
        flush.segment.pin()
        batch = FollowerBatch(flush.segment, entries, now, config, self._missing_messages, self._missing_bytes)
        self._missing_messages = self._missing_bytes = 0
        self._backlog.append(batch)
        size = _size_of(entries)
        self.backlog_bytes += size
        self.held_bytes += size
        while self._backlog and self._is_beyond(now):
            self.drop_oldest_gop(now)

    def take(self, max_bytes: int | None = None) -> list[FollowerBatch]:
        """The next messages: at least one batch if there is any, and no more than fit."""
        batches: list[FollowerBatch] = []
        taken_bytes = 0
        while self._backlog and (max_bytes is None or taken_bytes < max_bytes):
            batch = self._backlog.popleft()
            taken_bytes += _size_of(batch.entries)
            batches.append(batch)
        self.backlog_bytes -= taken_bytes
        return batches

    def done(self, batch: FollowerBatch) -> None:
        """The messages were consumed; their memory may go."""
        self.held_bytes -= _size_of(batch.entries)
        self._log.unpin(batch.segment)

    def close(self) -> None:
        """Nothing more is wanted."""
        for batch in self.take():
            self.done(batch)

    def drop_oldest_gop(self, now: float) -> None:
        """Drop up to the next place to start behind the oldest message; without one, all that was not taken.

        Such a place is a key frame; in a stream without video it is the next batch.
        """
        is_first = True
        while self._backlog:
            batch = self._backlog.popleft()
            first = self._next_start(batch.entries, is_first=is_first)
            is_first = False
            dropped = batch.entries[:first]
            self._missing_messages += batch.dropped_messages
            self._missing_bytes += batch.dropped_bytes
            self._count_dropped(dropped)
            self.backlog_bytes -= _size_of(dropped)
            self.held_bytes -= _size_of(dropped)
            if first < len(batch.entries):
                self._keep_from(batch, first)
                return
            self._log.unpin(batch.segment)
        if self._log.has_video:
            self._waits_since = now

    def _is_beyond(self, now: float) -> bool:
        return self.held_bytes > self._limits.max_bytes or now - self._backlog[0].at > self._limits.max_age_s

    def _keep_from(self, batch: FollowerBatch, first: int) -> None:
        config = batch.config
        if _has_config(batch.entries[:first]):
            # What holds behind the batch holds at its key frame too: encoders send it before a key frame.
            config = self._backlog[0].config if self._backlog else self._config
        kept = FollowerBatch(
            batch.segment, batch.entries[first:], batch.at, config, self._missing_messages, self._missing_bytes
        )
        self._missing_messages = self._missing_bytes = 0
        self._backlog.appendleft(kept)

    def _next_start(self, entries: list[Entry], *, is_first: bool) -> int:
        if not self._log.has_video:
            return len(entries) if is_first else 0
        return next(
            (index for index, entry in enumerate(entries) if entry.is_key and not (is_first and index == 0)),
            len(entries),
        )

    def _first_wanted(self, entries: list[Entry], now: float) -> int:
        if self._waits_since is not None and now - self._waits_since >= self._limits.max_key_wait_s:
            return 0
        return next((index for index, entry in enumerate(entries) if entry.is_key), len(entries))

    def _count_dropped(self, entries: list[Entry]) -> None:
        size = _size_of(entries)
        self._missing_messages += len(entries)
        self._missing_bytes += size
        self.dropped_messages += len(entries)
        self.dropped_bytes += size


def _size_of(entries: list[Entry]) -> int:
    return entries[-1].position + entries[-1].encoded_bytes - entries[0].position if entries else 0


def _has_config(entries: list[Entry]) -> bool:
    return any(entry.is_setup for entry in entries)
