"""The log of one stream where it is written: what a publisher appended, as bytes that every viewer can be sent.

Owns the order of messages, their one shared encoding, the codec configuration in force, where a cursor may enter, how
much is kept, and the memory of all logs. What readers ask of a log is in `readable_log`. Each message is encoded once,
with a full header and absolute time, so it stands alone and all viewers are sent the same bytes. Appending and flushing
are two steps: what was appended is seen by cursors when it is flushed, so that a burst of messages costs each viewer
one write.
"""

from typing import Protocol

from penstock.media.frame import Frame, FrameKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint
from penstock.relay.packaging.boundaries import Boundaries, Numbering
from penstock.relay.readable_log import Flush, FrameEncoders, LogLimits, ReadableLog
from penstock.relay.segment import ENTRY_BYTES, Entry, Segment, SegmentStore

_new_tuple = tuple.__new__

_VIDEO = FrameKind.VIDEO
_QUIET_POINT_GAP_S = 1.0
"""Without video any message is a place to enter; one a second is remembered."""
_JUMP_BACK_MS = 1000
"""Audio and video are not quite in order of time; beyond this the encoder has set its clock back."""
_INTERVAL_SMOOTHING = 0.1
_LOOKBACK_PART = 12
"""Beyond this part of the memory nothing is kept to look back at: it is a convenience."""
_LEAST_SEGMENTS = 4
"""A log that keeps as many messages as it may has so many segments at least, so that a part of it can be dropped."""
_TINY_PART = 16
"""Of tiny messages a log keeps one of so many that it may."""
_SPARE_PART = 16
"""Once memory is short, a sixteenth of it more is freed, so that not every flush has to look at all logs."""
_RETURNING_PART = 8
"""Up to so large a part of the memory counts as free once other processes were told to let go of it."""


class LogBudget:
    """The memory that all logs together may hold, dropped but pinned segments with them."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.returning_bytes = 0
        """Of those, what logs have dropped and other processes have yet to let go of: some milliseconds."""
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
        if self.used_bytes <= self.max_bytes or self._claimed_bytes <= self.max_bytes:
            return
        for cut in (StreamLog.cut_back, StreamLog.drop_everything):
            for log in sorted(self._logs, key=lambda log: log.held_bytes, reverse=True):
                cut(log)
                if self._claimed_bytes <= self.max_bytes - self.max_bytes // _SPARE_PART:
                    return
            if self._claimed_bytes <= self.max_bytes:
                return

    @property
    def _claimed_bytes(self) -> int:
        # A process that never lets go must not make memory grow without end.
        return self.used_bytes - min(self.returning_bytes, self.max_bytes // _RETURNING_PART)

    def give_back(self, size: int) -> None:
        """A segment was closed."""
        self.used_bytes -= size


class DropListener(Protocol):
    """Somebody who tells another process what is in a log, and lets it read there."""

    def on_drop(self) -> None:
        """Segments are about to be dropped. What was not told of them is told now or never."""


class StreamLog(ReadableLog):
    """An append-only log with a moving start."""

    def __init__(
        self,
        store: SegmentStore,
        encoders: FrameEncoders,
        limits: LogLimits,
        budget: LogBudget,
        position: int = 0,
        *,
        stamps: Boundaries | None = None,
    ) -> None:
        """`position` is where it begins: a stream that comes from another process goes on counting where it was.

        `stamps` decides where parts and segments begin; without it the log has no boundaries.
        """
        super().__init__(encoders, limits, position)
        self._store = store
        self._budget = budget
        self._stamps = stamps
        self._pieces: list[bytes] = []
        self._entries: list[Entry] = []
        self._first_unflushed_point: EntryPoint | None = None
        self._appended = position
        """The position behind the last appended byte; flushed or not."""
        self._segment_target = limits.min_segment_bytes
        self.held_bytes = 0
        """The memory of all segments that were not dropped."""
        self._video_at = 0.0
        self.kept_ms = 0
        """While it is packaged, segments of so much of the stream are kept, within the bounds on bytes and messages."""
        self.drop_listeners: list[DropListener] = []
        self._returning: set[Segment] = set()
        """Dropped here, and still read by other processes."""
        budget.join(self)

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

    @property
    def numbering(self) -> Numbering | None:
        """How far parts and segments are counted; None where nobody counts them."""
        return None if self._stamps is None else self._stamps.numbering

    def append(self, frame: Frame, now: float, wall_ms: int = 0) -> None:
        """Take one message from the publisher. `wall_ms` is the Unix time, for the boundaries."""
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
        if self._stamps is not None and (boundary := self._stamps.stamp(frame, position, wall_ms)) is not None:
            self.boundaries.add(boundary, self.config)
            self.has_unflushed_boundary = True
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
        self.has_unflushed_video = self.has_unflushed_boundary = False
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
        needed = [each for each in (self._points.first_position, self._first_kept_position) if each is not None]
        if needed:
            self._drop_before(min(needed))
        else:
            while len(self._segments) > 1 and now - self._segments[1].opened_at > limits.max_age_s:
                self._drop_first()
        while len(self._segments) > 1 and (self.held_bytes > limits.max_bytes or self._keeps_too_many_messages):
            self._drop_first()

    @property
    def _first_kept_position(self) -> int | None:
        if not self.kept_ms:
            return None
        first = self.boundaries.segment_start_back(self.kept_ms, self.head)
        return None if first is None else first.boundary.position

    @property
    def _keeps_too_many_messages(self) -> bool:
        kept = sum(len(segment.entries) for segment in self._segments)
        # Where records take more than messages do, these are tiny, and fewer are kept: ten seconds of sound alone.
        are_tiny = self.held_bytes < 2 * ENTRY_BYTES * kept and not self.kept_ms
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

    def _drop_before(self, position: int) -> None:
        while len(self._segments) > 1 and self._segments[0].end <= position:
            self._drop_first()

    def _drop_first(self) -> None:
        for listener in self.drop_listeners:
            listener.on_drop()
        segment = self._segments[0]
        self.held_bytes -= segment.held_bytes
        super()._drop_first()
        if self.drop_listeners and segment.is_pinned:
            self._returning.add(segment)
            self._budget.returning_bytes += segment.held_bytes

    def _on_closed(self, segment: Segment) -> None:
        self._budget.give_back(segment.held_bytes)
        if segment in self._returning:
            self._returning.remove(segment)
            self._budget.returning_bytes -= segment.held_bytes

    def forget_entry_points(self) -> None:
        """The publisher is gone: nobody new may begin with what it left behind."""
        super().forget_entry_points()
        self._first_unflushed_point = None

    def begin_anew(self) -> None:
        """Another publication continues the stream: what it consists of is for that one to say."""
        self.forget_entry_points()
        self.config = CodecConfig()
        self.has_video = False
        self.publication_start = self._appended
        if self._stamps is not None:
            self._stamps.begin_anew()

    def clear_metadata(self) -> None:
        """The publisher took its metadata back."""
        self.config = self.config.without_metadata()

    def close(self) -> None:
        """The stream is over. What readers have pinned stays until they let go."""
        super().close()
        self._budget.leave(self)
