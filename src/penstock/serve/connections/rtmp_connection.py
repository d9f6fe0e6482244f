"""One RTMP connection: a transport, a session, and what waits to be sent.

Owns reading, the turns in which it works, the rates at which its peer may ask for work, the loop's interest in the
socket, and the end. In which order bytes go out is the send queue's matter, and what events mean is the owner's.

A turn ends when `Loop.turn_ends_at` has come; what is left asks for another one. A peer that asks for more than its
allowance is not read for a while; one that keeps doing so is closed by the reaper.
"""

# Long because: reading, sending and rates decide together whether the socket is waited for.

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from penstock.errors import ProtocolViolation
from penstock.protocol.events import Event, MediaReceived, PlayEnded, PublishEnded
from penstock.protocol.server_session import ServerSession
from penstock.protocol.status import StatusCode
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.media_connection import MediaSink
from penstock.serve.connections.peer_rates import PeerRates
from penstock.serve.connections.send_queue import (
    FILTERED_BATCH_BYTES,
    FILTERED_QUEUE_BYTES,
    MediaSource,
    SendQueue,
    Sent,
)
from penstock.serve.connections.transport import Transport
from penstock.serve.reactor import ERROR, HANG_UP, READ, WRITE, Loop, Timer
from penstock.serve.settings import ServerSettings

_RECEIVE_BYTES: Final = 64 * 1024
_QUIET_RECEIVE_BYTES: Final = 8 * 1024
"""Who publishes nothing has little to say."""
_READS_PER_TURN: Final = 4
_MEDIA_PER_LOOK: Final = 4
"""Messages between two looks at the clock: one takes some five microseconds, and a changed codec configuration up to a
millisecond."""


class ConnectionOwner(Protocol):
    """Whoever decides what events of connections lead to."""

    @property
    def settings(self) -> ServerSettings:
        """The limits in force."""

    def on_event(self, connection: "RtmpConnection", event: Event) -> None:
        """Deal with one event."""

    def on_input_held(self, change_bytes: int) -> None:
        """A connection holds more or less of what its peer sent and did not finish."""

    def on_violation(self, connection: "RtmpConnection", violation: ProtocolViolation) -> None:
        """A peer broke the protocol."""

    def on_bug(self, connection: "RtmpConnection", error: Exception) -> None:
        """One exception costs one connection."""

    def on_closed(self, connection: "RtmpConnection", reason: str) -> None:
        """A connection is gone; what it did has ended already."""


class RtmpConnection:
    """One connection."""

    __slots__ = (
        "_events",
        "_held_bytes",
        "_is_asked",
        "_is_closed",
        "_is_reading",
        "_loop",
        "_owner",
        "_pace",
        "_pause",
        "_transport",
        "_turn",
        "_wanted_pace",
        "_write_blocked",
        "address",
        "app",
        "app_query",
        "asked_at",
        "can_reconnect",
        "can_send_files",
        "client",
        "close_when_sent",
        "closing_reason",
        "connected_at",
        "descriptor",
        "dimensions",
        "handshaken_at",
        "heard_at",
        "id",
        "is_encrypted",
        "last_words",
        "on_close",
        "opened_at",
        "own_name",
        "pinged_at",
        "plays",
        "publications",
        "queue",
        "rates",
        "round_trip_ms",
        "session",
        "user_proved",
        "via",
    )

    def __init__(
        self,
        connection_id: str,
        address: str,
        transport: Transport,
        session: ServerSession,
        *,
        loop: Loop,
        owner: ConnectionOwner,
    ) -> None:
        self.id = connection_id
        self.address = address
        self.session = session
        self.descriptor = transport.descriptor
        self.can_send_files = transport.can_send_files
        self.is_encrypted = not transport.can_send_files
        self.app = ""
        self.app_query: str | None = None
        """What came with it, credentials among it: for decisions, and for nobody to see."""
        self.user_proved: str | None = None
        """Whose key it was proved to have when it connected."""
        self.own_name: str | None = None
        """What its peer calls itself in the query of its app."""
        self.dimensions: dict[str, str] = {}
        """The parameters of that query that the operator named."""
        self.client = ""
        self.can_reconnect = False
        """Whether its peer has said that it comes back when it is asked to (Enhanced RTMP v2)."""
        self.via: tuple[str, ...] = ()
        """The servers that pull through it, by their own word, the first of them first; empty: it is no pull."""
        now = loop.now
        self.opened_at = self.heard_at = self.pinged_at = self.asked_at = now
        self.handshaken_at: float | None = None
        self.connected_at: float | None = None
        self.round_trip_ms: int | None = None
        self.close_when_sent = False
        self.closing_reason = "closed by the server"
        """Why it is closed then."""
        self.last_words: Callable[[], None] | None = None
        """Lets the session say something more when everything else is sent, just before it is closed."""
        self.on_close: Callable[[], None] | None = None
        self.publications: dict[int, MediaSink] = {}
        """What it publishes, by message stream."""
        self.plays: dict[int, MediaSource] = {}
        """What it watches, by message stream."""
        self.queue = SendQueue(transport, self.plays)
        self._transport = transport
        self._loop = loop
        self._owner = owner
        self._is_closed = False
        self._is_asked = False
        """Whether somebody has asked for a turn of it."""
        self._pace = self._wanted_pace = Pace.AT_ONCE
        self._is_reading = True
        self._write_blocked = False
        self._held_bytes = 0
        self.rates = PeerRates(owner.settings, now)
        self._pause: Timer | None = None
        self._events = READ
        self._turn = loop.add(self.descriptor, READ, self._on_turn)
        # What came with the handshake of TLS is there already, and no event will tell.
        if self.is_encrypted:
            self._turn.events |= READ
            loop.queue(self._turn)

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        return self._is_closed

    @property
    def protocol(self) -> str:
        """As facts and decisions call it."""
        return "rtmps" if self.is_encrypted else "rtmp"

    @property
    def received_bytes(self) -> int:
        """All that came on it."""
        return self.session.received_bytes

    @property
    def pulled_from(self) -> None:
        """Nowhere: what it publishes, it sends by itself."""

    @property
    def held_bytes(self) -> int:
        """What it makes us hold of messages that are not whole."""
        return 0 if self._is_closed else self._held_bytes

    # Turns.

    def request_turn(self) -> None:
        """There is something to do for it: in a turn of its own, which is charged to it."""
        if not self._is_closed:
            self._is_asked = True
            self._loop.queue(self._turn)

    def _on_turn(self, events: int) -> None:
        try:
            if events & ~WRITE and self._is_reading:
                self._read()
            elif self._may_go_on and self.session.is_unfinished:
                self._handle_events()
            if self._is_closed:
                return
            if not self._is_reading and events & (HANG_UP | ERROR):
                # It would be told again at once, for as long as we do not read.
                self.close("connection lost")
                return
            if self._is_asked or events & WRITE or self.queue.queued_bytes or self.is_encrypted:
                self._work_and_send(is_writable=bool(events & WRITE) or not self._write_blocked)
            self._update_interest()
        except ProtocolViolation as violation:
            self._owner.on_violation(self, violation)
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
        except Exception as error:
            self._owner.on_bug(self, error)

    def _work_and_send(self, *, is_writable: bool) -> None:
        self._is_asked = False
        for play in list(self.plays.values()):
            if not self._has_room:
                # Others of its plays come when it has read: each of them may be sent a codec configuration.
                self._is_asked = True
                break
            play.work(self._loop.now)
        if is_writable:
            self._send_some()

    def _is_late(self) -> bool:
        return self._loop.clock() >= self._loop.turn_ends_at

    # Reading.

    def _read(self) -> None:
        size = _RECEIVE_BYTES if self.publications else _QUIET_RECEIVE_BYTES
        for _ in range(_READS_PER_TURN):
            data = self._transport.receive(size)
            if data is None:
                break
            if not data:
                self.close("closed by the peer")
                return
            self.heard_at = self._loop.now
            self.session.receive_data(data, self._loop.now)
            self._handle_events()
            if self._is_closed:
                return
            if self.session.is_unfinished or not self._may_go_on:
                return
            if len(data) < size:
                break
        else:
            if self._pace is not Pace.AT_ONCE:
                # There is more, and nobody would look at it before the next interval.
                self._turn.events |= READ
                self._loop.queue(self._turn)

    def _handle_events(self) -> None:
        """Deal with what has come until the turn is over, and queue what the session has to say."""
        session, now = self.session, self._loop.now
        next_event = session.next_event
        left = _MEDIA_PER_LOOK
        while True:
            event = next_event()
            if isinstance(event, MediaReceived):
                type_id, stream_id, timestamp_ms, payload = event
                self.publications[stream_id].take_media(type_id, timestamp_ms, payload, now)
                left -= 1
                if left:
                    continue
                left = _MEDIA_PER_LOOK
            elif event is not None:
                self._owner.on_event(self, event)
                if self._is_closed:
                    return
            if session.pending_reply_bytes:
                self.queue.put(session.data_to_send())
            if event is None and not session.is_unfinished:
                break
            # Looked at after each event: one command may queue a whole codec configuration for one who joins.
            if not self._may_go_on or self._is_late():
                break
        if session.pending_reply_bytes or self.handshaken_at is None:
            self.queue.put(session.data_to_send())
        self._charge_input()

    @property
    def _may_go_on(self) -> bool:
        """Not while its answers are not read, nor while it is slowed down."""
        return self._pause is None and self._has_room

    @property
    def _has_room(self) -> bool:
        limit = self._owner.settings.max_unread_reply_bytes
        if self.plays:
            # Media may stand in the queue of viewers as well, and the codec configuration for those who join.
            limit += FILTERED_QUEUE_BYTES + FILTERED_BATCH_BYTES
        return self.queue.queued_bytes < limit

    # Rates.

    def charge(self, units: int) -> None:
        """Count work that its peer has caused toward what it may ask for."""
        if units:
            self.rates.charge(units, self._loop.now)
            self._pause_if_too_fast()

    def update_rates(self) -> None:
        """It has begun or ceased to publish."""
        self.rates.change(self._owner.settings, self._loop.now, is_publishing=bool(self.publications))

    def _charge_input(self) -> None:
        session = self.session
        self.rates.charge_input(session.work_done, session.received_bytes, self._loop.now)
        self._pause_if_too_fast()
        held_bytes = session.buffered_bytes
        if held_bytes != self._held_bytes:
            change_bytes, self._held_bytes = held_bytes - self._held_bytes, held_bytes
            self._owner.on_input_held(change_bytes)

    def _pause_if_too_fast(self) -> None:
        if self.rates.paused_until > self._loop.now and self._pause is None:
            self._pause = self._loop.call_at(self.rates.paused_until, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        self._pause_if_too_fast()
        self._update_interest()

    # Sending.

    def send_session_data(self) -> None:
        """Queue and send what the session was told to say."""
        self.queue.put(self.session.data_to_send())
        if not self._write_blocked:
            self.send()

    def send_now(self, data: bytes) -> int:
        """Send past the queue, which must be empty. How much was taken; -1 if the connection is lost."""
        try:
            sent = self._transport.send(data)
            if not self._transport.flush():
                self.want_write()
        except OSError:
            return -1
        return sent

    def send(self) -> None:
        """Send what can be sent in this turn, in order. What is left waits until the peer reads, or for another."""
        if not self._is_closed:
            self._send_some()
            self._update_interest()

    def _send_some(self) -> None:
        try:
            sent = Sent.BLOCKED
            # Again at the end, as TLS may have taken bytes and not passed them on.
            if self._transport.flush():
                sent = self.queue.send(self._loop.now, self._is_late)
                if sent is Sent.ALL and not self._transport.flush():
                    sent = Sent.BLOCKED
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
            return
        self._write_blocked = sent is Sent.BLOCKED
        if sent is Sent.UNFINISHED or (sent is Sent.ALL and self._is_asked):
            self.request_turn()
        elif sent is Sent.ALL and self.close_when_sent:
            last_words, self.last_words = self.last_words, None
            if last_words is None:
                self.close(self.closing_reason)
            else:
                last_words()
                self.send_session_data()

    def want_write(self) -> None:
        """Wake up when the peer has read something."""
        self._write_blocked = True
        self._update_interest()

    # What its peer is told.

    def tell_decided(self) -> None:
        """What it asked for last is decided, and it may ask for more."""
        self.session.go_on()
        self.request_turn()

    def tell_play_begins(self, stream_id: int) -> None:
        """A play begins."""
        self.session.accept_play(stream_id)
        self.queue.put(self.session.data_to_send())

    def tell_play_refused(self, stream_id: int, text: str, code: StatusCode) -> None:
        """A play comes to nothing."""
        self.session.reject_play(stream_id, text, code)
        self.send_session_data()

    def tell_play_ended(self, stream_id: int) -> None:
        """The stream is over."""
        self.session.end_play(stream_id)
        self.queue.put(self.session.data_to_send())
        self.request_turn()

    def tell_play_revoked(self, stream_id: int, reason: str) -> None:
        """A play may not go on."""
        self.session.revoke_play(stream_id, reason)
        self.queue.put(self.session.data_to_send())

    def tell_goodbye(self, text: str) -> None:
        """The server ends. What its peer has published already is ignored: no stream is there any more to take it."""
        for stream_id in self.publications:
            self.session.end_publish(stream_id, text)
        self.publications.clear()
        if self.connected_at is not None:
            self.last_words = partial(self.session.announce_shutdown, text)
        self.close_when_sent = True
        self.request_turn()

    # The socket.

    def set_pace(self, pace: Pace) -> None:
        """Read at once, or a little later and more at a time. One that has to read first is looked at at once."""
        if pace is not self._wanted_pace:
            self._wanted_pace = pace
            self._update_interest()

    def _update_interest(self) -> None:
        """Read no more from one who does not read our answers, asks for too much, or whose request is undecided."""
        if self._is_closed:
            return
        may_go_on = self._may_go_on
        if may_go_on and self.session.is_unfinished:
            self._loop.queue(self._turn)
        self._is_reading = may_go_on and not self.session.is_held and not self.session.is_unfinished
        events = (READ if self._is_reading else 0) | (WRITE if self._write_blocked else 0)
        pace = Pace.AT_ONCE if events & WRITE else self._wanted_pace
        if pace is not self._pace:
            self._pace = pace
            self._loop.set_pace(self.descriptor, events, pace)
        elif events != self._events:
            self._loop.modify(self.descriptor, events)
        self._events = events

    # The end.

    def close_soon(self, reason: str, within_s: float) -> None:
        """Let the peer hear what is queued for it, and close; after a while also one that does not read."""
        self.closing_reason = reason
        self.close_when_sent = True
        self.queue.put(self.session.data_to_send())
        self.request_turn()
        self._loop.call_later(within_s, lambda: self.close(reason))

    def close(self, reason: str) -> None:
        """The end of the connection, whatever the reason."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove(self.descriptor)
        self.session.receive_eof()
        while (event := self.session.next_event()) is not None:
            # A request that was not looked at yet has nobody any more to be granted to.
            if isinstance(event, PublishEnded | PlayEnded):
                self._end_with(event)
        self.queue.clear()
        self._transport.close()
        self._owner.on_input_held(-self._held_bytes)
        if self.on_close is not None:
            self.on_close()
        self._owner.on_closed(self, reason)

    def _end_with(self, event: Event) -> None:
        try:
            self._owner.on_event(self, event)
        except Exception as error:
            self._owner.on_bug(self, error)
