"""Which tracks of a stream are packaged, by its codec configuration and first frames.

Owns the choice: track 0 of each kind, if MP4 carries its codec. All else is named with the reason.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.fmp4_init import init_segment
from penstock.media.fmp4_tracks import LeftOut, Mp4Track, audio_track, video_track
from penstock.media.frame import Frame, FrameKind
from penstock.media.packets import PacketKind, TrackPacket
from penstock.media.tags import AudioTag, VideoTag, read_audio_tag, read_video_tag
from penstock.relay.codec_config import CodecConfig
from penstock.relay.packaging.parts import Init

_NAME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class FirstFrame:
    """The first frame of a kind in a segment: its codec and its bytes, which tell what set-up leaves out."""

    codec: VideoCodec | AudioCodec
    body: bytes


def read_tag(kind: FrameKind, payload: bytes) -> VideoTag | AudioTag | None:
    """What an audio or video message holds; None if it cannot be read."""
    try:
        return read_video_tag(payload) if kind is FrameKind.VIDEO else read_audio_tag(payload)
    except MalformedMedia:
        return None


def default_track(tag: VideoTag | AudioTag) -> TrackPacket[VideoCodec] | TrackPacket[AudioCodec] | None:
    """Track 0 of a message."""
    return next((track for track in tag.tracks if track.track_id == 0), None)


def setup_in_force(config: CodecConfig, kind: FrameKind) -> Frame | None:
    """The message that set up track 0 of a kind."""
    wanted = (kind, 0, PacketKind.SETUP)
    return next((frame for frame in reversed(config.frames) if wanted in frame.setup_slots), None)


def has_empty_setup(config: CodecConfig, kind: FrameKind) -> bool:
    """Whether the set-up in force says nothing, since the encoder did not know it yet."""
    frame = setup_in_force(config, kind)
    return frame is None or _record_of(frame)[1] == b""


class ChosenTracks(NamedTuple):
    """The tracks of a segment, its init segment (None if there is no track), and what is not in it."""

    tracks: Mapping[FrameKind, Mp4Track]
    init: Init | None
    left_out: tuple[LeftOut, ...]


def choose_tracks(config: CodecConfig, firsts: Mapping[FrameKind, FirstFrame]) -> ChosenTracks:
    """What a segment consists of, by the configuration at its start and the frames of its first part."""
    tracks: dict[FrameKind, Mp4Track] = {}
    left_out = _other_tracks(config)
    for kind in (FrameKind.VIDEO, FrameKind.AUDIO):
        found = _track_of(kind, config, firsts.get(kind))
        if isinstance(found, Mp4Track):
            tracks[kind] = found
        elif found is not None:
            left_out.append(found)
    if not tracks:
        return ChosenTracks(tracks, None, tuple(left_out))
    data = init_segment(list(tracks.values()))
    picture = tracks.get(FrameKind.VIDEO)
    init = Init(
        hashlib.sha256(data).hexdigest()[: 2 * _NAME_BYTES],
        data,
        tuple(track.codec_string for track in tracks.values()),
        picture.width_px if picture else None,
        picture.height_px if picture else None,
    )
    return ChosenTracks(tracks, init, tuple(left_out))


def _track_of(kind: FrameKind, config: CodecConfig, first: FirstFrame | None) -> Mp4Track | LeftOut | None:
    setup = setup_in_force(config, kind)
    codec, record = _record_of(setup) if setup is not None else (None, b"")
    if codec is None and first is not None:
        codec = first.codec
    body = first.body if first is not None and first.codec is codec else b""
    if isinstance(codec, VideoCodec):
        return video_track(codec, record, body)
    if isinstance(codec, AudioCodec):
        # Announced by an empty set-up and yet to come: there is nothing to leave out.
        return None if not record and not body and codec is not AudioCodec.AAC else audio_track(codec, record, body)
    return None


def _record_of(frame: Frame) -> tuple[VideoCodec | AudioCodec | None, bytes]:
    tag = read_tag(frame.kind, frame.payload)
    track = None if tag is None else default_track(tag)
    if track is None:
        return None, b""
    return track.codec, frame.payload[track.body_start : track.body_end]


def _other_tracks(config: CodecConfig) -> list[LeftOut]:
    others = sorted(
        {
            (slot.kind, slot.track_id)
            for frame in config.frames
            for slot in frame.setup_slots
            if slot.track_id and slot.packet_kind is PacketKind.SETUP
        }
    )
    return [LeftOut(f"{kind.name.lower()} track {track_id}", "only track 0 is packaged") for kind, track_id in others]
