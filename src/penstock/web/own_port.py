"""A port of the web process's own, where the operator gives it one: uvicorn's server, by its documented means alone.

Owns the listening socket, whom it lets in, and the certificate there. Nothing here depends on how uvicorn makes
protocols for connections: this goes on where connections cannot be handed over. What clients may cost is bounded by
`exchanges`, from the moment they are accepted, so that handshakes of TLS count too.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvicorn

from penstock.logs import get_logger
from penstock.web.asgi import App, Receive, Scope, Send
from penstock.web.clients import client_of, normal_address
from penstock.web.exchanges import Exchanges, HttpLimits, Pace
from penstock.web.http_connections import uvicorn_config

_REFUSALS_PER_TURN: Final = 64


class Certificate:
    """What is shown to clients there. The worker of the other port has checked these files more closely."""

    def __init__(self, cert: Path, key: Path) -> None:
        """Files that cannot be used raise OSError."""
        self._cert = cert
        self._key = key
        self.context = self._load()

    def reload(self) -> None:
        """Read the files anew, for connections to come. If they are wrong, what is in force stays."""
        try:
            self._load()
            self.context.load_cert_chain(self._cert, self._key, _no_password)
        except OSError as error:
            get_logger().error("certificate not reloaded", cert=str(self._cert), reason=str(error))

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._cert, self._key, _no_password)
        return context


class OwnPort:
    """One listening socket, and those who came by it."""

    def __init__(
        self,
        listener: socket.socket,
        app: App,
        clock: Callable[[], float],
        certificate: Certificate | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        """Take over a listener."""
        self.app = app
        """May be replaced: requests that come later meet the new one."""
        self.certificate = certificate
        self._clock = clock
        limits = limits or HttpLimits()
        self._pace = Pace(limits.max_new_per_s, limits.burst)
        self._exchanges = Exchanges(clock, limits)
        self._gate = _Gate(listener, self._admit)
        context = None if certificate is None else certificate.context
        self._server = _Server(uvicorn_config(self._serve, limits, context))

    @property
    def is_idle(self) -> bool:
        """Whether nobody is being served."""
        return self._exchanges.is_empty

    async def run(self) -> None:
        """Serve until cancelled, and close everything then."""
        watching = asyncio.create_task(self._exchanges.watch())
        try:
            await self._server.serve(sockets=[self._gate])
        finally:
            watching.cancel()
            asyncio.get_running_loop().remove_reader(self._gate)
            self._gate.close()
            self._exchanges.abort_all()

    def _admit(self, connection: socket.socket) -> bool:
        if not (self._pace.has_turn(self._clock()) and self._exchanges.make_room()):
            return False
        self._exchanges.add(self._exchanges.expect(client_of(connection, "", "")), _Accepted(connection))
        return True

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["client"] = None if scope["client"] is None else normal_address(*scope["client"])
        exchange = self._exchanges.of(scope["client"])
        if exchange is None:  # it was ended in this moment
            return
        await self._exchanges.serve(exchange, self.app, scope, receive, send)


class _Accepted(NamedTuple):
    """Of asyncio's transport we have the socket, which it closes in the end."""

    connection: socket.socket

    @property
    def is_over(self) -> bool:
        return self.connection.fileno() < 0

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class _Gate(socket.socket):
    """A listener that lets in only whom it may. Asyncio accepts through it, in front of any handshake."""

    def __init__(self, listener: socket.socket, admit: Callable[[socket.socket], bool]) -> None:
        super().__init__(fileno=listener.detach())
        self._admit = admit

    def accept(self) -> tuple[socket.socket, Any]:
        """The next who may come in. Raises BlockingIOError if there is none."""
        for _ in range(_REFUSALS_PER_TURN):
            connection, address = super().accept()
            if self._admit(connection):
                return connection, address
            connection.close()
        raise BlockingIOError


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Not at all: what signals mean is the supervisor's to say."""
        yield


def _no_password() -> bytes:
    """There is nobody to ask."""
    return b""
