"""Connections behind a proxy, until their PROXY header has told who the client is.

Owns their sockets meanwhile, and their deadlines. Takes the header off a socket and nothing that is behind it: what has
come is looked at first, and read only as far as it is of the header. A proxy sends it in one piece with the first
segment, so there is no reader of a cleverer kind.
"""

import socket
from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import ProtocolViolation
from penstock.protocol.proxy_header import MAX_HEADER_BYTES, read_proxy_header
from penstock.serve.reactor import READ, Loop, Timer

OnAddress = Callable[[str | None], None]
OnFailed = Callable[[str], None]


class _Waiting(NamedTuple):
    connection: socket.socket
    on_address: OnAddress
    on_failed: OnFailed
    deadline: Timer
    read: bytearray
    """What of its header was taken off the socket."""


class ProxyReader:
    """Waits for PROXY headers, on the loop's thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: dict[int, _Waiting] = {}

    @property
    def waiting(self) -> int:
        """How many sockets were handed over and have not led to a call back yet."""
        return len(self._waiting)

    def read(self, connection: socket.socket, deadline_s: float, *, on_address: OnAddress, on_failed: OnFailed) -> None:
        """Take over a non-blocking socket. Exactly one of the two is called back, never before this returns.

        With the address, of the client with its port, the socket is the caller's again. None: the proxy speaks for
        itself, or does not know, and the address is the one that it was accepted from. After a failure, of which the
        reason is told, the socket is closed already.
        """
        descriptor = connection.fileno()

        def give_up() -> None:
            self._fail(descriptor, f"no PROXY header within {deadline_s:g} s")

        deadline = self._loop.call_later(deadline_s, give_up)
        self._waiting[descriptor] = _Waiting(connection, on_address, on_failed, deadline, bytearray())
        self._loop.add(descriptor, READ, lambda _events: self._look(descriptor))

    def close(self) -> None:
        """End the wait of everybody, and tell who asked for it."""
        for descriptor in list(self._waiting):
            self._fail(descriptor, "server shut down")

    def _look(self, descriptor: int) -> None:
        waiting = self._waiting[descriptor]
        connection, read = waiting.connection, waiting.read
        try:
            there = connection.recv(MAX_HEADER_BYTES - len(read), socket.MSG_PEEK)
            if not there:
                self._fail(descriptor, "closed before its PROXY header was whole")
                return
            header = read_proxy_header(bytes(read) + there)
            # Until its end is there, all that came is of the header; left there, it would wake the loop for ever.
            read += connection.recv(len(there) if header is None else header.size - len(read))
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(descriptor, error.strerror or str(error))
            return
        except ProtocolViolation as violation:
            self._fail(descriptor, str(violation))
            return
        if header is not None:
            self._leave(descriptor).on_address(header.address)

    def _fail(self, descriptor: int, reason: str) -> None:
        waiting = self._leave(descriptor)
        waiting.connection.close()
        waiting.on_failed(reason)

    def _leave(self, descriptor: int) -> _Waiting:
        waiting = self._waiting.pop(descriptor)
        waiting.deadline.cancel()
        self._loop.remove(descriptor)
        return waiting
