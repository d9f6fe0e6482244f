"""FLV bytes to frames: the one way by which files, pipes and PyAV's muxer become what the client sends.

Timestamps run on over the wrap of 32 bits. Script data in AMF3 form loses its format byte, as RTMP carries the rest
as AMF0.
"""

from collections.abc import Iterator
from typing import BinaryIO, Final

from penstock.media.flv import AMF3_SCRIPT_TAG, FlvTag, unwrap_timestamp
from penstock.media.flv_reader import FlvReader
from penstock.media.frame import Frame, FrameKind, frame_of

_READ_BYTES: Final = 256 * 1024


class FlvFrames:
    """Bytes in, frames out."""

    __slots__ = ("_last_ms", "_reader")

    def __init__(self) -> None:
        self._reader = FlvReader()
        self._last_ms: int | None = None

    @property
    def unread_bytes(self) -> int:
        """Bytes of a tag that is not whole."""
        return self._reader.unread_bytes

    def receive_data(self, data: bytes | memoryview) -> None:
        self._reader.receive_data(data)

    def frames(self) -> Iterator[Frame]:
        """Every frame that is whole by now."""
        while (tag := self._reader.next_tag()) is not None:
            yield self._frame_of(tag)

    def _frame_of(self, tag: FlvTag) -> Frame:
        near_ms = tag.timestamp_ms if self._last_ms is None else self._last_ms
        self._last_ms = unwrap_timestamp(near_ms, tag.timestamp_ms)
        if tag.kind == AMF3_SCRIPT_TAG:
            return frame_of(FrameKind.DATA, self._last_ms, tag.payload[1:])
        return frame_of(FrameKind(tag.kind), self._last_ms, tag.payload)


def flv_file_frames(file: BinaryIO) -> Iterator[Frame]:
    """The frames of an open file. A torn last tag is left out."""
    flv = FlvFrames()
    while data := file.read(_READ_BYTES):
        flv.receive_data(data)
        yield from flv.frames()
