"""One outgoing RTMP connection: dialled, shaken hands, asked for its app and its stream, and then its owner's to use.

Owns the steps up to publishing or playing, their deadlines, what waits to be sent, and the end. What is sent and what
becomes of what is received is the owner's matter. Exactly one call of `on_closed` ends it, whatever happens: an error
of the server, of the network or of ours costs this connection and nothing else.
"""

# Long because: steps, sending and deadlines decide together when it is over.

import contextlib
import enum
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.amf import AmfValue
from penstock.errors import ProtocolViolation
from penstock.protocol.capabilities import Capabilities, CapsEx, FourCcInfo, VideoFunction
from penstock.protocol.client_session import ClientSession
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.data import DataMessage
from penstock.protocol.events import (
    CallRefused,
    Connected,
    ConnectRefused,
    DataReceived,
    Event,
    HandshakeCompleted,
    MediaReceived,
    PlayStarted,
    PublishStarted,
    StatusReceived,
    StreamCreated,
    StreamEnded,
    StreamRefused,
)
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.status import StatusCode
from penstock.protocol.via import PROPERTY, read_via
from penstock.rtmp_address import StreamAddress
from penstock.serve.connections.peer_rates import PeerRates
from penstock.serve.connections.send_queue import SendQueue, Sent
from penstock.serve.connections.transport import Transport
from penstock.serve.outgoing.dialer import Dialer
from penstock.serve.outgoing.words import Failure, refusal, without_secrets
from penstock.serve.reactor import READ, WRITE, Loop, Timer, Turn

_RECEIVE_BYTES: Final = 64 * 1024
_READS_PER_TURN: Final = 4
_EVENTS_PER_LOOK: Final = 4
QUEUE_BYTES: Final = 128 * 1024
"""An owner that has more to send waits until less than this is queued."""
_MAX_QUEUE_BYTES: Final = 32 * 1024 * 1024
"""One message of the largest size and what stood before it; pings that are never read get there too."""
_LOOK_INTERVAL_S: Final = 0.5
_GOODBYE_S: Final = 1.0
_HANDSHAKE: Final = "handshake"
_FORWARDS: Final = {"*": FourCcInfo.CAN_FORWARD}
# Encoders announce a stream before they make it; servers that know no such calls refuse them, which means nothing.
_OPTIONAL_CALLS: Final = frozenset({"releaseStream", "FCPublish", "FCUnpublish"})
_CAPABILITIES: Final = Capabilities(
    four_cc_list=("*",),
    video_four_cc=_FORWARDS,
    audio_four_cc=_FORWARDS,
    caps_ex=CapsEx.RECONNECT | CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.NANOSECOND_OFFSET,
    video_function=VideoFunction.HDR | VideoFunction.METADATA_PACKETS,
)
"""What is relayed is not decoded, and a request to come back is obeyed: owners must."""


class Purpose(enum.Enum):
    """What a connection is for."""

    PUBLISH = "publish"
    PLAY = "play"


@dataclass(frozen=True, slots=True)
class OutgoingTimeouts:
    """How long a server is waited for.

    `connect_s`: for its address, TCP and TLS together. `answer_s`: for the handshake, and for each answer after it.
    `play_answer_s`: for the answer to play, or the first message; a server may keep that until somebody publishes.
    `stall_s`: for it to read what it was sent, which is little. `silence_s`: for the next bytes, once it is ready.
    """

    connect_s: float = 10.0
    answer_s: float = 10.0
    play_answer_s: float = 30.0
    stall_s: float = 20.0
    silence_s: float | None = None


class OutgoingOwner(Protocol):
    """Whoever uses a connection."""

    def on_ready(self, connection: "OutgoingConnection") -> None:
        """The server has taken the publish or the play."""

    def on_event(self, connection: "OutgoingConnection", event: Event) -> None:
        """Media, data, the end of a play, a request to come back, a status: what comes once it is ready."""

    def on_room(self, connection: "OutgoingConnection") -> None:
        """Little is queued, in a turn of the connection: the owner may send more, until `has_room` is false."""

    def on_closed(self, connection: "OutgoingConnection", failure: Failure) -> None:
        """It is over, whatever the reason, the owner's own `end` or `close` among them."""

    def on_bug(self, error: Exception) -> None:
        """An error of ours; the connection is closed next."""


class OutgoingConnection:
    """One connection to a server, to publish or to play one stream."""

    def __init__(
        self,
        dialer: Dialer,
        address: StreamAddress,
        purpose: Purpose,
        owner: OutgoingOwner,
        *,
        settings: ConnectionSettings | None = None,
        timeouts: OutgoingTimeouts | None = None,
        secrets: tuple[str, ...] = (),
        connect_properties: Mapping[str, AmfValue] | None = None,
        rates: PeerRates | None = None,
    ) -> None:
        """`secrets`: texts that no reason may show, the stream's key for one. `connect_properties` go with connect.

        `rates`: how much the server may ask of us; None: it sends a stream, and that is as large as it is.
        """
        self.address = address
        self.is_ready = False
        self.stream_id = 0
        self.received_bytes = 0
        self.server_via: tuple[str, ...] = ()
        """What the server calls itself, if it is one of ours."""
        self._loop: Loop = dialer.loop
        self._owner = owner
        self._purpose = purpose
        self._timeouts = timeouts or OutgoingTimeouts()
        self._secrets = secrets
        self._connect_properties = dict(connect_properties or {})
        self._rates = rates
        self.session = ClientSession(
            nonce=os.urandom(NONCE_BYTES), time_ms=int(time.monotonic() * 1000) & 0xFFFFFFFF, settings=settings
        )
        self._transport: Transport | None = None
        self._queue: SendQueue | None = None
        self._turn: Turn | None = None
        self._events = READ
        self._write_blocked = False
        self._unread_since: float | None = None
        """Since when it has left something unread. The queue alone does not know what TLS holds."""
        self._is_closed = False
        self._is_ending: Failure | None = None
        self._heard_at = self._loop.now
        self._awaits = _HANDSHAKE
        """The answer that is waited for; nothing, once it is ready."""
        self._awaits_until = 0.0
        self._look_timer: Timer | None = None
        self._dial = dialer.dial(
            address, self._timeouts.connect_s, on_open=self._on_open, on_failed=lambda why: self.close(Failure(why))
        )

    @property
    def is_closed(self) -> bool:
        """Whether it is over."""
        return self._is_closed

    @property
    def peer_address(self) -> str:
        """Of the server, as it was looked up, with its port; empty: it was not yet."""
        return self._dial.peer_address

    @property
    def has_room(self) -> bool:
        """Whether the owner may send more."""
        return self.is_ready and self._is_ending is None and self.queued_bytes < QUEUE_BYTES

    @property
    def queued_bytes(self) -> int:
        """What waits for the server to read."""
        return 0 if self._queue is None else self._queue.queued_bytes

    @property
    def sent_bytes(self) -> int:
        """What the socket has taken."""
        return 0 if self._queue is None else self._queue.sent_bytes

    # What the owner sends. The bytes go out in the turn in hand, or in the next.

    def send_media(self, type_id: int, timestamp_ms: int, payload: bytes) -> None:
        """An audio (8) or video (9) message of the stream that is published."""
        self.session.send_media(self.stream_id, type_id, timestamp_ms, payload)
        self._take_output()

    def send_data(self, timestamp_ms: int, data: DataMessage | bytes) -> None:
        """A data message of the stream that is published."""
        self.session.send_data(self.stream_id, timestamp_ms, data)
        self._take_output()

    def request_turn(self) -> None:
        """Ask for `on_room`: there is something to send."""
        if self._turn is not None and not self._is_closed:
            self._loop.queue(self._turn)

    # The end.

    def end(self, reason: str) -> None:
        """Give the stream back as encoders do, let the server hear that, and close."""
        if self._is_closed or self._is_ending is not None:
            return
        failure = Failure(reason)
        if not self.is_ready or self._transport is None:
            self.close(failure)
            return
        self.session.delete_stream(self.stream_id)
        self._take_output()
        self._is_ending = failure
        self._loop.call_later(_GOODBYE_S, lambda: self.close(failure))
        self.request_turn()

    def hang_up(self, reason: str) -> None:
        """Close as one that is lost, so that a server with patience keeps the stream for whoever goes on with it."""
        if self._is_closed or self._is_ending is not None:
            return
        self._is_ending = Failure(reason)
        with contextlib.suppress(OSError):
            self._send()
        self.close(self._is_ending)

    def close(self, failure: Failure) -> None:
        """The end, at once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._dial.cancel()
        if self._look_timer is not None:
            self._look_timer.cancel()
        self.session.close()
        if self._transport is not None:
            self._loop.remove(self._transport.descriptor)
            self._transport.close()
        if self._queue is not None:
            self._queue.clear()
        self._owner.on_closed(self, self._is_ending or failure)

    # Steps.

    def _on_open(self, transport: Transport) -> None:
        self._transport = transport
        self._queue = SendQueue(transport, {})
        self._turn = self._loop.add(transport.descriptor, READ, self._on_turn)
        self._heard_at = self._loop.now
        self._await(_HANDSHAKE, self._timeouts.answer_s)
        self._take_output()
        # What came with the handshake of TLS is there already, and no event will tell.
        self._turn.events |= READ
        self.request_turn()
        self._look_timer = self._loop.call_later(_LOOK_INTERVAL_S, self._look)

    def _await(self, what: str, seconds: float) -> None:
        self._awaits = what
        self._awaits_until = self._loop.now + seconds

    def _step(self, event: Event) -> None:
        """What the answers of the server lead to, until it has taken the stream."""
        session, name = self.session, self.address.stream
        match event:
            case HandshakeCompleted():
                app, tc_url = self.address.app, self.address.tc_url
                session.connect(app, tc_url, capabilities=_CAPABILITIES, more=self._connect_properties)
                self._await("answer to connect", self._timeouts.answer_s)
            case Connected(properties):
                self.server_via = read_via(properties.get(PROPERTY))
                if self._purpose is Purpose.PUBLISH:
                    session.announce_publish(name)
                session.create_stream()
                self._await("answer to createStream", self._timeouts.answer_s)
            case StreamCreated(stream_id):
                self.stream_id = stream_id
                if self._purpose is Purpose.PUBLISH:
                    session.publish(stream_id, name)
                    self._await("answer to publish", self._timeouts.answer_s)
                else:
                    session.play(stream_id, name)
                    self._await("answer to play", self._timeouts.play_answer_s)
            case PublishStarted() | PlayStarted():
                self._become_ready()
            # Some servers send a stream without a word before it.
            case MediaReceived() | DataReceived():
                self._become_ready()
                self._owner.on_event(self, event)
            case _:
                self._owner.on_event(self, event)

    def _become_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self._awaits = ""
            self._owner.on_ready(self)
            self.request_turn()

    def _on_event(self, event: Event) -> None:
        match event:
            case ConnectRefused(code, description):
                self.close(refusal("connect", code, description, self._secrets))
            case StreamRefused(_, code, description):
                self.close(refusal(self._purpose.value, code, description, self._secrets))
            case CallRefused(name, code, description) if name not in _OPTIONAL_CALLS:
                self.close(refusal(name, code, description, self._secrets))
            case StatusReceived(code=StatusCode.UNPUBLISH_SUCCESS, description=description):
                # A good answer to our own goodbye, behind which nobody listens any more.
                self.close(refusal("to go on", StatusCode.UNPUBLISH_SUCCESS, description, self._secrets))
            case StreamEnded(code=code) if not self.is_ready:
                self.close(refusal(self._purpose.value, code, "", self._secrets))
            case _ if self.is_ready:
                self._owner.on_event(self, event)
            case _:
                self._step(event)

    # Turns.

    def _on_turn(self, events: int) -> None:
        try:
            if self._has_unread_events:
                self._handle_events()
            if events & ~WRITE and not self._has_unread_events:
                self._read()
            if self._is_closed:
                return
            if events & WRITE or not self._write_blocked:
                self._send()
            if not self._is_closed:
                self._update_interest()
        except ProtocolViolation as violation:
            self.close(Failure(f"it broke RTMP: {without_secrets(str(violation), self._secrets)}"))
        except OSError as error:
            self.close(Failure(f"the connection broke: {error.strerror or error}"))
        except Exception as error:
            self._owner.on_bug(error)
            self.close(Failure(f"internal error: {type(error).__name__}"))

    @property
    def _has_unread_events(self) -> bool:
        """Whether enough came already: what is not dealt with is not to grow."""
        return self.session.is_unfinished and self._is_ending is None

    def _read(self) -> None:
        transport = self._transport
        if transport is None or self._is_closed:
            return
        for _ in range(_READS_PER_TURN):
            data = transport.receive(_RECEIVE_BYTES)
            if data is None:
                return
            if not data:
                self.close(Failure("it closed the connection"))
                return
            self._heard_at = self._loop.now
            self.received_bytes += len(data)
            if self._is_ending is not None:
                # Read all the same: a socket that is closed with bytes unread is reset, and the goodbye is lost.
                continue
            self.session.receive_data(data, self._loop.now)
            self._handle_events()
            if self._is_closed or self.session.is_unfinished or len(data) < _RECEIVE_BYTES:
                return

    def _charge(self) -> None:
        rates = self._rates
        if rates is None or self._is_closed:
            return
        rates.charge_input(self.session.work_done, self.received_bytes, self._loop.now)
        if rates.limit is not None:
            self.close(Failure("it asks for more than one that takes a stream may (limits.max_messages_per_s)"))

    def _handle_events(self) -> None:
        session = self.session
        left = _EVENTS_PER_LOOK
        while not self._is_closed and self._is_ending is None:
            event = session.next_event()
            if event is not None:
                self._on_event(event)
            # The handshake's own bytes are not counted.
            if session.pending_reply_bytes or self._awaits == _HANDSHAKE:
                self._take_output()
            if event is None and not session.is_unfinished:
                self._charge()
                return
            left -= 1
            if not left:
                left = _EVENTS_PER_LOOK
                self._charge()
                if self._is_late():
                    self.request_turn()
                    return

    def _send(self) -> None:
        transport, queue = self._transport, self._queue
        if transport is None or queue is None:
            return
        while True:
            sent = Sent.BLOCKED
            if transport.flush():
                sent = queue.send(self._loop.now, self._is_late)
                if sent is Sent.ALL and not transport.flush():
                    sent = Sent.BLOCKED
            self._write_blocked = sent is Sent.BLOCKED
            if sent is Sent.ALL:
                self._unread_since = None
            elif self._write_blocked and self._unread_since is None:
                self._unread_since = self._loop.now
            if sent is Sent.UNFINISHED:
                self.request_turn()
            if sent is not Sent.ALL or not self.has_room:
                return
            self._owner.on_room(self)
            if not queue.queued_bytes:
                return
            if self._is_late():
                self.request_turn()
                return

    def _take_output(self) -> None:
        """Move what the session has to say behind what waits already."""
        if self._queue is None or self._is_closed:
            return
        self._queue.put(self.session.data_to_send())
        if self._queue.queued_bytes > _MAX_QUEUE_BYTES:
            self.close(Failure(f"it has left {self._queue.queued_bytes} bytes unread"))

    def _is_late(self) -> bool:
        return self._loop.clock() >= self._loop.turn_ends_at

    def _update_interest(self) -> None:
        if self._has_unread_events and self._turn is not None:
            self._loop.queue(self._turn)
        events = READ | (WRITE if self._write_blocked else 0)
        if events != self._events and self._transport is not None:
            self._loop.modify(self._transport.descriptor, events)
            self._events = events

    # Deadlines.

    def _look(self) -> None:
        now, timeouts = self._loop.now, self._timeouts
        unread_since = self._unread_since
        if self._awaits and now >= self._awaits_until:
            self.close(Failure(f"no {self._awaits} in time"))
        elif unread_since is not None and now - unread_since >= timeouts.stall_s:
            self.close(Failure(f"it left what it was sent unread for {timeouts.stall_s:g} s"))
        elif self.is_ready and timeouts.silence_s is not None and now - self._heard_at >= timeouts.silence_s:
            self.close(Failure(f"it sent nothing for {timeouts.silence_s:g} s"))
        else:
            self._look_timer = self._loop.call_later(_LOOK_INTERVAL_S, self._look)
