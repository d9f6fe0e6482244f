"""The codec configuration in force: what a player must get before its first frame.

Owns which metadata and sequence headers hold at a point of a stream, and the metadata that a joiner gets. A value that
changes by making a new one, so that each entry point of a log can keep the configuration that held there.
"""

from dataclasses import dataclass, replace

from penstock.amf import AmfLimits, AmfValue, EcmaArray, read_amf0_values, write_amf0_values
from penstock.errors import MalformedAmf
from penstock.media.codecs import AUDIO_CODEC_BY_FOURCC, VIDEO_CODEC_BY_FOURCC
from penstock.media.frame import Frame, FrameKind, SetupSlot, configures_decoder
from penstock.media.packets import PacketKind
from penstock.media.tags import audio_codec_of, video_codec_of

ON_METADATA = "onMetaData"
_MAX_FRAMES = 64
_MAX_BYTES = 256 * 1024
"""Kept for as long as the stream lasts, so a publisher may not make it grow; real streams need far less."""
_METADATA_LIMITS = AmfLimits(max_items=1000, max_repeated_bytes=4096)
"""Of metadata that is corrected for joiners. It is read on the loop, about 1 µs a value, and what references repeat is
written out for every joiner; OBS sends 20 values and no reference."""


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """The messages in force, in arrival order, and which kinds of media the stream has."""

    frames: tuple[Frame, ...] = ()
    audio_codec_id: float | None = None
    """As onMetaData gives it: the number of a legacy codec, or a FourCC read as a number. None: no audio came."""
    video_codec_id: float | None = None

    @property
    def has_one_kind(self) -> bool:
        """Whether audio came and no video, or video and no audio."""
        return (self.audio_codec_id is None) is not (self.video_codec_id is None)

    @property
    def has_metadata(self) -> bool:
        """Whether the publisher sent some."""
        return any(_is_metadata(frame) for frame in self.frames)

    @property
    def decoder_setups(self) -> dict[FrameKind, bytes]:
        """By kind, the message that configures its decoder."""
        return {frame.kind: frame.payload for frame in self.frames if configures_decoder(frame)}

    @property
    def _codec_ids(self) -> tuple[tuple[str, float | None], ...]:
        return ("videocodecid", self.video_codec_id), ("audiocodecid", self.audio_codec_id)

    def with_frame(self, frame: Frame) -> "CodecConfig":
        """The configuration after such a message. One goes if later ones fill its every slot, or if it is too much."""
        filled: set[SetupSlot] = set()
        kept: list[Frame] = []
        room_bytes = _MAX_BYTES
        for held in (frame, *reversed(self.frames)):
            if filled.issuperset(held.setup_slots):
                continue
            filled.update(held.setup_slots)
            if len(held.payload) <= room_bytes and len(kept) < _MAX_FRAMES:
                room_bytes -= len(held.payload)
                kept.append(held)
        return replace(self, frames=tuple(reversed(kept)))

    def with_media(self, frame: Frame) -> "CodecConfig":
        """The configuration after a frame of a kind that was not there before."""
        if frame.kind is FrameKind.AUDIO:
            return replace(self, audio_codec_id=_audio_codec_id(frame.payload))
        return replace(self, video_codec_id=_video_codec_id(frame.payload))

    def without_metadata(self) -> "CodecConfig":
        """The configuration after the publisher took its metadata back."""
        return replace(self, frames=tuple(frame for frame in self.frames if frame.kind is not FrameKind.DATA))

    def joining_frames(self, timestamp_ms: int) -> list[Frame]:
        """What one who joins at this time gets first: metadata, then the rest in arrival order."""
        others = [frame._replace(timestamp_ms=timestamp_ms) for frame in self.frames if not _is_metadata(frame)]
        return [self.joining_metadata(timestamp_ms), *others]

    def joining_metadata(self, timestamp_ms: int) -> Frame:
        """The publisher's metadata, corrected to name exactly the tracks there are: FFmpeg opens what it names.

        Metadata that cannot be read within its limits is passed on as it came.
        """
        published = next((frame.payload for frame in self.frames if _is_metadata(frame)), None)
        try:
            payload = write_amf0_values(ON_METADATA, EcmaArray(self._corrected(published)))
        except MalformedAmf:
            payload = published or b""
        return Frame(FrameKind.DATA, timestamp_ms, payload, False, True, False, ())

    def _corrected(self, published: bytes | None) -> dict[str, AmfValue]:
        values = [] if published is None else read_amf0_values(published, limits=_METADATA_LIMITS)
        properties = dict(next((value for value in values if isinstance(value, dict)), {}))
        for name, codec_id in self._codec_ids:
            if codec_id is None:
                properties.pop(name, None)
            elif not isinstance(properties.get(name), float):
                properties[name] = codec_id
        return properties


def _video_codec_id(payload: bytes) -> float | None:
    codec = video_codec_of(payload)
    if codec is None:
        return None
    if payload[0] & 0x80:
        return _four_cc_number(next(name for name, known in VIDEO_CODEC_BY_FOURCC.items() if known is codec))
    return float(payload[0] & 0x0F)


def _audio_codec_id(payload: bytes) -> float | None:
    codec = audio_codec_of(payload)
    if codec is None:
        return None
    if payload[0] >> 4 == 9:
        return _four_cc_number(next(name for name, known in AUDIO_CODEC_BY_FOURCC.items() if known is codec))
    return float(payload[0] >> 4)


def _four_cc_number(four_cc: bytes) -> float:
    return float(int.from_bytes(four_cc, "big"))


def _is_metadata(frame: Frame) -> bool:
    return any(slot.kind is FrameKind.DATA and slot.packet_kind is PacketKind.METADATA for slot in frame.setup_slots)
