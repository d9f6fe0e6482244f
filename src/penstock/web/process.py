"""The web process: what it is told by supervisor and workers, and when it ends.

Owns how its parts are joined. The supervisor's link comes first: it says who we are and hands out links to workers, and
its end is ours. It never asks anybody: workers push figures and hand over connections, and if this process is killed
they answer for it until there is another.
"""

import asyncio
import os
import socket
import time
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any, Final, assert_never, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.certificates import ReloadableTls
from penstock.config import Config
from penstock.control import messages
from penstock.control.messages import (
    Alive,
    Entrance,
    HttpConnection,
    Linked,
    Listening,
    Ready,
    Reload,
    Stop,
    ToWeb,
    Welcome,
)
from penstock.errors import ConfigError, MalformedInput
from penstock.logs import configure_logs, get_logger
from penstock.web.asgi import App
from penstock.web.board import Board
from penstock.web.http_connections import HttpConnections, refuse
from penstock.web.link import Link, decoder_of
from penstock.web.own_port import OwnPort
from penstock.web.routes import OperatorRoutes
from penstock.web.self_test import complaint_of
from penstock.web.site import Site

_ALIVE_EVERY_S: Final = 1.0
_GOODBYE_S: Final = 5.0
"""How long probes are told that the server is stopping, while its workers say goodbye."""
_UNFIT: Final = 1
"""The exit status of a process that cannot serve."""


class WebProcess:
    """All parts of it, until it ends."""

    def __init__(self, supervisor: socket.socket) -> None:
        self._link: Link[ToWeb] = Link(supervisor, decoder_of(ToWeb), self._on_message, lambda: self._end(0))
        self._workers: dict[int, Link[HttpConnection]] = {}
        self._serving: _Serving | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Serve until told otherwise. The exit status."""
        try:
            return await self._status
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._link.close()
            for link in self._workers.values():
                link.close()

    def _end(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def _on_message(self, message: ToWeb, descriptors: tuple[int, ...]) -> None:
        if isinstance(message, Welcome):
            self._begin(message)
            return
        serving = self._serving
        if serving is None:
            raise MalformedInput("link", f"{type(message).__name__} before Welcome")
        match message:
            case messages.PastFigures():
                serving.board.past_figures(message)
            case messages.Figures():
                serving.board.figures(message, time.monotonic())
            case Entrance():
                serving.board.entrance(message)
            case Listening():
                self._listen(serving, _socket_of(descriptors))
            case Linked():
                self._take_link(message.peer, descriptors)
            case Reload():
                serving.reload(message.config)
            case Stop():
                self._stop(serving, is_at_once=message.is_at_once)
            case _:
                assert_never(message)

    def _begin(self, welcome: Welcome) -> None:
        try:
            self._serving = _Serving(welcome)
        except ValueError as error:
            # Nothing can be logged as the operator wants it, without a configuration.
            configure_logs("info", "auto")
            self._fail(str(error))
        else:
            self._start(self._serve(self._serving))

    def _fail(self, reason: str) -> None:
        get_logger().error("HTTP cannot be served", reason=reason, uvicorn=version("uvicorn"))
        self._end(_UNFIT)

    def _listen(self, serving: "_Serving", listener: socket.socket) -> None:
        try:
            own_port = serving.take_port(listener)
        except ConfigError as error:
            listener.close()
            self._fail(str(error))
        else:
            self._start(own_port.run())

    def _take_link(self, worker: int, descriptors: tuple[int, ...]) -> None:
        known = self._workers.pop(worker, None)
        if known is not None:
            known.close()
        # A worker that ends is replaced, and with it its link: nothing is to be done before.
        self._workers[worker] = Link(
            _socket_of(descriptors), decoder_of(HttpConnection), self._on_connection, lambda: None
        )

    def _on_connection(self, message: HttpConnection, descriptors: tuple[int, ...]) -> None:
        connection = _socket_of(descriptors)
        if self._serving is None:
            refuse(connection)
        else:
            self._serving.connections.offer(connection, message.address, message.scheme)

    async def _serve(self, serving: "_Serving") -> None:
        self._start(serving.connections.run())
        complaint = await complaint_of(serving.connections)
        if complaint is not None:
            self._fail(complaint)
            return
        self._link.send(Ready())
        while True:
            self._link.send(Alive({}))
            await asyncio.sleep(_ALIVE_EVERY_S)

    def _stop(self, serving: "_Serving", *, is_at_once: bool) -> None:
        if is_at_once:
            self._end(0)
        elif not serving.board.is_stopping:
            serving.board.is_stopping = True
            self._start(self._say_goodbye(serving))

    async def _say_goodbye(self, serving: "_Serving") -> None:
        ends_at = time.monotonic() + _GOODBYE_S
        while time.monotonic() < ends_at and (serving.board.has_workers or not serving.connections.is_idle):
            await asyncio.sleep(0.05)
        self._end(0)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            get_logger().error("web process failed", exc_info=error)
            self._end(_UNFIT)


class _Serving:
    """What there is once the configuration is known."""

    def __init__(self, welcome: Welcome) -> None:
        config = Config.model_validate(welcome.config)
        configure_logs(config.logs.level, config.logs.format)
        self.board = Board(welcome.workers, os.getpid())
        routes = OperatorRoutes(self.board, time.monotonic, config.server.data_dir)
        self._site = Site(routes.routes())
        self._http = config.http
        self.connections = HttpConnections(_behind_proxies(self._site, config), time.monotonic)
        self._own_port: OwnPort | None = None

    def take_port(self, listener: socket.socket) -> OwnPort:
        """Have everything served there too. Files for TLS that cannot be used raise ConfigError."""
        cert, key = self._http.cert, self._http.key
        tls = None if cert is None or key is None else ReloadableTls(cert, key, "http")
        self._own_port = OwnPort(listener, self.connections, tls)
        return self._own_port

    def reload(self, values: dict[str, Any]) -> None:
        """Take over what can change; a configuration that has become wrong meanwhile changes nothing.

        Whatever became of it, certificates are read anew.
        """
        if self._own_port is not None and self._own_port.tls is not None:
            self._own_port.tls.reload()
        try:
            config = Config.model_validate(values)
        except ValueError as error:
            get_logger().warning("configuration not reloaded", reason=str(error))
        else:
            self.connections.app = _behind_proxies(self._site, config)


def _behind_proxies(site: App, config: Config) -> App:
    """The same, with the addresses that trusted proxies tell. Others may tell what they want."""
    networks = list(config.http.trusted_proxies)
    return cast("App", ProxyHeadersMiddleware(cast("Any", site), networks)) if networks else site


def _socket_of(descriptors: tuple[int, ...]) -> socket.socket:
    """The one that came with a message."""
    try:
        (descriptor,) = descriptors
        return socket.socket(fileno=descriptor)
    except (ValueError, OSError) as error:
        for each in descriptors:
            os.close(each)
        raise MalformedInput("link", f"{len(descriptors)} descriptors where one socket should be") from error
