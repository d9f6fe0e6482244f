"""A live_stream: one live stream and all who watch it. The fan-out is here.

Owns how what was appended reaches every viewer: those in step are sent the same bytes by one system call each and
nothing else; one that takes less than all of it leaves the step and is served on its own until it has caught up. Also
owns where a joiner begins. Knows no names, no publishers and no policy between streams.
"""

from typing import Protocol

from penstock.media.frame import FrameKind
from penstock.relay.entry_points import EntryPoint
from penstock.relay.hub import HubStream
from penstock.relay.log import Flush, FrameEncoders, StreamLog
from penstock.serve.reactor import Timer
from penstock.serve.settings import AppSettings, JoinPolicy
from penstock.serve.streams.fan_out import FanOut
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.viewer import Viewer


class FlushListener(Protocol):
    """Hears what was flushed, on the loop: to be quick about it."""

    def on_flush(self, flush: Flush, now: float) -> None:
        """New messages are in the log."""


class LiveStream:
    """The viewers of one stream."""

    def __init__(
        self,
        stream: HubStream,
        app_name: str,
        app: AppSettings,
        *,
        encoders: FrameEncoders,
        fan_out: FanOut,
        observer: Observer,
    ) -> None:
        self.stream = stream
        self.app = app
        self.append = stream.append
        """Takes a frame of the publisher and the time."""
        self.app_name = app_name
        self.stream_name = stream.key.removeprefix(f"{app_name}/")
        self.viewers: set[Viewer] = set()
        self.listeners: list[FlushListener] = []
        """Who hears of every flush besides viewers: followers of recorders, meters of telemetry."""
        self.is_dirty = False
        self.flush_timer: Timer | None = None
        self.look_timer: Timer | None = None
        self.codecs_text = ""
        self._encoders = encoders
        self._fan_out = fan_out
        self._observer = observer
        # Dicts used as ordered sets: walked on every flush, left from anywhere.
        self._in_step: dict[Viewer, int] = {}
        """With their sockets: a walk over those alone does not fetch each viewer from memory."""
        self._in_step_by_copy: dict[Viewer, None] = {}
        self._selective: dict[Viewer, None] = {}
        self._waiting: dict[Viewer, None] = {}

    @property
    def key(self) -> str:
        """The name of the stream."""
        return self.stream.key

    @property
    def log(self) -> StreamLog:
        """The log of the stream."""
        return self.stream.log

    # Fan-out.

    def flush(self, now: float) -> None:
        """Make what was appended visible and send it to everybody."""
        self.is_dirty = False
        if self.flush_timer is not None:
            self.flush_timer.cancel()
            self.flush_timer = None
        flush = self.log.flush(now)
        if flush is None:
            return
        for listener in self.listeners:
            listener.on_flush(flush, now)
        if self._in_step:
            self._send_in_step(flush)
        if self._in_step_by_copy:
            self._send_copies(flush)
        for viewer in list(self._selective):
            viewer.connection.flush_output()
        if self._waiting:
            self._seat_at(flush.first_point or self.log.newest_point, now)

    def _send_in_step(self, flush: Flush) -> None:
        size = flush.size
        sockets = list(self._in_step.values())
        sent_to_each = self._fan_out.send(sockets, flush)
        if sent_to_each.count(size) == len(sockets):
            return
        sent_by_viewer = zip(self._in_step, sent_to_each, strict=True)
        short = [(viewer, sent) for viewer, sent in sent_by_viewer if sent != size]
        self._fall_out_of_step(short, flush.position)

    def _send_copies(self, flush: Flush) -> None:
        """The same for viewers whose bytes must pass through their transport, as under TLS."""
        data = b"".join(flush.pieces)
        short: list[tuple[Viewer, int]] = []
        for viewer in self._in_step_by_copy:
            sent = viewer.connection.send_now(data)
            if sent != flush.size:
                short.append((viewer, sent))
        self._fall_out_of_step(short, flush.position)

    def _fall_out_of_step(self, short: list[tuple[Viewer, int]], position: int) -> None:
        for viewer, sent in short:
            self._remove_from_step(viewer)
            if viewer.cursor is not None and sent >= 0:
                viewer.cursor.position = position
                viewer.cursor.next_range()
                viewer.cursor.advance(sent)
                viewer.connection.want_write()
        # Last, since a connection that goes may end or flush other streams, and memory may be taken back by that.
        for viewer, sent in short:
            if sent < 0:
                viewer.connection.close("connection lost while sending")

    def _remove_from_step(self, viewer: Viewer) -> None:
        if viewer.is_in_step and viewer.cursor is not None:
            viewer.cursor.position = self.log.head
        viewer.is_in_step = False
        self._in_step.pop(viewer, None)
        self._in_step_by_copy.pop(viewer, None)

    def catch_up(self, viewer: Viewer) -> None:
        """Nothing is left to send to a viewer: from now on it is in step."""
        if viewer.is_shared:
            viewer.is_in_step = True
            if viewer.connection.can_send_files:
                self._in_step[viewer] = viewer.descriptor
            else:
                self._in_step_by_copy[viewer] = None

    def fall_out(self, viewer: Viewer) -> None:
        """A viewer in step has something else to be sent first."""
        if viewer.is_in_step:
            self._remove_from_step(viewer)

    # Joining.

    def add(self, viewer: Viewer, now: float) -> None:
        """A viewer comes; it waits until there is a place to begin."""
        # What came before it is not for one who wants the next key frame, flushed or not.
        self.flush(now)
        viewer.live_stream = self
        viewer.waits_since = now
        viewer.left_off_position = self.log.head if self.app.join is JoinPolicy.NEXT else 0
        self.viewers.add(viewer)
        self._waiting[viewer] = None
        self.seat_waiting(now)

    def remove(self, viewer: Viewer) -> None:
        """A viewer goes."""
        self.unseat(viewer)
        self.viewers.discard(viewer)

    def unseat(self, viewer: Viewer) -> None:
        """A viewer gives up its place and is sent nothing until it is seated again."""
        self._remove_from_step(viewer)
        self._selective.pop(viewer, None)
        self._waiting.pop(viewer, None)
        viewer.leave_place()

    def wait(self, viewer: Viewer, now: float) -> None:
        """A viewer without a place waits for the next one."""
        viewer.waits_since = now
        self._waiting[viewer] = None

    def seat_waiting(self, now: float) -> None:
        """Give a place to everybody who can begin now."""
        self._seat_at(self.log.newest_point, now)

    def _seat_at(self, point: EntryPoint | None, now: float) -> None:
        for viewer in [viewer for viewer in self._waiting if self._seat(viewer, point, now)]:
            self._waiting.pop(viewer, None)
            viewer.connection.flush_output()

    def _seat(self, viewer: Viewer, point: EntryPoint | None, now: float) -> bool:
        """Where a viewer begins: set-up in force there first, stamped with that place's time."""
        log = self.log
        if not self.stream.is_live:
            return False
        is_first = viewer.first_frame_at is None
        if is_first and viewer.is_ffmpeg and self.app.join is JoinPolicy.KEYFRAME:
            # It is as late with what is over, and need not wait for it.
            point = log.lookback_point(now) or point
        if self.app.join is not JoinPolicy.LIVE and point is not None and point.position >= viewer.left_off_position:
            position, timestamp_ms, setup, began_at = point
        elif log.head > 0 and self._may_begin_at_head(viewer, now):
            position, timestamp_ms, setup, began_at = log.head, log.last_timestamp_ms, log.setup, now
        else:
            return False
        if position > log.head:
            return False  # appended but not flushed yet
        viewer.take_place(position)
        viewer.progressed_at = now
        track_filter = viewer.track_filter
        for frame in setup.joining_frames(timestamp_ms):
            if track_filter.wants(frame.kind):
                # Metadata with a time of its own is a subtitle to FFmpeg, which then opens a track that is not there.
                at_ms = 0 if frame.kind is FrameKind.DATA else timestamp_ms
                viewer.connection.queue(track_filter.fit(self._encoders[frame.kind](at_ms, frame.payload)))
        if not viewer.is_shared:
            self._selective[viewer] = None
        if is_first:
            viewer.first_frame_at = now
            viewer.looked_back_s = now - began_at
            self._observer.first_frame_sent(viewer)
        return True

    def _may_begin_at_head(self, viewer: Viewer, now: float) -> bool:
        if self.app.join is JoinPolicy.LIVE:
            return True
        return now - viewer.waits_since >= self.app.keyframe_wait_s

    def skip(self, viewer: Viewer, now: float) -> bool:
        """A viewer has lost its place: it goes on at the newest key frame. False if it has to wait for one."""
        lost_position = viewer.position
        self.unseat(viewer)
        viewer.skips += 1
        seated = self._seat(viewer, self.log.newest_point, now)
        if not seated:
            self.wait(viewer, now)
        # One that has to wait loses at least what is there.
        skipped = max(0, (viewer.position if seated else self.log.head) - lost_position)
        viewer.skipped_bytes += skipped
        self._observer.viewer_skipped(viewer, skipped)
        return seated

    def change_selection(self, viewer: Viewer) -> None:
        """What a viewer wants has changed: it goes on from where it is, by the path that fits."""
        self.fall_out(viewer)
        cursor = viewer.cursor
        if cursor is None:
            return
        if viewer.is_shared:
            self._selective.pop(viewer, None)
        else:
            # Also for one that is selective already: while another play of its connection came to nothing it was not.
            remainder = cursor.next_range() if cursor.is_inside_message else None
            if remainder is not None:
                entry = remainder.segment.entry_at(remainder.position)
                size = entry.position + entry.encoded_bytes - remainder.position
                viewer.connection.queue_first(remainder.segment.read(remainder.position, size))
                cursor.advance(size)
            self._selective[viewer] = None
        viewer.connection.flush_output()
