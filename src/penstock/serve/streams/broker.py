"""The broker: what every event of every connection leads to.

Owns the rules between connections: who may connect, publish and play, what happens when a publisher goes, and when
streams are flushed. It holds the hub and the live_streams; the reactor calls it after each round of events.
"""

import time
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from penstock.errors import ProtocolViolation
from penstock.media.describe import describe
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.protocol.chunk_writer import standalone_writer
from penstock.protocol.events import (
    Acknowledged,
    ConnectRequested,
    DataCleared,
    DataReceived,
    EndReason,
    Event,
    HandshakeCompleted,
    MediaReceived,
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
from penstock.protocol.status import StatusCode
from penstock.relay.hub import Hub, PublishAnswer
from penstock.relay.log import FrameEncoders, LogBudget, StreamLog
from penstock.relay.segment import SegmentStore
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.fan_out import FanOut
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.playing import Playing

_KINDS = {8: FrameKind.AUDIO, 9: FrameKind.VIDEO}
# Chunk streams of the shared encoding: none of those on which sessions compress headers.
_SHARED_CHUNK_STREAMS = {FrameKind.AUDIO: 4, FrameKind.VIDEO: 6, FrameKind.DATA: 8}
_LIVENESS_CHECK_S = 0.1
_SETTLED_S = 2.0
_MAX_APP_BYTES = 1024
"""As of stream names: each answer repeats it, so a long one would let few bytes ask for many."""


def shared_encoders(chunk_size: int) -> FrameEncoders:
    """The encoding that all viewers share: message stream 1, a full header, absolute time."""
    return {
        kind: standalone_writer(chunk_stream_id, int(kind), 1, chunk_size)
        for kind, chunk_stream_id in _SHARED_CHUNK_STREAMS.items()
    }


class _Question(NamedTuple):
    """When the publisher that is there was asked for a sign of life, and what it had sent by then.

    In bytes, as the answer may come in the same round of events, at the same time by the loop's clock.
    """

    asked_at: float
    heard_bytes: int


class Broker:
    """All streams and all who publish or watch them."""

    def __init__(
        self, settings: ServerSettings, store: SegmentStore, fan_out: FanOut, reactor: Reactor, observer: Observer
    ) -> None:
        self.settings = settings
        self.reactor = reactor
        self.observer = observer
        self.budget = LogBudget(settings.max_total_log_bytes)
        self.fan_out = fan_out
        self.encoders = shared_encoders(settings.connection.chunk_size)
        self.hub = Hub(lambda: StreamLog(store, self.encoders, self.settings.log_limits, self.budget))
        self.connections: dict[str, RtmpConnection] = {}
        self.live_streams: dict[str, LiveStream] = {}
        self.flusher = Flusher(reactor, settings, observer, self._publisher_of)
        self.is_closing = False
        self.playing = Playing(self)

    def apply(self, settings: ServerSettings) -> None:
        """Go on by other settings. What was announced to open connections stays as it was."""
        # All viewers share one encoding, so the chunk size is fixed for the life of the process.
        chunk_size = self.settings.connection.chunk_size
        self.settings = replace(settings, connection=replace(settings.connection, chunk_size=chunk_size))
        self.budget.max_bytes = settings.max_total_log_bytes
        for live_stream in self.live_streams.values():
            live_stream.app = settings.app(live_stream.app_name)

    # What connections say.

    def on_event(self, connection: RtmpConnection, event: Event) -> None:
        """Deal with one event."""
        match event:
            case DataReceived():
                frame = frame_of(FrameKind.DATA, event.timestamp_ms, event.payload)
                self._take_data(connection.publications[event.stream_id], frame)
            case DataCleared():
                connection.publications[event.stream_id].log.clear_metadata()
            case HandshakeCompleted():
                connection.handshaken_at = self.reactor.now
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
                self.playing.on_play(connection, event)
            case PlayEnded():
                self.playing.stop(connection, event.stream_id, event.reason.value)
            case PauseChanged():
                self.playing.on_pause(connection, event)
            case ReceiveChanged():
                self.playing.on_receive(connection, event)
            case SeekRequested():
                connection.session.reject_seek(event.stream_id, "A live stream cannot be sought in.")
            case PongReceived():
                now_ms = int(time.monotonic() * 1000) & 0xFFFFFFFF
                connection.round_trip_ms = (now_ms - event.timestamp_ms) & 0xFFFFFFFF
                self.update_gathering(connection)
            case MessageIgnored():
                self.observer.message_ignored(connection, event.type_id, event.reason)
            case _:
                pass
        if not isinstance(event, Acknowledged | PongReceived):
            connection.asked_at = self.reactor.now

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
        self.observer.connection_closed(connection, reason)

    def _on_connect(self, connection: RtmpConnection, event: ConnectRequested) -> None:
        app_bytes = len(event.app.encode("utf-8", "surrogateescape"))
        if app_bytes > _MAX_APP_BYTES:
            reason = f"An app may have a name of {_MAX_APP_BYTES} bytes, not {app_bytes}."
            connection.session.reject_connect(reason, StatusCode.CONNECT_INVALID_APP)
            connection.close_when_sent = True
            return
        connection.app = event.app
        connection.app_query = event.app_query
        connection.client = event.flash_version or ""
        if self.is_closing:
            connection.session.reject_connect("The server is shutting down.", StatusCode.CONNECT_APP_SHUTDOWN)
            connection.close_when_sent = True
            return
        if not event.app:
            connection.session.reject_connect("An app must be named.", StatusCode.CONNECT_INVALID_APP)
            connection.close_when_sent = True
            return
        connection.connected_at = self.reactor.now
        connection.session.accept_connect()
        self.observer.connected(connection)

    # Publishing.

    def take_media(self, connection: RtmpConnection, media: MediaReceived) -> None:
        """Deal with the one event that comes all the time."""
        type_id, stream_id, timestamp_ms, payload = media
        live_stream = connection.publications[stream_id]
        frame = frame_of(_KINDS[type_id], timestamp_ms, payload)
        live_stream.append(frame, self.reactor.now)
        if frame.is_setup:
            self._describe(live_stream)
        if not live_stream.is_dirty:
            self.flusher.mark(live_stream)

    def _take_data(self, live_stream: LiveStream, frame: Frame) -> None:
        live_stream.append(frame, self.reactor.now)
        self.flusher.mark(live_stream)

    def _describe(self, live_stream: LiveStream) -> None:
        payloads = {
            frame.kind: frame.payload for frame in live_stream.log.setup.frames if frame.kind is not FrameKind.DATA
        }
        text = describe(payloads.get(FrameKind.VIDEO), payloads.get(FrameKind.AUDIO))
        if text != live_stream.codecs_text:
            live_stream.codecs_text = text
            self.observer.codecs_known(live_stream, text)

    def _on_publish(self, connection: RtmpConnection, event: PublishRequested) -> None:
        key = f"{connection.app}/{event.name}"
        if self._publisher_of(key) is connection:
            # One that replaced itself would lose the connection that it wants to publish on.
            self._refuse(connection, event, key)
            return
        app = self.settings.app(connection.app)
        answer = self.hub.ask_to_publish(key, self.reactor.now, may_replace=app.may_replace_publisher)
        match answer:
            case PublishAnswer.ACCEPT:
                self._begin(connection, event, key)
            case PublishAnswer.REPLACE:
                self._replace(connection, event, key)
            case PublishAnswer.WAIT:
                first = self._publisher_of(key)
                if first is not None:
                    self.ping(first)
                    self._check_later(
                        connection, event, first, _Question(self.reactor.now, first.session.received_bytes)
                    )

    def _check_later(
        self, connection: RtmpConnection, event: PublishRequested, first: RtmpConnection, question: _Question
    ) -> None:
        self.reactor.call_later(_LIVENESS_CHECK_S, partial(self._check_first, connection, event, first, question))

    def _check_first(
        self, connection: RtmpConnection, event: PublishRequested, first: RtmpConnection, question: _Question
    ) -> None:
        """See if the publisher that is there has given a sign of life since a second one knocked."""
        if connection.is_closed:
            return
        key = f"{connection.app}/{event.name}"
        if self._publisher_of(key) is not first:
            if self._publisher_of(key) is None:
                self._begin(connection, event, key)
            else:
                self._refuse(connection, event, key)
        elif first.session.received_bytes > question.heard_bytes:
            self._refuse(connection, event, key)
        elif self.reactor.now - question.asked_at >= self.hub.settings.liveness_wait_s:
            self._replace(connection, event, key)
        else:
            self._check_later(connection, event, first, question)
            return
        connection.resume()

    def _refuse(self, connection: RtmpConnection, event: PublishRequested, key: str) -> None:
        reason = f"{key} is being published already."
        connection.session.reject_publish(event.stream_id, reason, StatusCode.PUBLISH_BAD_NAME)
        self.observer.publish_refused(connection, key, reason)

    def _replace(self, connection: RtmpConnection, event: PublishRequested, key: str) -> None:
        first = self._publisher_of(key)
        if first is not None:
            for first_stream_id, live_stream in list(first.publications.items()):
                if live_stream.key == key:
                    first.session.end_publish(first_stream_id, "Another publisher has taken over.")
                    del first.publications[first_stream_id]
                    live_stream.flush(self.reactor.now)
                    self.observer.publish_stopped(first, live_stream, "replaced by another publisher")
            first.close_when_sent = True
            first.send_session_data()
        self._begin(connection, event, key)

    def _publisher_of(self, key: str) -> RtmpConnection | None:
        stream = self.hub.streams.get(key)
        return self.connections.get(str(stream.publisher)) if stream is not None and stream.is_live else None

    def _begin(self, connection: RtmpConnection, event: PublishRequested, key: str) -> None:
        stream = self.hub.begin(key, connection.id, self.reactor.now)
        live_stream = self.live_streams.get(key)
        if live_stream is None:
            app = self.settings.app(connection.app)
            live_stream = LiveStream(
                stream, connection.app, app, encoders=self.encoders, fan_out=self.fan_out, observer=self.observer
            )
            self.live_streams[key] = live_stream
        connection.publications[event.stream_id] = live_stream
        connection.session.accept_publish(event.stream_id)
        self.update_gathering(connection)
        self.observer.publish_started(connection, live_stream, event.publishing_type)
        self.playing.let_in_waiting(live_stream)

    def update_gathering(self, connection: RtmpConnection) -> None:
        """Publishers that nobody watches, and settled viewers, are read a little later and more at a time.

        What a settled viewer sends is acknowledgements, each of which would wake the loop for nothing. One that has
        asked for something lately may ask for more, and is heard at once.
        """
        if connection.publications:
            is_patient = not any(live_stream.viewers for live_stream in connection.publications.values())
        else:
            is_patient = bool(connection.viewers) and self.reactor.now - connection.asked_at >= _SETTLED_S
        connection.gather(is_patient=is_patient)

    def update_publisher_of(self, live_stream: LiveStream) -> None:
        """The number of a stream's viewers has changed."""
        publisher = self._publisher_of(live_stream.key)
        if publisher is not None:
            self.update_gathering(publisher)

    def say_goodbye(self) -> None:
        """Shut down: streams end, and everybody is told before their connection closes."""
        self.is_closing = True
        for live_stream in list(self.live_streams.values()):
            self.end_stream(live_stream)
        for connection in list(self.connections.values()):
            connection.publications.clear()
            if connection.connected_at is not None:
                connection.session.announce_shutdown("The server is shutting down.")
            connection.close_when_sent = True
            connection.queue(connection.session.data_to_send())
            connection.flush_output()

    def _on_publish_ended(self, connection: RtmpConnection, event: PublishEnded) -> None:
        live_stream = connection.publications.pop(event.stream_id, None)
        if live_stream is None:
            return
        # Flushed first: who counts a publication's frames has all of them when it hears of the end.
        live_stream.flush(self.reactor.now)
        self.observer.publish_stopped(connection, live_stream, event.reason.value)
        if event.reason is EndReason.CONNECTION_LOST and live_stream.app.grace_s > 0 and not self.is_closing:
            live_stream.stream.lose(self.reactor.now, live_stream.app.grace_s)
        else:
            self.end_stream(live_stream)

    def end_stream(self, live_stream: LiveStream) -> None:
        """A stream is over: everybody who watches it is told."""
        live_stream.flush(self.reactor.now)
        for viewer in list(live_stream.viewers):
            self.playing.tell_end(viewer)
        self.live_streams.pop(live_stream.key, None)
        self.observer.stream_closed(live_stream)
        self.hub.end(live_stream.key)

    def ping(self, connection: RtmpConnection) -> None:
        """Ask a connection for a sign of life."""
        connection.pinged_at = self.reactor.now
        # The answer is timed, so it must not wait to be read.
        connection.gather(is_patient=False)
        connection.session.send_ping(int(time.monotonic() * 1000))
        connection.send_session_data()
