"""A live stream: its log, its publisher, and all who watch or follow it. The fan-out is here.

Owns how what was appended reaches every viewer: those in step are sent the same bytes by one system call each and
nothing else; one that takes less than all of it leaves the step and is served in turns of its connection until it has
caught up. Also owns where a joiner begins, the stream's one time over several publications, and what becomes of it
without a publisher. Knows no policy between streams.
"""

# Long because: a viewer is in one of five places here, and each step moves it between them.

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from penstock.control.messages import Continuation
from penstock.errors import MisuseError
from penstock.media.describe import describe
from penstock.media.fmp4_tracks import LeftOut
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.encodings.encoding import EncodingKind
from penstock.relay.entry_points import EntryPoint
from penstock.relay.log import StreamLog
from penstock.relay.readable_log import Flush, ReadableLog
from penstock.relay.timeline import Timeline
from penstock.serve.connections.peer_rates import UNIT_BYTES
from penstock.serve.sending.fan_out import FanOut, Sending
from penstock.serve.settings import AppSettings, JoinPolicy
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.publisher import Publisher
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

    def encode(self, stream: "LiveStream", kind: EncodingKind, now: float) -> "EncodedForm":
        """A stream is to be encoded in another way besides."""


class LiveStream:
    """One stream from its first publication to its end."""

    kind: EncodingKind | None = None
    """None: as RTMP has it."""

    def __init__(
        self,
        key: str,
        app_name: str,
        app: AppSettings,
        *,
        log: ReadableLog,
        fan_out: FanOut,
        owner: StreamOwner,
        now: float,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.key = key
        self.app_name = app_name
        self.stream_name = key.removeprefix(f"{app_name}/")
        self.app = app
        self.log = log
        self._written_log = log if isinstance(log, StreamLog) else None
        """The same, if it is written here; None: another process writes it, and it is only read here."""
        self.is_published_elsewhere = False
        """Whether somebody publishes it in the worker that has its name."""
        self.publisher: Publisher | None = None
        self.last_media_at = now
        """When the publisher last sent anything, or began."""
        self.asked_at = -math.inf
        """When its publisher was last asked for a sign of life because another one wants its name."""
        self.grace_until: float | None = None
        self.is_over = False
        """Whether it ended: its viewers are told when they have had the rest."""
        self.is_kept = False
        """Whether it stays after its end for those who are about to follow it in other workers."""
        self.began_at = now
        """When its last publication did."""
        self.viewers: set[Viewer] = set()
        self._takers = 0
        """How many of them are sent the log itself."""
        self.listeners: list[FlushListener] = []
        """Who hears of every flush besides viewers: followers such as the recorder, meters of telemetry."""
        self._eager_listeners = 0
        """How many of them are in a hurry, as viewers are."""
        self.epoch: int | None = None
        """By which the supervisor knows it, while this worker has its name; None: it is followed in another one."""
        self.viewers_elsewhere: dict[int, int] = {}
        """Who watches it in workers that follow it here."""
        self.packaged_ms = 0
        """How much of it a packager here wants to be kept; 0: there is none."""
        self.not_packaged: tuple[LeftOut, ...] = ()
        """Tracks that are not in its segments here, since these cannot carry them."""
        self._kept_elsewhere: dict[int, int] = {}
        """The same in workers that follow it here."""
        self.is_dirty = False
        self.codecs_text = ""
        self.dimensions: str | None = None
        """Of its publication, as facts tell them, see `dimensions`."""
        self.grant: Grant | None = None
        """What let its publisher in."""
        self.encodings: dict[EncodingKind, EncodedForm] = {}
        """The same for viewers over HTTP, while there are any."""
        self._fan_out = fan_out
        self._owner = owner
        self._wall_clock = wall_clock
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
        """Whether somebody publishes it now, here or through another process."""
        return self.publisher is not None or self.is_published_elsewhere

    @property
    def has_viewers(self) -> bool:
        """Whether anybody waits for what is published, here or in another worker."""
        return bool(self.viewers or self.viewers_elsewhere or self.encodings or self._eager_listeners)

    @property
    def waits_for_parts_alone(self) -> bool:
        """Whether all who wait for what is published want whole parts of it."""
        is_packaged_alone = self.packaged_ms > 0 and not (self._takers or self._eager_listeners)
        return is_packaged_alone and not (self.viewers_elsewhere or self.encodings)

    def listen_eagerly(self, listener: FlushListener) -> None:
        """Have somebody hear of every flush who is in a hurry: it is flushed, and kept, as for viewers."""
        self.listeners.append(listener)
        self._eager_listeners += 1

    def stop_listening(self, listener: FlushListener) -> None:
        """The same one wants no more. One that never listened is no matter."""
        if listener in self.listeners:
            self.listeners.remove(listener)
            self._eager_listeners -= 1

    @property
    def all_viewers(self) -> int:
        """How many watch it, in all workers; those elsewhere as of their last word."""
        return self.viewers_here + sum(self.viewers_elsewhere.values())

    @property
    def viewers_here(self) -> int:
        """How many watch it in this worker, in whichever encoding."""
        return sum(len(each.viewers) for each in self.all_encodings)

    @property
    def all_encodings(self) -> "tuple[LiveStream, ...]":
        """Itself, and what it is encoded as besides."""
        return (self, *self.encodings.values()) if self.encodings else (self,)

    @property
    def auth_subject(self) -> str | None:
        """Who publishes it, as far as that was proved."""
        return None if self.grant is None else self.grant.subject

    def begin(
        self, publisher: Publisher, now: float, dimensions: str | None = None, grant: Grant | None = None
    ) -> None:
        """A publication begins; it continues the stream if there was one before."""
        if self._publications:
            if self.encodings:
                # What is left of the publication before comes before its end there too.
                self.flush(now)
            self._timeline = self._timeline.next(self.log.last_timestamp_ms, self._last_frame_at)
            self._log_to_write.begin_anew()
            for each in self.encodings.values():
                each.source_began(now)
        self._publications += 1
        self.publisher = publisher
        self.dimensions = dimensions
        self.grant = grant
        self.began_at = now
        self._expect_media(now)

    def begin_elsewhere(self, now: float) -> None:
        """A publication begins in the process that writes the log."""
        self.is_published_elsewhere = True
        self._expect_media(now)
        for each in self.encodings.values():
            each.begin_elsewhere(now)

    def join_elsewhere(self, now: float) -> None:
        """What is published in the process that writes the log is known from now on. It may have begun long ago."""
        self.is_published_elsewhere = True
        for viewer in list(self._waiting):
            # Until now there was no place to choose the newest from, nor anything to pass over.
            self.wait(viewer, now)
            if self.app.join is JoinPolicy.NEXT and not viewer.waited_for_stream:
                viewer.left_off_position = self.log.head
        for each in self.encodings.values():
            each.join_elsewhere(now)

    def lose_elsewhere(self) -> None:
        """The publisher in the process that writes the log is gone, or that process is. Others may go on with it."""
        self.is_published_elsewhere = False
        for each in self.all_encodings:
            each.log.forget_entry_points()

    def saw_media(self, now: float) -> None:
        """The process that writes the log has told of more."""
        self.last_media_at = self._last_frame_at = now

    def _expect_media(self, now: float) -> None:
        self.last_media_at = now
        self.grace_until = None
        for viewer in self._waiting:
            viewer.waited_for_stream = True

    @property
    def continuation(self) -> Continuation:
        """Where it is, for a worker in which it goes on."""
        numbering = self.log.numbering
        if numbering is not None and self._written_log is None:
            # The worker that was lost may have numbered more than was told here.
            numbering = numbering.skipping()
        return Continuation(self.log.head, self.log.last_timestamp_ms, self._last_frame_at, numbering)

    def resume(self, continuation: Continuation) -> None:
        """The next publication goes on where the stream was in another worker."""
        self.log.last_timestamp_ms = continuation.last_timestamp_ms
        self._last_frame_at = continuation.last_frame_at
        self._publications = max(1, self._publications)

    def move(self, log: ReadableLog, now: float, *, is_same: bool = False) -> None:
        """The stream goes on in another log. Viewers finish the message in hand and begin with what comes first.

        `is_same`: it is told of anew, and has what viewers were sent already: they go on behind that.
        """
        for viewer in self.viewers:
            viewer.finish_in_queue()
            self.unseat(viewer)
        self.log.close()
        self.log = log
        self._written_log = log if isinstance(log, StreamLog) else None
        self._update_kept()
        for viewer in self.viewers:
            if not is_same:
                viewer.left_off_position = 0
                viewer.waited_for_stream = True
            if not viewer.is_paused:
                self.wait(viewer, now)
        for each in self.encodings.values():
            each.source_moved(now, is_same=is_same)

    def keep(self, packaged_ms: int) -> None:
        """A packager here wants so much of it to be kept, where it is written; 0: it is gone."""
        self.packaged_ms = packaged_ms
        self._update_kept()

    def keep_elsewhere(self, worker: int, packaged_ms: int) -> None:
        """The same of a packager in a worker that follows it here."""
        self._kept_elsewhere.pop(worker, None)
        if packaged_ms:
            self._kept_elsewhere[worker] = packaged_ms
        self._update_kept()

    def _update_kept(self) -> None:
        if self._written_log is not None:
            self._written_log.kept_ms = max(self.packaged_ms, *self._kept_elsewhere.values(), 0)

    @property
    def _log_to_write(self) -> StreamLog:
        if self._written_log is None:
            raise MisuseError(f"stream {self.key}: another process writes its log")
        return self._written_log

    def take_media(self, type_id: int, timestamp_ms: int, payload: bytes, now: float) -> None:
        """Take an audio or video message of the publisher."""
        frame = frame_of(_KINDS[type_id], timestamp_ms, payload)
        self.append(frame, now)
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
        log = self._log_to_write
        wall_ms = int(self._wall_clock() * 1000)
        if self._timeline.offset_ms == 0:
            log.append(frame, now, wall_ms)
            has_setup = frame.is_setup
        else:
            # Where a stream goes on, set-up waits for the first frame.
            has_setup = False
            for placed in self._timeline.place(frame, now):
                log.append(placed, now, wall_ms)
                has_setup |= placed.is_setup
        if has_setup:
            self._describe()

    def clear_metadata(self) -> None:
        """The publisher took its metadata back."""
        self._log_to_write.clear_metadata()

    def _describe(self) -> None:
        payloads = self.log.config.decoder_setups
        text = describe(payloads.get(FrameKind.VIDEO), payloads.get(FrameKind.AUDIO))
        if text != self.codecs_text:
            self.codecs_text = text
            self._owner.codecs_known(self, text)

    def lose(self, now: float, at_least_s: float = 0.0) -> None:
        """The publisher is gone without a word; it, or another, may come within the grace."""
        self.publisher = None
        self.is_published_elsewhere = False
        self.grace_until = now + max(self.app.grace_s, at_least_s)
        for each in self.all_encodings:
            each.log.forget_entry_points()
        self._keep_only_what_is_read()

    def end(self) -> None:
        """The stream is over. Each viewer is told in a turn of its connection, when it has had the rest."""
        self.is_over = True
        self.publisher = None
        self.is_published_elsewhere = False
        for viewer in self.viewers:
            viewer.connection.request_turn()
        for each in list(self.encodings.values()):
            each.end()
        self._close_if_left()

    def _keep_only_what_is_read(self) -> None:
        """Without a publisher nobody can begin with what is kept; followers hold what they still need."""
        if not self.is_live and not self.has_viewers:
            self.log.drop_everything()

    def let_go(self) -> None:
        """It is over, and nobody is about to follow it any more."""
        self.is_kept = False
        self._close_if_left()

    def _close_if_left(self) -> None:
        if self.is_over and not self.viewers and not self.is_kept:
            self.log.close()

    # Fan-out.

    def flush(self, now: float) -> None:
        """Flush it by itself and at once, in the three steps that the streams of a round take together."""
        sending = self.begin_flush(now)
        if sending is not None:
            (sent_to_each,) = self._fan_out.send([sending])
            close_lost(self.finish_flush(sending, sent_to_each))
            for each in list(self.encodings.values()):
                each.flush(now)

    def begin_flush(self, now: float) -> Sending | None:
        """Make what was appended visible. What is to be sent to whom, before anything else happens to viewers."""
        self.is_dirty = False
        flush = None if self._written_log is None else self._written_log.flush(now)
        return None if flush is None else self.begin_show(flush, now)

    def begin_show(self, flush: Flush, now: float) -> Sending:
        """Something has become visible. What is to be sent to whom, before anything else happens to viewers."""
        for listener in self.listeners:
            listener.on_flush(flush, now)
        for each in list(self.encodings.values()):
            each.on_flush(flush, now)
        # Until it is finished: another stream of the round may be short of memory and take this one's.
        flush.segment.pin()
        return Sending(flush, list(self._in_step.values()))

    def finish_flush(self, sending: Sending, sent_to_each: list[int]) -> list[Viewer]:
        """Those in step were sent so much of it; the others get a turn. Whose connections are lost, to be closed."""
        flush, sockets = sending
        try:
            short: list[tuple[Viewer, int]] = []
            if sent_to_each.count(flush.size) != len(sockets):
                sent_by_viewer = zip(self._in_step, sent_to_each, strict=True)
                short = [(viewer, sent) for viewer, sent in sent_by_viewer if sent != flush.size]
            if self._in_step_by_copy:
                short += self._send_copies(flush)
            for viewer, sent in short:
                self._fall_behind(viewer, sent, flush)
        finally:
            self.log.unpin(flush.segment)
        for viewer in self._filtered:
            viewer.connection.request_turn()
        if self._waiting and (flush.first_point is not None or self.app.join is JoinPolicy.LIVE):
            self._call_waiting()
        return [viewer for viewer, sent in short if sent < 0]

    def _send_copies(self, flush: Flush) -> list[tuple[Viewer, int]]:
        """The same for viewers whose bytes must pass through their transport, as under TLS. Who took less than all."""
        data = flush.data
        sent_by_viewer = [(viewer, viewer.connection.send_now(data)) for viewer in self._in_step_by_copy]
        return [(viewer, sent) for viewer, sent in sent_by_viewer if sent != flush.size]

    def _fall_behind(self, viewer: Viewer, sent: int, flush: Flush) -> None:
        self.fall_out(viewer)
        if viewer.cursor is not None and sent >= 0:
            viewer.cursor.stand_in(flush.segment, flush.position)
            viewer.cursor.advance(sent)
            viewer.connection.want_write()

    def fall_out(self, viewer: Viewer) -> None:
        """A viewer in step has something else to be sent first."""
        if viewer.is_in_step and viewer.cursor is not None:
            viewer.cursor.position = self.log.head
        viewer.is_in_step = False
        self._in_step.pop(viewer, None)
        self._in_step_by_copy.pop(viewer, None)

    def break_step(self) -> None:
        """The head of a followed log is about to jump: each viewer in step keeps the place that it has."""
        for viewer in (*self._in_step, *self._in_step_by_copy):
            self.fall_out(viewer)
            viewer.connection.want_write()

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

    def encoded_as(self, kind: EncodingKind, now: float) -> "EncodedForm":
        """The stream in another encoding."""
        encoded = self.encodings.get(kind)
        if encoded is None:
            # It begins with what is visible, and nobody may have waited for that.
            self.flush(now)
            encoded = self._owner.encode(self, kind, now)
            if not encoded.is_over:
                self.encodings[kind] = encoded
        return encoded

    def drop_encoding(self, kind: EncodingKind, encoded: "EncodedForm") -> None:
        """Nobody watches it any more, or it cannot go on."""
        if self.encodings.get(kind) is encoded:
            del self.encodings[kind]
            self._keep_only_what_is_read()

    def add(self, viewer: Viewer, now: float) -> None:
        """A viewer comes. In a turn of its connection it is admitted and given a place."""
        if viewer.encoding is not self.kind and viewer.encoding is not None:
            self.encoded_as(viewer.encoding, now).add(viewer, now)
            return
        viewer.stream = self
        self.wait(viewer, now)
        # What came before it is not for one who wants the next key frame, flushed or not.
        is_next = self.app.join is JoinPolicy.NEXT
        viewer.left_off_position = self.log.head + self.log.unflushed_bytes if is_next else 0
        viewer.waited_for_stream = not self.is_live
        self.viewers.add(viewer)
        self._takers += viewer.takes_log
        viewer.connection.request_turn()
        if not self.is_dirty and self.log.unflushed_bytes:
            # It was to be flushed when somebody would come.
            self._owner.stream_dirty(self)

    def remove(self, viewer: Viewer) -> None:
        """A viewer goes."""
        self.unseat(viewer)
        if viewer in self.viewers:
            self.viewers.remove(viewer)
            self._takers -= viewer.takes_log
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
        for each in self.encodings.values():
            each.call_waiting(now)

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


class EncodedForm(LiveStream, ABC):
    """The same stream in another encoding, as it knows it: fed with what it flushes, and told what becomes of it."""

    @abstractmethod
    def on_flush(self, flush: Flush, now: float) -> None:
        """The stream has flushed something."""

    @abstractmethod
    def source_began(self, now: float) -> None:
        """Another publication continues the stream."""

    @abstractmethod
    def source_moved(self, now: float, *, is_same: bool) -> None:
        """The stream goes on in another log. `is_same`: one that has what was taken already."""

    @property
    @abstractmethod
    def left_out(self) -> tuple[LeftOut, ...]:
        """Tracks that its viewers do not get."""


def close_lost(viewers: Iterable[Viewer]) -> None:
    """The last step of a round: a connection that goes may end or flush other streams."""
    for viewer in viewers:
        viewer.connection.close("connection lost while sending")
