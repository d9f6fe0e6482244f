"""One push: one stream on its way to one target, for as long as the stream lasts.

Owns its state, the connection, when it is tried again, and how a request of the target to come back is obeyed: the old
connection is left at the next key frame, and the new one begins with that. Whatever happens to the connection costs the
push a pause and nobody else anything; only the end of the stream, or of the target, ends it.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.protocol.events import Event, ReconnectRequested, StreamEnded
from penstock.relay.readable_log import Flush
from penstock.rtmp_address import StreamAddress, moved_to
from penstock.serve.outgoing.connection import OutgoingConnection, OutgoingOwner
from penstock.serve.outgoing.words import Failure
from penstock.serve.pushing.backoff import Backoff
from penstock.serve.pushing.log_sender import LogSender
from penstock.serve.pushing.target import PushTarget
from penstock.serve.reactor import Loop, Timer
from penstock.serve.streams.live_stream import LiveStream

_SETTLED_S: Final = 10.0
"""A connection that lasted for so long was a success: the next pause is a short one again."""
_LEAVE_WITHIN_S: Final = 10.0
"""How long a request to come back waits for a key frame."""
_MOVES_APART_S: Final = 5.0
"""A target that asks whenever it is come to is obeyed at once so often, and else as one that was lost."""
_COMES_BACK: Final = "it asks its publishers to come back"


class PushState(enum.Enum):
    """What a push does."""

    CONNECTING = "connecting"
    LIVE = "live"
    RETRYING = "retrying"
    STOPPED = "stopped"


class OpenConnection(Protocol):
    """Opens an outgoing connection that publishes."""

    def __call__(
        self, address: StreamAddress, owner: OutgoingOwner, *, secrets: tuple[str, ...], via: tuple[str, ...]
    ) -> OutgoingConnection:
        """`via`: the servers that the stream has come through to this one."""


class PushListener:
    """Hears what becomes of pushes, on the loop: to be quick about it."""

    def push_started(self, push: "Push") -> None:
        """A stream is to be sent to a target."""

    def push_changed(self, push: "Push") -> None:
        """Its state is another one, or another try came to nothing."""

    def push_stopped(self, push: "Push", reason: str) -> None:
        """It is over."""


class Push:
    """A stream and a target."""

    def __init__(
        self,
        target: PushTarget,
        live_stream: LiveStream,
        *,
        loop: Loop,
        open_connection: OpenConnection,
        chunk_size: int,
        listeners: Sequence[PushListener],
        on_bug: Callable[[Exception], None],
        backoff: Backoff | None = None,
    ) -> None:
        self.target = target
        self.live_stream = live_stream
        self.state = PushState.CONNECTING
        self.started_at = loop.now
        self.attempts = 0
        """How often it was dialled."""
        self.last_error: str | None = None
        self.retry_in_s = 0.0
        self.is_over = False
        self.is_refused = False
        """Whether it was not let begin."""
        self._loop = loop
        self._open_connection = open_connection
        self._listeners = listeners
        self._on_bug = on_bug
        self._backoff = backoff or Backoff()
        self._sender = LogSender(live_stream.log, chunk_size)
        self._address = target.address_of(live_stream.app_name, live_stream.stream_name)
        self._secrets = target.secrets_of(live_stream.app_name, live_stream.stream_name)
        self._connection: OutgoingConnection | None = None
        self._moved_to: StreamAddress | None = None
        """Where the target asked it to come, until that was tried."""
        self._is_leaving = False
        self._moved_at = -_MOVES_APART_S
        self._live_at: float | None = None
        self._ended_bytes = 0
        self._via: tuple[str, ...] = ()
        self._retry: Timer | None = None

    @property
    def sent_bytes(self) -> int:
        """What sockets have taken, on all of its connections."""
        return self._ended_bytes + (0 if self._connection is None else self._connection.sent_bytes)

    @property
    def lag_ms(self) -> int | None:
        """How far the target is behind the stream; None: it is sent nothing now."""
        return self._sender.lag_ms if self.state is PushState.LIVE else None

    @property
    def skips(self) -> int:
        """How often the target was too far behind and lost some."""
        return self._sender.skips

    # Its life.

    def start(self) -> None:
        """Begin to send."""
        self.live_stream.listen_eagerly(self)
        self._connect()

    def refuse(self, reason: str) -> None:
        """It may not begin: told, and left alone until the stream is over."""
        self.is_refused = True
        self.last_error = reason
        self._change(PushState.STOPPED)

    def stop(self, reason: str, *, goes_on: bool = False) -> None:
        """The stream is over, or is not to be sent there any more. `goes_on`: another worker sends it from now on."""
        if self.is_over:
            return
        self.is_over = True
        if self._retry is not None:
            self._retry.cancel()
        self.live_stream.stop_listening(self)
        connection = self._connection
        if connection is not None:
            # What was flushed last is in the log for this moment only.
            self._sender.send(connection, lambda: False)
            (connection.hang_up if goes_on else connection.end)(reason)
        self._sender.release()
        self.state = PushState.STOPPED
        for listener in self._listeners:
            listener.push_stopped(self, reason)

    def on_flush(self, flush: Flush, now: float) -> None:  # noqa: ARG002 - what every listener is told
        """New messages are in the log."""
        if self.state is PushState.LIVE and self._connection is not None:
            self._connection.request_turn()

    def _connect(self) -> None:
        self._retry = None
        self.attempts += 1
        self._is_leaving = False
        address, self._moved_to = self._moved_to or self._address, None
        self._change(PushState.CONNECTING)
        if self.live_stream.publisher is not None:
            self._via = self.live_stream.publisher.via
        self._connection = self._open_connection(address, self, secrets=self._secrets, via=self._via)

    def _change(self, state: PushState) -> None:
        self.state = state
        for listener in self._listeners:
            listener.push_changed(self)

    # What the connection tells.

    def on_ready(self, connection: OutgoingConnection) -> None:  # noqa: ARG002
        """The target takes the stream."""
        self._live_at = self._loop.now
        self._sender.begin()
        self._change(PushState.LIVE)

    def on_room(self, connection: OutgoingConnection) -> None:
        """The target takes more."""
        if self.is_over:
            return
        is_late = self._is_late
        if self._sender.send(connection, is_late, stops_at_key=self._is_leaving):
            self._leave(connection)
        elif is_late():
            connection.request_turn()

    def on_event(self, connection: OutgoingConnection, event: Event) -> None:
        """The target says something."""
        match event:
            case ReconnectRequested(tc_url):
                self._moved_to = moved_to(connection.address, tc_url)
                if not self._is_leaving:
                    self._is_leaving = True
                    if connection.is_ready:
                        self._loop.call_later(_LEAVE_WITHIN_S, lambda: self._leave(connection))
                    else:
                        self._leave(connection)
            case StreamEnded(code=code):
                connection.close(Failure(f"it ended the stream: {code}"))
            case _:
                pass

    def _leave(self, connection: OutgoingConnection) -> None:
        if connection is self._connection and self._is_leaving:
            connection.end(_COMES_BACK)

    def on_closed(self, connection: OutgoingConnection, failure: Failure) -> None:
        """The connection is over."""
        self._ended_bytes += connection.sent_bytes
        self._connection = None
        self._sender.release()
        if self.is_over:
            return
        if self._live_at is not None and self._loop.now - self._live_at >= _SETTLED_S:
            self._backoff.succeeded()
        self._live_at = None
        is_expected = self._is_leaving and self._moved_to is not None
        if is_expected and self._loop.now - self._moved_at >= _MOVES_APART_S:
            # Not a failure, and the target expects it at once.
            self._moved_at = self._loop.now
            self.retry_in_s = 0.0
        else:
            self.retry_in_s = self._backoff.failed()
        self.last_error = failure.reason
        self._retry = self._loop.call_later(self.retry_in_s, self._connect)
        self._change(PushState.RETRYING)

    def on_bug(self, error: Exception) -> None:
        """An error of ours."""
        self._on_bug(error)

    def _is_late(self) -> bool:
        return self._loop.clock() >= self._loop.turn_ends_at
