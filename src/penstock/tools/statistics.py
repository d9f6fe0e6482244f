"""What a stream is like, told from its frames: tracks, codecs, rates, key frames, gaps, and how far sound is off.

Owns the figures that play and probe show. Opens set-up records to name a track, and no coded picture or sound. Bounded:
no frame is kept, and a stream has at most 256 tracks of each kind, as track ids are bytes.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Final

from penstock.amf import AmfValue
from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.describe import audio_text, read_audio_setup, read_video_setup, video_text
from penstock.media.flv_metadata import read_flv_metadata
from penstock.media.frame import Frame, FrameKind
from penstock.media.packets import PacketKind, TrackPacket
from penstock.media.setup_record import AudioSetup, VideoSetup
from penstock.media.tags import AudioTag, Picture, VideoTag, read_audio_tag, read_video_tag

# A step is a gap when it is so many times the usual one, and long enough to be seen or heard.
_GAP_FACTOR: Final = 4
_LEAST_GAP_MS: Final = 200


@dataclass(slots=True)
class TrackStatistics:
    """One track. Times are of decoding, in milliseconds; the last frame is taken to be as long as the usual one."""

    kind: FrameKind
    track_id: int
    codec: str
    text: str
    width_px: int | None = None
    height_px: int | None = None
    sample_rate_hz: int | None = None
    channels: int | None = None
    frames: int = 0
    media_bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    keyframes: int = 0
    keyframe_interval_max_ms: int | None = None
    gaps: int = 0
    gap_max_ms: int | None = None
    steps_back: int = 0
    _previous_ms: int | None = None
    _first_key_ms: int | None = None
    _last_key_ms: int | None = None

    @property
    def duration_ms(self) -> float | None:
        """How long the track lasts; None before its second frame."""
        if self.first_ms is None or self.last_ms is None or self.frames < 2 or self.last_ms <= self.first_ms:
            return None
        return (self.last_ms - self.first_ms) * self.frames / (self.frames - 1)

    @property
    def frames_per_second(self) -> float | None:
        return None if self.duration_ms is None else self.frames * 1000 / self.duration_ms

    @property
    def bits_per_second(self) -> float | None:
        return None if self.duration_ms is None else self.media_bytes * 8000 / self.duration_ms

    @property
    def keyframe_interval_ms(self) -> float | None:
        """The mean; None before the second key frame."""
        if self._first_key_ms is None or self._last_key_ms is None or self.keyframes < 2:
            return None
        return (self._last_key_ms - self._first_key_ms) / (self.keyframes - 1)

    def add_frame(self, timestamp_ms: int, size_bytes: int) -> None:
        """Count one coded frame."""
        if self._previous_ms is not None:
            self._add_step(timestamp_ms - self._previous_ms)
        self._previous_ms = timestamp_ms
        self.first_ms = timestamp_ms if self.first_ms is None else min(self.first_ms, timestamp_ms)
        self.last_ms = timestamp_ms if self.last_ms is None else max(self.last_ms, timestamp_ms)
        self.frames += 1
        self.media_bytes += size_bytes

    def add_keyframe(self, timestamp_ms: int) -> None:
        """Count a frame, already counted, as a key frame."""
        if self._last_key_ms is not None:
            interval_ms = timestamp_ms - self._last_key_ms
            self.keyframe_interval_max_ms = max(self.keyframe_interval_max_ms or 0, interval_ms)
        else:
            self._first_key_ms = timestamp_ms
        self._last_key_ms = timestamp_ms
        self.keyframes += 1

    def _add_step(self, step_ms: int) -> None:
        if step_ms < 0:
            self.steps_back += 1
        usual_ms = None if self.duration_ms is None else self.duration_ms / self.frames
        if usual_ms is not None and step_ms >= max(_GAP_FACTOR * usual_ms, _LEAST_GAP_MS):
            self.gaps += 1
            self.gap_max_ms = max(self.gap_max_ms or 0, step_ms)


@dataclass(slots=True)
class StreamStatistics:
    """All tracks of a stream, in the order in which they came, and its newest metadata."""

    tracks: dict[tuple[FrameKind, int], TrackStatistics] = field(default_factory=dict)
    metadata: dict[str, AmfValue] | None = None
    messages: int = 0
    payload_bytes: int = 0
    malformed_messages: int = 0
    skew_max_ms: int | None = None

    @property
    def skew_ms(self) -> int | None:
        """How far the newest picture is ahead of the newest sound, on track 0; None while one of them is missing."""
        last_ms = [
            track.last_ms
            for kind in (FrameKind.VIDEO, FrameKind.AUDIO)
            if (track := self.tracks.get((kind, 0))) is not None and track.last_ms is not None
        ]
        return last_ms[0] - last_ms[1] if len(last_ms) == 2 else None

    @property
    def duration_ms(self) -> int | None:
        """From the first to the last coded frame of any track."""
        timed = [each for each in self.tracks.values() if each.first_ms is not None and each.last_ms is not None]
        if not timed:
            return None
        return max(each.last_ms or 0 for each in timed) - min(each.first_ms or 0 for each in timed)

    def add(self, frame: Frame) -> None:
        """Count one frame."""
        self.messages += 1
        self.payload_bytes += len(frame.payload)
        if frame.kind is FrameKind.DATA:
            self._add_data(frame)
            return
        try:
            tag = read_video_tag(frame.payload) if frame.kind is FrameKind.VIDEO else read_audio_tag(frame.payload)
        except MalformedMedia:
            self.malformed_messages += 1
            return
        for packet in tag.tracks:
            self._add_packet(frame, tag, packet)
        skew_ms = self.skew_ms
        if skew_ms is not None and abs(skew_ms) > abs(self.skew_max_ms or 0):
            self.skew_max_ms = skew_ms

    def _add_data(self, frame: Frame) -> None:
        if not frame.is_setup:
            return
        match read_flv_metadata(frame.payload):
            case (_, dict(properties)):
                self.metadata = properties
            case _:
                self.malformed_messages += 1

    def _add_packet(
        self, frame: Frame, tag: VideoTag | AudioTag, packet: TrackPacket[VideoCodec] | TrackPacket[AudioCodec]
    ) -> None:
        key = (frame.kind, packet.track_id)
        track = self.tracks.get(key)
        if track is None or track.codec != packet.codec.label:
            track = self.tracks[key] = _new_track(frame.kind, tag, packet)
        if packet.packet_kind is PacketKind.SETUP:
            _read_setup(track, packet.codec, frame.payload[packet.body_start : packet.body_end])
        elif packet.packet_kind is PacketKind.FRAME:
            track.add_frame(frame.timestamp_ms, packet.body_end - packet.body_start)
            if isinstance(tag, VideoTag) and tag.picture in (Picture.KEY, Picture.GENERATED_KEY):
                track.add_keyframe(frame.timestamp_ms)


def _new_track(
    kind: FrameKind, tag: VideoTag | AudioTag, packet: TrackPacket[VideoCodec] | TrackPacket[AudioCodec]
) -> TrackStatistics:
    track = TrackStatistics(kind, packet.track_id, packet.codec.label, packet.codec.label)
    if isinstance(tag, AudioTag) and isinstance(packet.codec, AudioCodec):
        # Codecs without a set-up record tell these in the header of each frame.
        _name(track, AudioSetup(packet.codec, sample_rate_hz=tag.sample_rate_hz, channels=tag.channels))
    return track


def _read_setup(track: TrackStatistics, codec: VideoCodec | AudioCodec, record: bytes) -> None:
    # A damaged record leaves the track its codec's name.
    with contextlib.suppress(MalformedMedia):
        if isinstance(codec, VideoCodec):
            _name(track, read_video_setup(codec, record))
        else:
            _name(track, read_audio_setup(codec, record))


def _name(track: TrackStatistics, setup: VideoSetup | AudioSetup) -> None:
    if isinstance(setup, VideoSetup):
        track.text, track.width_px, track.height_px = video_text(setup), setup.width_px, setup.height_px
    else:
        track.text, track.sample_rate_hz, track.channels = audio_text(setup), setup.sample_rate_hz, setup.channels
