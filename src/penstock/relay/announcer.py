"""What the writer of logs tells one follower in another process.

Owns how far the follower was told of each log, and which segments it holds: those are pinned, so their memory is
charged where they were written until the follower has let go. Nothing is kept for each message: what to tell is read
from the log when there is room on the link, so a follower that lags never holds up the writer, and is told all that the
log still has. Where the log has dropped what was not told, the follower hears that some are missing, and goes on behind
it (`resumes`).

What is announced has been written: a flush comes before its news. Sockets are for the server, which passes each
`Parcel` on, and calls `take` at the end of every round, with no room if the link is full.
"""

from collections import deque
from typing import Final, NamedTuple

from penstock.errors import MalformedInput
from penstock.relay.codec_config import CodecConfig
from penstock.relay.entry_points import EntryPoint
from penstock.relay.following import (
    Config,
    News,
    NotHere,
    Opened,
    Points,
    Round,
    Run,
    config_to_send,
    encode,
    pack_entries,
    point_to_send,
)
from penstock.relay.log import StreamLog
from penstock.relay.readable_log import Flush
from penstock.relay.segment import Segment

_MAX_ROUND_DESCRIPTORS: Final = 200
"""Beside one message; the kernel takes 253."""
_MAX_NEWS_RUNS: Final = 64
_MAX_NEWS_ENTRIES: Final = 4096
_MAX_COPIED_BYTES: Final = 1024 * 1024
"""Of segments in plain memory, in one run. A single message may be larger."""
_NEWS_BYTES: Final = 140
"""About what news take beside entries, copies, boundaries and codec configurations."""
_BOUNDARY_BYTES: Final = 40


class Parcel(NamedTuple):
    """An encoded message, and the descriptors that go beside it: open until the follower has released them."""

    body: bytes
    descriptors: tuple[int, ...] = ()


class _Told(NamedTuple):
    """News, the descriptors that go beside them, and about how long they are."""

    news: News
    descriptors: tuple[int, ...]
    size_bytes: int


class AnnouncedStream:
    """One log that is followed: a listener to its flushes, and how far the follower was told of it."""

    def __init__(self, announcer: "Announcer", number: int, log: StreamLog, *, is_live: bool) -> None:
        self.number = number
        self._announcer = announcer
        self._log = log
        self._position = log.start
        """Behind the last message that was told."""
        self._start = log.start
        self._newest: Segment | None = None
        """The last segment that was told of."""
        self._newest_number = 0
        self._newest_entries = 0
        """How many of its messages were told."""
        self._points: tuple[tuple[EntryPoint, ...], tuple[EntryPoint, ...]] = ((), ())
        self._configs: list[tuple[CodecConfig, int]] = []
        """Those that the follower remembers."""
        self._last_config_number = 0
        self._publication = 0
        self._is_live = is_live
        self._is_over = False
        self._saved: deque[_Told] = deque()
        """What had to be read before the log would drop it: of one round at most."""
        self.is_behind = False
        """Whether there was no room for all of it at the end of a round."""
        log.drop_listeners.append(self)

    # What the server says.

    def on_flush(self, flush: Flush, now: float) -> None:  # noqa: ARG002  # as all listeners are called
        """New messages are in the log."""
        self._announcer.mark_changed(self)

    def on_drop(self) -> None:
        """Segments are about to be dropped: what was not told of them is read now, if the follower keeps up."""
        if self._is_over:
            return
        if not self.is_behind:
            self._save()
        self._announcer.mark_changed(self)

    def begin_anew(self) -> None:
        """Another publication continues the stream."""
        self._publication += 1
        self._is_live = True
        self._announcer.mark_changed(self)

    def lose(self) -> None:
        """The publisher is gone, and may come back."""
        self._is_live = False
        self._announcer.mark_changed(self)

    def end(self) -> None:
        """The stream is over. To be called before its log is closed, whose last messages are told all the same."""
        self._is_live = False
        self._is_over = True
        self._saved.append(self._tell())
        self._save()
        self._announcer.mark_changed(self)

    def stop(self) -> None:
        """Tell no more of it."""
        self._log.drop_listeners.remove(self)

    def _save(self) -> None:
        while self._position != self._log.head:
            self._saved.append(self._tell())

    # What the follower is told.

    @property
    def is_told(self) -> bool:
        """Whether the follower knows all that is in the log."""
        log = self._log
        return not self._saved and (self._is_over or (self._position == log.head and self._start == log.start))

    def next_told(self) -> _Told:
        """How the log is now, within bounds: if there is more, it comes next."""
        return self._saved.popleft() if self._saved else self._tell()

    def unsent_segments(self) -> list[int]:
        """Segments that the follower will never hear of, if it is told nothing more."""
        return [run.segment for told in self._saved for run in told.news.runs if run.start is not None]

    def _tell(self) -> _Told:
        log = self._log
        if self._position < log.start:
            self._position = log.start
            self._announcer.resumes += 1
        position = self._position
        self._start = log.start
        runs: list[Run] = []
        descriptors: list[int] = []
        self._add_runs(runs, descriptors)
        configs: list[Config] = []
        points = self._points_to_tell(configs)
        boundaries = [
            (each.boundary, self._number_of(each.config, configs))
            for each in log.boundaries.between(position, self._position)
        ]
        config = self._number_of(log.config, configs)
        self._forget_configs()
        news = News(
            self.number,
            position,
            self._start,
            runs,
            log.last_timestamp_ms,
            log.video_interval_s,
            log.has_video,
            log.publication_start,
            self._publication,
            self._is_live,
            self._is_over and self._position == log.head,
            config,
            configs,
            points,
            log.numbering,
            boundaries,
        )
        size = _NEWS_BYTES + _BOUNDARY_BYTES * len(boundaries)
        size += sum(len(run.entries) + len(run.copied or b"") for run in runs)
        size += sum(len(payload) for new in configs for _, _, payload in new.frames)
        return _Told(news, tuple(descriptors), size)

    def _add_runs(self, runs: list[Run], descriptors: list[int]) -> None:
        room = _MAX_NEWS_ENTRIES
        for segment in self._log.segments_from(self._position):
            if room == 0 or len(runs) == _MAX_NEWS_RUNS:
                return
            start = None
            if segment is not self._newest:
                start = segment.start
                self._newest = segment
                self._newest_number = self._announcer.lend(self._log, segment)
                self._newest_entries = 0
            descriptor = segment.buffer.descriptor
            first = self._newest_entries
            last = min(len(segment.entries), first + room)
            if descriptor is None:
                last = _last_to_copy(segment, first, last)
            entries = segment.entries[first:last]
            end = entries[-1].position + entries[-1].encoded_bytes
            copied = segment.read(self._position, end - self._position) if descriptor is None else None
            if descriptor is not None and start is not None:
                descriptors.append(descriptor)
            runs.append(Run(self._newest_number, start, pack_entries(entries), copied))
            room -= len(entries)
            self._newest_entries = last
            self._position = end
            if end != segment.end:
                return

    def _points_to_tell(self, configs: list[Config]) -> Points | None:
        remembered = self._log.points.remembered
        if remembered == self._points:
            return None
        # Some may be appended and not flushed, or beyond what fitted into these news.
        newest, to_look_back = (
            tuple(point for point in points if point.position < self._position) for points in remembered
        )
        if (newest, to_look_back) == self._points:
            return None
        self._points = (newest, to_look_back)
        return Points(
            [point_to_send(point, self._number_of(point.config, configs)) for point in newest],
            [point_to_send(point, self._number_of(point.config, configs)) for point in to_look_back],
        )

    def _number_of(self, config: CodecConfig, configs: list[Config]) -> int:
        for known, number in self._configs:
            if known is config:
                return number
        self._last_config_number += 1
        self._configs.append((config, self._last_config_number))
        configs.append(config_to_send(self._last_config_number, config))
        return self._last_config_number

    def _forget_configs(self) -> None:
        """As the follower does: only those stay to which something refers."""
        if len(self._configs) > 1:
            used = {id(self._log.config), *(id(point.config) for points in self._points for point in points)}
            told = self._log.boundaries.between(self._start, self._position)
            used.update(id(each.config) for each in told)
            self._configs = [(config, number) for config, number in self._configs if id(config) in used]


class Announcer:
    """All that one follower is told."""

    def __init__(self) -> None:
        self._streams: dict[int, AnnouncedStream] = {}
        self._changed: dict[AnnouncedStream, None] = {}
        """Of which there may be something to tell, those first that have waited for long."""
        self._answers: list[Parcel] = []
        self._lent: dict[int, tuple[StreamLog, Segment]] = {}
        self._last_stream_number = 0
        self._last_segment_number = 0
        self.resumes = 0
        """How often a follower had to be told that some messages are missing."""

    @property
    def has_news(self) -> bool:
        """Whether `take` would give something."""
        return bool(self._changed or self._answers)

    @property
    def lent_segments(self) -> int:
        """How many segments the follower holds, or is about to."""
        return len(self._lent)

    def follow(self, name: bytes, epoch: int, log: StreamLog, *, is_live: bool) -> AnnouncedStream:
        """Tell the follower of a log from now on, beginning with all that it holds."""
        self._last_stream_number += 1
        stream = AnnouncedStream(self, self._last_stream_number, log, is_live=is_live)
        self._streams[stream.number] = stream
        self._answers.append(Parcel(encode(Opened(name, epoch, stream.number, log.start))))
        self.mark_changed(stream)
        return stream

    def refuse(self, name: bytes, epoch: int) -> None:
        """The follower asked for a stream that is not here."""
        self._answers.append(Parcel(encode(NotHere(name, epoch))))

    def unfollow(self, number: int) -> AnnouncedStream:
        """Tell it no more of a log. What it holds of it, it still has to release."""
        stream = self._streams.pop(number, None)
        if stream is None:
            raise MalformedInput("following", f"stream {number} is not followed")
        self._changed.pop(stream, None)
        stream.stop()
        self.release(stream.unsent_segments())
        return stream

    def release(self, segments: list[int]) -> None:
        """The follower has let go of segments."""
        for number in segments:
            lent = self._lent.pop(number, None)
            if lent is None:
                raise MalformedInput("following", f"segment {number} is not lent")
            log, segment = lent
            log.unpin(segment)

    def take(self, room_bytes: int) -> list[Parcel]:
        """What to send now, about as much as there is room for. What is left comes with a later round."""
        if room_bytes <= 0:
            self._mark_behind()
            return []
        parcels, self._answers = self._answers, []
        while self._changed and room_bytes > 0:
            news: list[News] = []
            descriptors: list[int] = []
            while self._changed and room_bytes > 0 and len(descriptors) + _MAX_NEWS_RUNS <= _MAX_ROUND_DESCRIPTORS:
                stream = next(iter(self._changed))
                told = stream.next_told()
                if stream.is_told:
                    del self._changed[stream]
                    stream.is_behind = False
                news.append(told.news)
                descriptors += told.descriptors
                room_bytes -= told.size_bytes
            parcels.append(Parcel(encode(Round(news)), tuple(descriptors)))
        self._mark_behind()
        return parcels

    def _mark_behind(self) -> None:
        for stream in self._changed:
            stream.is_behind = True

    def close(self) -> None:
        """The follower is gone, and with it all that it held."""
        for stream in self._streams.values():
            stream.stop()
        self._streams.clear()
        self._changed.clear()
        self._answers.clear()
        self.release(list(self._lent))

    # What its streams ask.

    def mark_changed(self, stream: AnnouncedStream) -> None:
        """There may be something to tell of a stream."""
        if stream.number in self._streams:
            self._changed[stream] = None

    def lend(self, log: StreamLog, segment: Segment) -> int:
        """The follower is about to hold a segment: it stays until it is released."""
        self._last_segment_number += 1
        segment.pin()
        self._lent[self._last_segment_number] = (log, segment)
        return self._last_segment_number


def _last_to_copy(segment: Segment, first: int, last: int) -> int:
    copied_bytes = 0
    for index in range(first, last):
        copied_bytes += segment.entries[index].encoded_bytes
        if copied_bytes > _MAX_COPIED_BYTES and index > first:
            return index
    return last
