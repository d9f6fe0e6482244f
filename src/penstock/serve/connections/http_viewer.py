"""One viewer over HTTP: an answer that lasts until the stream or the viewer ends, plain or as a WebSocket.

Owns what is said around the media: the head of the answer, or the refusal in its place, a WebSocket's pongs and its
end. Sending is that of every viewer: a queue for what is its own, the log for the rest. What a viewer sends is read and
thrown away, so that its end is noticed; one that sends much is closed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.errors import ProtocolViolation
from penstock.protocol.status import StatusCode
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.media_connection import MediaSink
from penstock.serve.connections.send_queue import MediaSource, SendQueue, Sent
from penstock.serve.connections.transport import Transport
from penstock.serve.connections.websocket import GOING_AWAY, NORMAL, POLICY, PROTOCOL_ERROR, ViewerFrames, close_frame
from penstock.serve.reactor import ERROR, HANG_UP, READ, WRITE, Loop

_RECEIVE_BYTES: Final = 4 * 1024
_ALLOWED_BYTES: Final = 64 * 1024
_ALLOWED_BYTES_PER_S: Final = 1024
"""Of what nobody has asked for. A WebSocket's pings and pongs are some bytes a second."""
_LAST_WORDS_S: Final = 2.0


class HttpViewerOwner(Protocol):
    """Whoever keeps it."""

    def on_violation(self, connection: "HttpViewer", violation: ProtocolViolation) -> None:
        """It has said what nobody may say."""

    def on_bug(self, connection: "HttpViewer", error: Exception) -> None:
        """One exception costs one connection."""

    def play_lost(self, connection: "HttpViewer", stream_id: int, reason: str) -> None:
        """It is gone, and so is the play on it."""

    def on_closed(self, connection: "HttpViewer", reason: str) -> None:
        """It is gone; what it did has ended already."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What is said in front of the media, or in its place."""

    head: Callable[[], bytes]
    """The head of the answer, and what comes before the first frame: asked for when the play begins."""
    refusal: Callable[[StatusCode], bytes]
    """A whole answer."""


class HttpViewer:
    """One connection with one play."""

    __slots__ = (
        "_events",
        "_frames",
        "_has_head",
        "_is_asked",
        "_is_closed",
        "_loop",
        "_on_gone",
        "_owner",
        "_spoken",
        "_transport",
        "_turn",
        "_write_blocked",
        "address",
        "app",
        "asked_at",
        "can_send_files",
        "client",
        "close_when_sent",
        "closing_reason",
        "descriptor",
        "dimensions",
        "heard_at",
        "id",
        "opened_at",
        "own_name",
        "plays",
        "protocol",
        "queue",
        "received_bytes",
        "round_trip_ms",
        "via",
    )

    def __init__(
        self,
        connection_id: str,
        transport: Transport,
        address: str,
        *,
        app: str,
        client: str,
        protocol: str,
        spoken: Spoken,
        loop: Loop,
        owner: HttpViewerOwner,
        on_gone: Callable[[], None],
        frames: ViewerFrames | None = None,
    ) -> None:
        """`frames`: of a WebSocket."""
        self.id = connection_id
        self.address = address
        self.app = app
        self.client = client
        self.protocol = protocol
        self.descriptor = transport.descriptor
        self.can_send_files = transport.can_send_files
        self.own_name: str | None = None
        self.dimensions: dict[str, str] = {}
        self.opened_at = self.heard_at = self.asked_at = loop.now
        self.round_trip_ms: int | None = None
        self.via: tuple[str, ...] = ()
        self.received_bytes = 0
        self.plays: dict[int, MediaSource] = {}
        self.queue = SendQueue(transport, self.plays)
        self.close_when_sent = False
        self.closing_reason = "closed by the server"
        self._spoken = spoken
        self._frames = frames
        self._transport = transport
        self._loop = loop
        self._owner = owner
        self._on_gone = on_gone
        self._has_head = False
        self._is_closed = False
        self._is_asked = False
        self._write_blocked = False
        self._events = READ
        self._turn = loop.add(self.descriptor, READ, self._on_turn)

    @property
    def publications(self) -> Mapping[int, MediaSink]:
        """None."""
        return {}

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        return self._is_closed

    @property
    def held_bytes(self) -> int:
        """Nothing: half a control frame at most."""
        return 0

    # Turns.

    def request_turn(self) -> None:
        """There is something to do for it."""
        if not self._is_closed:
            self._is_asked = True
            self._loop.queue(self._turn)

    def receive(self, data: bytes) -> None:
        """What has come before it was its own."""
        self._guarded(lambda: self._hear(data))

    def _on_turn(self, events: int) -> None:
        self._guarded(lambda: self._take_turn(events))

    def _guarded(self, call: Callable[[], None]) -> None:
        if self._is_closed:
            return
        try:
            call()
        except ProtocolViolation as violation:
            self._say_end(PROTOCOL_ERROR)
            self._owner.on_violation(self, violation)
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
        except Exception as error:
            self._owner.on_bug(self, error)

    def _take_turn(self, events: int) -> None:
        if events & READ:
            self._read()
        elif events & (HANG_UP | ERROR):
            self.close("connection lost")
        if self._is_closed:
            return
        if self._is_asked or events & WRITE or self.queue.queued_bytes or not self.can_send_files:
            self._is_asked = False
            for play in list(self.plays.values()):
                play.work(self._loop.now)
            if events & WRITE or not self._write_blocked:
                self._send_some()
        self._update_interest()

    def _is_late(self) -> bool:
        return self._loop.clock() >= self._loop.turn_ends_at

    def _read(self) -> None:
        data = self._transport.receive(_RECEIVE_BYTES)
        if data is None:
            return
        if not data:
            self.close("closed by the peer")
            return
        self._hear(data)

    def _hear(self, data: bytes) -> None:
        self.heard_at = self._loop.now
        self.received_bytes += len(data)
        if self.received_bytes > _ALLOWED_BYTES + _ALLOWED_BYTES_PER_S * (self.heard_at - self.opened_at):
            self.close("sends what nobody has asked for")
            return
        if self._frames is not None and not self._frames.has_ended:
            replies = self._frames.receive(data)
            if self._has_head:
                # In front of the answer to its request nothing is said.
                self.queue.put(replies)
            if self._frames.has_ended:
                self.close_soon("closed by the peer", _LAST_WORDS_S)

    # Sending.

    def send_now(self, data: bytes) -> int:
        """Send past the queue, which must be empty. How much was taken; -1 if the connection is lost."""
        try:
            sent = self._transport.send(data)
            if not self._transport.flush():
                self.want_write()
        except OSError:
            return -1
        return sent

    def want_write(self) -> None:
        """Wake up when the peer has read something."""
        self._write_blocked = True
        self._update_interest()

    def _send_some(self) -> None:
        sent = Sent.BLOCKED
        if self._transport.flush():
            sent = self.queue.send(self._loop.now, self._is_late)
            if sent is Sent.ALL and not self._transport.flush():
                sent = Sent.BLOCKED
        self._write_blocked = sent is Sent.BLOCKED
        if sent is Sent.UNFINISHED or (sent is Sent.ALL and self._is_asked):
            self.request_turn()
        elif sent is Sent.ALL and self.close_when_sent:
            self.close(self.closing_reason)

    def _update_interest(self) -> None:
        if self._is_closed:
            return
        events = READ | (WRITE if self._write_blocked else 0)
        if events != self._events:
            self._events = events
            self._loop.modify(self.descriptor, events)

    def charge(self, units: int) -> None:
        """It may ask for one play, and that is all."""

    def set_pace(self, pace: Pace) -> None:
        """It has nothing to say that could wait."""

    # What its viewer is told.

    def tell_decided(self) -> None:
        """It asks for nothing more."""

    def tell_play_begins(self, stream_id: int) -> None:  # noqa: ARG002
        """The head of the answer."""
        self._has_head = True
        self.queue.put(self._spoken.head())

    def tell_play_refused(self, stream_id: int, text: str, code: StatusCode) -> None:  # noqa: ARG002
        """An answer of a few bytes, and the end."""
        self.queue.put(self._spoken.refusal(code))
        self.close_soon(text, _LAST_WORDS_S)

    def tell_play_ended(self, stream_id: int) -> None:  # noqa: ARG002
        """The end of the answer is that of the connection."""
        self._say_end(NORMAL)
        self.close_soon("stream ended", _LAST_WORDS_S)

    def tell_play_revoked(self, stream_id: int, reason: str) -> None:  # noqa: ARG002
        """The same, for another reason."""
        self._say_end(POLICY)
        self.close_soon(reason, _LAST_WORDS_S)

    def tell_goodbye(self, text: str) -> None:
        """The server ends."""
        self._say_end(GOING_AWAY)
        self.close_soon(text, _LAST_WORDS_S)

    def _say_end(self, code: int) -> None:
        if not self._has_head:
            self.queue.put(self._spoken.refusal(StatusCode.PLAY_FAILED))
        elif self._frames is not None and not self._is_closed:
            self.queue.put(close_frame(code))

    # The end.

    def close_soon(self, reason: str, within_s: float) -> None:
        """Let the peer have what is queued for it, and close; after a while also one that does not read."""
        self.closing_reason = reason
        self.close_when_sent = True
        self.request_turn()
        self._loop.call_later(within_s, lambda: self.close(reason))

    def close(self, reason: str) -> None:
        """The end of the connection, whatever the reason."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove(self.descriptor)
        for stream_id in list(self.plays):
            self._owner.play_lost(self, stream_id, reason)
        self.queue.clear()
        self._transport.close()
        self._on_gone()
        self._owner.on_closed(self, reason)
