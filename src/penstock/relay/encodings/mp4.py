"""Frames as fragmented MP4, one fragment each.

Owns the fragments that viewers of live MP4 share, and the init segment that each of them gets first. A fragment of one
frame is about 112 bytes larger than the frame, and nobody waits for the next one. Times are those of the stream. What
MP4 cannot carry is left out, and named; where it carries nothing of a stream, or a track becomes another one, it is
over: an init segment holds for a whole answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock.media.fmp4_fragment import Sample, TrackRun, fragment_head
from penstock.media.fmp4_tracks import LeftOut, Mp4Track
from penstock.media.frame import Frame, FrameKind
from penstock.media.packets import PacketKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.encodings.encoding import JoiningMessages
from penstock.relay.packaging.tracks import FirstFrame, choose_tracks, default_track, read_tag, setup_in_force
from penstock.relay.readable_log import FrameEncoders, JoiningMessage

_KINDS: Final = (FrameKind.VIDEO, FrameKind.AUDIO)
_FIRST_INTERVAL_MS: Final = {FrameKind.VIDEO: 33, FrameKind.AUDIO: 23}
"""How long the first frame of a track lasts: nobody knows yet, and each fragment says anew when it begins."""
_MAX_INTERVAL_MS: Final = 1000


@dataclass(slots=True)
class _Track:
    """A track that is written."""

    mp4: Mp4Track
    interval_ms: int
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Body:
    """Where the media is in the payload that is encoded next."""

    start: int
    end: int
    composition_ms: int
    is_key: bool


class Mp4Encoding:
    """Of one log."""

    def __init__(self) -> None:
        self._config = CodecConfig()
        self._firsts: dict[FrameKind, FirstFrame] = {}
        self._tracks: dict[FrameKind, _Track] = {}
        self._init: tuple[JoiningMessage, ...] = ()
        self._number = 0
        self._body = _Body(0, 0, 0, is_key=False)
        self._is_impossible = False
        self.left_out: tuple[LeftOut, ...] = ()

    @property
    def encoders(self) -> FrameEncoders:
        """For each kind of frame."""
        make: Callable[[FrameKind], Callable[[int, bytes], bytes]] = lambda kind: partial(self._fragment, kind)  # noqa: E731
        return {kind: make(kind) for kind in FrameKind}

    @property
    def carries_setup(self) -> bool:
        """An init segment has it."""
        return False

    @property
    def is_ready(self) -> bool:
        """Whether it is known what there is to send."""
        return bool(self._tracks)

    def joining_messages(self, config: CodecConfig, timestamp_ms: int) -> JoiningMessages:  # noqa: ARG002
        """The init segment, which is one for all."""
        return self._init

    def begin(self, config: CodecConfig, frames: list[Frame]) -> None:
        """With these frames."""
        self._config = config
        if self._tracks:
            return
        for frame in frames:
            if frame.kind not in self._firsts and not frame.is_setup:
                self._note_first(frame)

    def _note_first(self, frame: Frame) -> None:
        tag = None if frame.kind is FrameKind.DATA else read_tag(frame.kind, frame.payload)
        track = None if tag is None or tag.packet_kind is not PacketKind.FRAME else default_track(tag)
        if track is not None and (frame.is_key or frame.kind is FrameKind.AUDIO):
            self._firsts[frame.kind] = FirstFrame(track.codec, frame.payload[track.body_start : track.body_end])

    def takes(self, frame: Frame) -> bool:
        """Whether there is a sample of a track in it."""
        kind = frame.kind
        if frame.is_setup:
            self._config = self._config.with_frame(frame)
            return False
        if kind is FrameKind.DATA:
            return False
        if not self._tracks and not self._choose(frame):
            return False
        tag = None if kind not in self._tracks else read_tag(kind, frame.payload)
        track = None if tag is None or tag.packet_kind is not PacketKind.FRAME else default_track(tag)
        if track is None or track.body_start == track.body_end:
            return False
        is_key = frame.is_key or kind is FrameKind.AUDIO
        self._body = _Body(track.body_start, track.body_end, track.composition_time_ms, is_key)
        return True

    def _choose(self, frame: Frame) -> bool:
        """At the first frame that one can begin with, all tracks are known: encoders say first what they have."""
        has_video = setup_in_force(self._config, FrameKind.VIDEO) is not None or FrameKind.VIDEO in self._firsts
        if not (frame.is_key or (frame.kind is FrameKind.AUDIO and not has_video)):
            return False
        if frame.kind not in self._firsts:
            self._note_first(frame)
        chosen = choose_tracks(self._config, self._firsts)
        self.left_out = chosen.left_out
        if chosen.init is None:
            self._is_impossible = True
            return False
        self._init = (JoiningMessage(FrameKind.DATA, chosen.init.data),)
        self._tracks = {kind: _Track(track, _FIRST_INTERVAL_MS[kind]) for kind, track in chosen.tracks.items()}
        return True

    def is_over(self, config: CodecConfig) -> bool:
        """Whether a track has become another one, there is one more, or there is none."""
        if self._is_impossible:
            return True
        if not self._tracks:
            return False
        said = [kind for kind in _KINDS if setup_in_force(config, kind) is not None]
        if not said:
            return False
        now = choose_tracks(config, self._firsts).tracks
        return any((kind in now or kind in self._tracks) and self._mp4_of(kind) != now.get(kind) for kind in said)

    def _mp4_of(self, kind: FrameKind) -> Mp4Track | None:
        track = self._tracks.get(kind)
        return None if track is None else track.mp4

    def _fragment(self, kind: FrameKind, timestamp_ms: int, payload: bytes) -> bytes:
        """The frame that was taken last."""
        track, body = self._tracks[kind], self._body
        last_ms = track.last_ms
        # Decoding times go on; a frame out of order keeps the time at which it is shown.
        decoded_ms = max(0, timestamp_ms) if last_ms is None else max(timestamp_ms, last_ms + 1)
        if last_ms is not None and decoded_ms - last_ms <= _MAX_INTERVAL_MS:
            track.interval_ms = decoded_ms - last_ms
        track.last_ms = decoded_ms
        self._number += 1
        shown_after_ms = timestamp_ms + body.composition_ms - decoded_ms
        sample = Sample(decoded_ms, body.end - body.start, shown_after_ms, body.is_key)
        head = fragment_head(self._number, (TrackRun(track.mp4.track_id, (sample,), decoded_ms + track.interval_ms),))
        return head + payload[body.start : body.end]
