"""A tap: a cursor that may lag far behind, for a consumer that must miss nothing it can help, such as a recorder.

Owns what such a consumer has yet to take, within an allowance of its own; beyond it whole GOPs are dropped, oldest
first, and the gap is told. It keeps segments alive, so payload bytes exist once however many consumers there are.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from penstock.relay.log import Flush, StreamLog
from penstock.relay.segment import Entry, Segment


@dataclass(frozen=True, slots=True)
class TapLimits:
    """How far a tap may lag."""

    max_bytes: int = 64 * 1024 * 1024
    max_age_s: float = 30.0


class TapBatch(NamedTuple):
    """Messages to take, all in one segment. To be given back by `done`."""

    segment: Segment
    entries: list[Entry]
    at: float
    gap_before: bool
    """Whether messages were dropped just before these."""


class Tap:
    """One lagging consumer of a log."""

    def __init__(self, log: StreamLog, limits: TapLimits) -> None:
        self._log = log
        self._limits = limits
        self._backlog: deque[TapBatch] = deque()
        self._backlog_bytes = 0
        self._awaits_key = False
        self.dropped_messages = 0
        self.dropped_bytes = 0

    @property
    def backlog_bytes(self) -> int:
        """Bytes not taken yet."""
        return self._backlog_bytes

    def on_flush(self, flush: Flush, now: float) -> None:
        """New messages are there."""
        flush.segment.pin()
        self._backlog.append(TapBatch(flush.segment, flush.entries, now, gap_before=False))
        self._backlog_bytes += flush.size
        oldest = self._backlog[0]
        if self._backlog_bytes > self._limits.max_bytes or now - oldest.at > self._limits.max_age_s:
            self._drop_oldest_gop()

    def take(self) -> TapBatch | None:
        """The next messages, or None."""
        if not self._backlog:
            return None
        batch = self._backlog.popleft()
        self._backlog_bytes -= _size_of(batch.entries)
        return batch

    def done(self, batch: TapBatch) -> None:
        """The messages were consumed; their memory may go."""
        self._log.unpin(batch.segment)

    def close(self) -> None:
        """Nothing more is wanted."""
        while (batch := self.take()) is not None:
            self.done(batch)

    def _drop_oldest_gop(self) -> None:
        """Drop up to the next key frame behind the oldest message; without one, all of it."""
        is_first = True
        while self._backlog:
            batch = self._backlog.popleft()
            keep_from = next(
                (index for index, entry in enumerate(batch.entries) if entry.is_key and not (is_first and index == 0)),
                None,
            )
            is_first = False
            dropped = batch.entries if keep_from is None else batch.entries[:keep_from]
            self.dropped_messages += len(dropped)
            self.dropped_bytes += _size_of(dropped)
            self._backlog_bytes -= _size_of(dropped)
            if keep_from is None:
                self._log.unpin(batch.segment)
                continue
            self._backlog.appendleft(batch._replace(entries=batch.entries[keep_from:], gap_before=True))
            return
        self._awaits_key = True


def _size_of(entries: list[Entry]) -> int:
    return sum(entry.encoded_bytes for entry in entries)
