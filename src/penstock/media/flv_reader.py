"""Reading FLV (Adobe FLV 10.1, annex E.2 to E.4): a stream of bytes to tags, and a scan over headers alone.

`FlvReader` takes bytes in any cuts and holds no more than one unfinished tag (16 MiB) beside what it was last given.
`scan_tags` walks a file region that is already in memory or mapped, and never touches payloads. Both give timestamps as
written and refuse encrypted tags and unknown kinds. Back pointers are counted when wrong, never trusted: some writers
leave them 0.
"""

from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import Final, NamedTuple

from penstock.media.flv import (
    BACK_POINTER_BYTES,
    FILE_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    TAG_HEADER_BYTES,
    TAG_KINDS,
    FlvHeader,
    FlvTag,
    read_file_header,
    read_tag_header,
    unknown_kind,
)

# Enough for the frame type, the packet type, a FourCC and a composition offset.
START_BYTES: Final = 8

_TAG_HEADER_AND_START = Struct(f">II3x{START_BYTES}s")


class TagHead(NamedTuple):
    """A tag without its payload. `start` is the first 8 bytes of the payload, or all of a shorter one."""

    kind: int
    timestamp_ms: int
    offset: int
    payload_bytes: int
    start: bytes


def scan_tags(buffer: bytes | bytearray | memoryview | mmap, offset: int, end: int | None = None) -> Iterator[TagHead]:
    """Every tag whose payload is whole between `offset`, which must be the first byte of a tag, and `end`.

    Ends quietly where the next tag is not whole: the caller that wants to go on later starts again at the last tag's
    offset + 15 + payload size.
    """
    end = len(buffer) if end is None else min(end, len(buffer))
    last_with_start = end - TAG_HEADER_BYTES - START_BYTES
    unpack_from = _TAG_HEADER_AND_START.unpack_from
    while offset + TAG_HEADER_BYTES <= end:
        if offset <= last_with_start:
            kind_and_size, time, start = unpack_from(buffer, offset)
            kind = kind_and_size >> 24
            if kind not in TAG_KINDS:
                raise unknown_kind(kind, offset)
            size = kind_and_size & MAX_PAYLOAD_BYTES
            timestamp_ms = time >> 8 | (time & 0xFF) << 24
        else:
            head = bytes(buffer[offset:end])
            kind, size, timestamp_ms = read_tag_header(head, 0, offset)
            start = head[TAG_HEADER_BYTES:]
        following = offset + TAG_HEADER_BYTES + size
        if following > end:
            return
        yield TagHead(kind, timestamp_ms, offset, size, start if size >= START_BYTES else start[:size])
        offset = following + BACK_POINTER_BYTES


class FlvReader:
    """Bytes in, tags out, one at a time.

    Feed with `receive_data`, then call `next_tag` until it gives None. A tag is given as soon as its payload is whole,
    before the back pointer that follows it has come. Once `next_tag` has raised, it raises the same again.
    """

    __slots__ = ("_back_pointer", "_buffer", "_offset", "_position", "_wanted", "header", "wrong_back_pointers")

    def __init__(self) -> None:
        self.header: FlvHeader | None = None
        self.wrong_back_pointers = 0
        self._buffer = bytearray()
        self._position = 0  # of the next unread byte in the buffer
        self._offset = 0  # of the same byte in the file
        self._wanted = FILE_HEADER_BYTES  # unread bytes below which a look at the buffer cannot succeed
        self._back_pointer: int | None = None  # what the back pointer that comes next should say

    @property
    def unread_bytes(self) -> int:
        """Bytes received but not used so far: 0 at the end of a whole file, more when its last tag is torn."""
        return len(self._buffer) - self._position

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        if self._position:
            del self._buffer[: self._position]
            self._position = 0
        self._buffer += data

    def next_tag(self) -> FlvTag | None:
        """The next whole tag, or None until more bytes come."""
        while self.unread_bytes >= self._wanted:
            if self.header is None:
                self._read_header()
            elif self._back_pointer is not None:
                self._read_back_pointer(self._back_pointer)
            elif (tag := self._read_tag()) is not None:
                return tag
        return None

    def _read_header(self) -> None:
        header = read_file_header(self._peek(FILE_HEADER_BYTES))
        self._wanted = header.size_bytes
        if self.unread_bytes >= self._wanted:
            self._consume(header.size_bytes)
            self.header = header
            self._back_pointer = 0
            self._wanted = BACK_POINTER_BYTES

    def _read_back_pointer(self, expected: int) -> None:
        if int.from_bytes(self._peek(BACK_POINTER_BYTES)) != expected:
            self.wrong_back_pointers += 1
        self._consume(BACK_POINTER_BYTES)
        self._back_pointer = None
        self._wanted = TAG_HEADER_BYTES

    def _read_tag(self) -> FlvTag | None:
        offset = self._offset
        kind, size, timestamp_ms = read_tag_header(self._buffer, self._position, offset)
        self._wanted = TAG_HEADER_BYTES + size
        if self.unread_bytes < self._wanted:
            return None
        self._consume(TAG_HEADER_BYTES)
        payload = self._peek(size)
        self._consume(size)
        self._back_pointer = TAG_HEADER_BYTES + size
        self._wanted = BACK_POINTER_BYTES
        return FlvTag(kind, timestamp_ms, payload, offset)

    def _peek(self, size: int) -> bytes:
        with memoryview(self._buffer) as view:
            return bytes(view[self._position : self._position + size])

    def _consume(self, size: int) -> None:
        self._position += size
        self._offset += size
