"""Repair of a torn FLV file: what a crash leaves behind becomes a file that plays and seeks.

Walks from tag header to tag header (Adobe FLV 10.1, annex E.4.1) without reading payloads, cuts what follows the last
whole tag, completes its back pointer and, where the file begins with metadata that `flv_writer` reserved, writes the
true duration, size and key frame index into it. Other writers' files are only cut. A file that is whole is not touched,
and neither is one that holds no whole tag: the report says so, and nothing is raised but the file's own OSError.

A back pointer confirms a tag. Where it disagrees, the tag is believed only if a tag header or the end of the file
follows: some writers leave the pointers 0, but a damaged size must not lead the walk astray. A few damaged bytes in
the middle may thus cost all that follows them, and the report says how much.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from penstock.errors import MalformedMedia
from penstock.media.flv import (
    BACK_POINTER_BYTES,
    FILE_HEADER_BYTES,
    SCRIPT_TAG,
    TAG_HEADER_BYTES,
    TAG_KINDS,
    VIDEO_TAG,
    FlvHeader,
    read_file_header,
    read_tag_header,
    write_back_pointer,
)
from penstock.media.flv_index import FlvIndexer, is_key_video
from penstock.media.flv_metadata import ReservedMetadata
from penstock.media.flv_writer import write_head

# Small enough to skip over large video tags, large enough to hold many of audio.
_WINDOW_BYTES: Final = 16 * 1024
_START_BYTES: Final = 2


class RepairableFile(Protocol):
    """What `repair` needs of a binary file that is open for reading and writing."""

    def read(self, size: int, /) -> bytes: ...
    def write(self, data: bytes, /) -> int: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def truncate(self, size: int, /) -> int: ...


class RepairState(Enum):
    WHOLE = "whole"  # nothing was wrong, nothing was changed
    REPAIRED = "repaired"
    UNUSABLE = "unusable"  # no whole tag in it; left as it was


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was found and done. `file_bytes` is the size as it is now; `reason` is None only for a whole file."""

    state: RepairState
    file_bytes: int
    cut_bytes: int
    tags: int
    duration_ms: int
    keyframes: int
    wrong_back_pointers: int
    reason: str | None


def repair(file: RepairableFile) -> RepairReport:
    """Make a torn file whole, in place. Doing it again changes nothing."""
    file_bytes = file.seek(0, 2)
    window = _Window(file)
    try:
        header = read_file_header(window.view(0, FILE_HEADER_BYTES))
    except MalformedMedia as error:
        return _unusable(file_bytes, error.detail)
    metadata = _reserved_metadata(window, header)
    walk = _Walk(window, file_bytes, FlvIndexer() if metadata is None else FlvIndexer(metadata.keyframe_room))
    walk.run(header.first_tag_offset)
    if walk.tags == 0:
        return _unusable(file_bytes, walk.stopped_by or "no tag")

    whole_bytes = walk.last_tag_end + BACK_POINTER_BYTES
    reason = walk.stopped_by
    if file_bytes > whole_bytes:
        file.truncate(whole_bytes)
    if not walk.is_last_back_pointer_right:
        _write_at(file, walk.last_tag_end, walk.last_back_pointer)
        reason = reason or f"back pointer at offset {walk.last_tag_end} torn or wrong"
    if metadata is not None and metadata.file_bytes != whole_bytes:
        index = walk.index
        head = write_head(metadata, index, whole_bytes, has_audio=index.has_audio, has_video=index.has_video)
        _write_at(file, 0, head)
        reason = reason or "metadata was not finished"
    return RepairReport(
        state=RepairState.WHOLE if reason is None else RepairState.REPAIRED,
        file_bytes=whole_bytes,
        cut_bytes=max(file_bytes - whole_bytes, 0),
        tags=walk.tags,
        duration_ms=walk.index.duration_ms,
        keyframes=walk.index.keyframes,
        wrong_back_pointers=walk.wrong_back_pointers,
        reason=reason,
    )


def _unusable(file_bytes: int, reason: str) -> RepairReport:
    return RepairReport(RepairState.UNUSABLE, file_bytes, 0, 0, 0, 0, 0, reason)


def _write_at(file: RepairableFile, offset: int, data: bytes) -> None:
    file.seek(offset)
    file.write(data)


class _Window:
    """The few bytes around one place of the file, read ahead so that neighbouring headers cost one read."""

    __slots__ = ("_data", "_file", "_offset")

    def __init__(self, file: RepairableFile) -> None:
        self._file = file
        self._offset = 0
        self._data = b""

    def view(self, offset: int, size: int) -> bytes:
        """So many bytes from there, fewer only where the file ends."""
        position = offset - self._offset
        if position < 0 or position + size > len(self._data):
            self._file.seek(offset)
            self._data = _read_fully(self._file, max(size, _WINDOW_BYTES))
            self._offset = offset
            position = 0
        return self._data[position : position + size]


def _read_fully(file: RepairableFile, size: int) -> bytes:
    """Unbuffered files may give less than was asked for before their end."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _reserved_metadata(window: _Window, header: FlvHeader) -> ReservedMetadata | None:
    offset = header.first_tag_offset
    head = window.view(offset, TAG_HEADER_BYTES)
    if header.size_bytes != FILE_HEADER_BYTES or len(head) < TAG_HEADER_BYTES or head[0] != SCRIPT_TAG:
        return None
    _, size, _ = read_tag_header(head, 0, offset)
    return ReservedMetadata.read(window.view(offset + TAG_HEADER_BYTES, size))


class _Walk:
    """The tags of the file up to the first place that is no whole tag, and why it stopped there."""

    def __init__(self, window: _Window, file_bytes: int, index: FlvIndexer) -> None:
        self.index = index
        self.tags = 0
        self.wrong_back_pointers = 0
        self.last_tag_end = 0
        self.last_back_pointer = b""
        self.is_last_back_pointer_right = False
        self.stopped_by: str | None = None
        self._window = window
        self._file_bytes = file_bytes

    def run(self, offset: int) -> None:
        while offset < self._file_bytes and self._step(offset):
            offset = self.last_tag_end + BACK_POINTER_BYTES

    def _step(self, offset: int) -> bool:
        head = self._window.view(offset, TAG_HEADER_BYTES + _START_BYTES)
        if len(head) < TAG_HEADER_BYTES:
            return self._stop(f"tag header torn at offset {offset}")
        try:
            kind, size, timestamp_ms = read_tag_header(head, 0, offset)
        except MalformedMedia as error:
            return self._stop(error.detail)
        end = offset + TAG_HEADER_BYTES + size
        if end > self._file_bytes:
            return self._stop(f"tag of {size} bytes torn at offset {offset}")
        found = self._window.view(end, BACK_POINTER_BYTES)
        expected = write_back_pointer(TAG_HEADER_BYTES + size)
        if found != expected:
            if not self._is_believable(end, found, expected):
                return self._stop(f"neither back pointer nor next tag fits the tag at offset {offset}")
            self.wrong_back_pointers += 1
        start = head[TAG_HEADER_BYTES : TAG_HEADER_BYTES + size]
        self.index.add_tag(kind, timestamp_ms, offset, start, kind == VIDEO_TAG and is_key_video(start))
        self.tags += 1
        self.last_tag_end = end
        self.last_back_pointer = expected
        self.is_last_back_pointer_right = found == expected
        return True

    def _is_believable(self, tag_end: int, found: bytes, expected: bytes) -> bool:
        """Whether a tag without its true back pointer may still be what its header says."""
        if len(found) < BACK_POINTER_BYTES:
            return expected.startswith(found) or not any(found)
        head = self._window.view(tag_end + BACK_POINTER_BYTES, TAG_HEADER_BYTES)
        return not head or (head[0] in TAG_KINDS and not any(head[8:]))

    def _stop(self, reason: str) -> bool:
        self.stopped_by = reason
        return False
