"""A walk over the tags of an FLV file of any size, on any file system, in pieces of bounded size.

Owns reading ahead. Payloads are there to be asked for while their tag is the newest one; a walk that does not ask never
copies them. Ends quietly before a tag that is not whole, as `scan_tags` does, and raises its MalformedMedia.
"""

from collections.abc import Iterator
from typing import Final

from pyarrow import NativeFile

from penstock.media.flv import (
    AUDIO_TAG,
    BACK_POINTER_BYTES,
    FILE_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    TAG_HEADER_BYTES,
    VIDEO_TAG,
    read_file_header,
)
from penstock.media.flv_reader import TagHead, scan_tags
from penstock.pipeline.jobs.timestamps import TrackKey

_WINDOW_BYTES: Final = 4 * 1024 * 1024
_LARGEST_TAG_BYTES: Final = TAG_HEADER_BYTES + MAX_PAYLOAD_BYTES + BACK_POINTER_BYTES

_EX_AUDIO: Final = 9
_MULTITRACK: Final = {VIDEO_TAG: 6, AUDIO_TAG: 5}
_ONE_TRACK: Final = 0


class TagWalk:
    """The tags of an open file up to `end`, each with its offset in the file."""

    __slots__ = ("_end", "_file", "_offset", "_window")

    def __init__(self, file: NativeFile, end: int | None = None) -> None:
        self._file = file
        self._end = file.size() if end is None else end
        self._offset = 0
        self._window = b""

    def __iter__(self) -> Iterator[TagHead]:
        self._file.seek(0)
        self._offset = read_file_header(self._file.read(FILE_HEADER_BYTES)).first_tag_offset
        wanted = _WINDOW_BYTES
        while self._offset < self._end:
            self._file.seek(self._offset)
            self._window = self._file.read(min(wanted, self._end - self._offset))
            used = 0
            for kind, timestamp_ms, position, payload_bytes, start in scan_tags(self._window, 0):
                yield TagHead(kind, timestamp_ms, self._offset + position, payload_bytes, start)
                used = position + TAG_HEADER_BYTES + payload_bytes + BACK_POINTER_BYTES
            if used == 0 and wanted == _LARGEST_TAG_BYTES:
                return
            # A tag that is larger than the window gets one in which every tag is whole.
            wanted = _WINDOW_BYTES if used else _LARGEST_TAG_BYTES
            self._offset += used

    def payload_of(self, tag: TagHead) -> bytes:
        """The payload of the tag that the walk has just come to."""
        start = tag.offset - self._offset + TAG_HEADER_BYTES
        return self._window[start : start + tag.payload_bytes]


def track_of(tag: TagHead) -> TrackKey:
    """Which track's time a tag moves: tracks sent one by one have a time of their own."""
    start = tag.start
    is_enhanced = bool(start) and (start[0] & 0x80 if tag.kind == VIDEO_TAG else start[0] >> 4 == _EX_AUDIO)
    if is_enhanced and len(start) > 6 and start[0] & 0x0F == _MULTITRACK.get(tag.kind) and start[1] >> 4 == _ONE_TRACK:
        return tag.kind, start[6]
    return tag.kind, 0
