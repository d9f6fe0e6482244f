"""Writing an FLV recording (Adobe FLV 10.1, annex E.2 to E.5) with its duration and key frame index at the start.

Owns the order of what a recording is made of and its running size. Opens no file and copies no payload: the caller
writes `begin()`, then for each tag the head, the payload and the trail, and at the end `finish()` over the beginning.
A file whose writer never came to its end plays all the same, and `flv_repair` gives it what `finish` would have.

Timestamps are written as given, modulo 2**32; the index runs on over the wrap.
"""

from collections.abc import Mapping

from penstock.amf import AmfValue
from penstock.media.flv import (
    BACK_POINTER_BYTES,
    SCRIPT_TAG,
    TAG_HEADER_BYTES,
    write_back_pointer,
    write_file_header,
    write_tag,
    write_tag_header,
)
from penstock.media.flv_index import DEFAULT_KEYFRAME_ROOM, FlvIndexer
from penstock.media.flv_metadata import ReservedMetadata


class FlvFileWriter:
    """One recording. `file_bytes` counts all that was given out to be written, the beginning once.

    `metadata` holds the members of the publisher's onMetaData. `has_audio` and `has_video` are what the file header
    promises until `finish` tells what came; a reader that is promised too little may miss a track that starts late.
    """

    __slots__ = ("_has_audio", "_has_video", "_metadata", "file_bytes", "index")

    def __init__(
        self,
        metadata: Mapping[str, AmfValue] | None = None,
        *,
        has_audio: bool = True,
        has_video: bool = True,
        keyframe_room: int = DEFAULT_KEYFRAME_ROOM,
    ) -> None:
        self._has_audio = has_audio
        self._has_video = has_video
        self._metadata = ReservedMetadata.with_room(metadata or {}, keyframe_room)
        self.index = FlvIndexer(keyframe_room)
        self.file_bytes = head_bytes(self._metadata)

    def begin(self) -> bytes:
        """The beginning of the file: header and metadata with room for what `finish` will say.

        Its file size is 0, by which an unfinished file can be told.
        """
        return write_head(self._metadata, self.index, 0, has_audio=self._has_audio, has_video=self._has_video)

    def add_tag(self, kind: int, timestamp_ms: int, payload: bytes, *, is_key: bool) -> tuple[bytes, bytes]:
        """What to write before and after the payload. `is_key` says that a player can start at this video tag."""
        head = write_tag_header(kind, timestamp_ms, len(payload))
        self.index.add_tag(kind, timestamp_ms, self.file_bytes, payload[:2], is_key)
        tag_bytes = TAG_HEADER_BYTES + len(payload)
        self.file_bytes += tag_bytes + BACK_POINTER_BYTES
        return head, write_back_pointer(tag_bytes)

    def finish(self) -> bytes:
        """What to write over the file from offset 0: as long as `begin` was, and true for all tags added so far."""
        return write_head(
            self._metadata, self.index, self.file_bytes, has_audio=self.index.has_audio, has_video=self.index.has_video
        )


def write_head(
    metadata: ReservedMetadata, index: FlvIndexer, file_bytes: int, *, has_audio: bool, has_video: bool
) -> bytes:
    """All of a recording that comes before its first media tag."""
    payload = metadata.write(index, file_bytes)
    return write_file_header(has_audio=has_audio, has_video=has_video) + write_tag(SCRIPT_TAG, 0, payload)


def head_bytes(metadata: ReservedMetadata) -> int:
    """The size of what `write_head` gives."""
    empty_file = len(write_file_header(has_audio=False, has_video=False))
    return empty_file + TAG_HEADER_BYTES + metadata.payload_bytes + BACK_POINTER_BYTES
