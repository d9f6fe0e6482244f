"""The broker: what every event of every connection leads to.

Owns the connections of one worker, what each event is a matter of, and the rules that hold for all: who may connect,
how much of half messages is held, and the goodbye. Who may is decided by the gatekeeper; who publishes is the matter of
`publishing`, who watches that of `playing`, which streams there are that of the `stream_table`. Sending is the matter
of streams and connections.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.media_paths import is_reserved
from penstock.protocol.capabilities import CapsEx
from penstock.protocol.events import (
    Acknowledged,
    ConnectRequested,
    DataCleared,
    DataReceived,
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
from penstock.protocol.status import StatusCode
from penstock.protocol.via import write_via
from penstock.relay.encodings.encoded_log import EncodedLog
from penstock.relay.encodings.encoding import EncodingKind, NewEncoding
from penstock.relay.encodings.flv import FlvEncoding
from penstock.relay.encodings.mp4 import Mp4Encoding
from penstock.relay.readable_log import Flush
from penstock.relay.segment import SegmentStore
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop
from penstock.serve.sending.fan_out import FanOut
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.access.gatekeeper import BLOCKED, Gatekeeper
from penstock.serve.streams.dimensions import named_parameters, own_name
from penstock.serve.streams.encoded_stream import EncodedStream
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.playing import Playing
from penstock.serve.streams.publisher import LOOP
from penstock.serve.streams.publishing import LAST_WORDS_S, Publishing
from penstock.serve.streams.registry import Registry
from penstock.serve.streams.stream_table import StreamTable
from penstock.serve.streams.viewer import Viewer

_COME_BACK: Final = "The server takes no new connections and ends soon."
_ENCODINGS: Final[Mapping[EncodingKind, NewEncoding]] = {
    EncodingKind.FLV: FlvEncoding,
    EncodingKind.WEBSOCKET_FLV: partial(FlvEncoding, in_messages=True),
    EncodingKind.MP4: Mp4Encoding,
}
_GOODBYE: Final = "The server is shutting down."


class Broker:
    """All connections, and the streams that they publish or watch."""

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
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`mark`: called with a stream that has something to flush. `show`: sends what others have made visible."""
        self._store = store
        self._fan_out = fan_out
        self.loop = loop
        self.observer = observer
        self.connections: dict[str, MediaConnection] = {}
        self.table = StreamTable(
            settings,
            fan_out,
            self,
            loop=loop,
            observer=observer,
            registry=registry,
            show=show,
            wall_clock=wall_clock,
        )
        self.gatekeeper = Gatekeeper(loop, observer, wall_clock)
        self.publishing = Publishing(self.table, store, self.gatekeeper, self.ping)
        self.playing = Playing(self.table, self.gatekeeper)
        self.streams = self.table.streams
        self.peers = self.table.peers
        self.read_paces = self.table.read_paces
        self.budget = self.publishing.budget
        self.registry = registry
        registry.holder = self
        self._held_input_bytes = 0
        # What streams tell.
        self.stream_dirty = mark
        self.codecs_known = observer.codecs_known
        self.first_frame_sent = observer.first_frame_sent
        self.viewer_skipped = observer.viewer_skipped
        self.admit = self.playing.admit
        self.end_play = self.playing.end_play
        # What the registry tells.
        self.challenged = self.publishing.challenged
        self.owner_changed = self.table.owner_changed
        self.stream_over = self.table.stream_over
        self.missed = self.playing.missed
        self.orphaned = self.playing.orphaned

    @property
    def settings(self) -> ServerSettings:
        """By which it goes on."""
        return self.table.settings

    def watched(self, key: str, epoch: int, *, is_watched: bool) -> None:
        """Whether anybody watches a stream that is pulled here has changed."""
        self.table.puller.watched(key, epoch, is_watched=is_watched)

    @property
    def is_closing(self) -> bool:
        """Whether everybody was told that the server ends."""
        return self.table.is_closing

    def apply(self, settings: ServerSettings) -> None:
        """Go on by other settings. What was announced to open connections stays as it was."""
        # All viewers share one encoding, so the chunk size is fixed for the life of the process.
        chunk_size = self.settings.connection.chunk_size
        self.table.apply(replace(settings, connection=replace(settings.connection, chunk_size=chunk_size)))
        self.budget.max_bytes = settings.max_total_log_bytes

    def on_event(self, connection: RtmpConnection, event: Event) -> None:
        """Deal with one event."""
        match event:
            case DataReceived():
                stream = self.publishing.stream_of(connection, event.stream_id)
                if stream is not None:
                    stream.take_data(event.timestamp_ms, event.payload, self.loop.now)
            case DataCleared():
                stream = self.publishing.stream_of(connection, event.stream_id)
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
                self.publishing.on_requested(connection, event)
            case PublishEnded():
                self.publishing.on_ended(connection, event)
            case PlayRequested():
                self.playing.on_requested(connection, event)
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

    def play_lost(self, connection: MediaConnection, stream_id: int, reason: str) -> None:
        """A connection is gone, and with it a play."""
        self.playing.stop(connection, stream_id, reason)

    def encode(self, stream: LiveStream, kind: EncodingKind, now: float) -> EncodedStream:
        """Somebody wants to watch a stream in another encoding, the first one."""
        settings, encoding = self.settings, _ENCODINGS[kind]()
        # What FFmpeg wants to look back at it gets over RTMP alone.
        limits = replace(settings.log_limits, lookback_s=0.0)
        return EncodedStream(
            stream,
            kind,
            encoding,
            EncodedLog(self._store, encoding, limits, self.budget),
            fan_out=self._fan_out,
            owner=self,
            now=now,
            chunk_size=settings.connection.chunk_size,
            on_error=partial(self.observer.error, None),
        )

    def on_violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:
        """A peer broke the protocol: it goes."""
        self.observer.violation(connection, violation)
        connection.close(str(violation))

    def on_bug(self, connection: MediaConnection, error: Exception) -> None:
        """One exception costs one connection."""
        self.observer.error(connection, error)
        connection.close(f"internal error: {type(error).__name__}")

    def on_closed(self, connection: MediaConnection, reason: str) -> None:
        """A connection is gone; what it did has ended already."""
        self.connections.pop(connection.id, None)
        self.read_paces.forget(connection)
        self.observer.connection_closed(connection, reason)

    def _on_connect(self, connection: RtmpConnection, event: ConnectRequested) -> None:
        connection.app = event.app
        connection.app_query = event.app_query
        connection.own_name = own_name(event.app_query)
        connection.dimensions = named_parameters(self.settings.dimension_parameters, event.app_query)
        connection.client = event.flash_version or ""
        connection.can_reconnect = bool(event.capabilities.caps_ex & CapsEx.RECONNECT)
        connection.via = event.via
        if event.fault is not None or not event.app:
            connection.session.reject_connect(event.fault or "An app must have a name.", StatusCode.CONNECT_INVALID_APP)
            connection.close_when_sent = True
            return
        if is_reserved(event.app):
            text = "This name is of the server's own paths over HTTP; no app can have it."
            connection.session.reject_connect(text, StatusCode.CONNECT_INVALID_APP)
            connection.close_when_sent = True
            return
        if self.gatekeeper.is_blocked(connection):
            self._reject(connection, "Access denied.", BLOCKED)
            return
        if self.table.puller.is_asked_by_itself(event.via):
            self._reject(connection, LOOP, "pulls or pushes go in a circle")
            return
        rejected = self.gatekeeper.connect(connection, event)
        if rejected is not None:
            if rejected.is_failure:
                detail = f"{connection.address} did not prove its key to {event.app}"
                call = partial(self._reject, connection, rejected.description, "access refused")
                self.gatekeeper.after_failure(connection, detail, call)
            else:
                self._reject(connection, rejected.description, "asked for user and password")
            return
        connection.connected_at = self.loop.now
        connection.session.accept_connect(write_via(self.table.puller.own_via) if event.via else None)
        self.observer.connected(connection)

    def _reject(self, connection: RtmpConnection, description: str, reason: str) -> None:
        if not connection.is_closed:
            connection.session.reject_connect(description)
            connection.close_soon(reason, LAST_WORDS_S)

    def look_after(self, stream: LiveStream, now: float) -> None:
        """What is due for a stream, once a second."""
        self.table.look_after(stream, now)
        self.publishing.look_at(stream)

    def dismiss(self, connection: MediaConnection, reason: str) -> None:
        """End all that a connection does, tell it so, and close it."""
        if isinstance(connection, RtmpConnection):
            self.publishing.end(connection, reason)
        for viewer in list(connection.plays.values()):
            if isinstance(viewer, Viewer):
                self.playing.end(viewer, reason)
        connection.close_soon(reason, LAST_WORDS_S)

    def ask_to_reconnect(self, connection: MediaConnection) -> None:
        """Ask a peer that can to come back; it is served on until it leaves."""
        if not isinstance(connection, RtmpConnection) or not connection.can_reconnect:
            return
        if connection.connected_at is not None and not connection.is_closed:
            connection.session.request_reconnect(_COME_BACK)
            connection.send_session_data()

    def ping(self, connection: RtmpConnection) -> None:
        """Ask a peer for a sign of life."""
        connection.pinged_at = self.loop.now
        # The answer is timed, so it must not wait to be read.
        connection.set_pace(Pace.AT_ONCE)
        connection.session.send_ping(int(time.monotonic() * 1000))
        connection.send_session_data()

    def say_goodbye(self) -> None:
        """Shut down: streams end, and everybody is told before their connection closes."""
        self.table.is_closing = True
        for stream in list(self.streams.values()):
            self.table.end_stream(stream)
        for connection in list(self.connections.values()):
            connection.tell_goodbye(_GOODBYE)
