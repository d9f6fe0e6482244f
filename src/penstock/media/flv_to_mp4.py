"""Tags of a recording to fragmented MP4, for players that take no FLV.

Owns where fragments begin (at key frames, and within a long group of pictures by time and size, so that memory is
bounded) and their time, which begins at 0 with the first frame that is taken. The init segment comes with the first
fragment, since some codecs say in their frames what players have to know before. Track 0 of each kind is carried; a
recording whose decoder configuration becomes another one ends there, since an init segment holds to the end. Opens no
file: tags come in, bytes go out.
"""

from collections.abc import Sequence
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.flv import AUDIO_TAG, VIDEO_TAG, FlvTag, unwrap_timestamp
from penstock.media.fmp4_fragment import Sample, TrackRun, fragment_head
from penstock.media.fmp4_init import init_segment
from penstock.media.fmp4_tracks import LeftOut, Mp4Track, audio_track, video_track
from penstock.media.packets import PacketKind
from penstock.media.tags import AudioTag, VideoTag, read_audio_tag, read_video_tag

MAX_FRAGMENT_MS: Final = 2000
MAX_FRAGMENT_BYTES: Final = 2 * 1024 * 1024
_MIN_FRAGMENT_MS: Final = 250
"""Where every picture is a key frame, a fragment for each would be boxes for the most part."""
_LONE_SAMPLE_MS: Final = 20
_KINDS: Final = (VIDEO_TAG, AUDIO_TAG)

Codec = VideoCodec | AudioCodec


class _Track:
    """What is known of one kind, and what waits for its fragment to end."""

    def __init__(self) -> None:
        self.codec: Codec | None = None
        self.record = b""
        self.first_body = b""
        self.last_ms: int | None = None
        self.samples: list[Sample] = []
        self.bodies: list[bytes] = []

    def run(self, track_id: int, next_ms: int | None) -> TrackRun:
        """What waits; `next_ms` is the time of the sample behind it, where that is known."""
        times_ms = [sample.timestamp_ms for sample in self.samples]
        if next_ms is None:
            span_ms = times_ms[-1] - times_ms[0]
            mean_ms = max(1, round(span_ms / (len(times_ms) - 1))) if span_ms > 0 else _LONE_SAMPLE_MS
            next_ms = times_ms[-1] + mean_ms
        return TrackRun(track_id, self.samples, next_ms)


class FlvToMp4:
    """One recording, from some place on."""

    def __init__(self) -> None:
        self._tracks = {kind: _Track() for kind in _KINDS}
        self._chosen: dict[int, Mp4Track] | None = None
        self._base_ms: int | None = None
        self._fragment_ms = 0
        """When the fragment that is being gathered begins."""
        self._fragment_bytes = 0
        self._sequence = 0
        self.is_over = False
        """Whether nothing more comes, whatever is given."""

    def set_up(self, tag: FlvTag) -> None:
        """Heed decoder configuration from before the place at which the frames begin."""
        parsed = _read(tag)
        if parsed is not None and parsed.packet_kind is PacketKind.SETUP:
            self.take(tag)

    def take(self, tag: FlvTag) -> bytes:
        """The bytes that a tag completes; mostly none. MalformedMedia: nothing of it can be carried."""
        parsed = None if self.is_over else _read(tag)
        packet = None if parsed is None else next((each for each in parsed.tracks if each.track_id == 0), None)
        if parsed is None or packet is None:
            return b""
        track, body = self._tracks[tag.kind], tag.payload[packet.body_start : packet.body_end]
        if parsed.packet_kind is PacketKind.SETUP:
            return self._see_setup(track, packet.codec, body)
        if parsed.packet_kind is not PacketKind.FRAME or not body or track.codec not in (None, packet.codec):
            return b""
        is_picture = isinstance(parsed, VideoTag)
        is_key = not is_picture or (isinstance(parsed, VideoTag) and parsed.is_key)
        if not track.first_body:
            if not is_key:
                return b""  # nothing can be decoded before a key frame
            track.codec, track.first_body = packet.codec, body
        elif self._chosen is not None and tag.kind not in self._chosen:
            return b""
        time_ms = self._time_of(track, tag.timestamp_ms)
        out = b""
        if self._is_due(time_ms, is_key_picture=is_picture and is_key):
            out = self._close(tag.kind, time_ms)
            self._fragment_ms = time_ms
        track.samples.append(Sample(time_ms, len(body), packet.composition_time_ms, is_key))
        track.bodies.append(body)
        self._fragment_bytes += len(body)
        return out

    def finish(self) -> bytes:
        """What is left. MalformedMedia: there was nothing that could be carried."""
        self.is_over = True
        return self._close(None, None)

    def _see_setup(self, track: _Track, codec: Codec, record: bytes) -> bytes:
        if self._chosen is None or (not track.record and not track.samples and not track.first_body):
            # An encoder may send an empty one first.
            track.codec, track.record = codec, record or track.record
            return b""
        return self.finish() if record and (codec, record) != (track.codec, track.record) else b""

    def _time_of(self, track: _Track, timestamp_ms: int) -> int:
        if self._base_ms is None:
            self._base_ms = timestamp_ms
        near_ms = self._base_ms if track.last_ms is None else track.last_ms
        track.last_ms = unwrap_timestamp(near_ms, timestamp_ms)
        return max(0, track.last_ms - self._base_ms)

    def _is_due(self, time_ms: int, *, is_key_picture: bool) -> bool:
        length_ms = time_ms - self._fragment_ms
        if not self._fragment_bytes:
            return False
        if is_key_picture and length_ms >= _MIN_FRAGMENT_MS:
            return True
        return length_ms >= MAX_FRAGMENT_MS or self._fragment_bytes >= MAX_FRAGMENT_BYTES

    def _close(self, next_kind: int | None, next_ms: int | None) -> bytes:
        init = b""
        if self._chosen is None:
            self._chosen = self._choose()
            init = init_segment(list(self._chosen.values()))
        runs, bodies = [], []
        for kind, mp4_track in self._chosen.items():
            track = self._tracks[kind]
            if track.samples:
                runs.append(track.run(mp4_track.track_id, next_ms if kind == next_kind else None))
                bodies += track.bodies
        for track in self._tracks.values():
            track.samples, track.bodies = [], []
        self._fragment_bytes = 0
        if not runs:
            return init
        self._sequence += 1
        return b"".join((init, fragment_head(self._sequence, runs), *bodies))

    def _choose(self) -> dict[int, Mp4Track]:
        found = {kind: _mp4_track(track) for kind, track in self._tracks.items() if track.samples}
        chosen = {kind: track for kind, track in found.items() if isinstance(track, Mp4Track)}
        if not chosen:
            raise MalformedMedia("fmp4", _why_nothing([each for each in found.values() if isinstance(each, LeftOut)]))
        return chosen


def _read(tag: FlvTag) -> VideoTag | AudioTag | None:
    """What an audio or video tag holds; None: nothing that can be read."""
    try:
        if tag.kind == VIDEO_TAG:
            return read_video_tag(tag.payload)
        return read_audio_tag(tag.payload) if tag.kind == AUDIO_TAG else None
    except MalformedMedia:
        return None


def _mp4_track(track: _Track) -> Mp4Track | LeftOut:
    if isinstance(track.codec, VideoCodec):
        return video_track(track.codec, track.record, track.first_body)
    assert isinstance(track.codec, AudioCodec)  # noqa: S101 - a track with samples has a codec
    return audio_track(track.codec, track.record, track.first_body)


def _why_nothing(left_out: Sequence[LeftOut]) -> str:
    reasons = "; ".join(f"{each.what}: {each.why}" for each in left_out)
    return f"nothing of it can be carried in MP4: {reasons or 'it has neither pictures nor sound'}"
