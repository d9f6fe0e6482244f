"""The header parts that enhanced audio and video tags share (Enhanced RTMP v2): ModEx chains and multitrack.

Owns the walk from the byte after the first one to the place where each track's packet begins. What a packet type
means is left to the audio and the video reader, which number them differently.

Bounded: a chain of at most `MAX_MODEX` extensions, at most `MAX_TRACKS` tracks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple

from penstock.errors import MalformedMedia
from penstock.media.packets import CodecT

# One extension is defined so far; a chain longer than this is an attack on our time.
MAX_MODEX = 16
# Encoders send a handful, and mostly each in a message of its own. Each costs 2 µs.
MAX_TRACKS = 32

MODEX_PACKET_TYPE = 7
_TIMESTAMP_OFFSET_NANO = 0
_MAX_OFFSET_NS = 999_999

_ONE_TRACK = 0
_MANY_TRACKS = 1
_MANY_TRACKS_MANY_CODECS = 2


@dataclass(frozen=True, slots=True)
class ModEx:
    """Where a ModEx chain leads: the packet type it ends in, the offset of the next byte, and what it said."""

    packet_type: int
    at: int
    nanosecond_offset: int | None


class TrackSpan(NamedTuple, Generic[CodecT]):
    """One track's bytes, `payload[start:end]`, before its packet type is known."""

    track_id: int
    codec: CodecT
    start: int
    end: int


def read_modex(layer: str, payload: bytes, packet_type: int) -> ModEx:
    """Walk the extensions after the first byte, if there are any.

    Extensions that we do not know, and a nanosecond offset that is too short or out of range, are skipped: the frame
    behind them is worth more than they are.
    """
    at = 1
    nanosecond_offset = None
    for _ in range(MAX_MODEX):
        if packet_type != MODEX_PACKET_TYPE:
            return ModEx(packet_type, at, nanosecond_offset)
        need_bytes(layer, payload, at, 1, "ModEx size")
        size = payload[at] + 1
        at += 1
        if size == 256:
            need_bytes(layer, payload, at, 2, "long ModEx size")
            size = int.from_bytes(payload[at : at + 2], "big") + 1
            at += 2
        need_bytes(layer, payload, at, size + 1, "ModEx data and type")
        modex_type, packet_type = payload[at + size] >> 4, payload[at + size] & 0x0F
        if modex_type == _TIMESTAMP_OFFSET_NANO and size >= 3:
            offset_ns = int.from_bytes(payload[at : at + 3], "big")
            if offset_ns <= _MAX_OFFSET_NS:
                nanosecond_offset = offset_ns
        at += size + 1
    if packet_type != MODEX_PACKET_TYPE:
        return ModEx(packet_type, at, nanosecond_offset)
    raise MalformedMedia(layer, f"more than {MAX_MODEX} ModEx extensions")


def read_single_track(
    layer: str, payload: bytes, at: int, codecs: Mapping[bytes, CodecT]
) -> tuple[TrackSpan[CodecT], ...]:
    """The plain form: a FourCC, then the packet to the end. It is track 0."""
    codec = _read_fourcc(layer, payload, at, codecs)
    return (TrackSpan(0, codec, at + 4, len(payload)),)


def read_multitrack(
    layer: str, payload: bytes, at: int, codecs: Mapping[bytes, CodecT]
) -> tuple[int, tuple[TrackSpan[CodecT], ...]]:
    """The packet type of all tracks, and each track's span. `at` is the offset of the multitrack byte."""
    need_bytes(layer, payload, at, 1, "multitrack type")
    multitrack_type, packet_type = payload[at] >> 4, payload[at] & 0x0F
    at += 1
    if multitrack_type == _ONE_TRACK:
        codec = _read_fourcc(layer, payload, at, codecs)
        need_bytes(layer, payload, at + 4, 1, "track id")
        return packet_type, (TrackSpan(payload[at + 4], codec, at + 5, len(payload)),)
    if multitrack_type == _MANY_TRACKS:
        codec = _read_fourcc(layer, payload, at, codecs)
        return packet_type, _read_spans(layer, payload, at + 4, codecs, codec)
    if multitrack_type == _MANY_TRACKS_MANY_CODECS:
        return packet_type, _read_spans(layer, payload, at, codecs, None)
    raise MalformedMedia(layer, f"unknown multitrack type {multitrack_type}")


def need_bytes(layer: str, payload: bytes, at: int, count: int, what: str) -> None:
    """Refuse a payload that ends before `count` bytes at offset `at`."""
    if len(payload) - at < count:
        raise MalformedMedia(layer, f"{what} needs {count} bytes at offset {at}, payload has {len(payload)}")


def _read_spans(
    layer: str, payload: bytes, at: int, codecs: Mapping[bytes, CodecT], shared_codec: CodecT | None
) -> tuple[TrackSpan[CodecT], ...]:
    spans: list[TrackSpan[CodecT]] = []
    while at < len(payload):
        if len(spans) == MAX_TRACKS:
            raise MalformedMedia(layer, f"more than {MAX_TRACKS} tracks in {len(payload)} bytes")
        codec = shared_codec
        if codec is None:
            codec = _read_fourcc(layer, payload, at, codecs)
            at += 4
        need_bytes(layer, payload, at, 4, "track id and size")
        track_id, size = payload[at], int.from_bytes(payload[at + 1 : at + 4], "big")
        at += 4
        need_bytes(layer, payload, at, size, f"track {track_id}")
        spans.append(TrackSpan(track_id, codec, at, at + size))
        at += size
    if not spans:
        raise MalformedMedia(layer, f"multitrack without a track in {len(payload)} bytes")
    return tuple(spans)


def _read_fourcc(layer: str, payload: bytes, at: int, codecs: Mapping[bytes, CodecT]) -> CodecT:
    need_bytes(layer, payload, at, 4, "FourCC")
    fourcc = payload[at : at + 4]
    codec = codecs.get(fourcc)
    if codec is None:
        raise MalformedMedia(layer, f"unknown FourCC {fourcc.hex()} at offset {at}")
    return codec
