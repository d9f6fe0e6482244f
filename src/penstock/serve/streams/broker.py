"""The broker: names to live streams, and what every event of every connection leads to.

Owns the rules between connections: who may connect, publish and play, who waits for a stream, takeover and grace.
Which worker has a name is asked of the registry and answered later. Streams that other workers have, or follow, are
the matter of `peers`; sending is the matter of streams and connections.
"""

# Long because: what is published and what is played under a name is one matter.

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from penstock.control.messages import NOBODY, Challenge, Continuation, PublishAnswer, SeatAnswer, Verdict, key_of
from penstock.errors import ProtocolViolation
from penstock.media.frame import FrameKind
from penstock.protocol.chunk_writer import standalone_writer
from penstock.protocol.events import (
    Acknowledged,
    ConnectRequested,
    DataCleared,
    DataReceived,
    EndReason,
    Event,
    HandshakeCompleted,
    MessageIgnored,
    PauseChanged,
    PlayEnded,
    PlayRequested,
    PongReceived,
    PublishEnded,
    PublishRequested,
    ReceiveChanged,
    SeekRequested,
    StreamOpened,
)
from penstock.protocol.message import MessageType
from penstock.protocol.states import StreamState
from penstock.protocol.status import StatusCode
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import Flush, FrameEncoders, ReadableLog
from penstock.relay.segment import SegmentStore
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop
from penstock.serve.sending.fan_out import FanOut
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.streams.dimensions import dimensions_text, named_parameters
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.liveness import Liveness
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.peers import Peers
from penstock.serve.streams.read_paces import ReadPaces
from penstock.serve.streams.registry import OnJudged, Registry
from penstock.serve.streams.viewer import ViewedStream, Viewer

# Chunk streams of the shared encoding: none of those on which sessions compress headers.
_SHARED_CHUNK_STREAMS: Final = {FrameKind.AUDIO: 4, FrameKind.VIDEO: 6, FrameKind.DATA: 8}
_MAX_PUBLICATIONS: Final = 8
"""Of one connection, since they all end with it in one step. Encoders have one."""
_FOLLOWED_WITHIN_S: Final = 5.0
"""How long a viewer waits at least for a stream that another worker has, whatever its app says."""
_YIELDED_S: Final = 5.0
"""For how long at least a stream whose publisher was replaced waits for the one that is to follow."""
_GOODBYE: Final = "The server is shutting down."
_OWN_NAME: Final = "viewer"
"""The parameter of a query by which a viewer may name itself."""


def shared_encoders(chunk_size: int) -> FrameEncoders:
    """The encoding that all viewers share: message stream 1, a full header, absolute time."""
    return {
        kind: standalone_writer(chunk_stream_id, int(kind), 1, chunk_size)
        for kind, chunk_stream_id in _SHARED_CHUNK_STREAMS.items()
    }


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants to publish or play a stream."""

    connection: RtmpConnection
    key: str
    app: AppSettings


class Broker:
    """All streams and all who publish or watch them."""

    def __init__(
        self,
        settings: ServerSettings,
        store: SegmentStore,
        fan_out: FanOut,
        *,
        loop: Loop,
        observer: Observer,
        registry: Registry,
        mark: Callable[[LiveStream], None],
        show: Callable[[list[tuple[LiveStream, Flush]]], None],
    ) -> None:
        """`mark`: called with a stream that has something to flush. `show`: sends what others have made visible."""
        self.settings = settings
        self.loop = loop
        self.observer = observer
        self.budget = LogBudget(settings.max_total_log_bytes)
        self.read_paces = ReadPaces(loop, lambda: self.peers.followed_streams)
        self.connections: dict[str, RtmpConnection] = {}
        self.streams: dict[str, LiveStream] = {}
        self.registry = registry
        registry.holder = self
        self.recording_id_of: Callable[[str], str | None] = lambda _key: None
        """The recording that a stream is in."""
        self.is_closing = False
        self.stream_dirty = mark
        self.codecs_known = observer.codecs_known
        self.first_frame_sent = observer.first_frame_sent
        self.viewer_skipped = observer.viewer_skipped
        self._store = store
        self._encoders = shared_encoders(settings.connection.chunk_size)
        self._fan_out = fan_out
        self.peers = Peers(self, show, self._encoders, settings.log_limits)
        self._liveness = Liveness(loop, self.streams, self.ping)
        self._waiting: dict[str, dict[Viewer, float]] = {}
        """Viewers of streams that are not there, and until when they wait."""
        self._held_input_bytes = 0

    def apply(self, settings: ServerSettings) -> None:
        """Go on by other settings. What was announced to open connections stays as it was."""
        # All viewers share one encoding, so the chunk size is fixed for the life of the process.
        chunk_size = self.settings.connection.chunk_size
        self.settings = replace(settings, connection=replace(settings.connection, chunk_size=chunk_size))
        self.budget.max_bytes = settings.max_total_log_bytes
        for stream in self.streams.values():
            stream.app = settings.app(stream.app_name)

    # What connections tell.

    def on_event(self, connection: RtmpConnection, event: Event) -> None:
        """Deal with one event."""
        match event:
            case DataReceived():
                stream = self._published_by(connection, event.stream_id)
                if stream is not None:
                    stream.take_data(event.timestamp_ms, event.payload, self.loop.now)
            case DataCleared():
                stream = self._published_by(connection, event.stream_id)
                if stream is not None:
                    stream.clear_metadata()
            case HandshakeCompleted():
                connection.handshaken_at = self.loop.now
                self.observer.handshake_completed(connection)
            case ConnectRequested():
                self._on_connect(connection, event)
            case StreamOpened():
                self.observer.stream_created(connection, event.stream_id)
            case PublishRequested():
                self._on_publish(connection, event)
            case PublishEnded():
                self._on_publish_ended(connection, event)
            case PlayRequested():
                self._on_play(connection, event)
            case PlayEnded():
                self._stop(connection, event.stream_id, event.reason.value)
            case PauseChanged():
                self._on_pause(connection, event)
            case ReceiveChanged():
                self._on_receive(connection, event)
            case SeekRequested():
                connection.session.reject_seek(event.stream_id, "A live stream cannot be sought in.")
            case PongReceived():
                now_ms = int(time.monotonic() * 1000) & 0xFFFFFFFF
                connection.round_trip_ms = (now_ms - event.timestamp_ms) & 0xFFFFFFFF
                self.read_paces.update(connection)
            case MessageIgnored():
                self.observer.message_ignored(connection, event.type_id, event.reason)
            case _:
                pass
        if not isinstance(event, Acknowledged | PongReceived | DataReceived):
            connection.asked_at = self.loop.now

    def on_input_held(self, change_bytes: int) -> None:
        """A connection holds more or less of half messages: above the bound, the holder of most goes."""
        self._held_input_bytes += change_bytes
        if self._held_input_bytes > self.settings.max_half_message_bytes:
            most = max(self.connections.values(), key=lambda connection: connection.held_bytes)
            self.observer.limit_hit("half messages", f"{most.address} holds {most.held_bytes} bytes")
            most.close(f"holds {most.held_bytes} bytes of messages that are not whole")

    def on_violation(self, connection: RtmpConnection, violation: ProtocolViolation) -> None:
        """A peer broke the protocol: it goes."""
        self.observer.violation(connection, violation)
        connection.close(str(violation))

    def on_bug(self, connection: RtmpConnection, error: Exception) -> None:
        """One exception costs one connection."""
        self.observer.error(connection, error)
        connection.close(f"internal error: {type(error).__name__}")

    def on_closed(self, connection: RtmpConnection, reason: str) -> None:
        """A connection is gone; what it did has ended already."""
        self.connections.pop(connection.id, None)
        self.read_paces.forget(connection)
        self.observer.connection_closed(connection, reason)

    def _on_connect(self, connection: RtmpConnection, event: ConnectRequested) -> None:
        connection.app = event.app
        connection.own_name = _own_name(event.app_query)
        connection.dimensions = named_parameters(self.settings.dimension_parameters, event.app_query)
        connection.client = event.flash_version or ""
        if event.fault is not None or not event.app:
            connection.session.reject_connect(event.fault or "An app must have a name.", StatusCode.CONNECT_INVALID_APP)
            connection.close_when_sent = True
            return
        connection.connected_at = self.loop.now
        connection.session.accept_connect()
        self.observer.connected(connection)

    def _dimensions(self, connection: RtmpConnection, query: str | None) -> str | None:
        """Those of a stream's query, and of the app's where the stream's has none."""
        of_stream = named_parameters(self.settings.dimension_parameters, query)
        return dimensions_text({**connection.dimensions, **of_stream})

    # Publishing.

    def _on_publish(self, connection: RtmpConnection, event: PublishRequested) -> None:
        request = self._request(connection, event.name)
        if len(connection.publications) >= _MAX_PUBLICATIONS:
            self.observer.limit_hit("publications per connection", f"{connection.address} has {_MAX_PUBLICATIONS}")
            connection.session.reject_publish(event.stream_id, "This connection has no room for more publications.")
            return
        self.registry.claim(
            request.key,
            connection.id,
            may_replace=request.app.may_replace_publisher,
            grace_s=request.app.grace_s,
            answer=partial(self._publish_decided, request, event),
        )

    def _request(self, connection: RtmpConnection, name: str) -> Request:
        return Request(connection, f"{connection.app}/{name}", self.settings.app(connection.app))

    def _publish_decided(self, request: Request, event: PublishRequested, grant: PublishAnswer) -> None:
        connection = request.connection
        is_too_late = (
            connection.is_closed
            or connection.session.stream_state(event.stream_id) is not StreamState.PUBLISH_REQUESTED
        )
        is_granted = grant.verdict is not Verdict.REFUSE
        if is_granted and (is_too_late or self.is_closing):
            self._give_back(request.key, grant.epoch)
        if is_too_late:
            return
        if is_granted and not self.is_closing:
            self._begin(request, event, grant)
        else:
            reason = f"{request.key} is being published already."
            connection.session.reject_publish(event.stream_id, reason, StatusCode.PUBLISH_BAD_NAME)
            self.observer.publish_refused(connection, request.key, reason)
        connection.request_turn()

    def _give_back(self, key: str, epoch: int) -> None:
        """A name was granted to one that is gone. A stream that waits for its publisher here goes on waiting."""
        stream = self.streams.get(key)
        if stream is not None and stream.epoch is not None:
            stream.epoch = epoch
            self.registry.begun(key, epoch)
        else:
            self.registry.ended(key, epoch)

    def challenged(self, challenge: Challenge, answer: OnJudged) -> None:
        """Somebody wants a name that this worker has: it is given up if its publisher is, or may be replaced."""
        key = key_of(challenge.name)
        decide = partial(self._yield, key, answer)
        self._liveness.judge(key, challenge.claimant, decide, may_replace=challenge.may_replace)

    def _yield(self, key: str, answer: OnJudged, verdict: Verdict) -> None:
        stream = self.streams.get(key)
        if verdict is Verdict.REFUSE or stream is None or stream.epoch is None:
            answer(verdict, None)
            return
        self._end_publisher_of(stream)
        goes_on = stream.continuation
        answer(
            verdict,
            Continuation(goes_on.position, goes_on.last_timestamp_ms, goes_on.last_frame_at, self.recording_id_of(key)),
        )

    def _end_publisher_of(self, stream: LiveStream) -> None:
        first = stream.publisher
        if first is None:
            return
        for stream_id, published in list(first.publications.items()):
            if published is stream:
                first.session.end_publish(stream_id, "Another publisher has taken over.")
                del first.publications[stream_id]
        stream.flush(self.loop.now)
        self.observer.publish_stopped(first, stream, "replaced by another publisher")
        stream.lose(self.loop.now, at_least_s=_YIELDED_S)
        self.peers.changed(stream)
        first.close_when_sent = True
        first.send_session_data()

    def _begin(self, request: Request, event: PublishRequested, grant: PublishAnswer) -> None:
        connection, key, now = request.connection, request.key, self.loop.now
        stream = self._stream_to_publish(request, grant.continuation)
        stream.epoch = grant.epoch
        stream.begin(connection, now, self._dimensions(connection, event.query))
        connection.publications[event.stream_id] = stream
        connection.session.accept_publish(event.stream_id)
        connection.update_rates()
        self.read_paces.update(connection)
        self.observer.publish_started(connection, stream, event.publishing_type)
        self.registry.begun(key, grant.epoch)
        self.peers.changed(stream)
        self.seat_waiting(stream)
        self._update_publisher_of(stream)

    def _stream_to_publish(self, request: Request, continuation: Continuation | None) -> LiveStream:
        """The stream that is here, or a new one, which goes on where it was in another worker if there was one."""
        key, now = request.key, self.loop.now
        stream = self.streams.get(key)
        if stream is not None and stream.epoch is not None:
            return stream
        recording_id = None if continuation is None else continuation.recording_id
        if continuation is None and stream is not None:
            # Its worker was lost, and the registry has not heard yet how far it had come: for those here, this far.
            continuation = stream.continuation
        position = 0 if continuation is None else continuation.position
        log = StreamLog(self._store, self._encoders, self.settings.log_limits, self.budget, position)
        # Also where it was only asked for: it is written here from now on.
        self.peers.forget(key)
        if stream is None:
            stream = self.add_stream(key, request.connection.app, log)
        else:
            stream.move(log, now)
        if continuation is not None:
            stream.resume(continuation)
            self.observer.stream_arrived(stream, recording_id)
        return stream

    def add_stream(self, key: str, app_name: str, log: ReadableLog) -> LiveStream:
        """A stream that was not here before."""
        stream = self.streams[key] = LiveStream(
            key,
            app_name,
            self.settings.app(app_name),
            log=log,
            fan_out=self._fan_out,
            owner=self,
            now=self.loop.now,
        )
        return stream

    def seat_waiting(self, stream: LiveStream) -> None:
        """Those who wait for a stream that has come."""
        for viewer in self._waiting.pop(stream.key, {}):
            is_early = viewer.waited_for_stream
            stream.add(viewer, self.loop.now)
            viewer.waited_for_stream = is_early

    def mirror(self, key: str, log: ReadableLog, *, is_same: bool) -> LiveStream | None:
        """A stream of another worker can be followed from now on. None if nobody wants it any more."""
        stream = self.streams.get(key)
        if stream is not None:
            stream.move(log, self.loop.now, is_same=is_same)
        elif key in self._waiting:
            stream = self.add_stream(key, next(iter(self._waiting[key])).connection.app, log)
        if stream is not None:
            self.seat_waiting(stream)
        return stream

    def watched_elsewhere(self, stream: LiveStream) -> None:
        """Whether a stream of this worker is watched in others has changed."""
        self._update_publisher_of(stream)
        if stream.log.unflushed_bytes and not stream.is_dirty:
            # It was to be flushed when somebody would come.
            self.stream_dirty(stream)

    def _published_by(self, connection: RtmpConnection, stream_id: int) -> LiveStream | None:
        sink = connection.publications.get(stream_id)
        return None if sink is None else self.streams.get(sink.key)

    def _on_publish_ended(self, connection: RtmpConnection, event: PublishEnded) -> None:
        stream = self._published_by(connection, event.stream_id)
        if stream is None:
            return
        del connection.publications[event.stream_id]
        connection.update_rates()
        self.read_paces.update(connection)
        # Flushed first: who counts a publication's frames has all of them when it hears of the end.
        stream.flush(self.loop.now)
        self.observer.publish_stopped(connection, stream, event.reason.value)
        if event.reason is EndReason.CONNECTION_LOST and stream.app.grace_s > 0 and not self.is_closing:
            stream.lose(self.loop.now)
            self.peers.changed(stream)
        else:
            self.end_stream(stream)

    def end_stream(self, stream: LiveStream) -> None:
        """A stream is over: its name is free, and everybody who watches it is told in turn."""
        stream.flush(self.loop.now)
        self.streams.pop(stream.key, None)
        epoch, stream.epoch = stream.epoch, None
        if epoch is None:
            self.peers.forget(stream.key)
            stream.end()
        else:
            self.observer.stream_closed(stream)
            self.peers.ended(stream, epoch)
            stream.end()
            self.registry.ended(stream.key, epoch)

    def owner_changed(self, key: str, owner: int, epoch: int) -> None:
        """A stream has begun in another worker: viewers here follow it there."""
        stream = self.streams.get(key)
        if stream is not None and stream.epoch is not None:
            stream.epoch = stream.grace_until = None
            self.observer.stream_left(stream)
            self.peers.left(stream)
        self.drop_unwatched(key)
        if (stream is not None and stream.viewers) or key in self._waiting:
            self.peers.follow(key, owner, epoch)

    def stream_over(self, key: str, epoch: int) -> None:
        """A stream that is watched here is over. Who follows its log hears of it there, behind its last frame."""
        self.peers.over(key, epoch)

    def drop_unwatched(self, key: str) -> None:
        """Nobody may watch a stream any more that another worker has."""
        stream = self.streams.get(key)
        if stream is not None and stream.epoch is None and not stream.viewers:
            del self.streams[key]
            self.peers.forget(key)
            stream.log.close()

    def _update_publisher_of(self, stream: ViewedStream) -> None:
        if stream.publisher is not None:
            self.read_paces.update(stream.publisher)

    # Playing.

    def _on_play(self, connection: RtmpConnection, event: PlayRequested) -> None:
        request = self._request(connection, event.name)
        if len(connection.plays) >= self.settings.max_plays_per_connection:
            self.observer.limit_hit("plays per connection", f"{connection.address} has {len(connection.plays)}")
            text = "This connection has no room for more plays."
            connection.session.reject_play(event.stream_id, text, StatusCode.PLAY_FAILED)
            return
        own_name = _own_name(event.query) or connection.own_name
        dimensions = self._dimensions(connection, event.query)
        viewer = Viewer(connection, event.stream_id, request.key, own_name, self.loop.now, dimensions=dimensions)
        connection.plays[event.stream_id] = viewer
        self._refit_plays(connection, but=viewer)
        answer = partial(self._play_decided, request, viewer)
        # A pause right behind it is of a play that has begun, if it can.
        connection.session.hold()
        self.registry.watch(request.key, request.app.max_viewers_per_stream, answer)

    def _play_decided(self, request: Request, viewer: Viewer, seat: SeatAnswer) -> None:
        connection, key, app = viewer.connection, request.key, request.app
        if not connection.is_closed:
            connection.session.go_on()
            connection.request_turn()
        if connection.plays.get(viewer.stream_id) is not viewer:
            if seat.is_admitted:
                self.registry.unwatch(key)
            return  # the answer came too late
        if not seat.is_admitted:
            self.observer.limit_hit("viewers per stream", f"{key} has {app.max_viewers_per_stream}")
            self._turn_away(viewer, f"{key} has no room for more viewers.", StatusCode.PLAY_FAILED, "no room")
            return
        viewer.has_seat = True
        stream = self.streams.get(key)
        is_elsewhere = seat.owner not in (NOBODY, self.registry.worker)
        if stream is not None:
            stream.add(viewer, self.loop.now)
            viewer.work(self.loop.now)
            self._update_publisher_of(stream)
            self.peers.viewers_changed(key)
            if is_elsewhere and stream.epoch is not None:
                # It waits here for a publisher that has yielded, and goes on where nobody knew of it.
                self.owner_changed(key, seat.owner, seat.epoch)
        elif is_elsewhere or app.play_wait_s > 0:
            # It is to be followed in another worker, or has not begun.
            wait_s = max(app.play_wait_s, _FOLLOWED_WITHIN_S) if is_elsewhere else app.play_wait_s
            viewer.waited_for_stream = not is_elsewhere
            self._waiting.setdefault(key, {})[viewer] = self.loop.now + wait_s
            if is_elsewhere:
                self.peers.follow(key, seat.owner, seat.epoch)
        else:
            self._not_found(viewer)

    def admit(self, viewer: Viewer) -> None:
        """A viewer of a stream that is there is told that its play begins."""
        viewer.is_admitted = True
        connection = viewer.connection
        connection.session.accept_play(viewer.stream_id)
        connection.queue.put(connection.session.data_to_send())
        self.observer.play_started(viewer)
        self.read_paces.update(connection)

    def end_play(self, viewer: Viewer) -> None:
        """A viewer has had all that it gets of a stream that is over."""
        connection = viewer.connection
        if connection.is_closed or connection.plays.get(viewer.stream_id) is not viewer:
            return
        viewer.finish_in_queue()
        connection.session.end_play(viewer.stream_id)
        self._stop(connection, viewer.stream_id, "stream ended")
        connection.queue.put(connection.session.data_to_send())
        connection.request_turn()

    def _not_found(self, viewer: Viewer) -> None:
        self._turn_away(
            viewer, f"{viewer.key} is not being published.", StatusCode.PLAY_STREAM_NOT_FOUND, "stream not found"
        )

    def _turn_away(self, viewer: Viewer, text: str, code: StatusCode, reason: str) -> None:
        connection = viewer.connection
        self._wait_no_more(viewer)
        self._leave_seat(viewer)
        connection.plays.pop(viewer.stream_id, None)
        self._refit_plays(connection)
        connection.session.reject_play(viewer.stream_id, text, code)
        self.observer.play_stopped(viewer, reason)
        connection.send_session_data()

    def _wait_no_more(self, viewer: Viewer) -> None:
        waiting = self._waiting.get(viewer.key)
        if waiting is not None:
            waiting.pop(viewer, None)
            if not waiting:
                del self._waiting[viewer.key]
                if viewer.key not in self.streams:
                    # It was to be followed when it was there.
                    self.peers.forget(viewer.key)

    def _leave_seat(self, viewer: Viewer) -> None:
        if viewer.has_seat:
            viewer.has_seat = False
            self.registry.unwatch(viewer.key)

    def _stop(self, connection: RtmpConnection, stream_id: int, reason: str) -> None:
        """A viewer watches no more."""
        viewer = connection.plays.get(stream_id)
        if not isinstance(viewer, Viewer):
            return
        self._wait_no_more(viewer)
        self._leave_seat(viewer)
        stream = viewer.stream
        if stream is not None:
            viewer.finish_in_queue()
            stream.remove(viewer)
            self._update_publisher_of(stream)
            self.peers.viewers_changed(viewer.key)
            self.drop_unwatched(viewer.key)
        del connection.plays[stream_id]
        self.read_paces.update(connection)
        self.observer.play_stopped(viewer, reason)
        self._refit_plays(connection)

    def _refit_plays(self, connection: RtmpConnection, but: Viewer | None = None) -> None:
        """The number of plays has changed: one alone is sent the shared encoding, several are filtered."""
        for viewer in list(connection.plays.values()):
            if viewer is not but and isinstance(viewer, Viewer) and viewer.stream is not None:
                viewer.stream.change_filter(viewer)

    def _on_pause(self, connection: RtmpConnection, event: PauseChanged) -> None:
        """A viewer paused or resumed: it goes on at a key frame."""
        viewer = connection.plays.get(event.stream_id)
        if not isinstance(viewer, Viewer) or viewer.stream is None:
            return
        viewer.is_paused = event.is_paused
        if event.is_paused:
            viewer.finish_in_queue()
            viewer.stream.unseat(viewer)
        else:
            viewer.stream.wait(viewer, self.loop.now)
            connection.request_turn()

    def _on_receive(self, connection: RtmpConnection, event: ReceiveChanged) -> None:
        """A viewer switched audio or video."""
        viewer = connection.plays.get(event.stream_id)
        if not isinstance(viewer, Viewer):
            return
        stream = viewer.stream
        if event.type_id == MessageType.AUDIO:
            viewer.track_filter = viewer.track_filter._replace(wants_audio=event.is_wanted)
        else:
            had_video = viewer.track_filter.wants_video
            viewer.track_filter = viewer.track_filter._replace(wants_video=event.is_wanted)
            if event.is_wanted and not had_video and stream is not None and viewer.cursor is not None:
                # Video begins anew at a key frame, and with it everything.
                viewer.finish_in_queue()
                stream.unseat(viewer)
                stream.wait(viewer, self.loop.now)
                connection.request_turn()
                return
        if stream is not None:
            stream.change_filter(viewer)

    # Once a second, and at the end.

    def look_after_stream(self, stream: LiveStream, now: float) -> None:
        """A stream whose publisher did not come back is over; viewers do not wait for a key frame for ever."""
        if self.streams.get(stream.key) is not stream:
            return
        if stream.grace_until is not None and now >= stream.grace_until:
            self.end_stream(stream)
        else:
            stream.call_waiting(now)

    def look_after_waiting(self, viewer: Viewer, now: float) -> None:
        """A viewer whose stream did not begin in time is told so."""
        until = self._waiting.get(viewer.key, {}).get(viewer)
        if until is not None and now >= until:
            self._not_found(viewer)

    def ping(self, connection: RtmpConnection) -> None:
        """Ask a peer for a sign of life."""
        connection.pinged_at = self.loop.now
        # The answer is timed, so it must not wait to be read.
        connection.set_pace(Pace.AT_ONCE)
        connection.session.send_ping(int(time.monotonic() * 1000))
        connection.send_session_data()

    def say_goodbye(self) -> None:
        """Shut down: streams end, and everybody is told before their connection closes."""
        self.is_closing = True
        for stream in list(self.streams.values()):
            self.end_stream(stream)
        for connection in list(self.connections.values()):
            # What its publisher has sent already is ignored: there is no stream any more to take it.
            for stream_id in connection.publications:
                connection.session.end_publish(stream_id, _GOODBYE)
            connection.publications.clear()
            if connection.connected_at is not None:
                connection.last_words = partial(connection.session.announce_shutdown, _GOODBYE)
            connection.close_when_sent = True
            connection.request_turn()


def _own_name(query: str | None) -> str | None:
    """What a viewer calls itself in a query."""
    if not query or _OWN_NAME not in query:
        return None
    return next((value for name, value in parse_qsl(query) if name == _OWN_NAME), None)
