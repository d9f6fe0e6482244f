"""A connection: one RTMP connection and its session.

Owns reading, turns, the event loop's interest in the socket, and the end. What is sent in which order is `outlet`'s
matter, and what events mean is `broker`'s.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import ProtocolViolation
from penstock.protocol.events import Event, MediaReceived, PlayEnded, PublishEnded
from penstock.protocol.server_session import ServerSession
from penstock.serve.connections.send_queue import SELECTIVE_BATCH_BYTES, SELECTIVE_QUEUE_BYTES, SendQueue
from penstock.serve.connections.transport import Transport
from penstock.serve.reactor import READ, WRITE, Timer

if TYPE_CHECKING:
    from penstock.serve.streams.broker import Broker
    from penstock.serve.streams.live_stream import LiveStream

_RECEIVE_BYTES = 64 * 1024
_READS_PER_TURN = 4
"""A fast publisher gives way to others after this many reads."""
_QUIET_RECEIVE_BYTES = 8 * 1024
"""Who publishes nothing has little to say; what it asks for in one read is answered before the answers are counted."""
_MEDIA_PER_TURN = 2048
"""A message can be as short as one byte, and an aggregate can hold a million of them: the others come in between."""
_EVENT_COST = 32
"""What other events count as: a play may take as long as so many frames."""
_NEXT_TURN_S = 0.001


class Measure(NamedTuple):
    """What had come from a connection by a time."""

    at: float
    received_bytes: int
    handled: int


class Rate(NamedTuple):
    """What comes from a connection, each second."""

    bits: float
    messages: float


class RtmpConnection(SendQueue):
    """One connection."""

    __slots__ = (
        "_broker",
        "_events",
        "_handled",
        "_has_rest",
        "_is_gathered",
        "_is_patient",
        "_is_reading",
        "_measures",
        "_turn",
        "_wakes_from",
        "address",
        "app",
        "app_query",
        "asked_at",
        "can_send_files",
        "client",
        "close_when_sent",
        "connected_at",
        "descriptor",
        "handshaken_at",
        "heard_at",
        "id",
        "is_encrypted",
        "on_close",
        "opened_at",
        "pinged_at",
        "publications",
        "round_trip_ms",
        "session",
    )

    def __init__(
        self,
        peer_id: str,
        address: str,
        transport: Transport,
        session: ServerSession,
        broker: "Broker",
    ) -> None:
        reactor = broker.reactor
        super().__init__(transport, reactor)
        self.id = peer_id
        self.address = address
        self.session = session
        self.descriptor = transport.descriptor
        self.can_send_files = transport.can_send_files
        self.is_encrypted = not transport.can_send_files
        self.app = ""
        self.app_query: str | None = None
        self.client = ""
        self.opened_at = self.heard_at = self.pinged_at = self.asked_at = reactor.now
        self.handshaken_at: float | None = None
        self.connected_at: float | None = None
        self.round_trip_ms: int | None = None
        self.close_when_sent = False
        self.publications: dict[int, LiveStream] = {}
        self._broker = broker
        self.on_close: Callable[[], None] | None = None
        self._is_gathered = False
        self._is_patient = False
        self._is_reading = True
        self._has_rest = False
        """Whether the session has events that were left for another turn."""
        self._turn: Timer | None = None
        self._handled = 0
        """Messages taken from it; a request counts as several, since it costs as much."""
        self._wakes_from = 1
        self._measures = (Measure(reactor.now, 0, 0),) * 2
        self._events = READ
        reactor.add(self.descriptor, READ, self._on_ready)

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        return self._is_closed

    def measure(self, now: float) -> Rate:
        """What came since the measure before last, so that one burst is not taken for a rate."""
        before, last = self._measures
        self._measures = (last, Measure(now, self.session.received_bytes, self._handled))
        seconds = max(now - before.at, 1.0)
        bits = 8 * (self.session.received_bytes - before.received_bytes)
        return Rate(bits / seconds, (self._handled - before.handled) / seconds)

    # Reading.

    def _on_ready(self, events: int) -> None:
        try:
            if events & WRITE:
                self.flush_output()
            if events & ~WRITE and not self._is_closed:
                self._read()
                # Under TLS reading may leave something to be sent: a step of the handshake, say.
                if self.is_encrypted and not self._is_closed and not self._transport.flush():
                    self.want_write()
            if not events and not self._is_closed:
                self.handle_events()
        except ProtocolViolation as violation:
            self._broker.on_violation(self, violation)
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
        except Exception as error:
            self._broker.on_bug(self, error)

    def _read(self) -> None:
        size = _RECEIVE_BYTES if self.publications else _QUIET_RECEIVE_BYTES
        for _ in range(_READS_PER_TURN):
            data = self._transport.receive(size)
            if data is None:
                return
            if not data:
                self.close("closed by the peer")
                return
            self.heard_at = self._reactor.now
            self.session.receive_data(data)
            self.handle_events()
            if self._wakes_from > 1 and self.session.buffered_bytes:
                self.wake_up()
            if len(data) < size or self._is_closed or not self._is_reading:
                return
        if self._is_gathered:
            # There is more, and nobody would look at it before the next interval.
            self._take_turn_later()

    def handle_events(self) -> None:
        """Deal with the events that are there, at most one turn of them, then send what the session has to say."""
        session = self.session
        next_event = session.next_event
        take_media = self._broker.take_media
        left = _MEDIA_PER_TURN
        while left > 0 and (event := next_event()) is not None:
            left -= 1
            if isinstance(event, MediaReceived):
                take_media(self, event)
            else:
                self._broker.on_event(self, event)
                if self._is_closed:
                    return
                # What it asks for is as large as the stream's publisher has made it: a play brings set-up.
                left = 0 if self._queued_bytes >= self._max_queued_bytes else left - _EVENT_COST
        self._has_rest = left <= 0
        self._handled += _MEDIA_PER_TURN - left
        reply = session.data_to_send()
        if reply:
            self.queue(reply)
            self.flush_output()
        self._update_interest()

    def doze(self, least_bytes: int) -> None:
        """Read when so much has come, as of a frame of video, and not for each message that comes before it."""
        # What is left of a message may be less than that, and another publication may have smaller frames.
        may_doze = not self.session.buffered_bytes and len(self.publications) == 1
        self._wake_from(least_bytes if may_doze else 1)

    def wake_up(self) -> None:
        """Read at once whatever comes."""
        self._wake_from(1)

    def read_now(self) -> None:
        """Read what is there, unless it has to wait for something else."""
        if self._is_reading and not self._is_closed:
            self._on_ready(READ)

    def _wake_from(self, size: int) -> None:
        # Not a call for each little by which frames differ; never more than is asked for.
        if not self._is_closed and not size * 3 // 4 <= self._wakes_from <= size:
            self._wakes_from = size
            self._transport.wake_from(size)

    # Sending.

    def send_session_data(self) -> None:
        """Queue and send what the session was told to say."""
        reply = self.session.data_to_send()
        if reply:
            self.queue(reply)
            self.flush_output()

    def send_now(self, data: bytes) -> int:
        """Send past the queue, which must be empty. How much was taken; -1 if the connection is lost."""
        try:
            sent = self._transport.send(data)
            if not self._transport.flush():
                self.want_write()
        except OSError:
            return -1
        return sent

    def flush_output(self) -> None:
        """Send all that can be sent, in order. What is left waits until the connection reads."""
        if self._is_closed:
            return
        try:
            # Again at the end, as TLS may have taken bytes and not passed them on.
            is_done = self._transport.flush() and self._send_all() and self._transport.flush()
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
            return
        if is_done and self.close_when_sent:
            self.close("closed by the server")
            return
        self._want(READ if is_done else READ | WRITE)
        if not self._is_reading:
            self._update_interest()

    # The socket.

    def want_write(self) -> None:
        """Wake up when the connection has read something."""
        self._want(READ | WRITE)

    def gather(self, *, is_patient: bool) -> None:
        """Read at once, or a little later and more at a time. One that has to read first is looked at at once."""
        self._is_patient = is_patient
        self._wait_for(self._events)

    def _want(self, events: int) -> None:
        self._wait_for(events if self._is_reading else events & ~READ)

    def _wait_for(self, events: int) -> None:
        if self._is_closed:
            return
        is_gathered = self._is_patient and not events & WRITE
        if is_gathered != self._is_gathered:
            self._is_gathered = is_gathered
            self._reactor.gather(self.descriptor, events, is_gathered=is_gathered)
        elif events != self._events:
            self._reactor.modify(self.descriptor, events)
        self._events = events

    def _update_interest(self) -> None:
        """Read no more from one who does not read our answers, or whose request is not decided yet."""
        may_go_on = not self.session.is_held and self._queued_bytes < self._max_queued_bytes
        if may_go_on and self._has_rest:
            self._take_turn_later()
        is_reading = may_go_on and not self._has_rest
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            self._want((self._events & WRITE) | READ)

    @property
    def _max_queued_bytes(self) -> int:
        limit = self._broker.settings.max_unread_reply_bytes
        # Media may stand in the queue of viewers as well, and set-up for those who join.
        return limit + SELECTIVE_QUEUE_BYTES + SELECTIVE_BATCH_BYTES if self.viewers else limit

    def _take_turn_later(self) -> None:
        if self._turn is None:
            self._turn = self._reactor.call_later(_NEXT_TURN_S, self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self._on_ready(READ if self._is_reading else 0)

    def resume(self) -> None:
        """A decision was made: read on, what is buffered first."""
        self._on_ready(0)

    def close(self, reason: str) -> None:
        """The end of the connection, whatever the reason."""
        if self._is_closed:
            return
        self._is_closed = True
        self._reactor.remove(self.descriptor)
        self.session.receive_eof()
        while (event := self.session.next_event()) is not None:
            # A request that was not looked at yet has nobody any more to be granted to.
            if isinstance(event, PublishEnded | PlayEnded):
                self._end_with(event)
        self._transport.close()
        if self.on_close is not None:
            self.on_close()
        self._broker.on_closed(self, reason)

    def _end_with(self, event: Event) -> None:
        try:
            self._broker.on_event(self, event)
        except Exception as error:
            self._broker.on_bug(self, error)
