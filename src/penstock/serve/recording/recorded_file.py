"""What a finished recording says of itself, so that it can be gone on with or entered in the manifest.

Owns reading the beginning of a file that `recording_file` wrote: its reserved metadata with duration and key frames,
and the set-up that follows. Reads no further than the first frame, by plain reads: a mapped file on a failing disk
would end the process. Anything else than such a beginning is MalformedMedia.
"""

import math
import os
from dataclasses import dataclass
from typing import Final

from penstock.amf import AmfValue
from penstock.errors import MalformedMedia
from penstock.media.flv import AUDIO_TAG, SCRIPT_TAG, VIDEO_TAG, FlvHeader, FlvTag
from penstock.media.flv_index import FlvIndexer, is_key_video
from penstock.media.flv_metadata import ReservedMetadata, read_flv_metadata
from penstock.media.flv_reader import FlvReader
from penstock.media.frame import Frame, FrameKind, frame_of

_READ_BYTES: Final = 128 * 1024
_MAX_MS: Final = 2**40
# Payload starts that count as coded media in an index: times alone are to be entered again.
_KEY_START: Final = b"\x17\x01"
_AUDIO_START: Final = b"\xaf\x01"


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """The beginning of a finished file. `index` goes on where the file ends."""

    metadata: ReservedMetadata
    index: FlvIndexer
    setup_frames: tuple[Frame, ...]
    """All that comes before the first frame, metadata aside."""

    @property
    def keyframes(self) -> int:
        """As many as the index has kept."""
        return len(self.index.keyframe_positions)


def read_recorded_file(descriptor: int) -> RecordedFile:
    """Read the beginning of a file."""
    reader = FlvReader()
    tags = _Tags(descriptor, reader)
    script = tags.next()
    header = reader.header
    metadata = None if script is None or script.kind != SCRIPT_TAG else ReservedMetadata.read(script.payload)
    if script is None or header is None or metadata is None:
        raise MalformedMedia("recording", "the file does not begin with metadata of ours")
    setup_frames: list[Frame] = []
    while (tag := tags.next()) is not None:
        frame = frame_of(FrameKind(tag.kind), tag.timestamp_ms, tag.payload) if tag.kind in _FRAME_KINDS else None
        if frame is None or not frame.is_setup:
            break
        setup_frames.append(frame)
    index = _index_of(_members_of(script), header, metadata.keyframe_room, first_frame=tag)
    return RecordedFile(metadata, index, tuple(setup_frames))


_FRAME_KINDS: Final = frozenset(map(int, FrameKind))


class _Tags:
    """The tags of a file, read as they are asked for."""

    def __init__(self, descriptor: int, reader: FlvReader) -> None:
        self._descriptor = descriptor
        self._reader = reader
        self._offset = 0

    def next(self) -> FlvTag | None:
        while (tag := self._reader.next_tag()) is None:
            data = os.pread(self._descriptor, _READ_BYTES, self._offset)
            if not data:
                return None
            self._offset += len(data)
            self._reader.receive_data(data)
        return tag


def _members_of(script: FlvTag) -> dict[str, AmfValue]:
    match read_flv_metadata(script.payload):
        case (_, dict(members)):
            return members
    return {}


def _index_of(
    members: dict[str, AmfValue], header: FlvHeader, keyframe_room: int, first_frame: FlvTag | None
) -> FlvIndexer:
    """The index that the file was finished with, as far as its metadata tells it."""
    index = FlvIndexer(keyframe_room)
    last_ms = _milliseconds(members.get("lasttimestamp"))
    first_ms = last_ms - _milliseconds(members.get("duration"))
    if first_frame is not None:
        index.add_tag(AUDIO_TAG, first_ms, 0, _AUDIO_START, False)
        keyframes = _keyframes_of(members)
        # An index of one key frame is not written; it is the frame that a file begins with.
        if not keyframes and first_frame.kind == VIDEO_TAG and is_key_video(first_frame.payload):
            keyframes = [(first_frame.timestamp_ms, first_frame.offset)]
        for time_ms, position in keyframes:
            index.add_tag(VIDEO_TAG, time_ms, position, _KEY_START, True)
        index.add_tag(AUDIO_TAG, last_ms, 0, _AUDIO_START, False)
    index.has_audio = header.has_audio
    index.has_video = header.has_video
    return index


def _keyframes_of(members: dict[str, AmfValue]) -> list[tuple[int, int]]:
    match members.get("keyframes"):
        case {"times": list(times), "filepositions": list(positions)}:
            return [
                (_milliseconds(time), int(position))
                for time, position in zip(times, positions, strict=False)
                if isinstance(position, float) and math.isfinite(position)
            ]
    return []


def _milliseconds(seconds: AmfValue) -> int:
    if isinstance(seconds, float) and 0 <= seconds * 1000 < _MAX_MS:
        return round(seconds * 1000)
    raise MalformedMedia("recording", f"{seconds!r} is no time in seconds")
