"""Shelves: parts and segments as answers, laid out once in memory, head and body together.

Owns one piece of memory for each segment of a stream: its parts as they come and, when somebody first asks for it, the
segment as a whole. All of it counts in the memory of logs, and is given back when nobody is sent from it any more.
"""

from collections.abc import Sequence
from typing import Final

from penstock.relay.cursor import Range
from penstock.relay.log import LogBudget
from penstock.relay.segment import MemoryBuffer, Segment
from penstock.serve.http.layout import head_of
from penstock.serve.http.site import Answer

IMMUTABLE: Final = b"Cache-Control: public, max-age=86400, immutable\r\n"


class Shelves:
    """Where the answers of one stream are kept."""

    __slots__ = ("_budget", "bytes_held")

    def __init__(self, budget: LogBudget) -> None:
        self._budget = budget
        self.bytes_held = 0
        """Of what can be asked for. What slow clients still take of the rest is in the budget alone."""

    def open(self, content_type: bytes, cors: bytes, now: float) -> "Shelf":
        """An empty one. `cors`: lines of each head."""
        return Shelf(self, Segment(MemoryBuffer(), 0, now), content_type, cors)

    def write(self, segment: Segment, pieces: Sequence[bytes]) -> None:
        """Take memory for it first: logs may have to make room."""
        size = sum(map(len, pieces))
        self._budget.take(size)
        segment.append(pieces, (), size)
        self.bytes_held += size

    def unpin(self, segment: Segment) -> None:
        """A reader is done with it."""
        if segment.unpin():
            self._give_back(segment)

    def drop(self, segment: Segment) -> None:
        """It is asked for no more."""
        self.bytes_held -= segment.size
        if segment.drop():
            self._give_back(segment)

    def _give_back(self, segment: Segment) -> None:
        self._budget.give_back(segment.size)


class Shelf:
    """The answers of one segment."""

    __slots__ = ("_bodies", "_cors", "_owner", "_segment", "_type", "_whole")

    def __init__(self, owner: Shelves, segment: Segment, content_type: bytes, cors: bytes) -> None:
        self._owner = owner
        self._segment = segment
        self._type = content_type
        self._cors = cors
        self._bodies: list[tuple[int, int]] = []
        """Position and size of each part without its head."""
        self._whole: Answer | None = None

    @property
    def size(self) -> int:
        """The memory that it takes."""
        return self._segment.size

    def add_part(self, number: int, pieces: Sequence[bytes]) -> Answer:
        """The next part."""
        answer = self._lay_out(b'"p%d"' % number, pieces)
        self._bodies.append((answer.flush.position + len(answer.head), answer.size - len(answer.head)))
        return answer

    def whole(self, number: int) -> Answer:
        """The segment: its parts, one behind the other."""
        if self._whole is None:
            # A copy, since between two parts there is a head.
            pieces = [self._segment.read(position, size) for position, size in self._bodies]
            self._whole = self._lay_out(b'"s%d"' % number, pieces)
        return self._whole

    def _lay_out(self, etag: bytes, pieces: Sequence[bytes]) -> Answer:
        size = sum(map(len, pieces))
        lines = b"Content-Type: %s\r\nContent-Length: %d\r\nETag: %s\r\n" % (self._type, size, etag)
        head = head_of(200, lines + IMMUTABLE + self._cors)
        position = self._segment.size
        self._owner.write(self._segment, [head, *pieces])
        return Answer.in_segment(Range(self._segment, position, len(head) + size), head, etag=etag, keeper=self._owner)

    def drop(self) -> None:
        """It is asked for no more. What is being sent of it stays until it is sent."""
        self._owner.drop(self._segment)
