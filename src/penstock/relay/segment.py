"""Segments: the append-only pieces of memory that a log consists of.

Owns how long a segment lives: until the log has dropped it and nobody reads from it any more. Where its bytes are kept
is the store's matter, which the server gives: shared memory for sendfile, or plain memory.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from penstock.media.frame import FrameKind


class SegmentBuffer(Protocol):
    """Memory that only grows. What was written stays as it is until it is closed."""

    @property
    def descriptor(self) -> int | None:
        """A file descriptor to send from, where there is one."""

    def append(self, pieces: Sequence[bytes]) -> None:
        """Write behind what is there."""

    def read(self, offset: int, size: int) -> bytes:
        """A copy of some of it."""

    def view(self, offset: int, size: int) -> memoryview:
        """Some of it, where it can be had without a copy. To be released before more is written."""

    def close(self) -> None:
        """Give the memory back."""


class SegmentStore(Protocol):
    """Where segments come from."""

    def create(self) -> SegmentBuffer:
        """An empty buffer."""


class MemoryBuffer:
    """A buffer in plain memory."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def descriptor(self) -> int | None:
        """None: there is nothing to send from but copies."""
        return None

    def append(self, pieces: Sequence[bytes]) -> None:
        """Write behind what is there."""
        for piece in pieces:
            self._data += piece

    def read(self, offset: int, size: int) -> bytes:
        """A copy of some of it."""
        # In one step, since another thread may read while this one appends: a view would forbid that.
        return bytes(self._data[offset : offset + size])

    def view(self, offset: int, size: int) -> memoryview:
        """Some of it. For the thread that appends."""
        return memoryview(self._data)[offset : offset + size]

    def close(self) -> None:
        """Give the memory back."""
        self._data = bytearray()


class MemoryStore:
    """Segments in plain memory: for tests, and for systems without memfd."""

    def create(self) -> MemoryBuffer:
        """An empty buffer."""
        return MemoryBuffer()


class Entry(NamedTuple):
    """One message in the log. `position` counts the encoded bytes of the whole log before it."""

    position: int
    encoded_bytes: int
    kind: FrameKind
    timestamp_ms: int
    payload_bytes: int
    is_key: bool
    is_setup: bool


ENTRY_BYTES = 230
"""What the record of a message costs in memory beside the message itself: for tiny messages, more than they do."""
_MAX_BATCH_ENTRIES = 256
"""Each is looked at by itself, about a microsecond: what a reader may do in one go."""
_position_of = attrgetter("position")


class Segment:
    """A run of whole messages."""

    __slots__ = ("_is_dropped", "_pins", "buffer", "entries", "opened_at", "size", "start")

    def __init__(self, buffer: SegmentBuffer, start: int, opened_at: float) -> None:
        self.buffer = buffer
        self.start = start
        self.size = 0
        self.opened_at = opened_at
        self.entries: list[Entry] = []
        self._pins = 0
        self._is_dropped = False

    @property
    def end(self) -> int:
        """The log position behind its last byte."""
        return self.start + self.size

    @property
    def held_bytes(self) -> int:
        """The memory it takes, records of messages included."""
        return self.size + ENTRY_BYTES * len(self.entries)

    def append(self, pieces: Sequence[bytes], entries: Sequence[Entry], size: int) -> None:
        """Write whole messages."""
        self.buffer.append(pieces)
        self.entries += entries
        self.size += size

    def show(self, entries: Sequence[Entry], size: int) -> None:
        """Take whole messages that another process has written."""
        self.entries += entries
        self.size += size

    def read(self, position: int, size: int) -> bytes:
        """A copy of the bytes from a log position on."""
        return self.buffer.read(position - self.start, size)

    def entry_at(self, position: int) -> Entry:
        """The message that holds a log position."""
        return self.entries[self._index_at(position)]

    def _index_at(self, position: int) -> int:
        return bisect_right(self.entries, position, key=_position_of) - 1

    def entries_from(self, position: int, max_bytes: int) -> list[Entry]:
        """The messages from the one at a position on: at least one, no more than fit, and not too many tiny ones."""
        first = self._index_at(position)
        last = first + 1
        end = min(len(self.entries), first + _MAX_BATCH_ENTRIES)
        size = self.entries[first].encoded_bytes
        while last < end and (size := size + self.entries[last].encoded_bytes) <= max_bytes:
            last += 1
        return self.entries[first:last]

    @property
    def is_pinned(self) -> bool:
        """Whether somebody reads from it."""
        return self._pins > 0

    @property
    def is_dropped(self) -> bool:
        """Whether it stays for those alone who read from it."""
        return self._is_dropped

    def pin(self) -> None:
        """Keep it while reading from it."""
        self._pins += 1

    def unpin(self) -> bool:
        """Done reading. True if that gave the memory back."""
        self._pins -= 1
        return self._close_if_unused()

    def drop(self) -> bool:
        """The log needs it no more. True if that gave the memory back."""
        self._is_dropped = True
        return self._close_if_unused()

    def _close_if_unused(self) -> bool:
        if self._is_dropped and self._pins == 0:
            self.buffer.close()
            return True
        return False
