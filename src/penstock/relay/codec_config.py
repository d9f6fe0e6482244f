"""Set-up in force: what a player must get before its first frame.

Owns which set-up messages hold at a point of a stream, and the metadata that a joiner gets. A value that changes by
making a new one, so that each entry point of a log can keep the set-up that held there.
"""

from dataclasses import dataclass, replace

from penstock.amf import AmfValue, EcmaArray, read_amf0_values, write_amf0_values
from penstock.errors import MalformedAmf
from penstock.media.codecs import AUDIO_CODEC_BY_FOURCC, VIDEO_CODEC_BY_FOURCC
from penstock.media.frame import Frame, FrameKind, SetupSlot
from penstock.media.packets import PacketKind
from penstock.media.tags import audio_codec_of, video_codec_of

ON_METADATA = "onMetaData"
_MAX_FRAMES = 64
_MAX_BYTES = 256 * 1024
"""Set-up is kept for as long as the stream lasts, so a publisher may not make it grow; real streams need far less."""


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """The set-up messages in force, in arrival order, and which kinds of media the stream has."""

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
    def lacks_announced_kind(self) -> bool:
        """Whether the publisher's metadata names audio or video of which nothing has come."""
        announced = self._published_metadata()
        return any(codec_id is None and announced.get(name) is not None for name, codec_id in self._codec_ids)

    @property
    def _codec_ids(self) -> tuple[tuple[str, float | None], ...]:
        return ("videocodecid", self.video_codec_id), ("audiocodecid", self.audio_codec_id)

    def with_frame(self, frame: Frame) -> "CodecConfig":
        """The set-up after a set-up message. One goes when later ones fill its every slot, or if it is too much."""
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
        """The set-up after a frame of a kind that was not there before."""
        if frame.kind is FrameKind.AUDIO:
            return replace(self, audio_codec_id=_audio_codec_id(frame.payload))
        return replace(self, video_codec_id=_video_codec_id(frame.payload))

    def without_metadata(self) -> "CodecConfig":
        """The set-up after the publisher took its metadata back."""
        return replace(self, frames=tuple(frame for frame in self.frames if frame.kind is not FrameKind.DATA))

    def joining_frames(self, timestamp_ms: int) -> list[Frame]:
        """What one who joins at this time gets first: metadata, then the rest in arrival order."""
        others = [frame._replace(timestamp_ms=timestamp_ms) for frame in self.frames if not _is_metadata(frame)]
        payload = write_amf0_values(ON_METADATA, EcmaArray(self._joining_metadata()))
        metadata = Frame(FrameKind.DATA, timestamp_ms, payload, False, True, False, ())
        return [metadata, *others]

    def _joining_metadata(self) -> dict[str, AmfValue]:
        """The publisher's metadata, corrected to name exactly the tracks there are: FFmpeg opens what it names."""
        properties = dict(self._published_metadata())
        for name, codec_id in self._codec_ids:
            if codec_id is None:
                properties.pop(name, None)
            elif not isinstance(properties.get(name), float):
                properties[name] = codec_id
        return properties

    def _published_metadata(self) -> dict[str, AmfValue]:
        for frame in self.frames:
            if _is_metadata(frame):
                try:
                    values = read_amf0_values(frame.payload)
                except MalformedAmf:
                    return {}
                return next((value for value in values if isinstance(value, dict)), {})
        return {}


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
