"""Another encoding of a live stream, such as FLV for viewers over HTTP: a log of its own, next to the stream's.

Owns how what the stream flushes gets there, and that it goes on behind gaps and moves of the stream's own log. Its
viewers are those of a stream like any other: the same fan-out, joins and skips. It is made when its first viewer comes
and goes with the last. What its encoding cannot go on with ends it, and those who come then get a new one.
"""

from collections.abc import Callable, Iterator

from penstock.media.fmp4_tracks import LeftOut
from penstock.media.frame import Frame, frame_of
from penstock.relay.codec_config import CodecConfig
from penstock.relay.encodings.encoding import Encoding, EncodingKind
from penstock.relay.log import StreamLog
from penstock.relay.payload import payload_of, read_payloads
from penstock.relay.readable_log import Flush
from penstock.relay.segment import Entry
from penstock.serve.sending.fan_out import FanOut
from penstock.serve.streams.live_stream import EncodedForm, LiveStream, StreamOwner
from penstock.serve.streams.viewer import Viewer

_READ_BYTES = 256 * 1024
_NOT_HERE = -1
"""Where a publication began of which the beginning is not in the log."""


class EncodedStream(EncodedForm):
    """One stream in one encoding."""

    def __init__(
        self,
        source: LiveStream,
        kind: EncodingKind,
        encoding: Encoding,
        log: StreamLog,
        *,
        fan_out: FanOut,
        owner: StreamOwner,
        now: float,
        chunk_size: int,
        on_error: Callable[[Exception], None],
    ) -> None:
        """`log`: empty, to be written by `encoding`. `chunk_size`: of the source's log."""
        super().__init__(source.key, source.app_name, source.app, log=log, fan_out=fan_out, owner=owner, now=now)
        self.kind = self._own_kind = kind
        self._source = source
        self._encoding = encoding
        self._written = log
        self._chunk_size = chunk_size
        self._on_error = on_error
        self._taken_until = 0
        """Up to where in the source's log everything is in this one."""
        self._is_anew = False
        """Whether what comes next has nothing before it: then the source knows what is in force there."""
        self._begin(now)

    @property
    def is_live(self) -> bool:
        """Whether somebody publishes the source."""
        return self._source.is_live

    def _begin(self, now: float) -> None:
        """With what the source keeps from its newest key frame on, so that the first viewer sees something at once."""
        source = self._source.log
        point = source.newest_point
        self._taken_until = source.head
        if point is None or point.position >= source.head or point.position < source.start:
            self._is_anew = True
            return
        frames = list(self._read_from(point.position))
        self._set_off(point.config, frames, point.position)
        for frame in frames:
            self._take(frame, now)
        self._written.flush(now)

    def _read_from(self, position: int) -> Iterator[Frame]:
        for segment in self._source.log.segments_from(position):
            place = max(position, segment.start)
            while place < segment.end:
                entries = segment.entries_from(place, _READ_BYTES)
                for entry, payload in read_payloads(segment, entries, self._chunk_size):
                    yield _frame_of(entry, payload)
                place = entries[-1].position + entries[-1].encoded_bytes

    # What the source flushes.

    def on_flush(self, flush: Flush, now: float) -> None:
        """Take it over. It is made visible, and sent, behind the source's own."""
        if self.is_over:
            return
        try:
            if flush.position > self._taken_until and not self._is_anew:
                self._pass_over_gap(now)
            frames = list(self._frames_of(flush))
            if self._is_anew and frames:
                point = flush.first_point or self._source.log.newest_point
                config = self._source.log.config if point is None else point.config
                self._set_off(config, frames, max(flush.position, self._taken_until))
            for frame in frames:
                self._take(frame, now)
            self._taken_until = max(self._taken_until, flush.position + flush.size)
        except Exception as error:
            # The source and its other viewers go on.
            self._on_error(error)
            self.give_up()

    def _set_off(self, config: CodecConfig, frames: list[Frame], position: int) -> None:
        """These are the first frames, from this position of the source's log on."""
        self._is_anew = False
        log = self._written
        log.config = config
        is_whole = position == self._source.log.publication_start and self._encoding.carries_setup
        log.publication_start = log.head + log.unflushed_bytes if is_whole else _NOT_HERE
        self._encoding.begin(config, frames)

    def _frames_of(self, flush: Flush) -> Iterator[Frame]:
        entries = [entry for entry in flush.entries if entry.position >= self._taken_until]
        if flush.pieces is None:
            if entries:
                for entry, payload in read_payloads(flush.segment, entries, self._chunk_size):
                    yield _frame_of(entry, payload)
            return
        for entry, piece in zip(flush.entries, flush.pieces, strict=True):
            if entry.position >= self._taken_until:
                yield _frame_of(entry, payload_of(memoryview(piece), entry, self._chunk_size))

    def _take(self, frame: Frame, now: float) -> None:
        if self.is_over:
            return
        if frame.is_setup:
            config = self._written.config.with_frame(frame)
            if self._encoding.is_over(config):
                self.give_up()
                return
        if self._encoding.takes(frame):
            self._written.append(frame, now)
        elif frame.is_setup:
            self._written.config = self._written.config.with_frame(frame)
        elif self._encoding.is_over(self._written.config):
            self.give_up()

    def _pass_over_gap(self, now: float) -> None:
        """Something is missing: everybody goes on at the next key frame."""
        self._is_anew = True
        self.log.forget_entry_points()
        for viewer in self.viewers:
            viewer.finish_in_queue()
            self.unseat(viewer)
            if not viewer.is_paused:
                self.wait(viewer, now)

    def attend(self, viewer: Viewer, now: float) -> None:
        """Do what has come up for a viewer, as soon as it is known what it is to be told first."""
        if viewer.is_admitted or self._encoding.is_ready:
            super().attend(viewer, now)
        elif self.is_over:
            self._owner.end_play(viewer)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Tracks that its viewers do not get."""
        return self._encoding.left_out

    # What becomes of the source.

    def source_began(self, now: float) -> None:
        """Another publication continues the source."""
        self._written.begin_anew()
        if not self._encoding.carries_setup:
            self._written.publication_start = _NOT_HERE
        self._expect_media(now)

    def source_moved(self, now: float, *, is_same: bool) -> None:
        """The source goes on in another log. `is_same`: one that has what was taken already."""
        if is_same:
            return
        self._taken_until = 0
        self._written.begin_anew()
        self._pass_over_gap(now)
        for viewer in self.viewers:
            viewer.waited_for_stream = True

    def give_up(self) -> None:
        """It cannot go on: its viewers are told the end, and who comes then begins anew."""
        self._source.drop_encoding(self._own_kind, self)
        self.end()

    def remove(self, viewer: Viewer) -> None:
        """A viewer goes; the last one takes the encoding with it."""
        super().remove(viewer)
        if not self.viewers:
            self._source.drop_encoding(self._own_kind, self)
            self.is_over = True
            self._close_if_left()


def _frame_of(entry: Entry, payload: memoryview | bytearray) -> Frame:
    return frame_of(entry.kind, entry.timestamp_ms, bytes(payload))
