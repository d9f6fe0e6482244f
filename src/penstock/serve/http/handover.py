"""From a connection whose request is not for media to the web process.

Owns how it goes. Of a plain one nothing was read: its socket goes as it is, and this process forgets it without a word
to the client. Of one under TLS the web process gets the end of a pair. Where there is no web process, clients are told
to come back; where it has a port of its own, that nothing is here.
"""

import contextlib
import socket
from collections.abc import Callable
from typing import Final

from penstock.control.messages import HttpConnection
from penstock.control.refusals import UNAVAILABLE
from penstock.serve.connections.transport import Transport
from penstock.serve.http.tls_pump import TlsPump
from penstock.serve.reactor import Loop

MAX_PUMPS: Final = 256
_DISCARD_BYTES: Final = 64 * 1024

HandOver = Callable[[HttpConnection, int], bool]
"""Sends a connection with its descriptor. True: the descriptor is taken over, to be closed once it is sent. False:
there is no web process, and the descriptor stays with whoever called."""
OnGone = Callable[[], None]


class WebHandover:
    """The way to the web process."""

    def __init__(self, loop: Loop, hand_over: HandOver, refusal: bytes = UNAVAILABLE) -> None:
        """`refusal`: what clients are answered that cannot be handed over."""
        self._loop = loop
        self._hand_over = hand_over
        self._refusal = refusal
        self._pumps: set[TlsPump] = set()

    def give(self, connection: socket.socket, address: str, on_gone: OnGone) -> None:
        """A plain connection that the loop does not know any more. `on_gone` is called once, when all is done here."""
        if self._hand_over(HttpConnection(address, "http"), connection.fileno()):
            connection.detach()
        else:
            _refuse(connection, self._refusal)
        on_gone()

    def give_tls(self, transport: Transport, address: str, received: bytes, on_gone: OnGone) -> None:
        """The same for one under TLS, with what has come of it."""
        if not self._begin_pump(transport, address, received, on_gone):
            with contextlib.suppress(OSError):
                transport.send(self._refusal)
            transport.close()
            on_gone()

    def close(self) -> None:
        """Close every connection whose bytes pass through here."""
        for pump in list(self._pumps):
            pump.close()

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
