"""A log as its readers know it: segments, where one may begin, and what a joiner gets first.

Owns what cursors, followers and viewers ask of a log, wherever it is written: in this process (`log`) or in another one
(`followed_log`). Never writes, and never chooses how much is kept.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.media.frame import FrameKind
from penstock.relay.boundary_index import BoundaryIndex
from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint, EntryPoints
from penstock.relay.packaging.boundaries import Numbering
from penstock.relay.segment import Entry, Segment

FrameEncoders = Mapping[FrameKind, Callable[[int, bytes], bytes]]
"""For each kind, time and payload to the encoding that all viewers share."""

_LOOKED_AT_FRAMES = 45
"""FFmpeg wants to know the times of forty frames, and of some more where their order is another."""


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
    pieces: list[bytes] | None = None
    """Its bytes as they were appended; None where another process wrote them."""
    first_point: EntryPoint | None = None
    """Where one begins who has waited for it: an encoder's first second may come at once, and none of it is old."""

    @property
    def data(self) -> bytes:
        """A copy of its bytes, made anew each time."""
        if self.pieces is None:
            return self.segment.read(self.position, self.size)
        return b"".join(self.pieces)


class JoiningMessage(NamedTuple):
    """One message of the codec configuration that a joiner is sent first."""

    kind: FrameKind
    encoded: bytes


class ReadableLog:
    """A log with a moving start and a growing end."""

    def __init__(self, encoders: FrameEncoders, limits: LogLimits, position: int) -> None:
        self._encoders = encoders
        self._limits = limits
        self._segments: deque[Segment] = deque()
        self._points = EntryPoints(limits.max_gops, limits.max_age_s, limits.lookback_s)
        self.boundaries = BoundaryIndex()
        """Where parts and segments begin in what is held."""
        self.config = CodecConfig()
        self.head = position
        """The position behind the last flushed byte: where in-step cursors stand."""
        self.last_timestamp_ms = 0
        self.has_video = False
        """Whether video comes. When it has stopped for long, those who join begin with audio."""
        self.video_interval_s = 0.0
        """The mean distance of the last frames of video."""
        self.publication_start = position
        """Where the publication that is in the log now began."""
        # Not on the class: Python 3.11 does not specialise access to an attribute that the class has too, and the
        # writer changes these with every message.
        self.unflushed_since: float | None = None
        """Only where a log is written there is something that no cursor sees yet."""
        self.has_unflushed_video = False
        self.has_unflushed_boundary = False
        self._joining: tuple[CodecConfig, int, tuple[JoiningMessage, ...]] | None = None

    @property
    def unflushed_bytes(self) -> int:
        """Bytes that no cursor sees yet."""
        return 0

    @property
    def unflushed_messages(self) -> int:
        """Messages that no cursor sees yet."""
        return 0

    @property
    def next_video_at(self) -> float | None:
        """When the next frame of video should come, by the pace of the last ones; None: not known, or there is none."""
        return None

    @property
    def numbering(self) -> Numbering | None:
        """How far parts and segments are counted; None where nobody counts them."""
        return None

    @property
    def start(self) -> int:
        """The first position that is still here."""
        return self._segments[0].start if self._segments else self.head

    def segment_at(self, position: int) -> Segment | None:
        """The segment that holds a position, None if it is gone or not written yet."""
        if not self.start <= position < self.head:
            return None
        return next(segment for segment in reversed(self._segments) if segment.start <= position)

    def segments_from(self, position: int) -> list[Segment]:
        """The segments with what comes from a position on, oldest first."""
        if position >= self.head:
            return []
        segments = self._segments
        if segments[-1].start <= position:
            return [segments[-1]]
        # The newest is empty while room is made for what is about to be written there.
        return [segment for segment in segments if segment.end > position and segment.size]

    # Where one begins.

    @property
    def points(self) -> EntryPoints:
        """Where one may begin."""
        return self._points

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

    def forget_entry_points(self) -> None:
        """The publisher is gone: nobody new may begin with what it left behind."""
        self._points.clear()

    # How long segments stay.

    def unpin(self, segment: Segment) -> None:
        """A reader is done with a segment."""
        if segment.unpin():
            self._on_closed(segment)

    def drop_everything(self) -> None:
        """Those in step go on, everybody else has to wait for the next entry point."""
        while self._segments:
            self._drop_first()

    def _drop_first(self) -> None:
        segment = self._segments.popleft()
        if segment.drop():
            self._on_closed(segment)
        self._points.forget_before(self.start)
        self.boundaries.forget_before(self.start)

    def _on_closed(self, segment: Segment) -> None:
        """Nobody reads a dropped segment any more: its memory was given back."""

    def close(self) -> None:
        """The stream is over. What readers have pinned stays until they let go."""
        while self._segments:
            self._drop_first()
        self._points.clear()
