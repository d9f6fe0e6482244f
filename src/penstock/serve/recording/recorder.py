"""The recorder: which streams are recorded, and the way of their messages to the thread that writes them.

Owns the media path's side of recording. A stream is recorded if the operator's patterns name it; what its publisher
asks for cannot widen that. Its messages reach the writer through a follower, a few times a second and all streams
together; nothing here opens, reads or writes a file, and nothing waits for one that does. When the disk is slow,
followers lag as far as they may and then give up whole GOPs.

A publisher that comes back within its grace goes on with its recording, whatever it asks for then. A stream that
begins anew is a new recording; published as `append`, its files are the next segments of its newest recording. A stream
that moves to another worker is given up here, and goes on there in the next segment of the same recording; one whose
worker is lost goes on likewise, which is why the recording is told as soon as it is known. The operator may stop and
start the recording of a live stream, within the patterns; what was stopped stays so until the stream ends, in whichever
worker it goes on.
"""

import fnmatch
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.amf import printable
from penstock.logs import get_logger
from penstock.relay.follower import Follower, FollowerBatch, FollowerLimits
from penstock.relay.readable_log import Flush
from penstock.serve.boot import Boot
from penstock.serve.recording.archive import Archive, Notice, SegmentLimits
from penstock.serve.recording.listener import RecordingListener
from penstock.serve.recording.recording import RecordingOrder
from penstock.serve.recording.recording_file import Disk
from penstock.serve.recording.retention import RetentionLimits
from penstock.serve.recording.writer_thread import Begin, Continue, Delete, End, RecordingThread, Stop, Take
from penstock.serve.settings import FileModes
from penstock.serve.streams.observer import Observer

if TYPE_CHECKING:
    from penstock.serve.streams.live_stream import LiveStream
    from penstock.serve.streams.publisher import Publisher

_HAND_OVER_INTERVAL_S: Final = 0.25
"""Often enough to lose little in a crash, seldom enough that the writer wakes up for many messages at once."""
_MAX_IN_FLIGHT_BYTES: Final = 32 * 1024 * 1024
_MAX_STREAM_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
"""What the writer has at a time, of all streams and of one: it cannot be dropped any more."""
_STALLED_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """What is recorded, where, and how much is kept."""

    folder: Path
    streams: tuple[str, ...] = ()
    """Patterns of APP/STREAM: what none of them names is not recorded, whatever its publisher asks for."""
    segments: SegmentLimits = field(default_factory=SegmentLimits)
    retention: RetentionLimits = field(default_factory=RetentionLimits)
    follower: FollowerLimits = field(default_factory=FollowerLimits)
    max_total_backlog_bytes: int = 256 * 1024 * 1024
    """What all streams together may keep in memory for a slow disk."""
    modes: FileModes = field(default_factory=FileModes)

    def records(self, stream_key: str) -> bool:
        """Whether a stream is to be recorded."""
        return any(fnmatch.fnmatchcase(stream_key, pattern) for pattern in self.streams)


class _Feed:
    """one recorded stream, as a listener to its flushes."""

    def __init__(self, recorder: "Recorder", live_stream: "LiveStream", recording_id: str) -> None:
        self.live_stream = live_stream
        self.recording_id = recording_id
        self.told_id: str | None = None
        """What the recording was last told to be called: one that is appended to another takes the name of that."""
        self.follower = Follower(live_stream.log, recorder.settings.follower)
        self._recorder = recorder

    def on_flush(self, flush: Flush, now: float) -> None:
        """New messages are in the log."""
        self.follower.on_flush(flush, now)
        self._recorder.tick(now)

    def hand_over(self, thread: RecordingThread, max_bytes: int | None = None) -> int:
        """Give the writer what is there, about as much as is allowed. How much that was."""
        before_bytes = self.follower.backlog_bytes
        batches = self.follower.take(max_bytes)
        taken_bytes = before_bytes - self.follower.backlog_bytes
        if batches:
            thread.submit(Take(self.recording_id, batches, lambda: self._give_back(batches)))
        return taken_bytes

    @property
    def in_flight_bytes(self) -> int:
        """What the writer has of it."""
        return self.follower.held_bytes - self.follower.backlog_bytes

    def _give_back(self, batches: list[FollowerBatch]) -> None:
        for batch in batches:
            self.follower.done(batch)


class Recorder(Observer):
    """Records streams. To be joined to the other observers; its calls belong to the thread of the media path."""

    def __init__(
        self,
        settings: RecordingSettings,
        chunk_size: int,
        listeners: Sequence[RecordingListener] = (),
        boot: Boot | None = None,
        *,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`chunk_size` is the one that the server's logs are encoded with. Without a boot it is alone in its folder."""
        self.settings = settings
        self._listeners = tuple(listeners)
        self._feeds: dict[str, _Feed] = {}
        self._ending: list[_Feed] = []
        """Those of streams that are over, until the writer has given everything back."""
        self._continued: dict[str, tuple[str, int | None]] = {}
        """Recordings that go on here as soon as their stream does, by stream."""
        self._stopped: set[str] = set()
        """Live streams that are not recorded though the patterns name them."""
        self.on_recording: Callable[[LiveStream, str | None], None] = lambda _live_stream, _recording_id: None
        """Told which recording a stream is in, so that another worker can go on with it; None: it was stopped."""
        self._ticked_at = 0.0
        self._told_stall_since: float | None = None
        self._dropped_by_ended = 0

        def new_archive(tell: Callable[[Notice], None]) -> Archive:
            return Archive(
                settings.folder,
                settings.segments,
                settings.retention,
                settings.modes,
                boot or Boot.alone(),
                chunk_size=chunk_size,
                disk=disk or Disk(),
                clock=clock,
                wall_clock=wall_clock,
                tell=tell,
            )

        self._thread = RecordingThread(new_archive)

    @property
    def recordings(self) -> int:
        """How many streams are being recorded."""
        return len(self._feeds)

    @property
    def backlog_bytes(self) -> int:
        """Bytes that are kept in memory until the disk has taken them."""
        return sum(feed.follower.held_bytes for feed in (*self._feeds.values(), *self._ending))

    @property
    def dropped_messages(self) -> int:
        """Messages that are in no file because the disk was too slow or failed."""
        dropped_by_followers = sum(feed.follower.dropped_messages for feed in self._feeds.values())
        return dropped_by_followers + self._dropped_by_ended + self._thread.dropped_messages

    def start(self) -> None:
        """Begin. What the last run left unfinished is repaired first; streams that come meanwhile wait."""
        self._thread.start()

    def close(self, deadline_s: float) -> bool:
        """Have everything written that was accepted, and end. False if the disk did not take it in time."""
        for feed in self._feeds.values():
            self._end(feed)
        self._feeds.clear()
        self._thread.submit(Stop())
        is_done = self._thread.join(deadline_s)
        self._collect()
        return is_done

    # What the media path tells.

    def continue_recording(self, stream_key: str, recording_id: str, last_timestamp_ms: int | None = None) -> None:
        """Another worker has recorded this stream up to that timestamp: it goes on here when it is published next."""
        self._continued[stream_key] = recording_id, last_timestamp_ms

    def publish_started(self, _publisher: "Publisher", live_stream: "LiveStream", publishing_type: str) -> None:
        """Record it if it is to be; a stream that is being recorded goes on."""
        continued = self._continued.pop(live_stream.key, None)
        feed = self._feeds.get(live_stream.key)
        if feed is not None:
            position = live_stream.log.head + live_stream.log.unflushed_bytes
            self._thread.submit(Continue(feed.recording_id, position))
            return
        if not self.settings.records(live_stream.key) or live_stream.key in self._stopped:
            return
        # The manifest is JSON, which cannot hold bytes that are no text.
        app, stream = printable(live_stream.app_name), printable(live_stream.stream_name)
        if continued is None:
            order = RecordingOrder(secrets.token_hex(8), app, stream, is_append=publishing_type == "append")
        else:
            recording_id, last_timestamp_ms = continued
            order = RecordingOrder(
                recording_id, app, stream, is_append=False, is_continued=True, last_timestamp_ms=last_timestamp_ms
            )
        self._begin(live_stream, order)

    def _begin(self, live_stream: "LiveStream", order: RecordingOrder) -> None:
        feed = _Feed(self, live_stream, order.recording_id)
        self._thread.submit(Begin(order))
        self._feeds[live_stream.key] = feed
        live_stream.listeners.append(feed)
        self._tell_recording(feed)

    def is_recording(self, stream_key: str) -> bool:
        """Whether a stream is being recorded here."""
        return stream_key in self._feeds

    def set_recording(self, live_stream: "LiveStream", *, is_recording: bool) -> None:
        """Stop recording a live stream, or record it from its next key frame on if the patterns name it."""
        key = live_stream.key
        if not is_recording:
            self._stopped.add(key)
            self._give_up(live_stream)
            self.on_recording(live_stream, None)
        elif key not in self._feeds and self.settings.records(key):
            self._stopped.discard(key)
            app, stream = printable(live_stream.app_name), printable(live_stream.stream_name)
            self._begin(live_stream, RecordingOrder(secrets.token_hex(8), app, stream, is_append=False))

    def delete(self, recording_id: str, segment: int) -> None:
        """A finished file of a recording is to go, whichever worker wrote it."""
        self._thread.submit(Delete(recording_id, segment))

    def publish_stopped(self, _publisher: "Publisher", live_stream: "LiveStream", _reason: str) -> None:
        """It may go on elsewhere next, so its recording must be known by now."""
        feed = self._feeds.get(live_stream.key)
        if feed is not None:
            self._tell_recording(feed)

    def stream_arrived(self, live_stream: "LiveStream", recording_id: str | None) -> None:
        """Another worker has recorded it so far, or was told to stop that."""
        if recording_id is None:
            self._stopped.add(live_stream.key)
            return
        # In an empty log nobody has told how far it had come.
        last_timestamp_ms = live_stream.log.last_timestamp_ms if live_stream.log.head else None
        self.continue_recording(live_stream.key, recording_id, last_timestamp_ms)

    def stream_left(self, live_stream: "LiveStream") -> None:
        """Its recording ends here with its last message, and goes on elsewhere."""
        self.stream_closed(live_stream)

    def stream_closed(self, live_stream: "LiveStream") -> None:
        """Its recording ends with its last message."""
        self._stopped.discard(live_stream.key)
        self._give_up(live_stream)

    def _give_up(self, live_stream: "LiveStream") -> None:
        feed = self._feeds.pop(live_stream.key, None)
        if feed is not None:
            live_stream.listeners.remove(feed)
            self._end(feed)

    def second_passed(self, now: float) -> None:
        """Look after streams that send nothing."""
        self.tick(now)

    def tick(self, now: float) -> None:
        """Hand over what has come, take back what is done, and tell what there is to tell, a few times a second."""
        if now - self._ticked_at < _HAND_OVER_INTERVAL_S:
            return
        self._ticked_at = now
        self._collect()
        for feed in self._feeds.values():
            self._tell_recording(feed)
        self._hand_over()
        self._keep_within_allowance(now)
        self._watch_the_disk(now)

    def _tell_recording(self, feed: _Feed) -> None:
        recording_id = self._thread.recording_id_of(feed.recording_id)
        if recording_id != feed.told_id:
            feed.told_id = recording_id
            self.on_recording(feed.live_stream, recording_id)

    def _hand_over(self) -> None:
        """Give the writer as much as it may have, the streams in turn."""
        max_bytes = min(_MAX_IN_FLIGHT_BYTES, self.settings.max_total_backlog_bytes // 2)
        room_bytes = max_bytes - sum(feed.in_flight_bytes for feed in (*self._feeds.values(), *self._ending))
        for key, feed in list(self._feeds.items()):
            stream_room_bytes = min(room_bytes, _MAX_STREAM_IN_FLIGHT_BYTES - feed.in_flight_bytes)
            if stream_room_bytes > 0:
                room_bytes -= feed.hand_over(self._thread, stream_room_bytes)
                # Whoever had its turn comes last in the next round.
                self._feeds[key] = self._feeds.pop(key)

    def _end(self, feed: _Feed) -> None:
        feed.hand_over(self._thread)
        self._dropped_by_ended += feed.follower.dropped_messages
        self._thread.submit(End(feed.recording_id))
        self._ending.append(feed)

    def _keep_within_allowance(self, now: float) -> None:
        """All streams together: those that hold most give up GOPs first."""
        excess_bytes = self.backlog_bytes - self.settings.max_total_backlog_bytes
        while excess_bytes > 0:
            followers = [feed.follower for feed in self._feeds.values() if feed.follower.has_backlog]
            if not followers:
                return
            follower = max(followers, key=lambda follower: follower.backlog_bytes)
            held_bytes = follower.held_bytes
            follower.drop_oldest_gop(now)
            excess_bytes -= held_bytes - follower.held_bytes

    def _watch_the_disk(self, now: float) -> None:
        busy_since = self._thread.busy_since
        if busy_since is not None and busy_since != self._told_stall_since and now - busy_since >= _STALLED_S:
            self._told_stall_since = busy_since
            stalled_s = now - busy_since
            self._tell(lambda listener: listener.stalled(stalled_s))

    def _collect(self) -> None:
        self._thread.take_back()
        self._ending = [feed for feed in self._ending if feed.follower.held_bytes]
        for notice in self._thread.notices():
            self._tell(notice)

    def _tell(self, notice: Notice) -> None:
        for listener in self._listeners:
            try:
                notice(listener)
            except Exception:  # whoever listens must not disturb the media path
                get_logger().error("Listener to recordings failed", exc_info=True)
