"""The log of one stream: what a publisher appended, as bytes that every viewer can be sent.

Owns the order of messages, their one shared encoding, the codec configuration in force, where a cursor may enter, and
how much is kept. Each message is encoded once, with a full header and absolute time, so it stands alone and all viewers
are sent the same bytes. Appending and flushing are two steps: what was appended is seen by cursors when it is flushed,
so that a burst of messages costs each viewer one write.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.media.frame import Frame, FrameKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint, EntryPoints
from penstock.relay.segment import ENTRY_BYTES, Entry, Segment, SegmentStore

FrameEncoders = Mapping[FrameKind, Callable[[int, bytes], bytes]]
"""For each kind, time and payload to the encoding that all viewers share."""
_new_tuple = tuple.__new__

_VIDEO = FrameKind.VIDEO
_QUIET_POINT_GAP_S = 1.0
"""Without video any message is a place to enter; one a second is remembered."""
_JUMP_BACK_MS = 1000
"""Audio and video are not quite in order of time; beyond this the encoder has set its clock back."""
_INTERVAL_SMOOTHING = 0.1
_LOOKED_AT_FRAMES = 45
"""FFmpeg wants to know the times of forty frames, and of some more where their order is another."""
_LOOKBACK_PART = 12
"""Beyond this part of the memory nothing is kept to look back at: it is a convenience."""
_LEAST_SEGMENTS = 4
"""A log that keeps as many messages as it may has so many segments at least, so that a part of it can be dropped."""
_TINY_PART = 16
"""Of tiny messages a log keeps one of so many that it may."""
_SPARE_PART = 16
"""Once memory is short, a sixteenth of it more is freed, so that not every flush has to look at all logs."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much of a stream is kept for those who join or lag."""

    max_gops: int = 2
    max_age_s: float = 10.0
    max_bytes: int = 64 * 1024 * 1024
    max_messages: int = 8 * 1024
    """Each has a record in memory, larger than a tiny one is itself; a stream of ten tracks sends 1,000 a second."""
    min_segment_bytes: int = 32 * 1024
    max_segment_bytes: int = 4 * 1024 * 1024
    lookback_s: float = 0.0
    """Of a stream that FFmpeg looks at for long, so much is kept for those who want to begin that far back."""


class Flush(NamedTuple):
    """What has become visible: one range of one segment."""

    segment: Segment
    position: int
    size: int
    entries: list[Entry]
    pieces: list[bytes]
    first_point: EntryPoint | None = None
    """Where one begins who has waited for it: an encoder's first second may come at once, and none of it is old."""


class JoiningMessage(NamedTuple):
    """One message of the codec configuration that a joiner is sent first."""

    kind: FrameKind
    encoded: bytes


class LogBudget:
    """The memory that all logs together may hold, dropped but pinned segments with them."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._logs: set[StreamLog] = set()

    @property
    def has_plenty(self) -> bool:
        """Whether so little is used that logs may keep more than they must."""
        return self.used_bytes <= self.max_bytes // _LOOKBACK_PART

    def join(self, log: "StreamLog") -> None:
        """A log draws on this budget from now on."""
        self._logs.add(log)

    def leave(self, log: "StreamLog") -> None:
        """A log is gone; what others still read of it counts until they are done."""
        self._logs.discard(log)

    def take(self, size: int) -> None:
        """Bytes are about to be written. Past the limit the largest logs are cut back; if need be, to nothing."""
        self.used_bytes += size
        if self.used_bytes <= self.max_bytes:
            return
        for cut in (StreamLog.cut_back, StreamLog.drop_everything):
            for log in sorted(self._logs, key=lambda log: log.held_bytes, reverse=True):
                cut(log)
                if self.used_bytes <= self.max_bytes - self.max_bytes // _SPARE_PART:
                    return
            if self.used_bytes <= self.max_bytes:
                return

    def give_back(self, size: int) -> None:
        """A segment was closed."""
        self.used_bytes -= size


class StreamLog:
    """An append-only log with a moving start."""

    def __init__(self, store: SegmentStore, encoders: FrameEncoders, limits: LogLimits, budget: LogBudget) -> None:
        self._store = store
        self._encoders = encoders
        self._limits = limits
        self._budget = budget
        self._segments: deque[Segment] = deque()
        self._points = EntryPoints(limits.max_gops, limits.max_age_s, limits.lookback_s)
        self._pieces: list[bytes] = []
        self._entries: list[Entry] = []
        self._first_unflushed_point: EntryPoint | None = None
        self._appended = 0
        """The position behind the last appended byte; flushed or not."""
        self._segment_target = limits.min_segment_bytes
        self.config = CodecConfig()
        self.head = 0
        """The position behind the last flushed byte: where in-step cursors stand."""
        self.held_bytes = 0
        """The memory of all segments that were not dropped."""
        self.last_timestamp_ms = 0
        self.has_video = False
        """Whether video comes. When it has stopped for long, those who join begin with audio."""
        self._video_at = 0.0
        self.video_interval_s = 0.0
        """The mean distance of the last frames of video."""
        self.has_unflushed_video = False
        self.unflushed_since: float | None = None
        self.publication_start = 0
        """Where the publication that is in the log now began."""
        self._joining: tuple[CodecConfig, int, tuple[JoiningMessage, ...]] | None = None
        budget.join(self)

    @property
    def start(self) -> int:
        """The first position that is still here."""
        return self._segments[0].start if self._segments else self.head

    @property
    def newest_point(self) -> EntryPoint | None:
        """Where one who joins or skips begins, if there is such a place."""
        return self._points.newest

    def first_point_from(self, position: int) -> EntryPoint | None:
        """Where one begins who has waited since the head was there."""
        return self._points.first_from(position)

    @property
    def lookback_s(self) -> float:
        """How much FFmpeg looks at before it shows this stream; 0 where nothing is done about it.

        One track alone is looked at for some seconds, since another might come, and of video a number of frames,
        whatever time they take. With two tracks and metadata that is left as it is: to be close to live counts more.
        """
        config = self.config
        if not self._limits.lookback_s or (config.has_metadata and not config.has_one_kind):
            return 0.0
        frames_s = _LOOKED_AT_FRAMES * self.video_interval_s if self.has_video else 0.0
        return max(frames_s, self._limits.lookback_s if config.has_one_kind else 0.0)

    def lookback_point(self, now: float) -> EntryPoint | None:
        """Where one begins who looks at that much of a stream; None: where everybody does."""
        return self._points.back(self.lookback_s, now) if self.lookback_s else None

    @property
    def unflushed_bytes(self) -> int:
        """Bytes that no cursor sees yet."""
        return self._appended - self.head

    @property
    def unflushed_messages(self) -> int:
        """Messages that no cursor sees yet."""
        return len(self._entries)

    @property
    def next_video_at(self) -> float | None:
        """When the next frame of video should come, by the pace of the last ones; None: no video comes."""
        return self._video_at + self.video_interval_s if self.has_video else None

    def joining_messages(self, config: CodecConfig, timestamp_ms: int) -> tuple[JoiningMessage, ...]:
        """The codec configuration in force at a place, stamped with its time: encoded once for all who join there."""
        if self._joining is None or self._joining[0] is not config or self._joining[1] != timestamp_ms:
            messages = tuple(
                # Metadata with a time of its own is a subtitle to FFmpeg, which then opens a track that is not there.
                JoiningMessage(
                    frame.kind,
                    self._encoders[frame.kind](0 if frame.kind is FrameKind.DATA else timestamp_ms, frame.payload),
                )
                for frame in config.joining_frames(timestamp_ms)
            )
            self._joining = (config, timestamp_ms, messages)
        return self._joining[2]

    def append(self, frame: Frame, now: float) -> None:
        """Take one message from the publisher."""
        kind, timestamp_ms, payload, is_key, is_setup, is_malformed, _ = frame
        if kind is _VIDEO:
            self.has_unflushed_video = True
            weight = _INTERVAL_SMOOTHING if self.video_interval_s else 1.0
            self.video_interval_s += (now - self._video_at - self.video_interval_s) * weight
            self._video_at = now
            if not self.has_video:
                self._see_first_video()
            if self.config.video_codec_id is None and not is_malformed:
                self.config = self.config.with_media(frame)
        elif self.config.audio_codec_id is None and kind is FrameKind.AUDIO and not is_malformed:
            self.config = self.config.with_media(frame)
        position = self._appended
        if is_setup:
            self.config = self.config.with_frame(frame)
        elif is_key or (kind is FrameKind.AUDIO and self._is_quiet_point(now)):
            point = EntryPoint(position, timestamp_ms, self.config, now)
            self._points.add(point)
            if not (self.lookback_s and self._budget.has_plenty):
                self._points.forget_lookback()
            if self._first_unflushed_point is None:
                self._first_unflushed_point = point
        encoded = self._encoders[kind](timestamp_ms, payload)
        size = len(encoded)
        self._pieces.append(encoded)
        entry = (position, size, kind, timestamp_ms, len(payload), is_key, is_setup)
        self._entries.append(_new_tuple(Entry, entry))
        self._appended = position + size
        # Codec configuration and data are stamped with anything, mostly 0.
        if not is_setup and kind is not FrameKind.DATA:
            behind_ms = self.last_timestamp_ms - timestamp_ms
            if behind_ms < 0 or behind_ms > _JUMP_BACK_MS:
                self.last_timestamp_ms = timestamp_ms
        if self.unflushed_since is None:
            self.unflushed_since = now

    def _see_first_video(self) -> None:
        self.has_video = True
        self.video_interval_s = 0.0
        # A player that began at an audio message would have to wait for its first picture.
        self.forget_entry_points()

    def _is_quiet_point(self, now: float) -> bool:
        if self.has_video:
            if now - self._video_at <= self._limits.max_age_s:
                return False
            self.has_video = False
        newest = self._points.newest
        return newest is None or now - newest.at >= _QUIET_POINT_GAP_S

    def flush(self, now: float) -> Flush | None:
        """Make what was appended visible, in one segment; None if nothing was."""
        if not self._entries:
            return None
        size = self._appended - self.head
        held_bytes = size + ENTRY_BYTES * len(self._entries)
        # Before anything is written: this log too may have to make room.
        self._budget.take(held_bytes)
        segment = self._segments[-1] if self._segments else None
        if segment is None or self._is_full(segment):
            segment = self._open_segment(segment, now)
        segment.append(self._pieces, self._entries, size)
        flush = Flush(segment, self.head, size, self._entries, self._pieces, self._first_unflushed_point)
        self.head = self._appended
        self.held_bytes += held_bytes
        self._pieces = []
        self._entries = []
        self._first_unflushed_point = None
        self.has_unflushed_video = False
        self.unflushed_since = None
        return flush

    def _open_segment(self, last: Segment | None, now: float) -> Segment:
        if last is not None:
            # About one second of the stream, so that a thousand quiet streams stay small and a fast one rotates
            # no more than once a second.
            rate = last.held_bytes / max(now - last.opened_at, 0.05)
            limits = self._limits
            self._segment_target = int(min(max(rate, limits.min_segment_bytes), limits.max_segment_bytes))
        segment = Segment(self._store.create(), self.head, now)
        self._segments.append(segment)
        self._trim(now)
        return segment

    def _trim(self, now: float) -> None:
        """Drop what is older than the limits allow, by whole segments. The newest entry point stays if it can."""
        limits = self._limits
        self._points.forget_old(now)
        first_position = self._points.first_position
        if first_position is not None:
            self._drop_before(first_position)
        else:
            while len(self._segments) > 1 and now - self._segments[1].opened_at > limits.max_age_s:
                self._drop_first()
        while len(self._segments) > 1 and (self.held_bytes > limits.max_bytes or self._keeps_too_many_messages):
            self._drop_first()

    @property
    def _keeps_too_many_messages(self) -> bool:
        kept = sum(len(segment.entries) for segment in self._segments)
        # Where records take more than messages do, these are tiny, and fewer are kept: ten seconds of sound alone.
        are_tiny = self.held_bytes < 2 * ENTRY_BYTES * kept
        return kept > self._limits.max_messages // (_TINY_PART if are_tiny else 1)

    def _is_full(self, segment: Segment) -> bool:
        messages = len(segment.entries)
        are_tiny = segment.held_bytes < 2 * ENTRY_BYTES * messages
        max_messages = self._limits.max_messages // (_LEAST_SEGMENTS * (_TINY_PART if are_tiny else 1))
        return segment.held_bytes >= self._segment_target or messages >= max_messages

    def cut_back(self) -> None:
        """Memory is short: keep no more than the newest entry point needs; without one, the newest segment."""
        self._points.forget_all_but_newest()
        newest = self._points.newest
        self._drop_before(self.head if newest is None else newest.position)

    def drop_everything(self) -> None:
        """Memory is shorter still: those in step go on, everybody else has to wait for the next entry point."""
        while self._segments:
            self._drop_first()

    def _drop_before(self, position: int) -> None:
        while len(self._segments) > 1 and self._segments[0].end <= position:
            self._drop_first()

    def _drop_first(self) -> None:
        segment = self._segments.popleft()
        self.held_bytes -= segment.held_bytes
        if segment.drop():
            self._budget.give_back(segment.held_bytes)
        self._points.forget_before(self.start)

    def unpin(self, segment: Segment) -> None:
        """A cursor is done with a segment."""
        if segment.unpin():
            self._budget.give_back(segment.held_bytes)

    def segment_at(self, position: int) -> Segment | None:
        """The segment that holds a position, None if it is gone or not written yet."""
        if not self.start <= position < self.head:
            return None
        return next(segment for segment in reversed(self._segments) if segment.start <= position)

    def forget_entry_points(self) -> None:
        """The publisher is gone: nobody new may begin with what it left behind."""
        self._points.clear()
        self._first_unflushed_point = None

    def begin_anew(self) -> None:
        """Another publication continues the stream: what it consists of is for that one to say."""
        self.forget_entry_points()
        self.config = CodecConfig()
        self.has_video = False
        self.publication_start = self._appended

    def clear_metadata(self) -> None:
        """The publisher took its metadata back."""
        self.config = self.config.without_metadata()

    def close(self) -> None:
        """The stream is over. What cursors have pinned stays until they let go."""
        self.drop_everything()
        self._points.clear()
        self._budget.leave(self)
