"""Meters: what a publication sends, and how long rounds of sending take, as plain numbers.

Owns counting. `StreamMeter` hears every flush of a stream and costs a few hundred nanoseconds per message, so it is
attached only where somebody reads it: `Meters` does that, one meter for each publication. What becomes of the numbers
is the matter of `facts_observer` and `metrics`.
"""

from typing import NamedTuple

from penstock.media.frame import FrameKind
from penstock.relay.readable_log import Flush
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.publisher import Publisher

JUMP_MS = 1000
"""Timestamps of a track that go on by more than this, or go back at all, have jumped."""

_AUDIO = FrameKind.AUDIO
_VIDEO = FrameKind.VIDEO


class StreamTotals(NamedTuple):
    """Counted since the publication began."""

    received_bytes: int
    messages: int
    video_frames: int
    audio_frames: int
    keyframes: int
    timestamp_jumps: int


class StreamFigures(NamedTuple):
    """What an interval was like."""

    interval_s: float
    bitrate_bps: float
    fps: float
    timestamp_jumps: int
    av_skew_ms: float | None
    keyframe_interval_ms: int | None
    media_ms: int | None
    wall_ms: int | None


class StreamMeter:
    """Counts one publication. Codec configuration counts as bytes and messages, not as frames."""

    __slots__ = (
        "_audio_ms",
        "_first_at",
        "_first_ms",
        "_key_ms",
        "_keyframe_interval_ms",
        "_last_at",
        "_last_ms",
        "_sampled",
        "_sampled_at",
        "_skew_count",
        "_skew_sum_ms",
        "_video_ms",
        "audio_frames",
        "keyframes",
        "last",
        "messages",
        "received_bytes",
        "timestamp_jumps",
        "video_frames",
    )

    def __init__(self, now: float) -> None:
        self.received_bytes = 0
        self.messages = 0
        self.video_frames = 0
        self.audio_frames = 0
        self.keyframes = 0
        self.timestamp_jumps = 0
        self.last: StreamFigures | None = None
        """What the last interval was like; None: none was sampled yet."""
        self._video_ms: int | None = None
        self._audio_ms: int | None = None
        self._key_ms: int | None = None
        self._keyframe_interval_ms: int | None = None
        self._first_ms: int | None = None
        self._first_at = self._last_at = now
        self._last_ms = 0
        self._skew_sum_ms = 0
        self._skew_count = 0
        self._sampled = self.totals
        self._sampled_at = now

    @property
    def totals(self) -> StreamTotals:
        """What was counted so far."""
        return StreamTotals(
            self.received_bytes,
            self.messages,
            self.video_frames,
            self.audio_frames,
            self.keyframes,
            self.timestamp_jumps,
        )

    def on_flush(self, flush: Flush, now: float) -> None:
        """Count what was flushed."""
        video_ms, audio_ms = self._video_ms, self._audio_ms
        payload_bytes = 0
        for _, _, kind, timestamp_ms, size, is_key, is_setup in flush.entries:
            payload_bytes += size
            if is_setup:
                continue
            if kind is _VIDEO:
                self.video_frames += 1
                if video_ms is not None and not 0 <= timestamp_ms - video_ms <= JUMP_MS:
                    self.timestamp_jumps += 1
                video_ms = timestamp_ms
                if is_key:
                    self._see_key(timestamp_ms)
                if audio_ms is not None:
                    self._skew_sum_ms += timestamp_ms - audio_ms
                    self._skew_count += 1
            elif kind is _AUDIO:
                self.audio_frames += 1
                if audio_ms is not None and not 0 <= timestamp_ms - audio_ms <= JUMP_MS:
                    self.timestamp_jumps += 1
                audio_ms = timestamp_ms
        self.received_bytes += payload_bytes
        self.messages += len(flush.entries)
        self._video_ms, self._audio_ms = video_ms, audio_ms
        self._see_time(now)

    def _see_key(self, timestamp_ms: int) -> None:
        self.keyframes += 1
        if self._key_ms is not None:
            self._keyframe_interval_ms = timestamp_ms - self._key_ms
        self._key_ms = timestamp_ms

    def _see_time(self, now: float) -> None:
        newest_ms = self._video_ms if self._video_ms is not None else self._audio_ms
        if newest_ms is None:
            return
        if self._first_ms is None:
            self._first_ms, self._first_at = newest_ms, now
        self._last_ms, self._last_at = newest_ms, now

    def sample(self, now: float) -> StreamFigures:
        """What it was like since the last sample. Begins a new interval."""
        before, totals = self._sampled, self.totals
        interval_s = max(now - self._sampled_at, 1e-6)
        skew_ms = self._skew_sum_ms / self._skew_count if self._skew_count else None
        has_time = self._first_ms is not None
        self.last = figures = StreamFigures(
            interval_s=interval_s,
            bitrate_bps=(totals.received_bytes - before.received_bytes) * 8 / interval_s,
            fps=(totals.video_frames - before.video_frames) / interval_s,
            timestamp_jumps=totals.timestamp_jumps - before.timestamp_jumps,
            av_skew_ms=skew_ms,
            keyframe_interval_ms=self._keyframe_interval_ms,
            media_ms=self._last_ms - (self._first_ms or 0) if has_time else None,
            wall_ms=round((self._last_at - self._first_at) * 1000) if has_time else None,
        )
        self._sampled, self._sampled_at = totals, now
        self._skew_sum_ms = self._skew_count = 0
        return figures


class Meters(Observer):
    """A meter on each publication, for all who want its numbers: to be the first of the observers."""

    def __init__(self) -> None:
        self._by_channel: dict[LiveStream, StreamMeter] = {}
        self._ended_bytes = 0
        self._ended_messages = 0

    def of(self, live_stream: LiveStream) -> StreamMeter:
        """The meter of the last publication, from when it began until the stream is over."""
        return self._by_channel[live_stream]

    @property
    def received_bytes(self) -> int:
        """Payload bytes of all publications so far."""
        return self._ended_bytes + sum(meter.received_bytes for meter in self._by_channel.values())

    @property
    def messages(self) -> int:
        """Messages of all publications so far."""
        return self._ended_messages + sum(meter.messages for meter in self._by_channel.values())

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:  # noqa: ARG002
        """Begin to count."""
        self._take_off(live_stream)
        meter = StreamMeter(publisher.heard_at)
        self._by_channel[live_stream] = meter
        live_stream.listeners.append(meter)

    def stream_left(self, live_stream: LiveStream) -> None:
        """Counted for as long as it was here."""
        self._take_off(live_stream)

    def stream_closed(self, live_stream: LiveStream) -> None:
        """Counted to the end."""
        self._take_off(live_stream)

    def _take_off(self, live_stream: LiveStream) -> None:
        meter = self._by_channel.pop(live_stream, None)
        if meter is not None:
            live_stream.listeners.remove(meter)
            self._ended_bytes += meter.received_bytes
            self._ended_messages += meter.messages
