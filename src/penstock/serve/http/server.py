"""HTTP/1.1 for operators: small answers to GET, in a thread and an event loop of their own.

Owns accepting, reading requests and sending answers, all of it bounded: connections, the size of a request, the time
that each step may take, and how many requests and connections are taken up in a second, since this thread shares the
interpreter with the one that sends media. Knows no pages: routes are given. Refuses bodies and methods other than GET
and HEAD. The grammar (RFC 9112) is h11's matter.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from http import HTTPStatus

import h11

from penstock.serve.logs import get_logger

_BACKLOG = 128
_RECEIVE_BYTES = 16 * 1024
_CANNOT_ACCEPT_PAUSE_S = 0.5
_LOOK_AGAIN_S = 0.1
_LINGER_S = 1.0
_LINGER_READS = 16
_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What clients may cost."""

    max_connections: int = 64
    max_request_bytes: int = 16 * 1024
    request_s: float = 10.0
    """For a request to come whole, the first as well as the next on the same connection."""
    send_s: float = 10.0
    max_turns_per_s: float = 200.0
    """Requests and connections together."""
    burst_turns: float = 100.0


class _Pace:
    """Gives out turns at a bounded rate."""

    def __init__(self, turns_per_s: float, burst_turns: float) -> None:
        self._period_s = 1 / turns_per_s
        self._burst_s = burst_turns / turns_per_s
        self._next_at = 0.0

    async def turn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now - self._burst_s) + self._period_s
        if self._next_at > now:
            await asyncio.sleep(self._next_at - now)


class HttpServer:
    """Serves routes until stopped. Started once."""

    def __init__(self, routes: Mapping[str, Handler], limits: HttpLimits | None = None) -> None:
        self._routes = routes
        self._limits = limits or HttpLimits()
        self._pace = _Pace(self._limits.max_turns_per_s, self._limits.burst_turns)
        self._connections: dict[socket.socket, asyncio.Task[None]] = {}
        self._idle: dict[socket.socket, None] = {}
        """Connections without a whole request, the one that waits longest first."""
        self._stop_asked = asyncio.Event()
        self._stop: Callable[[], None] | None = None

    def start(self, host: str, port: int) -> int:
        """Take the address and serve from now on, in a thread. The port that it became, if 0 was asked for."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        loop = runner.get_loop()
        thread = threading.Thread(target=self._run, args=(runner, listener), name="penstock-http", daemon=True)
        thread.start()

        def stop() -> None:
            loop.call_soon_threadsafe(self._stop_asked.set)
            thread.join(_STOP_S)

        self._stop = stop
        return int(listener.getsockname()[1])

    def stop(self) -> None:
        """Close everything."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    # Everything below is the thread's.

    def _run(self, runner: asyncio.Runner, listener: socket.socket) -> None:
        with runner, listener:
            runner.run(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        accepting = asyncio.create_task(self._accept(listener))
        await self._stop_asked.wait()
        accepting.cancel()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._pace.turn()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_CANNOT_ACCEPT_PAUSE_S)
                continue
            task = self._connections[connection] = loop.create_task(self._converse(connection))
            self._idle[connection] = None
            # Not by the task itself: one that is cancelled before it runs never comes to closing.
            task.add_done_callback(partial(self._forget, connection))
            await self._make_room(connection)

    def _forget(self, connection: socket.socket, _task: asyncio.Task[None]) -> None:
        del self._connections[connection]
        self._idle.pop(connection, None)
        connection.close()

    async def _make_room(self, newcomer: socket.socket) -> None:
        """Past the limit whoever has kept us waiting longest goes, so that idle clients cannot lock others out."""
        while len(self._connections) > self._limits.max_connections:
            longest = next((connection for connection in self._idle if connection is not newcomer), None)
            if longest is not None:
                self._connections[longest].cancel()
            tasks = list(self._connections.values())
            await asyncio.wait(tasks, timeout=_LOOK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)

    async def _converse(self, connection: socket.socket) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.max_request_bytes)
        try:
            while await self._exchange(connection, http):
                http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(connection, http, HTTPStatus(error.error_status_hint))
        except OSError:
            pass  # gone, or too slow

    async def _exchange(self, connection: socket.socket, http: h11.Connection) -> bool:
        """One request and its answer. False if there is to be no other on this connection."""
        self._idle[connection] = None
        request = await self._read_request(connection, http)
        if request is None:
            return False
        del self._idle[connection]
        await self._pace.turn()
        has_body = http.their_state is h11.SEND_BODY
        response = await self._answer(request, has_body=has_body)
        await self._send(connection, http, response, is_head=request.method == b"HEAD", closes=has_body)
        if has_body:
            await self._linger(connection)
        return http.our_state is h11.DONE

    async def _read_request(self, connection: socket.socket, http: h11.Connection) -> h11.Request | None:
        """The head of a request, and its end if it has no body. None if the client is gone."""
        loop = asyncio.get_running_loop()
        request: h11.Request | None = None
        async with asyncio.timeout(self._limits.request_s):
            while True:
                event = http.next_event()
                if isinstance(event, h11.Request):
                    request = event
                elif event is h11.NEED_DATA and request is None:
                    http.receive_data(await loop.sock_recv(connection, _RECEIVE_BYTES))
                else:
                    return request

    async def _answer(self, request: h11.Request, *, has_body: bool) -> Response:
        if request.method not in (b"GET", b"HEAD"):
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        if has_body:
            return _plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        handler = self._routes.get(request.target.partition(b"?")[0].decode("ascii"))
        if handler is None:
            return _plain(HTTPStatus.NOT_FOUND)
        try:
            return await handler()
        except Exception as error:
            get_logger().error("HTTP request failed", path=request.target, exc_info=error)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _refuse(self, connection: socket.socket, http: h11.Connection, status: HTTPStatus) -> None:
        with contextlib.suppress(OSError):
            await self._send(connection, http, _plain(status), is_head=False, closes=True)
            await self._linger(connection)

    async def _linger(self, connection: socket.socket) -> None:
        """Read some of what the client still sends: closing before would reset the connection, and lose the answer."""
        loop = asyncio.get_running_loop()
        connection.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LINGER_S):
            for _ in range(_LINGER_READS):
                if not await loop.sock_recv(connection, _RECEIVE_BYTES):
                    return

    async def _send(
        self, connection: socket.socket, http: h11.Connection, response: Response, *, is_head: bool, closes: bool
    ) -> None:
        headers = [
            ("Date", formatdate(usegmt=True)),
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
        ]
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        if closes:
            headers.append(("Connection", "close"))
        head = h11.Response(status_code=response.status, headers=headers, reason=response.status.phrase)
        body = None if is_head else h11.Data(data=response.body)
        pieces = [http.send(event) for event in (head, body, h11.EndOfMessage()) if event is not None]
        async with asyncio.timeout(self._limits.send_s):
            await asyncio.get_running_loop().sock_sendall(connection, b"".join(piece for piece in pieces if piece))


def _plain(status: HTTPStatus) -> Response:
    return Response(status, f"{status.phrase}\n".encode())
