"""One connection over HTTP while it is the front's: it is read, waits, is answered, and read again.

Owns the state of one connection, what the loop waits for on its behalf, and the bytes of one answer on their way. What
becomes of a request is the front's matter. No more than one request is looked at before its answer is sent, so whoever
sends many at once is read as fast as it is answered.
"""

import enum
import select
import socket
from collections.abc import Callable
from typing import Final, Protocol

from penstock.relay.cursor import KeptRange, Range
from penstock.relay.segment import Segment
from penstock.serve.connections.send_queue import SendQueue, Sent
from penstock.serve.connections.transport import LowWater, PlainTransport, Transport
from penstock.serve.http.input import Input, PeekedInput, TakenInput
from penstock.serve.http.requests import Head
from penstock.serve.http.site import Answer, Taken, Wait
from penstock.serve.reactor import ERROR, HANG_UP, READ, WRITE, Loop

_CLIENT_ENDED: Final = select.EPOLLRDHUP
"""Whoever waits is not read, and would not be missed for long without this."""
_GONE: Final = _CLIENT_ENDED | HANG_UP | ERROR


class State(enum.Enum):
    """What is done for a connection now."""

    READING = "its request is not there yet"
    ASKING = "whether it may is being decided"
    WAITING = "its answer is not there yet"
    SENDING = "its answer is on its way"
    GONE = "it is not the front's any more"


class ConnectionOwner(Protocol):
    """The front."""

    def on_data(self, connection: "HttpConnection", data: bytes) -> None:
        """A connection has sent something."""

    def on_sent(self, connection: "HttpConnection") -> None:
        """An answer was sent to the end."""

    def on_progress(self, connection: "HttpConnection") -> None:
        """A part of an answer was sent, and the rest is to follow."""

    def on_lost(self, connection: "HttpConnection") -> None:
        """The client is gone."""

    def on_bug(self, connection: "HttpConnection", error: Exception) -> None:
        """One exception costs one connection."""


class HttpConnection:
    """One connection."""

    __slots__ = (
        "_events",
        "_input",
        "_loop",
        "_low_water",
        "_on_gone",
        "_owner",
        "_queue",
        "_socket",
        "_source",
        "_transport",
        "_turn",
        "address",
        "descriptor",
        "head",
        "is_encrypted",
        "is_first",
        "is_last",
        "own_head_lines",
        "state",
        "takes_head_only",
        "wait",
        "wanted_etags",
    )

    def __init__(
        self,
        loop: Loop,
        owner: ConnectionOwner,
        *,
        connection: socket.socket | None,
        transport: Transport | None,
        address: str,
        on_gone: Callable[[], None],
    ) -> None:
        """`connection`: a plain one. `transport`: of one under TLS, in the place of that."""
        self._loop = loop
        self._owner = owner
        self._socket = connection
        self._low_water = None if connection is None else LowWater(connection)
        self._input: Input
        if connection is not None:
            self._transport: Transport = PlainTransport(connection)
            self._input = PeekedInput(connection)
        elif transport is not None:
            self._transport = transport
            self._input = TakenInput(transport)
        self.is_encrypted = connection is None
        self.address = address
        self.descriptor = self._transport.descriptor
        self._on_gone = on_gone
        self._queue = SendQueue(self._transport, {})
        self.state = State.READING
        self.is_first = True
        """Whether it has had no answer yet."""
        self.wait: Wait | None = None
        # Of the request in hand.
        self.head: Head | None = None
        self.is_last = False
        """Whether it is closed behind the answer."""
        self.takes_head_only = False
        self.wanted_etags: bytes | None = None
        """Which of them the client has."""
        self.own_head_lines = b""
        """What the answer to this request alone has in its head."""
        self._source: Segment | None = None
        """Where the answer on its way is read."""
        self._events = READ
        self._turn = loop.add(self.descriptor, READ, self._on_turn, is_background=True)

    @property
    def takes_shared_bytes(self) -> bool:
        """Whether it is sent an answer as it was laid out, by the fan-out."""
        return self._socket is not None and not self._is_particular

    @property
    def is_behind(self) -> bool:
        """Whether it is still sent what nobody else can have any more."""
        return self._source is not None and self._source.is_dropped

    @property
    def _is_particular(self) -> bool:
        return self.takes_head_only or self.wanted_etags is not None or bool(self.own_head_lines)

    # Turns.

    def _on_turn(self, events: int) -> None:
        try:
            if self.state is State.READING:
                self._look()
            elif self.state is State.SENDING:
                self._send()
            elif events & _GONE:
                # Not by what came before its request was taken: that may be told late.
                self._owner.on_lost(self)
        except OSError:
            self._owner.on_lost(self)
        except Exception as error:
            self._owner.on_bug(self, error)

    def _look(self) -> None:
        data = self._input.look()
        if data is None:
            return
        if not data:
            self._owner.on_lost(self)
            return
        self._owner.on_data(self, data)

    def look(self) -> None:
        """What came before it was waited for, as under TLS."""
        self._on_turn(0)

    # A request.

    def wait_for_more(self, seen_bytes: int) -> None:
        """It is not all there."""
        self._input.wait_for_more(seen_bytes)

    def take_request(self, head: Head) -> None:
        """Its head is all there, and is dealt with from now on."""
        self._input.take(head.size)
        self.head = head
        self.state = State.ASKING
        self.wanted_etags = None
        self.own_head_lines = b""
        self.takes_head_only = self.is_last = False

    def rest(self) -> None:
        """What becomes of its request is decided later, if it is not by now: until then it is not read."""
        if self.state in (State.ASKING, State.WAITING):
            self._wait_for(_CLIENT_ENDED)

    def join(self, wait: Wait, on_ready: Callable[[Wait], None]) -> None:
        """Wait for the answer with all others."""
        self.wait = wait
        self.state = State.WAITING
        wait.join(self, on_ready)

    # An answer.

    def take_answer(self, answer: Answer, sent_bytes: int = 0) -> None:
        """Send an answer; so much of it was sent already."""
        self._leave_wait()
        self.state = State.SENDING
        if sent_bytes < 0:
            self._owner.on_lost(self)
            return
        self.is_last |= answer.is_last
        if sent_bytes == answer.size:
            self._finish()
            return
        self._put(answer, sent_bytes)
        self._on_turn(0)

    def _put(self, answer: Answer, sent_bytes: int) -> None:
        if self._is_particular and not sent_bytes:
            head = answer.head
            is_known = answer.etag is not None and self.wanted_etags is not None
            if is_known and _names(self.wanted_etags or b"", answer.etag or b""):
                head, is_known = _not_modified(head), True
            else:
                is_known = False
            self._queue.put(head[:-2] + self.own_head_lines + head[-2:])
            if self.takes_head_only or is_known:
                return
            sent_bytes = len(answer.head)
        flush = answer.flush
        left_bytes = flush.size - sent_bytes
        if flush.pieces is not None:
            self._queue.put(flush.data[sent_bytes:])
        elif left_bytes:
            self._source = flush.segment
            self._queue.put(KeptRange(answer.keeper, Range(flush.segment, flush.position + sent_bytes, left_bytes)))

    def _send(self) -> None:
        before = self._queue.sent_bytes
        sent = Sent.BLOCKED
        if self._transport.flush():
            sent = self._queue.send(self._loop.now, self._is_late)
            if sent is Sent.ALL and not self._transport.flush():
                sent = Sent.BLOCKED
        if sent is Sent.ALL:
            self._finish()
            return
        if self._queue.sent_bytes > before or self._events != WRITE:
            self._owner.on_progress(self)
        if sent is Sent.UNFINISHED:
            self._loop.queue(self._turn)
        elif self._low_water is not None:
            # It is too much for one send.
            self._low_water.lift()
        self._wait_for(WRITE)

    def _is_late(self) -> bool:
        return self._loop.clock() >= self._loop.turn_ends_at

    def _finish(self) -> None:
        self.head = self._source = None
        self.is_first = False
        self.state = State.READING
        self._owner.on_sent(self)
        if self.state is State.READING:
            self._wait_for(READ)
            if self._input.rest():
                # It came with the request before, and no event will tell.
                self._loop.queue(self._turn)

    def _leave_wait(self) -> None:
        if self.wait is not None:
            self.wait.leave(self)
            self.wait = None

    def _wait_for(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self._loop.modify(self.descriptor, events)

    # The end.

    def close(self) -> None:
        """The end of the connection. May be called again."""
        if self._leave():
            self._input.discard()
            self._transport.close()
            self._on_gone()

    def give_to_web(
        self,
        plain: Callable[[socket.socket, str, Callable[[], None]], None],
        tls: Callable[[Transport, str, bytes, Callable[[], None]], None],
    ) -> None:
        """It is not the front's any more."""
        self._input.wait_for_more(0)
        if not self._leave():
            return
        if self._socket is not None:
            plain(self._socket, self.address, self._on_gone)
        else:
            tls(self._transport, self.address, self._input.rest(), self._on_gone)

    def give_away(self) -> Taken | None:
        """It belongs to whoever answers it without an end. None: it is gone already."""
        if not self._leave():
            return None
        if self._low_water is not None:
            self._low_water.restore()
        return Taken(self._transport, self.address, self.is_encrypted, self._input.rest(), self._on_gone)

    def _leave(self) -> bool:
        if self.state is State.GONE:
            return False
        self.state = State.GONE
        # Whoever decides about its request meanwhile knows by this that nobody waits: its descriptor is another's soon.
        self.head = None
        self._leave_wait()
        self._queue.clear()
        # Epoll follows the connection, not this descriptor of it: as long as somebody has it, we would be woken for it.
        self._loop.remove(self.descriptor)
        return True


def _names(wanted: bytes, etag: bytes) -> bool:
    """Whether an answer with such an ETag is one that the client has."""
    tags = [each.strip().removeprefix(b"W/") for each in wanted.split(b",")]
    return b"*" in tags or etag in tags


_OF_A_BODY: Final = (b"content-type:", b"content-length:", b"content-encoding:")


def _not_modified(head: bytes) -> bytes:
    """The same head without what is said of a body."""
    _, *lines = head.split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(_OF_A_BODY)]
    return b"\r\n".join((b"HTTP/1.1 304 Not Modified", *kept))
