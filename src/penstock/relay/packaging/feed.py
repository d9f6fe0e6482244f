"""What a packager is fed: what a log holds from a segment's start on, then what is flushed, each message once.

Owns where a packager begins, and that nothing comes twice or unseen where a stream goes on in another log: positions
count on there, so a message is known by its position. What waits to be packaged keeps its memory.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from penstock.relay.codec_config import CodecConfig
from penstock.relay.follower import FollowerBatch
from penstock.relay.packaging.boundaries import Boundary
from penstock.relay.packaging.packager import Packager
from penstock.relay.packaging.parts import Packaged, PackagedPart
from penstock.relay.readable_log import Flush, ReadableLog
from penstock.relay.segment import Entry, Segment

_MAX_BATCH_BYTES: Final = 512 * 1024
"""Read in one go: about a tenth of a millisecond."""
_position_of = attrgetter("position")


class _Pending(NamedTuple):
    log: ReadableLog
    segment: Segment
    entries: list[Entry]
    boundaries: list[Boundary]
    config: CodecConfig | None
    """In force before the first message, where the packager cannot know it from those before."""
    is_gap: bool

    @property
    def size(self) -> int:
        return self.entries[-1].position + self.entries[-1].encoded_bytes - self.entries[0].position


class PackagerFeed:
    """The way from a stream's log to its packager."""

    def __init__(self, packager: Packager) -> None:
        self._packager = packager
        self._pending: deque[_Pending] = deque()
        self._taken: deque[_Pending] = deque()
        """What a part that has yet to end may refer to."""
        self._position: int | None = None
        """Behind the last message that was taken; None: nothing was."""
        self._first_config: CodecConfig | None = None
        self.held_bytes = 0
        """Of the log, which has to stay for it."""

    @property
    def has_pending(self) -> bool:
        """Whether there is anything to package."""
        return bool(self._pending)

    def begin(self, log: ReadableLog, wanted_ms: int) -> None:
        """Begin where a segment does that is so far back; with the first there is, if the log has less."""
        start = log.boundaries.segment_start_back(wanted_ms, log.head)
        self._position = log.head if start is None else start.boundary.position
        self._first_config = log.config if start is None else start.config
        for segment in log.segments_from(self._position):
            self._add(log, segment, segment.entries)

    def on_flush(self, log: ReadableLog, flush: Flush) -> None:
        """More is in the log."""
        self._add(log, flush.segment, flush.entries)

    def _add(self, log: ReadableLog, segment: Segment, entries: Sequence[Entry]) -> None:
        position = entries[0].position if self._position is None else self._position
        first = bisect_left(entries, position, key=_position_of)
        while first < len(entries):
            last, size = first + 1, entries[first].encoded_bytes
            while last < len(entries) and (size := size + entries[last].encoded_bytes) <= _MAX_BATCH_BYTES:
                last += 1
            self._add_batch(log, segment, list(entries[first:last]))
            first = last

    def _add_batch(self, log: ReadableLog, segment: Segment, entries: list[Entry]) -> None:
        start, end = entries[0].position, entries[-1].position + entries[-1].encoded_bytes
        indexed = log.boundaries.between(start, end)
        is_gap = self._position is not None and start > self._position
        config, self._first_config = self._first_config, None
        if is_gap:
            # What is in force behind it is known where the next part begins.
            config = indexed[0].config if indexed else log.config
        segment.pin()
        pending = _Pending(log, segment, entries, [each.boundary for each in indexed], config, is_gap)
        self._pending.append(pending)
        self._position = end
        self.held_bytes += pending.size

    def work(self) -> list[Packaged]:
        """Package the next of what is there. Parts refer to the log until `release` is called."""
        pending = self._pending.popleft()
        self._taken.append(pending)
        config = self._packager.config if pending.config is None else pending.config
        batch = FollowerBatch(pending.segment, pending.entries, 0.0, config, int(pending.is_gap), 0)
        return self._packager.take(batch, pending.boundaries)

    def release(self, packaged: Sequence[Packaged]) -> None:
        """What was packaged has been read: the memory of all may go that no open part refers to."""
        if not self._packager.has_open_part:
            self._let_go(0)
        elif any(isinstance(each, PackagedPart) for each in packaged):
            self._let_go(1)

    def _let_go(self, keep: int) -> None:
        while len(self._taken) > keep:
            taken = self._taken.popleft()
            self.held_bytes -= taken.size
            taken.log.unpin(taken.segment)

    def close(self) -> None:
        """Nothing more is wanted."""
        self._taken += self._pending
        self._pending.clear()
        self._let_go(0)
