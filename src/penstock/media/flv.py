"""The FLV file format (Adobe FLV 10.1, annex E.2 to E.4): its fixed fields, as bytes and back.

Owns the file header, the tag header and the back pointer. Refuses another version, encrypted tags and kinds that the
format does not know. Opens no file: bytes come in and go out.

A file is a header of 9 bytes, a back pointer of 0, and then tags, each followed by a back pointer with its whole size::

    kind 1 | size 3 | time, low 24 bits 3 | time, high 8 bits 1 | stream id 3 (always 0) | payload | back pointer 4
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from penstock.errors import MalformedMedia, MisuseError

AUDIO_TAG: Final = 8
VIDEO_TAG: Final = 9
AMF3_SCRIPT_TAG: Final = 15  # added by Enhanced RTMP; the file version stays 1
SCRIPT_TAG: Final = 18
TAG_KINDS: Final = frozenset((AUDIO_TAG, VIDEO_TAG, AMF3_SCRIPT_TAG, SCRIPT_TAG))

FILE_HEADER_BYTES: Final = 9
TAG_HEADER_BYTES: Final = 11
BACK_POINTER_BYTES: Final = 4
MAX_PAYLOAD_BYTES: Final = 0xFFFFFF
# The header tells its own length, so that it can grow. Nothing longer than 9 is known; the bound keeps a reader from
# skipping gigabytes on the word of a damaged field.
MAX_FILE_HEADER_BYTES: Final = 4096

_FILE_HEADER = Struct(">3sBBI")
_TAG_HEADER = Struct(">II3x")
_BACK_POINTER = Struct(">I")
_AUDIO_FLAG: Final = 4
_VIDEO_FLAG: Final = 1
_FILTER_BIT: Final = 0x20


class FlvTag(NamedTuple):
    """One tag. `timestamp_ms` is as written, modulo 2**32; `offset` is where its first byte lies in the file."""

    kind: int
    timestamp_ms: int
    payload: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class FlvHeader:
    """What the file says of itself. The flags are a promise that many writers do not keep."""

    version: int
    has_audio: bool
    has_video: bool
    size_bytes: int

    @property
    def first_tag_offset(self) -> int:
        return self.size_bytes + BACK_POINTER_BYTES


def read_file_header(data: bytes | bytearray | memoryview) -> FlvHeader:
    """The header that starts `data`, of which at least 9 bytes must be there."""
    if len(data) < FILE_HEADER_BYTES:
        raise MalformedMedia("flv", f"{len(data)} bytes hold no file header of {FILE_HEADER_BYTES}")
    signature, version, flags, size_bytes = _FILE_HEADER.unpack_from(data)
    if signature != b"FLV":
        raise MalformedMedia("flv", f"signature {signature!r} is not b'FLV'")
    if version != 1:
        raise MalformedMedia("flv", f"file version {version} is not 1")
    if not FILE_HEADER_BYTES <= size_bytes <= MAX_FILE_HEADER_BYTES:
        raise MalformedMedia(
            "flv", f"file header of {size_bytes} bytes, outside {FILE_HEADER_BYTES} to {MAX_FILE_HEADER_BYTES}"
        )
    return FlvHeader(version, bool(flags & _AUDIO_FLAG), bool(flags & _VIDEO_FLAG), size_bytes)


def write_file_header(*, has_audio: bool, has_video: bool) -> bytes:
    """The file header and the back pointer of 0 that follows it: all that comes before the first tag."""
    flags = _AUDIO_FLAG * has_audio | _VIDEO_FLAG * has_video
    return _FILE_HEADER.pack(b"FLV", 1, flags, FILE_HEADER_BYTES) + write_back_pointer(0)


def read_tag_header(data: bytes | bytearray | memoryview, position: int, offset: int) -> tuple[int, int, int]:
    """Kind, payload size and timestamp from the 11 bytes at `position`; `offset` is their place in the file."""
    kind_and_size, time = _TAG_HEADER.unpack_from(data, position)
    kind = kind_and_size >> 24
    if kind not in TAG_KINDS:
        raise unknown_kind(kind, offset)
    return kind, kind_and_size & MAX_PAYLOAD_BYTES, time >> 8 | (time & 0xFF) << 24


def unknown_kind(kind: int, offset: int) -> MalformedMedia:
    """The error for a tag whose first byte is no kind that we read."""
    what = "encrypted tag" if kind & _FILTER_BIT and kind & ~_FILTER_BIT in TAG_KINDS else "unknown tag kind"
    return MalformedMedia("flv", f"{what} 0x{kind:02x} at offset {offset}")


def write_tag_header(kind: int, timestamp_ms: int, payload_bytes: int) -> bytes:
    """The 11 bytes before a payload. The timestamp is written modulo 2**32."""
    if kind not in TAG_KINDS:
        raise MisuseError(f"flv: tag kind {kind} is none of {sorted(TAG_KINDS)}")
    if payload_bytes > MAX_PAYLOAD_BYTES:
        raise MisuseError(f"flv: payload of {payload_bytes} bytes, a tag holds {MAX_PAYLOAD_BYTES}")
    time = (timestamp_ms & 0xFFFFFF) << 8 | timestamp_ms >> 24 & 0xFF
    return _TAG_HEADER.pack(kind << 24 | payload_bytes, time)


def write_back_pointer(tag_bytes: int) -> bytes:
    """The 4 bytes after a tag: its size with its header."""
    return _BACK_POINTER.pack(tag_bytes)


def write_tag(kind: int, timestamp_ms: int, payload: bytes) -> bytes:
    """A whole tag and its back pointer. Copies the payload: for small tags and tests, not for the recording path."""
    header = write_tag_header(kind, timestamp_ms, len(payload))
    return b"".join((header, payload, write_back_pointer(TAG_HEADER_BYTES + len(payload))))


def unwrap_timestamp(near_ms: int, timestamp_ms: int) -> int:
    """The value nearest to `near_ms` that is `timestamp_ms` modulo 2**32: a clock that runs on over the wrap."""
    return near_ms + ((timestamp_ms - near_ms + 0x80000000) & 0xFFFFFFFF) - 0x80000000
