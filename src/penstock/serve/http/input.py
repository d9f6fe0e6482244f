"""What a client has sent and nobody has taken yet: left in the kernel where it can be, else kept here.

Owns that no more than one head is ever held, and that a half head does not wake the loop again and again. What is left
in the kernel can be handed to another process unread; under TLS it cannot.
"""

import contextlib
import socket
from typing import Final, Protocol

from penstock.serve.connections.transport import Transport
from penstock.serve.http.requests import MAX_HEAD_BYTES

_DISCARD_BYTES: Final = 64 * 1024


class Input(Protocol):
    """The unread bytes of one connection."""

    def look(self) -> bytes | None:
        """What is there; None: no more than at the last look; b"": the client has ended, and there is not all."""

    def take(self, size: int) -> None:
        """So much of it was dealt with."""

    def wait_for_more(self, seen_bytes: int) -> None:
        """So much is not enough."""

    def rest(self) -> bytes:
        """All that was taken from the kernel and not dealt with."""

    def discard(self) -> None:
        """What is there is not wanted: left unread it would reset the connection, and lose the answer."""


class PeekedInput:
    """Of a plain socket, by MSG_PEEK."""

    __slots__ = ("_seen_bytes", "_socket")

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._seen_bytes = 0

    def look(self) -> bytes | None:
        """What is there."""
        try:
            data = self._socket.recv(MAX_HEAD_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        # We are woken when there is more than we have seen, or when there will never be.
        return data if len(data) > self._seen_bytes else b""

    def take(self, size: int) -> None:
        """Out of the kernel's buffer."""
        self.wait_for_more(0)
        while size > 0:
            size -= len(self._socket.recv(size))

    def wait_for_more(self, seen_bytes: int) -> None:
        """Epoll tells nothing of a socket that has less than SO_RCVLOWAT."""
        if seen_bytes != self._seen_bytes:
            self._seen_bytes = seen_bytes
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen_bytes + 1)

    def rest(self) -> bytes:
        """Everything is in the kernel."""
        return b""

    def discard(self) -> None:
        """What is there is not wanted."""
        with contextlib.suppress(OSError):
            self._socket.recv(_DISCARD_BYTES)


class TakenInput:
    """Of a transport that has to take bytes to know what they are."""

    __slots__ = ("_data", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._data = b""

    def look(self) -> bytes | None:
        """What is there."""
        if len(self._data) < MAX_HEAD_BYTES:
            data = self._transport.receive(MAX_HEAD_BYTES - len(self._data))
            if data == b"":
                return b""
            if data is not None:
                self._data += data
        return self._data or None

    def take(self, size: int) -> None:
        """Forget it."""
        self._data = self._data[size:]

    def wait_for_more(self, seen_bytes: int) -> None:
        """It was taken, so the socket has no more."""

    def rest(self) -> bytes:
        """What came behind the head."""
        return self._data

    def discard(self) -> None:
        """It was taken already."""
