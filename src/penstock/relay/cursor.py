"""A cursor: one reader's own place in a log, for as long as it is not in step with the head.

Owns where a reader stands, what it is sent next, how a half-sent message is finished, and when it must skip. Never
sends half a message and then something else: a reader inside a message keeps that segment alive and finishes it, even
if the log has moved on. A range that was given out is answered by `advance` before anything else happens to the log.
"""

from typing import NamedTuple, Protocol

from penstock.relay.readable_log import ReadableLog
from penstock.relay.segment import Segment


class Range(NamedTuple):
    """Bytes to send: part of one segment."""

    segment: Segment
    position: int
    size: int

    @property
    def offset(self) -> int:
        """Where it begins in the segment's own buffer."""
        return self.position - self.segment.start


class SegmentKeeper(Protocol):
    """Whose segment it is: a log, as a rule."""

    def unpin(self, segment: Segment) -> None:
        """A reader is done with it."""


class KeptRange:
    """A range that is still owed to a peer whose reader has moved on: its segment stays until all of it is sent.

    In place of a copy, which of a large message would be megabytes for every peer that does not read.
    """

    __slots__ = ("_keeper", "_segment", "position", "size")

    def __init__(self, keeper: SegmentKeeper, piece: Range) -> None:
        self._keeper = keeper
        self._segment, self.position, self.size = piece
        self._segment.pin()

    @property
    def rest(self) -> Range:
        """What is left of it."""
        return Range(self._segment, self.position, self.size)

    def advance(self, size: int) -> None:
        """Some of it was sent."""
        self.position += size
        self.size -= size
        if not self.size:
            self._keeper.unpin(self._segment)

    def release(self) -> None:
        """Nobody wants the rest of it any more."""
        if self.size:
            self.advance(self.size)


class Cursor:
    """A place in a log. In step means: everything flushed so far has been sent."""

    __slots__ = ("_log", "_segment", "position")

    def __init__(self, log: ReadableLog) -> None:
        self._log = log
        self._segment: Segment | None = None
        self.position = log.head

    def stand_in(self, segment: Segment, position: int) -> None:
        """Take a place in a segment that is still there, if only since somebody has pinned it."""
        self.release()
        segment.pin()
        self._segment = segment
        self.position = position

    @property
    def is_in_step(self) -> bool:
        """Whether there is nothing left to send."""
        return self.position == self._log.head

    @property
    def lag_bytes(self) -> int:
        """How far behind the head it is."""
        return self._log.head - self.position

    @property
    def is_inside_message(self) -> bool:
        """Whether part of a message is out and the rest is not."""
        segment = self._segment
        return segment is not None and segment.entry_at(self.position).position != self.position

    def next_range(self) -> Range | None:
        """What to send next. None if it is in step; else the log has dropped what comes next, and it must skip."""
        segment = self._segment
        if segment is None:
            segment = self._log.segment_at(self.position)
            if segment is None:
                return None
            segment.pin()
            self._segment = segment
        end = segment.end
        if self.position < self._log.start:
            entry = segment.entry_at(self.position)
            if entry.position == self.position:
                self.release()
                return None
            end = entry.position + entry.encoded_bytes
        return Range(segment, self.position, end - self.position)

    def rest_of_message(self) -> Range | None:
        """What is left of a half-sent message; None between messages. Comes before anything else that is sent."""
        if not self.is_inside_message or (piece := self.next_range()) is None:
            return None
        entry = piece.segment.entry_at(piece.position)
        return piece._replace(size=entry.position + entry.encoded_bytes - piece.position)

    def keep_rest_of_message(self) -> KeptRange | None:
        """What is left of a half-sent message, for whoever sends it when this reader has left its place."""
        rest = self.rest_of_message()
        if rest is None:
            return None
        kept = KeptRange(self._log, rest)
        self.advance(rest.size)
        return kept

    def advance(self, size: int) -> bool:
        """Some of the range was sent. True if that finished at least one message."""
        segment = self._segment
        if segment is None:
            return False
        before = segment.entry_at(self.position)
        self.position += size
        # Only a reader inside a message needs its segment; any other may be made to skip when memory is short.
        if self.position == segment.end or not self.is_inside_message:
            self.release()
        return self.position >= before.position + before.encoded_bytes

    def release(self) -> None:
        """Let go of the segment."""
        if self._segment is not None:
            self._log.unpin(self._segment)
            self._segment = None
