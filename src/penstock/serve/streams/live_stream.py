"""A live stream: its log, its publisher, and all who watch or follow it. The fan-out is here.

Owns how what was appended reaches every viewer: those in step are sent the same bytes by one system call each and
nothing else; one that takes less than all of it leaves the step and is served in turns of its connection until it has
caught up. Also owns where a joiner begins, the stream's one time over several publications, and what becomes of it
without a publisher. Knows no policy between streams.
"""

# Long because: a viewer is in one of five places here, and each step moves it between them.

import math
from typing import Final, Protocol

from penstock.media.describe import describe
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.entry_points import EntryPoint
from penstock.relay.log import Flush, StreamLog
from penstock.relay.timeline import Timeline
from penstock.serve.connections.peer_rates import UNIT_BYTES
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Timer
from penstock.serve.settings import AppSettings, JoinPolicy
from penstock.serve.streams.fan_out import FanOut
from penstock.serve.streams.viewer import Viewer

_KINDS: Final = {8: FrameKind.AUDIO, 9: FrameKind.VIDEO}
_REST_BYTES: Final = 1024 * 1024
"""How much one that lags is still sent when its stream is over; one farther behind gets the message in hand."""


class FlushListener(Protocol):
    """Hears what was flushed, on the loop: to be quick about it."""

    def on_flush(self, flush: Flush, now: float) -> None:
        """New messages are in the log."""


class StreamOwner(Protocol):
    """What a stream asks of whoever keeps it."""

    def stream_dirty(self, stream: "LiveStream") -> None:
        """Something was appended that is to be flushed."""

    def codecs_known(self, stream: "LiveStream", text: str) -> None:
        """What it consists of, when it is known and when it changes."""

    def admit(self, viewer: Viewer) -> None:
        """A viewer that waited for the stream is to be told that its play begins."""

    def end_play(self, viewer: Viewer) -> None:
        """A viewer has had all that it gets of a stream that is over."""

    def first_frame_sent(self, viewer: Viewer) -> None:
        """A viewer was given its place in the log."""

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        """A viewer fell behind and lost some."""


class LiveStream:
    """One stream from its first publication to its end."""

    def __init__(
        self,
        key: str,
        app_name: str,
        app: AppSettings,
        *,
        log: StreamLog,
        fan_out: FanOut,
        owner: StreamOwner,
        now: float,
    ) -> None:
        self.key = key
        self.app_name = app_name
        self.stream_name = key.removeprefix(f"{app_name}/")
        self.app = app
        self.log = log
        self.publisher: RtmpConnection | None = None
        self.last_media_at = now
        """When the publisher last sent anything, or began."""
        self.asked_at = -math.inf
        """When its publisher was last asked for a sign of life because another one wants its name."""
        self.grace_until: float | None = None
        self.is_over = False
        """Whether it ended: its viewers are told when they have had the rest."""
        self.viewers: set[Viewer] = set()
        self.listeners: list[FlushListener] = []
        """Who hears of every flush besides viewers: followers such as the recorder, meters of telemetry."""
        self.is_dirty = False
        self.flush_timer: Timer | None = None
        self.codecs_text = ""
        self.dimensions: str | None = None
        """Of its publication, as facts tell them, see `dimensions`."""
        self._fan_out = fan_out
        self._owner = owner
        self._publications = 0
        self._timeline = Timeline()
        self._last_frame_at = now
        # Dicts used as ordered sets: walked on every flush, left from anywhere.
        self._in_step: dict[Viewer, int] = {}
        """With their sockets: a walk over those alone does not fetch each viewer from memory."""
        self._in_step_by_copy: dict[Viewer, None] = {}
        self._filtered: dict[Viewer, None] = {}
        self._waiting: dict[Viewer, None] = {}

    # Publishing.

    @property
    def is_live(self) -> bool:
        """Whether somebody publishes it now."""
        return self.publisher is not None

    @property
    def has_viewers(self) -> bool:
        """Whether anybody waits for what is published."""
        return bool(self.viewers)

    def begin(self, publisher: RtmpConnection, now: float, dimensions: str | None = None) -> None:
        """A publication begins; it continues the stream if there was one before."""
        if self._publications:
            self._timeline = self._timeline.next(self.log.last_timestamp_ms, self._last_frame_at)
            self.log.begin_anew()
        self._publications += 1
        self.publisher = publisher
        self.dimensions = dimensions
        self.last_media_at = now
        self.grace_until = None
        for viewer in self._waiting:
            viewer.waited_for_stream = True

    def take_media(self, type_id: int, timestamp_ms: int, payload: bytes, now: float) -> None:
        """Take an audio or video message of the publisher."""
        frame = frame_of(_KINDS[type_id], timestamp_ms, payload)
        self.append(frame, now)
        if frame.is_setup:
            self._describe()
        if not self.is_dirty:
            self._owner.stream_dirty(self)

    def take_data(self, timestamp_ms: int, payload: bytes, now: float) -> None:
        """Take a data message of the publisher."""
        self.append(frame_of(FrameKind.DATA, timestamp_ms, payload), now)
        if not self.is_dirty:
            self._owner.stream_dirty(self)

    def append(self, frame: Frame, now: float) -> None:
        """Take a frame of the publisher."""
        self.last_media_at = now
        if not frame.is_setup:
            self._last_frame_at = now
        if self._timeline.offset_ms == 0:
            self.log.append(frame, now)
            return
        for placed in self._timeline.place(frame, now):
            self.log.append(placed, now)

    def _describe(self) -> None:
        payloads = {frame.kind: frame.payload for frame in self.log.config.frames if frame.kind is not FrameKind.DATA}
        text = describe(payloads.get(FrameKind.VIDEO), payloads.get(FrameKind.AUDIO))
        if text != self.codecs_text:
            self.codecs_text = text
            self._owner.codecs_known(self, text)

    def lose(self, now: float) -> None:
        """The publisher is gone without a word; it may come back within the grace."""
        self.publisher = None
        self.grace_until = now + self.app.grace_s
        self.log.forget_entry_points()
        self._keep_only_what_is_read()

    def end(self) -> None:
        """The stream is over. Each viewer is told in a turn of its connection, when it has had the rest."""
        self.is_over = True
        self.publisher = None
        for viewer in self.viewers:
            viewer.connection.request_turn()
        self._close_if_left()

    def _keep_only_what_is_read(self) -> None:
        """Without a publisher nobody can begin with what is kept; followers hold what they still need."""
        if self.publisher is None and not self.viewers:
            self.log.drop_everything()

    def _close_if_left(self) -> None:
        if self.is_over and not self.viewers:
            self.log.close()

    # Fan-out.

    def flush(self, now: float) -> None:
        """Make what was appended visible and send it to everybody in step; the others get a turn."""
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
        for viewer in self._filtered:
            viewer.connection.request_turn()
        if self._waiting and (flush.first_point is not None or self.app.join is JoinPolicy.LIVE):
            self._call_waiting()

    def _send_in_step(self, flush: Flush) -> None:
        size = flush.size
        sockets = list(self._in_step.values())
        sent_to_each = self._fan_out.send(sockets, flush)
        if sent_to_each.count(size) == len(sockets):
            return
        sent_by_viewer = zip(self._in_step, sent_to_each, strict=True)
        short = [(viewer, sent) for viewer, sent in sent_by_viewer if sent != size]
        self._fall_behind(short, flush.position)

    def _send_copies(self, flush: Flush) -> None:
        """The same for viewers whose bytes must pass through their transport, as under TLS."""
        data = b"".join(flush.pieces)
        short: list[tuple[Viewer, int]] = []
        for viewer in self._in_step_by_copy:
            sent = viewer.connection.send_now(data)
            if sent != flush.size:
                short.append((viewer, sent))
        self._fall_behind(short, flush.position)

    def _fall_behind(self, short: list[tuple[Viewer, int]], position: int) -> None:
        for viewer, sent in short:
            self.fall_out(viewer)
            if viewer.cursor is not None and sent >= 0:
                viewer.cursor.position = position
                viewer.cursor.next_range()
                viewer.cursor.advance(sent)
                viewer.connection.want_write()
        # Last, since a connection that goes may end or flush other streams, and memory may be taken back by that.
        for viewer, sent in short:
            if sent < 0:
                viewer.connection.close("connection lost while sending")

    def fall_out(self, viewer: Viewer) -> None:
        """A viewer in step has something else to be sent first."""
        if viewer.is_in_step and viewer.cursor is not None:
            viewer.cursor.position = self.log.head
        viewer.is_in_step = False
        self._in_step.pop(viewer, None)
        self._in_step_by_copy.pop(viewer, None)

    def catch_up(self, viewer: Viewer) -> bool:
        """Nothing is left to send to a viewer: it is in step from now on. False if the stream is over instead."""
        if self.is_over:
            self._owner.end_play(viewer)
            return False
        if viewer.is_shared:
            viewer.is_in_step = True
            if viewer.connection.can_send_files:
                self._in_step[viewer] = viewer.descriptor
            else:
                self._in_step_by_copy[viewer] = None
        return True

    # Joining.

    def add(self, viewer: Viewer, now: float) -> None:
        """A viewer comes. In a turn of its connection it is admitted and given a place."""
        viewer.stream = self
        self.wait(viewer, now)
        # What came before it is not for one who wants the next key frame, flushed or not.
        is_next = self.app.join is JoinPolicy.NEXT
        viewer.left_off_position = self.log.head + self.log.unflushed_bytes if is_next else 0
        viewer.waited_for_stream = not self.is_live
        self.viewers.add(viewer)
        viewer.connection.request_turn()
        if not self.is_dirty and self.log.unflushed_bytes:
            # It was to be flushed when somebody would come.
            self._owner.stream_dirty(self)

    def remove(self, viewer: Viewer) -> None:
        """A viewer goes."""
        self.unseat(viewer)
        self.viewers.discard(viewer)
        self._keep_only_what_is_read()
        self._close_if_left()

    def unseat(self, viewer: Viewer) -> None:
        """A viewer gives up its place and is sent nothing until it is seated again."""
        self.fall_out(viewer)
        self._filtered.pop(viewer, None)
        self._waiting.pop(viewer, None)
        viewer.leave_place()

    def wait(self, viewer: Viewer, now: float) -> None:
        """A viewer without a place waits for the next one."""
        log = self.log
        newest = log.newest_point if self.app.join is JoinPolicy.KEYFRAME else None
        viewer.waits_since = now
        viewer.waits_from = log.head + log.unflushed_bytes if newest is None else newest.position
        self._waiting[viewer] = None

    def attend(self, viewer: Viewer, now: float) -> None:
        """Do what has come up for a viewer: admit it, give it a place, or tell it the end."""
        if not viewer.is_admitted:
            self._owner.admit(viewer)
        if viewer in self._waiting:
            self._seat(viewer, now)
        if self.is_over:
            cursor = viewer.cursor
            if cursor is None or viewer.is_in_step or cursor.is_in_step or cursor.lag_bytes > _REST_BYTES:
                self._owner.end_play(viewer)

    def call_waiting(self, now: float) -> None:
        """Those who have waited for a key frame for long begin without one."""
        if any(self._may_begin_at_head(viewer, now) for viewer in self._waiting):
            self._call_waiting()

    def _call_waiting(self) -> None:
        for viewer in self._waiting:
            viewer.connection.request_turn()

    def _seat(self, viewer: Viewer, now: float) -> bool:
        """Where a viewer begins: the codec configuration in force there first, stamped with that place's time."""
        place = self._place_of(viewer, now)
        if place is None:
            return False
        log = self.log
        self._waiting.pop(viewer, None)
        is_first = viewer.first_frame_at is None
        viewer.take_place(place.position)
        viewer.progressed_at = now
        track_filter, connection = viewer.track_filter, viewer.connection
        # One who waited may begin elsewhere all the same: live, or where the first message is not kept any more.
        gets_everything = viewer.waited_for_stream and place.position == log.publication_start
        queued_bytes = 0
        for message in log.joining_messages(place.config, place.timestamp_ms):
            is_in_log = gets_everything and (message.kind is not FrameKind.DATA or place.config.has_metadata)
            if track_filter.wants(message.kind) and not is_in_log:
                connection.queue.put(track_filter.fit(message.encoded))
                queued_bytes += len(message.encoded)
        # It is sent that whatever its request cost it.
        connection.charge(queued_bytes // UNIT_BYTES)
        viewer.waited_for_stream = False
        if not viewer.is_shared:
            self._filtered[viewer] = None
        if is_first:
            viewer.first_frame_at = now
            self._owner.first_frame_sent(viewer)
        return True

    def _place_of(self, viewer: Viewer, now: float) -> EntryPoint | None:
        log, join = self.log, self.app.join
        if not self.is_live and not self.is_over:
            return None  # what is in the log is of a publication that was lost
        # One who has waited begins with the first place that came: an encoder's first second may come at once, and
        # none of it is old.
        point = log.first_point_from(max(viewer.waits_from, viewer.left_off_position)) or log.newest_point
        if point is not None and point.position > log.head:
            point = None  # appended but not flushed yet
        if viewer.waited_for_stream and join is not JoinPolicy.LIVE and log.start <= log.publication_start < log.head:
            # It gets everything, once there is a place at which a player can begin.
            if point is not None or self._may_begin_at_head(viewer, now):
                return EntryPoint(log.publication_start, log.last_timestamp_ms, log.config, now)
            return None
        if viewer.first_frame_at is None and viewer.is_ffmpeg and join is JoinPolicy.KEYFRAME:
            # It is as late with what is over, and need not wait for it.
            point = log.lookback_point(now) or point
        if join is not JoinPolicy.LIVE and point is not None and viewer.left_off_position <= point.position <= log.head:
            return point
        if log.head > 0 and self._may_begin_at_head(viewer, now):
            return EntryPoint(log.head, log.last_timestamp_ms, log.config, now)
        return None

    def _may_begin_at_head(self, viewer: Viewer, now: float) -> bool:
        if self.app.join is JoinPolicy.LIVE:
            return True
        return now - viewer.waits_since >= self.app.keyframe_wait_s

    def skip(self, viewer: Viewer, now: float) -> bool:
        """A viewer has lost its place: it goes on at the newest key frame. False if it has to wait for one."""
        lost_position = viewer.position
        self.unseat(viewer)
        if self.is_over:
            self._owner.end_play(viewer)
            return True
        viewer.skips += 1
        newest = self.log.newest_point
        if newest is not None:
            viewer.waits_from = newest.position
        is_seated = self._seat(viewer, now)
        if not is_seated:
            self.wait(viewer, now)
        # One that has to wait loses at least what is there.
        skipped = max(0, (viewer.position if is_seated else self.log.head) - lost_position)
        viewer.skipped_bytes += skipped
        self._owner.viewer_skipped(viewer, skipped)
        return is_seated

    def change_filter(self, viewer: Viewer) -> None:
        """What a viewer wants has changed: it goes on from where it is, by the path that fits."""
        self.fall_out(viewer)
        if viewer.cursor is None:
            return
        if viewer.is_shared:
            self._filtered.pop(viewer, None)
        else:
            # Also for one that is filtered already: while another play of its connection came to nothing it was not.
            viewer.finish_in_queue()
            self._filtered[viewer] = None
        viewer.connection.request_turn()
