"""The station: what every event of every connection leads to.

Owns the rules between peers: who may connect, publish and play, what happens when a publisher goes, and when streams
are flushed. It holds the hub and the channels; the reactor calls it after each round of events.
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
from penstock.serve.channel import Channel
from penstock.serve.fan_out import FanOut
from penstock.serve.flusher import Flusher
from penstock.serve.observer import Observer
from penstock.serve.peer import Peer
from penstock.serve.playing import Playing
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings

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


class Station:
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
        self.peers: dict[str, Peer] = {}
        self.channels: dict[str, Channel] = {}
        self.flusher = Flusher(reactor, settings, observer, self._publisher_of)
        self.is_closing = False
        self.playing = Playing(self)

    def apply(self, settings: ServerSettings) -> None:
        """Go on by other settings. What was announced to open connections stays as it was."""
        # All viewers share one encoding, so the chunk size is fixed for the life of the process.
        chunk_size = self.settings.connection.chunk_size
        self.settings = replace(settings, connection=replace(settings.connection, chunk_size=chunk_size))
        self.budget.max_bytes = settings.max_total_log_bytes
        for channel in self.channels.values():
            channel.app = settings.app(channel.app_name)

    # What peers say.

    def on_event(self, peer: Peer, event: Event) -> None:
        """Deal with one event."""
        match event:
            case DataReceived():
                frame = frame_of(FrameKind.DATA, event.timestamp_ms, event.payload)
                self._take_data(peer.publications[event.stream_id], frame)
            case DataCleared():
                peer.publications[event.stream_id].log.clear_metadata()
            case HandshakeCompleted():
                peer.handshaken_at = self.reactor.now
                self.observer.handshake_completed(peer)
            case ConnectRequested():
                self._on_connect(peer, event)
            case StreamOpened():
                self.observer.stream_created(peer, event.stream_id)
            case PublishRequested():
                self._on_publish(peer, event)
            case PublishEnded():
                self._on_publish_ended(peer, event)
            case PlayRequested():
                self.playing.on_play(peer, event)
            case PlayEnded():
                self.playing.stop(peer, event.stream_id, event.reason.value)
            case PauseChanged():
                self.playing.on_pause(peer, event)
            case ReceiveChanged():
                self.playing.on_receive(peer, event)
            case SeekRequested():
                peer.session.reject_seek(event.stream_id, "A live stream cannot be sought in.")
            case PongReceived():
                now_ms = int(time.monotonic() * 1000) & 0xFFFFFFFF
                peer.round_trip_ms = (now_ms - event.timestamp_ms) & 0xFFFFFFFF
                self.update_gathering(peer)
            case MessageIgnored():
                self.observer.message_ignored(peer, event.type_id, event.reason)
            case _:
                pass
        if not isinstance(event, Acknowledged | PongReceived):
            peer.asked_at = self.reactor.now

    def on_violation(self, peer: Peer, violation: ProtocolViolation) -> None:
        """A peer broke the protocol: it goes."""
        self.observer.violation(peer, violation)
        peer.close(str(violation))

    def on_bug(self, peer: Peer, error: Exception) -> None:
        """One exception costs one connection."""
        self.observer.error(peer, error)
        peer.close(f"internal error: {type(error).__name__}")

    def on_closed(self, peer: Peer, reason: str) -> None:
        """A connection is gone; what it did has ended already."""
        self.peers.pop(peer.id, None)
        self.observer.connection_closed(peer, reason)

    def _on_connect(self, peer: Peer, event: ConnectRequested) -> None:
        app_bytes = len(event.app.encode("utf-8", "surrogateescape"))
        if app_bytes > _MAX_APP_BYTES:
            reason = f"An app may have a name of {_MAX_APP_BYTES} bytes, not {app_bytes}."
            peer.session.reject_connect(reason, StatusCode.CONNECT_INVALID_APP)
            peer.close_when_sent = True
            return
        peer.app = event.app
        peer.app_query = event.app_query
        peer.client = event.flash_version or ""
        if self.is_closing:
            peer.session.reject_connect("The server is shutting down.", StatusCode.CONNECT_APP_SHUTDOWN)
            peer.close_when_sent = True
            return
        if not event.app:
            peer.session.reject_connect("An app must be named.", StatusCode.CONNECT_INVALID_APP)
            peer.close_when_sent = True
            return
        peer.connected_at = self.reactor.now
        peer.session.accept_connect()
        self.observer.connected(peer)

    # Publishing.

    def take_media(self, peer: Peer, media: MediaReceived) -> None:
        """Deal with the one event that comes all the time."""
        type_id, stream_id, timestamp_ms, payload = media
        channel = peer.publications[stream_id]
        frame = frame_of(_KINDS[type_id], timestamp_ms, payload)
        channel.append(frame, self.reactor.now)
        if frame.is_setup:
            self._describe(channel)
        if not channel.is_dirty:
            self.flusher.mark(channel)

    def _take_data(self, channel: Channel, frame: Frame) -> None:
        channel.append(frame, self.reactor.now)
        self.flusher.mark(channel)

    def _describe(self, channel: Channel) -> None:
        payloads = {frame.kind: frame.payload for frame in channel.log.setup.frames if frame.kind is not FrameKind.DATA}
        text = describe(payloads.get(FrameKind.VIDEO), payloads.get(FrameKind.AUDIO))
        if text != channel.codecs_text:
            channel.codecs_text = text
            self.observer.codecs_known(channel, text)

    def _on_publish(self, peer: Peer, event: PublishRequested) -> None:
        key = f"{peer.app}/{event.name}"
        if self._publisher_of(key) is peer:
            # One that replaced itself would lose the connection that it wants to publish on.
            self._refuse(peer, event, key)
            return
        app = self.settings.app(peer.app)
        answer = self.hub.ask_to_publish(key, self.reactor.now, may_replace=app.may_replace_publisher)
        match answer:
            case PublishAnswer.ACCEPT:
                self._begin(peer, event, key)
            case PublishAnswer.REPLACE:
                self._replace(peer, event, key)
            case PublishAnswer.WAIT:
                first = self._publisher_of(key)
                if first is not None:
                    self.ping(first)
                    self._check_later(peer, event, first, _Question(self.reactor.now, first.session.received_bytes))

    def _check_later(self, peer: Peer, event: PublishRequested, first: Peer, question: _Question) -> None:
        self.reactor.call_later(_LIVENESS_CHECK_S, partial(self._check_first, peer, event, first, question))

    def _check_first(self, peer: Peer, event: PublishRequested, first: Peer, question: _Question) -> None:
        """See if the publisher that is there has given a sign of life since a second one knocked."""
        if peer.is_closed:
            return
        key = f"{peer.app}/{event.name}"
        if self._publisher_of(key) is not first:
            if self._publisher_of(key) is None:
                self._begin(peer, event, key)
            else:
                self._refuse(peer, event, key)
        elif first.session.received_bytes > question.heard_bytes:
            self._refuse(peer, event, key)
        elif self.reactor.now - question.asked_at >= self.hub.settings.liveness_wait_s:
            self._replace(peer, event, key)
        else:
            self._check_later(peer, event, first, question)
            return
        peer.resume()

    def _refuse(self, peer: Peer, event: PublishRequested, key: str) -> None:
        reason = f"{key} is being published already."
        peer.session.reject_publish(event.stream_id, reason, StatusCode.PUBLISH_BAD_NAME)
        self.observer.publish_refused(peer, key, reason)

    def _replace(self, peer: Peer, event: PublishRequested, key: str) -> None:
        first = self._publisher_of(key)
        if first is not None:
            for first_stream_id, channel in list(first.publications.items()):
                if channel.key == key:
                    first.session.end_publish(first_stream_id, "Another publisher has taken over.")
                    del first.publications[first_stream_id]
                    channel.flush(self.reactor.now)
                    self.observer.publish_stopped(first, channel, "replaced by another publisher")
            first.close_when_sent = True
            first.send_session_data()
        self._begin(peer, event, key)

    def _publisher_of(self, key: str) -> Peer | None:
        stream = self.hub.streams.get(key)
        return self.peers.get(str(stream.publisher)) if stream is not None and stream.is_live else None

    def _begin(self, peer: Peer, event: PublishRequested, key: str) -> None:
        stream = self.hub.begin(key, peer.id, self.reactor.now)
        channel = self.channels.get(key)
        if channel is None:
            app = self.settings.app(peer.app)
            channel = Channel(
                stream, peer.app, app, encoders=self.encoders, fan_out=self.fan_out, observer=self.observer
            )
            self.channels[key] = channel
        peer.publications[event.stream_id] = channel
        peer.session.accept_publish(event.stream_id)
        self.update_gathering(peer)
        self.observer.publish_started(peer, channel, event.publishing_type)
        self.playing.let_in_waiting(channel)

    def update_gathering(self, peer: Peer) -> None:
        """Publishers that nobody watches, and settled viewers, are read a little later and more at a time.

        What a settled viewer sends is acknowledgements, each of which would wake the loop for nothing. One that has
        asked for something lately may ask for more, and is heard at once.
        """
        if peer.publications:
            is_patient = not any(channel.viewers for channel in peer.publications.values())
        else:
            is_patient = bool(peer.viewers) and self.reactor.now - peer.asked_at >= _SETTLED_S
        peer.gather(is_patient=is_patient)

    def update_publisher_of(self, channel: Channel) -> None:
        """The number of a stream's viewers has changed."""
        publisher = self._publisher_of(channel.key)
        if publisher is not None:
            self.update_gathering(publisher)

    def say_goodbye(self) -> None:
        """Shut down: streams end, and everybody is told before their connection closes."""
        self.is_closing = True
        for channel in list(self.channels.values()):
            self.end_stream(channel)
        for peer in list(self.peers.values()):
            peer.publications.clear()
            if peer.connected_at is not None:
                peer.session.announce_shutdown("The server is shutting down.")
            peer.close_when_sent = True
            peer.queue(peer.session.data_to_send())
            peer.flush_output()

    def _on_publish_ended(self, peer: Peer, event: PublishEnded) -> None:
        channel = peer.publications.pop(event.stream_id, None)
        if channel is None:
            return
        # Flushed first: who counts a publication's frames has all of them when it hears of the end.
        channel.flush(self.reactor.now)
        self.observer.publish_stopped(peer, channel, event.reason.value)
        if event.reason is EndReason.CONNECTION_LOST and channel.app.grace_s > 0 and not self.is_closing:
            channel.stream.lose(self.reactor.now, channel.app.grace_s)
        else:
            self.end_stream(channel)

    def end_stream(self, channel: Channel) -> None:
        """A stream is over: everybody who watches it is told."""
        channel.flush(self.reactor.now)
        for viewer in list(channel.viewers):
            self.playing.tell_end(viewer)
        self.channels.pop(channel.key, None)
        self.observer.stream_closed(channel)
        self.hub.end(channel.key)

    def ping(self, peer: Peer) -> None:
        """Ask a peer for a sign of life."""
        peer.pinged_at = self.reactor.now
        # The answer is timed, so it must not wait to be read.
        peer.gather(is_patient=False)
        peer.session.send_ping(int(time.monotonic() * 1000))
        peer.send_session_data()
