"""Video tags: the payload of an RTMP type 9 message, which is also the body of an FLV video tag.

Owns the legacy header (FLV 10.1, annex E.4.3.1) and the enhanced one (Enhanced RTMP v2, ExVideoTagHeader). Says what
the packet is and where each track's bytes are; copies no media bytes. Reads frame headers only to find out whether a
picture is a key picture when the tag does not say so.

Refuses unknown codecs, packet types and multitrack types, and headers that are cut short, with `MalformedMedia`: the
message is worth dropping, the session is not.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.codecs import REORDERED_CODECS, VIDEO_CODEC_BY_FOURCC, VIDEO_CODEC_BY_ID, VideoCodec
from penstock.media.enhanced import (
    TrackSpan,
    need_bytes,
    read_modex,
    read_multitrack,
    read_single_track,
)
from penstock.media.packets import PacketKind, TrackPacket, read_si24
from penstock.media.random_access import is_random_access

_LAYER: Final = "video tag"

_COMMAND_BITS = 5
_CODED_FRAMES = 1
_METADATA = 4
_MULTITRACK = 6


class Picture(Enum):
    """What the picture needs to be decoded, by the frame type bits or by the bitstream."""

    KEY = "key"
    INTER = "inter"
    DISPOSABLE = "disposable"
    GENERATED_KEY = "generated key"


class VideoCommand(IntEnum):
    """What a command frame asks of the player."""

    SEEK_STARTS = 0
    SEEK_ENDS = 1


@dataclass(frozen=True, slots=True)
class VideoTag:
    """A video message, understood.

    `picture` is None where there is no picture to speak of (set-up, metadata, commands) and where neither the tag nor
    the bitstream tells. `tracks` is empty for commands only; a plain message is one packet of track 0.
    """

    packet_kind: PacketKind
    picture: Picture | None
    tracks: tuple[TrackPacket[VideoCodec], ...]
    nanosecond_offset: int | None = None
    command: VideoCommand | None = None

    @property
    def codec(self) -> VideoCodec | None:
        """Codec of the first track; None for a command, whatever codec its first byte names."""
        return self.tracks[0].codec if self.tracks else None

    @property
    def composition_time_ms(self) -> int:
        """Composition time of the first track; 0 for a command."""
        return self.tracks[0].composition_time_ms if self.tracks else 0

    @property
    def is_key(self) -> bool:
        """Whether a player can start here: a key picture on track 0, the default track."""
        return (self.picture is Picture.KEY or self.picture is Picture.GENERATED_KEY) and any(
            track.track_id == 0 for track in self.tracks
        )


_PICTURE_BY_BITS = {1: Picture.KEY, 2: Picture.INTER, 3: Picture.DISPOSABLE, 4: Picture.GENERATED_KEY}

_LEGACY_PACKET_KINDS = {0: PacketKind.SETUP, 1: PacketKind.FRAME, 2: PacketKind.END_OF_SEQUENCE}

_ENHANCED_PACKET_KINDS = {
    0: PacketKind.SETUP,
    1: PacketKind.FRAME,
    2: PacketKind.END_OF_SEQUENCE,
    3: PacketKind.FRAME,
    4: PacketKind.METADATA,
    5: PacketKind.MPEG2TS_SETUP,
}


def read_video_tag(payload: bytes, nal_length_size: int = 4) -> VideoTag:
    """Read a video message. `nal_length_size` is what the decoder configuration says; nearly all say 4."""
    if not payload:
        raise MalformedMedia(_LAYER, "empty payload")
    if payload[0] & 0x80:
        return _read_enhanced(payload, nal_length_size)
    return _read_legacy(payload, nal_length_size)


def _read_legacy(payload: bytes, nal_length_size: int) -> VideoTag:
    frame_bits, codec_id = payload[0] >> 4, payload[0] & 0x0F
    codec = VIDEO_CODEC_BY_ID.get(codec_id)
    if codec is None:
        raise MalformedMedia(_LAYER, f"unknown codec id {codec_id}")
    if frame_bits == _COMMAND_BITS:
        # AVC's packet type and composition time come first by the FLV specification; short commands leave them out.
        at = 5 if codec in REORDERED_CODECS and len(payload) > 5 else 1
        return _read_command(payload, at, None)
    if codec not in REORDERED_CODECS:
        packet = TrackPacket(0, codec, PacketKind.FRAME, 0, 1, len(payload))
        return VideoTag(PacketKind.FRAME, _picture_of(payload, frame_bits, (packet,), nal_length_size), (packet,))

    need_bytes(_LAYER, payload, 1, 1, "packet type")
    kind = _LEGACY_PACKET_KINDS.get(payload[1])
    if kind is None:
        raise MalformedMedia(_LAYER, f"unknown packet type {payload[1]} of {codec.label}")
    if kind is PacketKind.END_OF_SEQUENCE:
        # Some encoders leave the meaningless composition time out here.
        end = TrackPacket(0, codec, kind, 0, min(5, len(payload)), len(payload))
        return VideoTag(kind, None, (end,))
    need_bytes(_LAYER, payload, 2, 3, "composition time")
    packet = TrackPacket(0, codec, kind, read_si24(payload, 2), 5, len(payload))
    picture = None
    if kind is PacketKind.FRAME:
        picture = _picture_of(payload, frame_bits, (packet,), nal_length_size)
    return VideoTag(kind, picture, (packet,))


def _read_enhanced(payload: bytes, nal_length_size: int) -> VideoTag:
    frame_bits = payload[0] >> 4 & 0x07
    modex = read_modex(_LAYER, payload, payload[0] & 0x0F)
    if frame_bits == _COMMAND_BITS and not _is_metadata(payload, modex.packet_type, modex.at):
        return _read_command(payload, modex.at, modex.nanosecond_offset)

    packet_type = modex.packet_type
    spans: tuple[TrackSpan[VideoCodec], ...]
    if packet_type == _MULTITRACK:
        packet_type, spans = read_multitrack(_LAYER, payload, modex.at, VIDEO_CODEC_BY_FOURCC)
    else:
        spans = read_single_track(_LAYER, payload, modex.at, VIDEO_CODEC_BY_FOURCC)
    kind = _ENHANCED_PACKET_KINDS.get(packet_type)
    if kind is None:
        raise MalformedMedia(_LAYER, f"unknown packet type {packet_type}")
    tracks = tuple(_packet_of(payload, span, packet_type, kind) for span in spans)
    picture = None
    if kind is PacketKind.FRAME:
        picture = _picture_of(payload, frame_bits, tracks, nal_length_size)
    return VideoTag(kind, picture, tracks, modex.nanosecond_offset)


def _is_metadata(payload: bytes, packet_type: int, at: int) -> bool:
    """Frame type 5 means nothing on metadata, also when it is wrapped for one track, since a command is one byte."""
    if packet_type == _MULTITRACK and len(payload) > at + 1:
        return payload[at] & 0x0F == _METADATA
    return packet_type == _METADATA


def _read_command(payload: bytes, at: int, nanosecond_offset: int | None) -> VideoTag:
    need_bytes(_LAYER, payload, at, 1, "command")
    try:
        command = VideoCommand(payload[at])
    except ValueError:
        raise MalformedMedia(_LAYER, f"unknown command {payload[at]}") from None
    return VideoTag(PacketKind.COMMAND, None, (), nanosecond_offset, command)


def _packet_of(
    payload: bytes, span: TrackSpan[VideoCodec], packet_type: int, kind: PacketKind
) -> TrackPacket[VideoCodec]:
    if packet_type != _CODED_FRAMES or span.codec not in REORDERED_CODECS:
        return TrackPacket(span.track_id, span.codec, kind, 0, span.start, span.end)
    if span.end - span.start < 3:
        raise MalformedMedia(_LAYER, f"composition time of track {span.track_id} in {span.end - span.start} bytes")
    offset_ms = read_si24(payload, span.start)
    return TrackPacket(span.track_id, span.codec, kind, offset_ms, span.start + 3, span.end)


def _picture_of(
    payload: bytes, frame_bits: int, tracks: tuple[TrackPacket[VideoCodec], ...], nal_length_size: int
) -> Picture | None:
    picture = _PICTURE_BY_BITS.get(frame_bits)
    if picture is not None:
        return picture
    # MediaMTX sends 0 for every picture: then only the bitstream knows, and of the tracks the default one counts.
    track = next((track for track in tracks if track.track_id == 0), tracks[0])
    is_key = is_random_access(track.codec, payload, track.body_start, track.body_end, nal_length_size)
    if is_key is None:
        return None
    return Picture.KEY if is_key else Picture.INTER
