"""Script data of FLV files (Adobe FLV 10.1, annex E.4.4 and E.5): reading it, and onMetaData that can be written twice.

Owns the layout of the metadata that a recording begins with. What it says (duration, size, key frames) is known only at
the end, and it must sit at the start, so room is reserved when the file is begun: a last member `filler` takes up what
the rest leaves over, and the finished metadata has exactly as many bytes. Members given by the publisher are kept in
their order; ours win where both name the same thing. Damaged script data is absence, never an error.

What FFmpeg's reader makes of it decides two details: a string of 1,024 bytes or more makes it give up on all metadata,
so the filler is an array of shorter ones; and it complains of an index with fewer than two key frames, so such an index
is left out.
"""

from collections.abc import Mapping
from typing import Final

from penstock.amf import AmfLimits, AmfValue, EcmaArray, read_amf0_value, write_amf0_values
from penstock.errors import MalformedAmf, MalformedMedia, MisuseError
from penstock.media.flv import MAX_PAYLOAD_BYTES
from penstock.media.flv_index import FlvIndexer

METADATA_NAME: Final = "onMetaData"
MAX_KEYFRAME_ROOM: Final = 65_536

# An index of the largest room has 131,072 numbers; other writers' may have more.
_LIMITS: Final = AmfLimits(max_items=4 * MAX_KEYFRAME_ROOM)
_FILLER: Final = "filler"
_KEYFRAMES: Final = "keyframes"
_KEYFRAME_BYTES: Final = 18  # two AMF0 numbers: a position and a time
_FILLER_ITEM_BYTES: Final = 1000
_STRING_HEAD_BYTES: Final = 3


def read_flv_metadata(payload: bytes | memoryview) -> tuple[str, AmfValue] | None:
    """Name and value of a script tag of either kind; None where the bytes hold no such pair.

    An AMF3 script tag starts with a format byte of 0 and goes on in AMF0. No name starts so, hence the two kinds need
    not be told apart.
    """
    try:
        name, position = read_amf0_value(payload, 1 if payload[:1] == b"\x00" else 0, _LIMITS)
        value, _ = read_amf0_value(payload, position, _LIMITS)
    except MalformedAmf:
        return None
    return (name, value) if isinstance(name, str) else None


class ReservedMetadata:
    """The onMetaData payload of one recording: of one size from its beginning to its end."""

    __slots__ = ("_members", "payload_bytes")

    def __init__(self, members: Mapping[str, AmfValue], payload_bytes: int) -> None:
        self._members = {name: value for name, value in members.items() if name not in (_FILLER, _KEYFRAMES)}
        self.payload_bytes = payload_bytes

    @classmethod
    def with_room(cls, members: Mapping[str, AmfValue], keyframe_room: int) -> "ReservedMetadata":
        """Metadata for a new recording, with room for so many key frames."""
        if not 0 <= keyframe_room <= MAX_KEYFRAME_ROOM:
            raise MisuseError(f"flv: room for {keyframe_room} key frames, outside 0 to {MAX_KEYFRAME_ROOM}")
        metadata = cls(members, 0)
        metadata.payload_bytes = metadata._least_bytes() + keyframe_room * _KEYFRAME_BYTES
        if metadata.payload_bytes > MAX_PAYLOAD_BYTES:
            raise MalformedMedia("flv", f"metadata of {metadata.payload_bytes} bytes, a tag holds {MAX_PAYLOAD_BYTES}")
        return metadata

    @classmethod
    def read(cls, payload: bytes) -> "ReservedMetadata | None":
        """The metadata that `write` gave, or None if this is not such a payload."""
        match read_flv_metadata(payload):
            case (str(name), EcmaArray() as members) if name == METADATA_NAME and isinstance(
                members.get(_FILLER), list
            ):
                metadata = cls(members, len(payload))
                return metadata if metadata._least_bytes() <= len(payload) else None
        return None

    @property
    def file_bytes(self) -> AmfValue:
        """The file size that the metadata tells, as it was read or given."""
        return self._members.get("filesize")

    @property
    def keyframe_room(self) -> int:
        return (self.payload_bytes - self._least_bytes()) // _KEYFRAME_BYTES

    def write(self, index: FlvIndexer, file_bytes: int) -> bytes:
        """The payload, `payload_bytes` long. The index must hold no more key frames than there is room for."""
        members = self._with_figures(index, file_bytes)
        if len(index.keyframe_positions) > 1:
            members[_KEYFRAMES] = {
                "filepositions": [float(position) for position in index.keyframe_positions],
                "times": [time_ms / 1000 for time_ms in index.keyframe_times_ms],
            }
        spare_bytes = self.payload_bytes - len(_write(members, []))
        if spare_bytes < 0:
            raise MisuseError(f"flv: metadata is {-spare_bytes} bytes longer than the {self.payload_bytes} reserved")
        return _write(members, _filler_of(spare_bytes))

    def _with_figures(self, index: FlvIndexer, file_bytes: int) -> dict[str, AmfValue]:
        return self._members | {
            "duration": index.duration_ms / 1000,
            "filesize": float(file_bytes),
            "lasttimestamp": (index.last_ms or 0) / 1000,
            "hasKeyframes": bool(index.keyframe_positions),
        }

    def _least_bytes(self) -> int:
        members = self._with_figures(FlvIndexer(), 0)
        members[_KEYFRAMES] = {"filepositions": [], "times": []}
        return len(_write(members, []))


def _write(members: Mapping[str, AmfValue], filler: list[AmfValue]) -> bytes:
    return write_amf0_values(METADATA_NAME, EcmaArray({**members, _FILLER: filler}))


def _filler_of(size_bytes: int) -> list[AmfValue]:
    """Array items that take exactly so many bytes. Nulls, of one byte each, take what is too short for a string."""
    whole, rest = divmod(size_bytes, _FILLER_ITEM_BYTES)
    items: list[AmfValue] = [" " * (_FILLER_ITEM_BYTES - _STRING_HEAD_BYTES)] * whole
    if rest < _STRING_HEAD_BYTES:
        return items + [None] * rest
    return [*items, " " * (rest - _STRING_HEAD_BYTES)]
