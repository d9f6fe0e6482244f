"""The one type that travels from the protocol to the relay, the recorder and the pipeline.

Owns `Frame` and the shortest way from a payload to the few facts that the relay needs. Those facts come from tag
headers alone (see `video_tag` and `audio_tag`): set-up records and colour info are not opened here.

The relay is transparent, so a payload that we cannot read still travels: it is flagged `is_malformed`, and is never a
key frame nor set-up, because nobody may be made to start with it.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.errors import MalformedMedia
from penstock.media.audio_tag import read_audio_tag
from penstock.media.codecs import AUDIO_CODEC_BY_FOURCC, REORDERED_CODECS, VIDEO_CODEC_BY_FOURCC, VIDEO_CODEC_BY_ID
from penstock.media.packets import PacketKind
from penstock.media.video_tag import read_video_tag


class FrameKind(IntEnum):
    """What a frame is for. The numbers are those of RTMP message types and of FLV tag types."""

    AUDIO = 8
    VIDEO = 9
    DATA = 18


class SetupSlot(NamedTuple):
    """A place in the state that a late joiner needs: the newest frame for each slot is in force.

    Both forms of decoder configuration share the slot SETUP, since a stream has one or the other.
    """

    kind: FrameKind
    track_id: int
    packet_kind: PacketKind


class Frame(NamedTuple):
    """One message of a stream.

    `timestamp_ms` does not wrap. `is_key`: a player can start its video here, on track 0. `is_setup`: decoder
    configuration, metadata, colour info or speaker layout, which every late joiner must get first; `setup_slots` says
    for which tracks.

    A named tuple made by `tuple.__new__` costs 0.14 µs, a slotted class 0.16 and a frozen dataclass 0.6: there is one
    for every message, and this one cannot be changed under the many that hold it.
    """

    kind: FrameKind
    timestamp_ms: int
    payload: bytes
    is_key: bool
    is_setup: bool
    is_malformed: bool
    setup_slots: tuple[SetupSlot, ...]


def configures_decoder(frame: Frame) -> bool:
    """Whether a frame is decoder configuration: colour info and speaker layouts, which follow it, tell no size."""
    return any(slot.packet_kind is PacketKind.SETUP for slot in frame.setup_slots)


class _Traits(NamedTuple):
    is_key: bool
    is_setup: bool
    is_malformed: bool
    setup_slots: tuple[SetupSlot, ...]


_SLOT_KINDS = {
    PacketKind.SETUP: PacketKind.SETUP,
    PacketKind.MPEG2TS_SETUP: PacketKind.SETUP,
    PacketKind.METADATA: PacketKind.METADATA,
    PacketKind.MULTICHANNEL_CONFIG: PacketKind.MULTICHANNEL_CONFIG,
}

_PLAIN = _Traits(False, False, False, ())
_MALFORMED = _Traits(False, False, True, ())
_METADATA = _Traits(False, True, False, (SetupSlot(FrameKind.DATA, 0, PacketKind.METADATA),))

# AMF0 strings. Publishers wrap their metadata in @setDataFrame; players and files have it bare.
_ON_METADATA = b"\x02\x00\x0aonMetaData"
_METADATA_PREFIXES = (_ON_METADATA, b"\x02\x00\x0d@setDataFrame" + _ON_METADATA)


def frame_of(kind: FrameKind, timestamp_ms: int, payload: bytes) -> Frame:
    """Make the frame of a message. Never fails; costs well under a microsecond for plain messages."""
    if kind == _VIDEO:
        if payload:
            known = _VIDEO_BY_HEADER.get(payload[: _VIDEO_HEADER_BYTES[payload[0]]])
            if known is not None and len(payload) >= known[0]:
                return _new_frame(Frame, (kind, timestamp_ms, payload, *known[1]))
        return _new_frame(Frame, (kind, timestamp_ms, payload, *_video_traits(payload)))
    if kind == _AUDIO:
        if payload:
            known = _AUDIO_BY_HEADER.get(payload[: _AUDIO_HEADER_BYTES[payload[0]]])
            if known is not None and len(payload) >= known[0]:
                return _new_frame(Frame, (kind, timestamp_ms, payload, *known[1]))
        return _new_frame(Frame, (kind, timestamp_ms, payload, *_audio_traits(payload)))
    traits = _METADATA if payload.startswith(_METADATA_PREFIXES) else _PLAIN
    return _new_frame(Frame, (kind, timestamp_ms, payload, *traits))


def _video_traits(payload: bytes) -> _Traits:
    try:
        tag = read_video_tag(payload)
    except MalformedMedia:
        return _MALFORMED
    slots = _slots(FrameKind.VIDEO, tag.packet_kind, (track.track_id for track in tag.tracks))
    return _Traits(tag.is_key, bool(slots), False, slots)


def _audio_traits(payload: bytes) -> _Traits:
    try:
        tag = read_audio_tag(payload)
    except MalformedMedia:
        return _MALFORMED
    slots = _slots(FrameKind.AUDIO, tag.packet_kind, (track.track_id for track in tag.tracks))
    return _Traits(False, bool(slots), False, slots)


def _slots(kind: FrameKind, packet_kind: PacketKind, track_ids: Iterable[int]) -> tuple[SetupSlot, ...]:
    slot_kind = _SLOT_KINDS.get(packet_kind)
    if slot_kind is None:
        return ()
    return tuple(SetupSlot(kind, track_id, slot_kind) for track_id in track_ids)


# Plain messages are told by a header of one, two or five bytes. The tables below hold what the full readers say of each
# such header, with the number of bytes from which on they say it, so that the two ways cannot disagree.
_Known = tuple[int, _Traits]
_LONGEST_HEADER_BYTES: Final = 8


def _known_headers(headers: Iterable[bytes], traits_of: Callable[[bytes], _Traits]) -> dict[bytes, _Known]:
    known: dict[bytes, _Known] = {}
    for header in headers:
        for size in range(len(header), _LONGEST_HEADER_BYTES + 1):
            traits = traits_of(header.ljust(size, b"\x00"))
            if not traits.is_malformed:
                known[header] = (size, traits)
                break
    return known


def _video_headers() -> Iterable[bytes]:
    # Frame type bits 1 to 4 only: with the others the first byte does not decide what the frame is.
    for frame_bits in range(1, 5):
        for codec_id, codec in VIDEO_CODEC_BY_ID.items():
            first = bytes((frame_bits << 4 | codec_id,))
            if codec in REORDERED_CODECS:
                yield from (first + bytes((packet_type,)) for packet_type in range(3))
            else:
                yield first
        for packet_type in range(6):
            first = bytes((0x80 | frame_bits << 4 | packet_type,))
            yield from (first + fourcc for fourcc in VIDEO_CODEC_BY_FOURCC)


def _audio_headers() -> Iterable[bytes]:
    for first in range(256):
        if first >> 4 == 10:
            yield from (bytes((first, packet_type)) for packet_type in range(2))
        elif first >> 4 == 9 and first & 0x0F < 5:
            yield from (bytes((first,)) + fourcc for fourcc in AUDIO_CODEC_BY_FOURCC)
        elif first >> 4 != 9:
            yield bytes((first,))


def _header_bytes(headers: Iterable[bytes]) -> bytes:
    sizes = bytearray(256)
    for header in headers:
        sizes[header[0]] = len(header)
    return bytes(sizes)


_VIDEO: Final = FrameKind.VIDEO
_AUDIO: Final = FrameKind.AUDIO
_VIDEO_BY_HEADER: Final = _known_headers(_video_headers(), _video_traits)
_AUDIO_BY_HEADER: Final = _known_headers(_audio_headers(), _audio_traits)
_VIDEO_HEADER_BYTES: Final = _header_bytes(_VIDEO_BY_HEADER)
_AUDIO_HEADER_BYTES: Final = _header_bytes(_AUDIO_BY_HEADER)
_new_frame: Final = tuple.__new__
