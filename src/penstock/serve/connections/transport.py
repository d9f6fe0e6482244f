"""How bytes reach a peer: a non-blocking socket, plain or under TLS.

Owns the system calls and nothing else. `send` may take less than it was given; what is left is given again, the same
bytes, before anything else: TLS needs that, and so does a message that is half out.
"""

import os
import socket
from typing import Protocol

from penstock.relay.segment import SegmentBuffer


class Transport(Protocol):
    """A non-blocking stream of bytes to one peer."""

    @property
    def descriptor(self) -> int:
        """To wait for."""

    @property
    def can_send_files(self) -> bool:
        """Whether bytes may be written past this object, straight from the log to the descriptor."""

    def receive(self, size: int) -> bytes | None:
        """What has come, b"" at the end, None if nothing is there."""

    def send(self, data: bytes | memoryview) -> int:
        """How much was taken; 0 if the peer has to read first."""

    def send_from(self, buffer: SegmentBuffer, offset: int, size: int) -> int:
        """How much was taken of a range of the log."""

    def flush(self) -> bool:
        """Send what the transport itself still holds. False if the peer has to read first."""

    def close(self) -> None:
        """The end."""


class PlainTransport:
    """TCP without anything around it."""

    __slots__ = ("_socket", "descriptor")

    can_send_files = True

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.descriptor = connection.fileno()

    def receive(self, size: int) -> bytes | None:
        """What has come."""
        try:
            return self._socket.recv(size)
        except BlockingIOError:
            return None

    def send(self, data: bytes | memoryview) -> int:
        """How much was taken."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def send_from(self, buffer: SegmentBuffer, offset: int, size: int) -> int:
        """How much was taken of a range of the log."""
        descriptor = buffer.descriptor
        if descriptor is None:
            with buffer.view(offset, size) as view:
                return self.send(view)
        try:
            return os.sendfile(self.descriptor, descriptor, offset, size)
        except BlockingIOError:
            return 0

    def flush(self) -> bool:
        """The kernel holds everything."""
        return True

    def close(self) -> None:
        """The end."""
        self._socket.close()


def prepare_socket(connection: socket.socket, notsent_lowat_bytes: int) -> None:
    """What every accepted socket needs."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Without it the kernel swallows seconds of video for a viewer that does not read, and nobody sees that it lags.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, notsent_lowat_bytes)


class LowWater:
    """How little may be left unsent in the kernel before it asks for more of an answer.

    Of a stream that never ends little may, see `prepare_socket`. Of an answer that is whole nothing is ever skipped, so
    the kernel takes as much at once as the socket's buffer holds, in a few turns instead of dozens.
    """

    __slots__ = ("_kept_bytes", "_socket")

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._kept_bytes: int | None = None

    def lift(self) -> None:
        """Whole answers are sent from now on."""
        if self._kept_bytes is None:
            option = socket.TCP_NOTSENT_LOWAT
            self._kept_bytes = self._socket.getsockopt(socket.IPPROTO_TCP, option)
            self._socket.setsockopt(socket.IPPROTO_TCP, option, 0)

    def restore(self) -> None:
        """Something without an end may follow."""
        if self._kept_bytes is not None:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self._kept_bytes)
            self._kept_bytes = None
