"""From an accepted connection over HTTP to the web process.

Owns those that have asked for nothing yet: how many they may be and how long they may wait, so that the web process
gets connections with a request alone. Of a plain one nothing is read: its socket goes as it is, and this process
forgets it without a word to the client. Of one under TLS the web process gets the end of a pair. Where there is no web
process, clients are told to come back; where it has a port of its own, that nothing is here.
"""

import contextlib
import socket
from collections.abc import Callable
from typing import Final

from penstock.control.messages import HttpConnection
from penstock.control.refusals import UNAVAILABLE
from penstock.serve.connections.transport import Transport
from penstock.serve.http.tls_pump import RECEIVE_BYTES, TlsPump
from penstock.serve.reactor import READ, Loop, Timer

MAX_WAITING: Final = 256
MAX_PUMPS: Final = 256
WAIT_S: Final = 10.0
_DISCARD_BYTES: Final = 64 * 1024

HandOver = Callable[[HttpConnection, int], bool]
"""Sends a connection with its descriptor. True: the descriptor is taken over, to be closed once it is sent. False:
there is no web process, and the descriptor stays with whoever called."""
OnGone = Callable[[], None]


def _nothing() -> None:
    """Nobody wants to know."""


class _Waiting:
    """A connection without a request."""

    __slots__ = ("close", "due", "on_gone")

    def __init__(self, due: float, close: Callable[[], None], on_gone: OnGone) -> None:
        self.due = due
        self.close = close
        self.on_gone = on_gone


class HttpHandover:
    """All connections over HTTP that are in this worker."""

    def __init__(self, loop: Loop, hand_over: HandOver, refusal: bytes = UNAVAILABLE) -> None:
        """`refusal`: what clients are answered that cannot be handed over."""
        self._loop = loop
        self._hand_over = hand_over
        self._refusal = refusal
        self._waiting: dict[int, _Waiting] = {}
        """By descriptor, the one that waits longest first."""
        self._pumps: set[TlsPump] = set()
        self._timer: Timer | None = None

    def accept(self, connection: socket.socket, address: str, on_gone: OnGone = _nothing) -> None:
        """Take over a non-blocking socket. `on_gone` is called once, when this worker has no more to do with it."""
        self._wait(connection.fileno(), lambda: self._look_at(connection, address), connection.close, on_gone)

    def accept_tls(self, transport: Transport, address: str, on_gone: OnGone = _nothing) -> None:
        """The same for one whose TLS handshake is done."""
        self._wait(transport.descriptor, lambda: self._receive(transport, address), transport.close, on_gone)
        # Records that came right behind the handshake do not make the socket readable any more.
        self._receive(transport, address)

    def close(self) -> None:
        """Close every connection that is still here."""
        while self._waiting:
            self._give_up(next(iter(self._waiting)))
        for pump in list(self._pumps):
            pump.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(
        self, descriptor: int, on_readable: Callable[[], None], close: Callable[[], None], on_gone: OnGone
    ) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._give_up(next(iter(self._waiting)))
        self._waiting[descriptor] = _Waiting(self._loop.now + WAIT_S, close, on_gone)
        self._loop.add(descriptor, READ, lambda _events: on_readable())
        if self._timer is None:
            self._timer = self._loop.call_later(WAIT_S, self._end_late)

    def _end_late(self) -> None:
        self._timer = None
        while self._waiting:
            descriptor, oldest = next(iter(self._waiting.items()))
            if oldest.due > self._loop.now:
                self._timer = self._loop.call_at(oldest.due, self._end_late)
                return
            self._give_up(descriptor)

    def _give_up(self, descriptor: int) -> None:
        waiting = self._leave(descriptor)
        waiting.close()
        waiting.on_gone()

    def _leave(self, descriptor: int) -> _Waiting:
        # Epoll follows the connection, not this descriptor of it: as long as web has it open, we would be woken for it.
        self._loop.remove(descriptor)
        return self._waiting.pop(descriptor)

    def _look_at(self, connection: socket.socket, address: str) -> None:
        descriptor = connection.fileno()
        try:
            is_gone = not connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            is_gone = True
        if is_gone:
            self._give_up(descriptor)
            return
        waiting = self._leave(descriptor)
        if self._hand_over(HttpConnection(address, "http"), descriptor):
            connection.detach()
        else:
            _refuse(connection, self._refusal)
        waiting.on_gone()

    def _receive(self, transport: Transport, address: str) -> None:
        try:
            data = transport.receive(RECEIVE_BYTES)
        except OSError:
            data = b""
        if data is None:
            return
        if not data:
            self._give_up(transport.descriptor)
            return
        waiting = self._leave(transport.descriptor)
        if not self._begin_pump(transport, address, data, waiting.on_gone):
            with contextlib.suppress(OSError):
                transport.send(self._refusal)
            transport.close()
            waiting.on_gone()

    def _begin_pump(self, transport: Transport, address: str, data: bytes, on_gone: OnGone) -> bool:
        if len(self._pumps) >= MAX_PUMPS:
            return False
        try:
            ours, theirs = socket.socketpair()
        except OSError:  # out of descriptors
            return False
        if not self._hand_over(HttpConnection(address, "https"), theirs.fileno()):
            ours.close()
            theirs.close()
            return False
        theirs.detach()

        def on_end() -> None:
            self._pumps.discard(pump)
            on_gone()

        pump = TlsPump(self._loop, transport, ours, data, on_end)
        self._pumps.add(pump)
        pump.start()
        return True


def _refuse(connection: socket.socket, refusal: bytes) -> None:
    """Answer, if that costs no wait, and close."""
    with contextlib.suppress(OSError):
        # What is left unread would reset the connection, and lose the answer.
        connection.recv(_DISCARD_BYTES)
        connection.send(refusal)
    connection.close()
