"""Audio tags: the payload of an RTMP type 8 message, which is also the body of an FLV audio tag.

Owns the legacy header (FLV 10.1, annex E.4.2.1), the enhanced one (Enhanced RTMP v2, ExAudioTagHeader) and the
multichannel configuration. Says what the packet is and where each track's bytes are; copies and decodes no sound.

Refuses unknown codecs, packet types and multitrack types, and headers that are cut short, with `MalformedMedia`: the
message is worth dropping, the session is not. An empty payload is legal: it is an old sign for silence.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.codecs import AUDIO_CODEC_BY_FORMAT, AUDIO_CODEC_BY_FOURCC, AudioCodec
from penstock.media.enhanced import TrackSpan, need_bytes, read_modex, read_multitrack, read_single_track
from penstock.media.packets import PacketKind, TrackPacket

_LAYER: Final = "audio tag"

_ENHANCED_FORMAT = 9
_MULTITRACK = 5

_LEGACY_AAC_KINDS = {0: PacketKind.SETUP, 1: PacketKind.FRAME}

_ENHANCED_PACKET_KINDS = {
    0: PacketKind.SETUP,
    1: PacketKind.FRAME,
    2: PacketKind.END_OF_SEQUENCE,
    4: PacketKind.MULTICHANNEL_CONFIG,
}

_RATES_HZ = (5512, 11025, 22050, 44100)
# These formats have one rate whatever the rate bits say; those with one channel have it whatever the channel bit says.
_FIXED_RATE_HZ_BY_FORMAT = {4: 16000, 5: 8000, 7: 8000, 8: 8000, 11: 16000, 14: 8000}
_MONO_FORMATS = frozenset({4, 5, 11})
_NATIVE_FORMAT = 15


@dataclass(frozen=True, slots=True)
class AudioTag:
    """An audio message, understood.

    `tracks` is empty for silence only; a plain message is one packet of track 0. `sample_rate_hz` and `channels` are
    what a legacy header says, and None where it says nothing true: AAC's is always "44.1 kHz stereo".
    """

    packet_kind: PacketKind
    tracks: tuple[TrackPacket[AudioCodec], ...]
    nanosecond_offset: int | None = None
    sample_rate_hz: int | None = None
    channels: int | None = None

    @property
    def codec(self) -> AudioCodec | None:
        """Codec of the first track; None for silence."""
        return self.tracks[0].codec if self.tracks else None


class ChannelOrder(IntEnum):
    """How a multichannel configuration tells which speaker a channel is for."""

    UNSPECIFIED = 0
    NATIVE = 1
    CUSTOM = 2


@dataclass(frozen=True, slots=True)
class MultichannelConfig:
    """Speakers of one track. `speaker_mask` belongs to the native order, `speakers` (one per channel) to the custom."""

    order: ChannelOrder
    channels: int
    speaker_mask: int | None = None
    speakers: tuple[int, ...] | None = None


def read_audio_tag(payload: bytes) -> AudioTag:
    """Read an audio message."""
    if not payload:
        return AudioTag(PacketKind.SILENCE, ())
    sound_format = payload[0] >> 4
    if sound_format == _ENHANCED_FORMAT:
        return _read_enhanced(payload)
    codec = AUDIO_CODEC_BY_FORMAT.get(sound_format)
    if codec is None:
        raise MalformedMedia(_LAYER, f"unknown sound format {sound_format}")
    if codec is AudioCodec.AAC:
        need_bytes(_LAYER, payload, 1, 1, "AAC packet type")
        kind = _LEGACY_AAC_KINDS.get(payload[1])
        if kind is None:
            raise MalformedMedia(_LAYER, f"unknown AAC packet type {payload[1]}")
        return AudioTag(kind, (TrackPacket(0, codec, kind, 0, 2, len(payload)),))
    tracks = (TrackPacket(0, codec, PacketKind.FRAME, 0, 1, len(payload)),)
    if sound_format == _NATIVE_FORMAT:
        return AudioTag(PacketKind.FRAME, tracks)
    rate_hz = _FIXED_RATE_HZ_BY_FORMAT.get(sound_format, _RATES_HZ[payload[0] >> 2 & 0x03])
    channels = 1 if sound_format in _MONO_FORMATS else 1 + (payload[0] & 0x01)
    return AudioTag(PacketKind.FRAME, tracks, sample_rate_hz=rate_hz, channels=channels)


def read_multichannel_config(body: bytes) -> MultichannelConfig:
    """Read the body of a MULTICHANNEL_CONFIG packet."""
    need_bytes(_LAYER, body, 0, 2, "multichannel config")
    channels = body[1]
    try:
        order = ChannelOrder(body[0])
    except ValueError:
        raise MalformedMedia(_LAYER, f"unknown channel order {body[0]} of {channels} channels") from None
    if order is ChannelOrder.NATIVE:
        need_bytes(_LAYER, body, 2, 4, "speaker mask")
        return MultichannelConfig(order, channels, speaker_mask=int.from_bytes(body[2:6], "big"))
    if order is ChannelOrder.CUSTOM:
        need_bytes(_LAYER, body, 2, channels, "speaker map")
        return MultichannelConfig(order, channels, speakers=tuple(body[2 : 2 + channels]))
    return MultichannelConfig(order, channels)


def _read_enhanced(payload: bytes) -> AudioTag:
    modex = read_modex(_LAYER, payload, payload[0] & 0x0F)
    packet_type = modex.packet_type
    spans: tuple[TrackSpan[AudioCodec], ...]
    if packet_type == _MULTITRACK:
        packet_type, spans = read_multitrack(_LAYER, payload, modex.at, AUDIO_CODEC_BY_FOURCC)
    else:
        spans = read_single_track(_LAYER, payload, modex.at, AUDIO_CODEC_BY_FOURCC)
    kind = _ENHANCED_PACKET_KINDS.get(packet_type)
    if kind is None:
        raise MalformedMedia(_LAYER, f"unknown packet type {packet_type}")
    tracks = tuple(TrackPacket(span.track_id, span.codec, kind, 0, span.start, span.end) for span in spans)
    return AudioTag(kind, tracks, modex.nanosecond_offset)
