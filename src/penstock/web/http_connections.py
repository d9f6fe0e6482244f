"""Connected sockets, served by uvicorn's own HTTP protocol: those that workers hand over, or a port of web's own.

Owns those that wait to be taken up, and the way from a socket to uvicorn's protocol. Sockets come connected, so
uvicorn's server, which listens and handles signals, is not used. What they may cost is bounded by `exchanges`.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final, NamedTuple

from uvicorn import Config
from uvicorn.server import ServerState

from penstock.control.refusals import UNAVAILABLE
from penstock.logs import get_logger
from penstock.web.asgi import App, Receive, Scope, Send
from penstock.web.clients import Client, client_of
from penstock.web.exchanges import Exchange, Exchanges, HttpLimits, Pace

_STATE: Final = "penstock.exchange"
_DISCARD_BYTES: Final = 64 * 1024
_WEBSOCKET_SCHEMES: Final = {"http": "ws", "https": "wss"}
_MAX_WEBSOCKET_MESSAGE_BYTES: Final = 64 * 1024


def _uvicorn_config(app: App, limits: HttpLimits) -> Config:
    """How uvicorn serves here: the grammar of HTTP, and as little else as can be."""
    return Config(
        app,
        # Not httptools, which bounds neither the head of a request nor its number of headers.
        http="h11",
        # The package comes with the extra; without it nothing is served that clients would upgrade to.
        ws="websockets-sansio" if find_spec("websockets") else "none",
        ws_max_size=_MAX_WEBSOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        # The application has one.
        date_header=False,
        log_config=None,
        # What strangers send is not worth a line.
        log_level="error",
        access_log=False,
        h11_max_incomplete_event_size=limits.max_request_bytes,
    )


class _Accepted(NamedTuple):
    """One under TLS is known by its socket, which asyncio closes in the end.

    There is no transport before the handshake is done, and one that was closed cannot say what it holds (Python 3.11).
    """

    connection: socket.socket
    transport: asyncio.Transport | None = None

    @property
    def is_over(self) -> bool:
        return self.connection.fileno() < 0

    @property
    def unsent_bytes(self) -> int:
        if self.transport is None or self.transport.is_closing():
            return 0
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class _Transported(NamedTuple):
    transport: asyncio.Transport

    @property
    def is_over(self) -> bool:
        # A transport that was closed still sends what it holds.
        return self.transport.is_closing() and not self.unsent_bytes

    @property
    def unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()


class HttpConnections:
    """All open connections."""

    def __init__(self, app: App, clock: Callable[[], float], limits: HttpLimits | None = None) -> None:
        self.app = app
        """May be replaced: requests that come later meet the new one."""
        self._clock = clock
        limits = limits or HttpLimits()
        self._pace, self._own_pace = (Pace(limits.max_new_per_s, limits.burst) for _ in range(2))
        """Of those that are handed over, which wait for their turn, and of those that are accepted, which do not."""
        self._waiting: asyncio.Queue[tuple[socket.socket, Client]] = asyncio.Queue(limits.max_waiting)
        self._exchanges = Exchanges(clock, limits)
        self._uvicorn = _uvicorn_config(self._serve, limits)
        self._uvicorn.load()
        self._uvicorn_state = ServerState()

    def offer(self, connection: socket.socket, told_address: str, told_scheme: str) -> None:
        """Serve a socket, soon. It is taken over."""
        try:
            self._waiting.put_nowait((connection, client_of(connection, told_address, told_scheme)))
        except asyncio.QueueFull:
            refuse(connection)

    @property
    def is_idle(self) -> bool:
        """Whether nobody is being served."""
        return self._exchanges.is_empty and self._waiting.empty()

    async def run(self) -> None:
        """Serve until cancelled, and close everything then."""
        watching = asyncio.create_task(self._exchanges.watch())
        try:
            while True:
                # Before the next one is taken: the wait may be cut short, and nobody would close it then.
                await asyncio.sleep(self._pace.wait_s(self._clock()))
                connection, client = await self._waiting.get()
                if self._exchanges.make_room():
                    await self.begin(connection, client)
                else:
                    refuse(connection)
        finally:
            watching.cancel()
            while not self._waiting.empty():
                self._waiting.get_nowait()[0].close()
            self._exchanges.abort_all()

    def has_room(self) -> bool:
        """Whether one more may come in by a port of our own, now."""
        return self._own_pace.has_turn(self._clock()) and self._exchanges.make_room()

    async def begin(self, connection: socket.socket, client: Client, tls: ssl.SSLContext | None = None) -> None:
        """Serve a socket, under TLS once it has shaken hands. It is taken over, and counts from now on."""
        exchange = self._exchanges.expect(client)
        self._exchanges.add(exchange, _Accepted(connection))
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: self._protocol(exchange), connection, ssl=tls)
        except (OSError, ValueError):  # gone, or no stream
            connection.close()
        except Exception as error:  # uvicorn wants it otherwise: the self-test will find that there is no answer
            get_logger().error("HTTP connection failed", exc_info=error)
            connection.close()
        else:
            self._exchanges.add(exchange, _Transported(transport) if tls is None else _Accepted(connection, transport))

    def _protocol(self, exchange: Exchange) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self._uvicorn.http_protocol_class(  # type: ignore[call-arg]
            config=self._uvicorn, server_state=self._uvicorn_state, app_state={_STATE: exchange}
        )
        return protocol

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["state"][_STATE]
        scope["client"], scheme = exchange.client
        scope["scheme"] = _WEBSOCKET_SCHEMES.get(scheme, scheme) if scope["type"] == "websocket" else scheme
        await self._exchanges.serve(exchange, self.app, scope, receive, send)


def refuse(connection: socket.socket) -> None:
    """Say that there is no room, if that costs no wait, and close."""
    with contextlib.suppress(OSError):
        connection.setblocking(False)
        # What is left unread would reset the connection, and lose the answer.
        with contextlib.suppress(BlockingIOError):
            connection.recv(_DISCARD_BYTES)
        connection.send(UNAVAILABLE)
    connection.close()
