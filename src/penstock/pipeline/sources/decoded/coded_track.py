"""The coded frames of one track of a recording, by a walk over headers: where each lies and when it is shown.

Owns the list that decoding starts from. It holds no payloads, so a whole part of a file fits into memory; a payload is
read when a decoder needs it. If a part begins inside its file, the codec configuration is taken from the beginning of
the file: a recording has only one, since the recorder starts another file when it changes.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from av.codec.context import CodecContext
from av.packet import Packet
from av.stream import Stream
from numpy.typing import NDArray

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.flv import TAG_HEADER_BYTES, VIDEO_TAG
from penstock.media.tags import read_audio_tag, read_video_tag
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.plan import FlvPart
from penstock.pipeline.sources.flv.tag_traits import CODECS, ROLES, Traits, traits_of
from penstock.pipeline.sources.flv.walk import Damage, Longs, Tags, Walk

DecoderT = TypeVar("DecoderT", bound=CodecContext)

_CONFIG: Final = ROLES.index("config")
_FRAME: Final = ROLES.index("frame")
# The codec configuration is among the first tags of a file, or the file has none.
_CONFIG_BYTES: Final = 4 * 1024 * 1024

_DECODERS: Final[dict[VideoCodec | AudioCodec, str]] = {
    VideoCodec.SORENSON_H263: "flv",
    VideoCodec.VP6: "vp6f",
    VideoCodec.VP6_ALPHA: "vp6a",
    VideoCodec.AVC: "h264",
    VideoCodec.HEVC: "hevc",
    # FFmpeg's own decoder of AV1 needs special hardware.
    VideoCodec.AV1: "libdav1d",
    VideoCodec.VP9: "vp9",
    VideoCodec.VP8: "vp8",
    AudioCodec.MP3: "mp3",
    AudioCodec.AAC: "aac",
    AudioCodec.OPUS: "opus",
    AudioCodec.FLAC: "flac",
    AudioCodec.AC3: "ac3",
    AudioCodec.EAC3: "eac3",
}


@dataclass(frozen=True, slots=True)
class CodedTrack:
    """Track 0 of one kind: its frames in the order of the file, and its codec configuration."""

    kind: int
    codec: VideoCodec | AudioCodec | None
    config: bytes | None
    offsets: Longs
    sizes: Longs
    dts_ms: Longs
    pts_ms: Longs
    is_key: NDArray[np.bool_]
    damage: tuple[Damage, ...]

    def __len__(self) -> int:
        return len(self.offsets)

    def packet(self, file: OpenFile, index: int) -> "Packet[Stream]":
        """One frame as a decoder wants it. Raises MalformedMedia and the file's OSError."""
        payload = file.read_at(int(self.offsets[index]) + TAG_HEADER_BYTES, int(self.sizes[index]))
        packet: Packet[Stream] = Packet(_body_of(self.kind, payload))
        packet.dts, packet.pts = int(self.dts_ms[index]), int(self.pts_ms[index])
        return packet

    def decoder(self, kind: type[DecoderT]) -> DecoderT:
        """A fresh decoder of sound or pictures. Raises MalformedMedia where there is none for the codec."""
        name = None if self.codec is None else _DECODERS.get(self.codec)
        if name is None:
            raise MalformedMedia("decoder", f"none for {self.codec.label if self.codec else 'a track without frames'}")
        decoder = CodecContext.create(name, "r")
        if not isinstance(decoder, kind):
            raise MalformedMedia("decoder", f"{name} is none of {kind.__name__}")
        if self.config is not None:
            decoder.extradata = self.config
        # A task has one core. Errors must not be concealed by the decoder: they become rows.
        decoder.thread_count = 1
        decoder.options = {"err_detect": "explode"}
        return decoder


def read_track(file: OpenFile, part: FlvPart, kind: int) -> CodedTrack:
    """The frames of track 0 that begin in a part of a file."""
    pieces: list[tuple[Longs, Longs, Longs, Longs, NDArray[np.bool_]]] = []
    damage: list[Damage] = []
    codec: VideoCodec | AudioCodec | None = None
    config = _config_before(file, part.start, kind) if part.start > 0 else None
    for found in Walk(file, part.start, part.end).run():
        if isinstance(found, Damage):
            damage.append(found)
            continue
        tags, traits = _of_track(found, kind)
        config = config or _first_config(tags, traits, kind)
        is_frame = traits.roles == _FRAME
        if codec is None and is_frame.any():
            codec = _CODEC_BY_LABEL[str(CODECS[int(traits.codecs[np.argmax(is_frame)])])]
        dts_ms = tags.times_ms[is_frame]
        pts_ms = dts_ms + traits.composition_times_ms[is_frame]
        pieces.append((tags.offsets[is_frame], tags.sizes[is_frame], dts_ms, pts_ms, traits.is_key[is_frame]))
    empty = np.zeros(0, np.int64)
    pieces.append((empty, empty, empty, empty, np.zeros(0, np.bool_)))
    offsets, sizes, dts, pts, is_key = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return CodedTrack(kind, codec, config, offsets, sizes, dts, pts, is_key.astype(np.bool_), tuple(damage))


_CODEC_BY_LABEL: Final[dict[str, VideoCodec | AudioCodec]] = {
    codec.label: codec for codec in (*VideoCodec, *AudioCodec)
}


def _of_track(tags: Tags, kind: int) -> tuple[Tags, Traits]:
    tags = tags.kept(tags.kinds == kind)
    traits = traits_of(tags.kinds, tags.starts, tags.sizes, tags.payload)
    is_first = traits.tracks == 0
    if is_first.all():
        return tags, traits
    tags = tags.kept(is_first)
    return tags, traits_of(tags.kinds, tags.starts, tags.sizes, tags.payload)


def _config_before(file: OpenFile, end: int, kind: int) -> bytes | None:
    for found in Walk(file, 0, min(end, _CONFIG_BYTES)).run():
        if isinstance(found, Tags):
            tags, traits = _of_track(found, kind)
            config = _first_config(tags, traits, kind)
            if config is not None:
                return config
    return None


def _first_config(tags: Tags, traits: Traits, kind: int) -> bytes | None:
    for row in np.flatnonzero(traits.roles == _CONFIG).tolist():
        try:
            return _body_of(kind, tags.payload(row))
        except MalformedMedia:
            continue
    return None


def _body_of(kind: int, payload: bytes) -> bytes:
    tracks = (read_video_tag(payload) if kind == VIDEO_TAG else read_audio_tag(payload)).tracks
    for track in tracks:
        if track.track_id == 0:
            return payload[track.body_start : track.body_end]
    raise MalformedMedia("decoder", f"no bytes of track 0 in a payload of {len(payload)}")
