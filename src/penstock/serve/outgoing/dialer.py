"""Dialling: from the address of a server to an open transport, plain or under TLS, without blocking the loop.

Owns the steps: a name is looked up by the helper's threads, its addresses are tried one after another, each for a
part of the time that is left, and TLS checks the certificate by the system's (`SSL_CERT_FILE` names others). One
deadline holds for all of it. Knows no RTMP.
"""

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from penstock.rtmp_address import StreamAddress
from penstock.serve.connections.transport import PlainTransport, Transport, prepare_socket
from penstock.serve.outgoing.helper import Helper, Question
from penstock.serve.outgoing.tls_client import ClientTlsHandshake
from penstock.serve.reactor import READ, WRITE, Loop, Timer

_MAX_ADDRESSES: Final = 8
_LEAST_TRY_S: Final = 1.0
_KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""A push has nothing to send while its publisher is away, and nobody else would find out that its target has gone."""

SocketAddress: TypeAlias = tuple[Any, ...]
LookUp: TypeAlias = Callable[[str, int], list[tuple[int, SocketAddress]]]
"""Host and port to families and addresses. It may block."""


def look_up(host: str, port: int) -> list[tuple[int, SocketAddress]]:
    """Ask the system. OSError and ValueError say that there is no such host."""
    return [(family, address) for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Dialer:
    """Opens connections."""

    def __init__(
        self,
        loop: Loop,
        helper: Helper,
        *,
        notsent_lowat_bytes: int,
        look_up: LookUp = look_up,
        make_context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self.loop = loop
        self.helper = helper
        self.look_up = look_up
        self.notsent_lowat_bytes = notsent_lowat_bytes
        self.make_context = make_context
        self.context: ssl.SSLContext | None = None
        """Loaded when it is first needed, which takes some 20 ms, and used from then on."""

    def dial(
        self,
        address: StreamAddress,
        deadline_s: float,
        *,
        on_open: Callable[[Transport], None],
        on_failed: Callable[[str], None],
    ) -> "Dial":
        """Exactly one of the two is called back, later. A TLS transport must be asked to `receive` once at first."""
        return Dial(self, address, deadline_s, on_open, on_failed)


class Dial:
    """One connection on its way."""

    def __init__(
        self,
        dialer: Dialer,
        address: StreamAddress,
        deadline_s: float,
        on_open: Callable[[Transport], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._dialer = dialer
        self._loop = dialer.loop
        self._address = address
        self._on_open = on_open
        self._on_failed = on_failed
        self._ends_at = self._loop.now + deadline_s
        self._is_over = False
        self._socket: socket.socket | None = None
        self._handshake: ClientTlsHandshake | None = None
        self._candidates: list[tuple[int, SocketAddress]] = []
        self._last_reason = "it has no address"
        self.peer_address = ""
        """The address that was tried last, with its port; empty: the name was not looked up yet."""
        self._waits_for = 0
        """Events of its socket that the loop tells of; 0: it does not know the socket."""
        self._step = "the name is looked up"
        self._try_timer: Timer | None = None
        self._question: Question[Any] | None = None
        self._deadline = self._loop.call_later(
            deadline_s, lambda: self._fail(f"no connection within {deadline_s:g} s: {self._step}")
        )
        self._look_up()

    def cancel(self) -> None:
        """Nobody is called back any more."""
        self._leave()

    # The name.

    def _look_up(self) -> None:
        host, port, look_up = self._address.host, self._address.port, self._dialer.look_up
        if (known := _written_out(host, port)) is not None:
            # Nothing to be asked, so names that nobody answers for cannot hold it up.
            self._loop.call_later(0.0, lambda: self._on_name([known]))
            return
        self._question = self._dialer.helper.ask(("name", host, port), lambda: look_up(host, port), self._on_name)

    def _on_name(self, answer: list[tuple[int, SocketAddress]] | Exception) -> None:
        if self._is_over:
            return
        if isinstance(answer, Exception):
            # A host that cannot be looked up at all, such as one with an empty label, is a ValueError.
            self._fail(f"no connection: {_words(answer)}")
            return
        self._candidates = list(dict.fromkeys(answer))[:_MAX_ADDRESSES]
        if self._address.is_tls and self._dialer.context is None:
            self._step = "certificates are loaded"
            self._question = self._dialer.helper.ask("certificates", self._dialer.make_context, self._on_context)
        else:
            self._try_next()

    def _on_context(self, answer: ssl.SSLContext | Exception) -> None:
        if isinstance(answer, Exception):
            self._fail(f"no certificates to check by: {_words(answer)}")
            return
        self._dialer.context = answer
        self._try_next()

    # TCP.

    def _try_next(self) -> None:
        """Try the addresses until one does not fail at once."""
        self._close_socket()
        while self._candidates:
            family, address = self._candidates.pop(0)
            self._step = "TCP connects"
            try:
                if self._begin(family, address):
                    return
            except OSError as error:
                self._close_socket()
                self._last_reason = _words(error)
        self._fail(f"no connection: {self._last_reason}")

    def _begin(self, family: int, address: SocketAddress) -> bool:
        connection = self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        prepare_socket(connection, self._dialer.notsent_lowat_bytes)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self.peer_address = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
        code = connection.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        self._wait(WRITE, self._on_connected)
        if self._candidates:
            # One that does not answer leaves some time for the others.
            left_s = self._ends_at - self._loop.now
            patience_s = max(_LEAST_TRY_S, left_s / (len(self._candidates) + 1))
            self._try_timer = self._loop.call_later(patience_s, self._give_up_this_one)
        return True

    def _give_up_this_one(self) -> None:
        self._last_reason = "one of its addresses does not answer"
        self._try_next()

    def _on_connected(self, _events: int) -> None:
        connection = self._socket
        if connection is None:
            return
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._last_reason = os.strerror(code)
            self._try_next()
            return
        self._stop_waiting()
        context = self._dialer.context
        if not self._address.is_tls or context is None:
            self._open(PlainTransport(connection))
            return
        self._step = "TLS shakes hands"
        try:
            self._handshake = ClientTlsHandshake(connection, context, self._address.host)
        except ValueError as error:
            self._fail(f"TLS: {error}")
            return
        self._wait(WRITE, self._on_handshake)

    def _on_handshake(self, _events: int) -> None:
        connection, handshake = self._socket, self._handshake
        if connection is None or handshake is None:
            return
        try:
            if not handshake.proceed():
                self._wait(WRITE if handshake.is_owing else READ, self._on_handshake)
                return
        except OSError as error:
            self._fail(f"no connection: {_words(error)}")
            return
        self._open(handshake.transport())

    # The end.

    def _open(self, transport: Transport) -> None:
        self._stop_waiting()
        self._socket = None
        self._leave()
        self._on_open(transport)

    def _fail(self, reason: str) -> None:
        if not self._is_over:
            self._leave()
            self._on_failed(reason)

    def _leave(self) -> None:
        self._is_over = True
        self._deadline.cancel()
        if self._question is not None:
            self._question.cancel()
        self._close_socket()

    def _close_socket(self) -> None:
        if self._try_timer is not None:
            self._try_timer.cancel()
            self._try_timer = None
        self._stop_waiting()
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    # The loop.

    def _wait(self, events: int, callback: Callable[[int], None]) -> None:
        if self._socket is None or self._waits_for == events:
            return
        if self._waits_for:
            self._loop.modify(self._socket.fileno(), events)
        else:
            self._loop.add(self._socket.fileno(), events, callback)
        self._waits_for = events

    def _stop_waiting(self) -> None:
        if self._waits_for and self._socket is not None:
            self._loop.remove(self._socket.fileno())
        self._waits_for = 0


def _written_out(host: str, port: int) -> tuple[int, SocketAddress] | None:
    """The address that a host is; None: it is a name, or an address whose zone the system has to look up."""
    for family, address in ((socket.AF_INET, (host, port)), (socket.AF_INET6, (host, port, 0, 0))):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return family, address
    return None


def _words(error: Exception) -> str:
    """What went wrong, in the system's words."""
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ssl.SSLError):
        return error.strerror or os.strerror(error.errno)
    return str(error) or type(error).__name__
