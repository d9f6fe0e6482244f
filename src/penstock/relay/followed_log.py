"""A log that another process writes, as far as this one was told of it.

Owns what the news of its writer make of it, and when its segments go: when the writer has dropped them and nobody here
reads from them any more. Then their numbers are `released`, for the writer to free their memory. Which segments are
kept is the writer's choice. How a descriptor becomes a buffer is the server's matter.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from penstock.errors import MalformedInput
from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint
from penstock.relay.following import (
    News,
    Point,
    Points,
    Run,
    config_of,
    unpack_entries,
)
from penstock.relay.packaging.boundaries import Numbering
from penstock.relay.readable_log import Flush, FrameEncoders, LogLimits, ReadableLog
from penstock.relay.segment import MemoryBuffer, Segment, SegmentBuffer

_LAYER: Final = "following"

OpenSegment = Callable[[int], SegmentBuffer]
"""A descriptor to a buffer that is only read, and closes the descriptor when it is closed."""


class FollowedLog(ReadableLog):
    """A log to read from, for as long as its stream is followed."""

    def __init__(self, encoders: FrameEncoders, limits: LogLimits, position: int, released: list[int]) -> None:
        """`released` takes the numbers of segments that nobody here reads from any more."""
        super().__init__(encoders, limits, position)
        self._released = released
        self._numbers: dict[Segment, int] = {}
        self._configs: dict[int, CodecConfig] = {}
        """Those that the writer refers to."""
        self._points_told = Points([], [])
        self._numbering: Numbering | None = None
        self._boundary_configs: deque[tuple[int, int]] = deque()
        """The positions of boundaries that the writer still has, and the numbers of their codec configurations: kept
        also where this process has dropped them, since the writer does not know of that."""
        self.publication = 0
        """Counts those that have begun since it is followed."""
        self.is_live = False
        self.is_over = False
        self.resumes = 0
        """How often messages are missing: the link was too slow, and the writer had dropped them."""
        self.missed_bytes = 0
        self._is_closed = False

    def is_gap(self, news: News) -> bool:
        """Whether messages are missing before these news: those in step have to be told before they are applied."""
        return news.position != self.head and not self._is_closed

    def apply(self, news: News, buffers: list[SegmentBuffer]) -> Iterator[Flush]:
        """Make news visible, one segment after the other. To be walked to its end; the head moves with each step.

        `buffers` are those of the new segments, in order. Of a log that is closed, if meanwhile, they are given back.
        """
        left = iter(buffers)
        try:
            if not self._is_closed:
                self._catch_up(news)
            for run in news.runs:
                if not self._is_closed:
                    yield self._show(run, left)
                elif run.start is not None:
                    self._released.append(run.segment)
        finally:
            # Of news that make no sense; the link ends, and its descriptors must not stay.
            for buffer in left:
                buffer.close()

    def pass_over(self, news: News, buffers: list[SegmentBuffer]) -> None:
        """Let go of what news bring, which nobody wants any more."""
        for buffer in buffers:
            buffer.close()
        self._released += [run.segment for run in news.runs if run.start is not None]

    def _catch_up(self, news: News) -> None:
        if news.position < self.head:
            raise MalformedInput(_LAYER, f"news from {news.position} on, and the head is at {self.head}")
        if news.position > self.head:
            self.resumes += 1
            self.missed_bytes += news.position - self.head
            self.head = news.position
        while self._segments and self._segments[0].start < news.start:
            self._drop_first()
        self._take_state(news)

    def _take_state(self, news: News) -> None:
        self.last_timestamp_ms = news.last_timestamp_ms
        self.video_interval_s = news.video_interval_s
        self.has_video = news.has_video
        self.publication_start = news.publication_start
        self.publication = news.publication
        self.is_live = news.is_live
        self.is_over = news.is_over
        for sent in news.configs:
            self._configs[sent.number] = config_of(sent)
        if news.points is not None:
            self._points_told = news.points
            self._points.replace(map(self._point_of, news.points.newest), map(self._point_of, news.points.to_look_back))
        self.config = self._config_of(news.config)
        self._numbering = news.numbering
        for boundary, config in news.boundaries:
            self.boundaries.add(boundary, self._config_of(config))
            self._boundary_configs.append((boundary.position, config))
        while self._boundary_configs and self._boundary_configs[0][0] < news.start:
            self._boundary_configs.popleft()
        if len(self._configs) > 1:
            points = (*self._points_told.newest, *self._points_told.to_look_back)
            used = {news.config, *(point.config for point in points), *(config for _, config in self._boundary_configs)}
            self._configs = {number: config for number, config in self._configs.items() if number in used}

    @property
    def numbering(self) -> Numbering | None:
        """How far parts and segments were counted when this process last heard of it."""
        return self._numbering

    def _config_of(self, number: int) -> CodecConfig:
        try:
            return self._configs[number]
        except KeyError:
            raise MalformedInput(_LAYER, f"codec configuration {number} was not told") from None

    def _point_of(self, point: Point) -> EntryPoint:
        return EntryPoint(point.position, point.timestamp_ms, self._config_of(point.config), point.at)

    def _show(self, run: Run, buffers: Iterator[SegmentBuffer]) -> Flush:
        entries = unpack_entries(run.entries, self.head)
        if not entries:
            raise MalformedInput(_LAYER, f"nothing to show of segment {run.segment}")
        position, end = self.head, entries[-1].position + entries[-1].encoded_bytes
        size = end - position
        if run.start is None:
            segment = self._segments[-1] if self._segments else None
            if segment is None or self._numbers[segment] != run.segment:
                raise MalformedInput(_LAYER, f"more of segment {run.segment}, which is not the newest")
        else:
            if run.start != position:
                raise MalformedInput(_LAYER, f"segment {run.segment} begins at {run.start}, the head is at {position}")
            # When it was opened is for the writer to know, who chooses how long it is kept.
            segment = Segment(MemoryBuffer() if run.copied is not None else next(buffers), run.start, 0.0)
            self._segments.append(segment)
            self._numbers[segment] = run.segment
        if run.copied is None:
            segment.show(entries, size)
        elif len(run.copied) == size:
            segment.append([run.copied], entries, size)
        else:
            raise MalformedInput(_LAYER, f"{len(run.copied)} copied bytes for messages of {size}")
        self.head = end
        point = self.first_point_from(position)
        return Flush(
            segment,
            position,
            size,
            entries,
            first_point=point if point is not None and point.position < end else None,
        )

    def drop_everything(self) -> None:
        """Let go of all but the newest segment, of which the writer may be about to tell more."""
        while len(self._segments) > 1:
            self._drop_first()

    def close(self) -> None:
        """The stream is not followed any more. What readers have pinned stays until they let go."""
        super().close()
        self._is_closed = True

    def _on_closed(self, segment: Segment) -> None:
        self._released.append(self._numbers.pop(segment))
