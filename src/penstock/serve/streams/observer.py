"""Who watches the server: logs, facts and figures hear of everything through one set of calls.

The media path calls these and knows nothing of what becomes of them. The base class does nothing, for tests and for
servers that want no telemetry; several observers can be joined.
"""

import contextlib
from collections.abc import Callable

from penstock.errors import ProtocolViolation
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.viewer import Viewer


class Observer:
    """Hears what happens. Nothing here may block or raise."""

    def connection_opened(self, connection: MediaConnection) -> None:
        """A socket was accepted."""

    def tls_failed(self, address: str, reason: str) -> None:
        """A socket was accepted and closed again, as its TLS handshake came to nothing."""

    def handshake_completed(self, connection: MediaConnection) -> None:
        """The RTMP handshake is done."""

    def connected(self, connection: MediaConnection) -> None:
        """A connect was accepted."""

    def stream_created(self, connection: MediaConnection, stream_id: int) -> None:
        """A message stream was made."""

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:
        """A connection is gone."""

    def violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:
        """A peer broke the protocol; its connection closes next."""

    def limit_hit(self, limit: str, detail: str) -> None:
        """Somebody was turned away."""

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:
        """A publication began. Whoever wants its frames adds a listener to the live_stream."""

    def publish_refused(self, connection: MediaConnection, key: str, reason: str) -> None:
        """A publication was turned away."""

    def publish_stopped(self, publisher: Publisher, live_stream: LiveStream, reason: str) -> None:
        """A publication ended; the stream may go on."""

    def codecs_known(self, live_stream: LiveStream, text: str) -> None:
        """What a stream consists of, when it is known and when it changes."""

    def stream_arrived(self, live_stream: LiveStream, recording_id: str | None) -> None:
        """A stream goes on here that was recorded in another worker, or in one that was lost; None: it was stopped."""

    def stream_left(self, live_stream: LiveStream) -> None:
        """A stream goes on in another worker; everything was flushed, and its log is closed next."""

    def stream_closed(self, live_stream: LiveStream) -> None:
        """A stream is over; everything was flushed, and its log is closed next."""

    def play_started(self, viewer: Viewer) -> None:
        """A viewer was let in; media may come later."""

    def first_frame_sent(self, viewer: Viewer) -> None:
        """A viewer was given its place in the log."""

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        """A viewer fell behind and lost some."""

    def viewer_stalled(self, viewer: Viewer, stalled_s: float) -> None:
        """A viewer takes nothing and will be closed if that goes on."""

    def play_stopped(self, viewer: Viewer, reason: str) -> None:
        """A viewer is gone, or its stream is."""

    def message_ignored(self, connection: MediaConnection, type_id: int, reason: str) -> None:
        """A message changed nothing."""

    def second_passed(self, now: float) -> None:
        """Once a second, with the loop's time, for what is due at intervals."""

    def error(self, connection: MediaConnection | None, error: BaseException) -> None:
        """A bug of ours was caught at the edge of one connection."""


class ObserverGroup(Observer):
    """Several observers as one, each told in turn. One that fails is told to the others and costs nothing else."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def _tell(self, call: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                call(observer)
            except Exception as error:
                for other in self._observers:
                    if other is not observer:
                        # One that cannot even hear of errors has nobody left to tell.
                        with contextlib.suppress(Exception):
                            other.error(None, error)

    def connection_opened(self, connection: MediaConnection) -> None:
        self._tell(lambda observer: observer.connection_opened(connection))

    def tls_failed(self, address: str, reason: str) -> None:
        self._tell(lambda observer: observer.tls_failed(address, reason))

    def handshake_completed(self, connection: MediaConnection) -> None:
        self._tell(lambda observer: observer.handshake_completed(connection))

    def connected(self, connection: MediaConnection) -> None:
        self._tell(lambda observer: observer.connected(connection))

    def stream_created(self, connection: MediaConnection, stream_id: int) -> None:
        self._tell(lambda observer: observer.stream_created(connection, stream_id))

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:
        self._tell(lambda observer: observer.connection_closed(connection, reason))

    def violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:
        self._tell(lambda observer: observer.violation(connection, violation))

    def limit_hit(self, limit: str, detail: str) -> None:
        self._tell(lambda observer: observer.limit_hit(limit, detail))

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:
        self._tell(lambda observer: observer.publish_started(publisher, live_stream, publishing_type))

    def publish_refused(self, connection: MediaConnection, key: str, reason: str) -> None:
        self._tell(lambda observer: observer.publish_refused(connection, key, reason))

    def publish_stopped(self, publisher: Publisher, live_stream: LiveStream, reason: str) -> None:
        self._tell(lambda observer: observer.publish_stopped(publisher, live_stream, reason))

    def codecs_known(self, live_stream: LiveStream, text: str) -> None:
        self._tell(lambda observer: observer.codecs_known(live_stream, text))

    def stream_arrived(self, live_stream: LiveStream, recording_id: str | None) -> None:
        self._tell(lambda observer: observer.stream_arrived(live_stream, recording_id))

    def stream_left(self, live_stream: LiveStream) -> None:
        self._tell(lambda observer: observer.stream_left(live_stream))

    def stream_closed(self, live_stream: LiveStream) -> None:
        self._tell(lambda observer: observer.stream_closed(live_stream))

    def play_started(self, viewer: Viewer) -> None:
        self._tell(lambda observer: observer.play_started(viewer))

    def first_frame_sent(self, viewer: Viewer) -> None:
        self._tell(lambda observer: observer.first_frame_sent(viewer))

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        self._tell(lambda observer: observer.viewer_skipped(viewer, skipped_bytes))

    def viewer_stalled(self, viewer: Viewer, stalled_s: float) -> None:
        self._tell(lambda observer: observer.viewer_stalled(viewer, stalled_s))

    def play_stopped(self, viewer: Viewer, reason: str) -> None:
        self._tell(lambda observer: observer.play_stopped(viewer, reason))

    def message_ignored(self, connection: MediaConnection, type_id: int, reason: str) -> None:
        self._tell(lambda observer: observer.message_ignored(connection, type_id, reason))

    def second_passed(self, now: float) -> None:
        self._tell(lambda observer: observer.second_passed(now))

    def error(self, connection: MediaConnection | None, error: BaseException) -> None:
        self._tell(lambda observer: observer.error(connection, error))
