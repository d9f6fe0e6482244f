"""FLV to frames, and frames to FLV.

Read is what files, pipes and PyAV's muxer give. Timestamps run on over the wrap of 32 bits. Script data in AMF3 form
loses its format byte, as RTMP carries the rest as AMF0. Written is what play gets, as a file with its index at the
start or into a pipe. Its time starts at 0 with the first coded frame, as a viewer joins a stream at any time of its
clock. It begins with the metadata that the server sent before that frame; later metadata stays where it came.
"""

from collections.abc import Iterator
from typing import BinaryIO, Final

from penstock.amf import AmfValue
from penstock.media.flv import AMF3_SCRIPT_TAG, FlvTag, unwrap_timestamp
from penstock.media.flv_index import DEFAULT_KEYFRAME_ROOM
from penstock.media.flv_metadata import read_flv_metadata
from penstock.media.flv_reader import FlvReader
from penstock.media.flv_writer import FlvFileWriter
from penstock.media.frame import Frame, FrameKind, frame_of

_READ_BYTES: Final = 256 * 1024
# One for each track, its colours and its speakers. A server that sends more before any picture gets no patience.
_MAX_HELD_FRAMES: Final = 64


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


class FlvOutput:
    """Frames into a file. With `can_seek` it gets its index when it is finished; a pipe is written once, in order."""

    __slots__ = ("_can_seek", "_file", "_held_frames", "_metadata", "_start_ms", "_writer")

    def __init__(self, file: BinaryIO, *, can_seek: bool) -> None:
        self._file = file
        self._can_seek = can_seek
        self._metadata: dict[str, AmfValue] = {}
        self._held_frames: list[Frame] = []
        self._start_ms = 0
        self._writer: FlvFileWriter | None = None

    def write(self, frame: Frame) -> None:
        """Write one frame. Set-up waits for the first coded frame, which starts the clock."""
        if self._writer is not None:
            self._write_tag(self._writer, frame)
        elif frame.is_setup and len(self._held_frames) < _MAX_HELD_FRAMES:
            self._hold(frame)
        elif frame.kind is not FrameKind.DATA:
            self._write_tag(self._begin(frame.timestamp_ms), frame)

    def finish(self) -> None:
        """Complete the file: its index, if there is a way back to it, and a beginning even if nothing came."""
        writer = self._writer or self._begin(0)
        if self._can_seek:
            self._file.seek(0)
            self._file.write(writer.finish())
        self._file.flush()

    def _hold(self, frame: Frame) -> None:
        if frame.kind is not FrameKind.DATA:
            self._held_frames.append(frame)
            return
        match read_flv_metadata(frame.payload):
            case (_, dict(metadata)):
                self._metadata = metadata

    def _begin(self, start_ms: int) -> FlvFileWriter:
        keyframe_room = DEFAULT_KEYFRAME_ROOM if self._can_seek else 0
        self._writer = FlvFileWriter(self._metadata, keyframe_room=keyframe_room)
        self._start_ms = start_ms
        self._file.write(self._writer.begin())
        for frame in self._held_frames:
            self._write_tag(self._writer, frame)
        self._held_frames.clear()
        return self._writer

    def _write_tag(self, writer: FlvFileWriter, frame: Frame) -> None:
        # Set-up that is replayed to a late joiner may be stamped with an earlier time than the first frame.
        timestamp_ms = max(frame.timestamp_ms - self._start_ms, 0)
        head, trail = writer.add_tag(frame.kind, timestamp_ms, frame.payload, is_key=frame.is_key)
        self._file.write(head)
        self._file.write(frame.payload)
        self._file.write(trail)
