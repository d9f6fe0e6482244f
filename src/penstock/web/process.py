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
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.certificates import ReloadableTls
from penstock.config import Config
from penstock.control import messages
from penstock.control.live import AccessQuestion, Live, LivePushes, SentAway, WorkerToWeb
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
from penstock.web.access.desk import AccessDesk
from penstock.web.api.orders import LinkOrders
from penstock.web.asgi import App
from penstock.web.beacons import Beacons
from penstock.web.board import Board
from penstock.web.hooks.hooks import Hooks
from penstock.web.http_connections import HttpConnections, refuse
from penstock.web.link import Link, decoder_of
from penstock.web.live.figures import live_figures
from penstock.web.live.happenings import Happenings, Now
from penstock.web.own_port import OwnPort
from penstock.web.page.site import with_page
from penstock.web.routes import OperatorRoutes
from penstock.web.self_test import complaint_of
from penstock.web.site import Site, beside_api
from penstock.web.watch.site import with_watch

if TYPE_CHECKING:
    from penstock.web.api.service import ApiService

_ALIVE_EVERY_S: Final = 1.0
_GOODBYE_S: Final = 5.0
"""How long probes are told that the server is stopping, while its workers say goodbye."""
_UNFIT: Final = 1
"""The exit status of a process that cannot serve."""


class WebProcess:
    """All parts of it, until it ends."""

    def __init__(self, supervisor: socket.socket) -> None:
        self._link: Link[ToWeb] = Link(supervisor, decoder_of(ToWeb), self._on_message, lambda: self._end(0))
        self._workers: dict[int, Link[WorkerToWeb]] = {}
        self._serving: _Serving | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def happenings(self) -> Happenings | None:
        """What goes on in the server; None: this process does not know yet whose it is."""
        return None if self._serving is None else self._serving.happenings

    async def run(self) -> int:
        """Serve until told otherwise. The exit status."""
        try:
            return await self._status
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._serving is not None:
                await self._serving.access.close()
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
            case messages.Origins():
                if serving.api is not None:
                    serving.api.take_origins(message.origins)
            case messages.Reloaded():
                serving.orders.reloaded(message)
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
            self._serving = _Serving(welcome, LinkOrders(self._workers, self._link.send))
        except (ValueError, ConfigError) as error:
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
        self._lose_link(worker)
        self._workers[worker] = Link(
            _socket_of(descriptors),
            decoder_of(WorkerToWeb),
            lambda message, beside: self._on_worker(worker, message, beside),
            lambda: self._lose_link(worker),
        )
        if self._serving is not None and self._serving.api is not None:
            self._serving.api.greet(self._workers[worker])

    def _lose_link(self, worker: int) -> None:
        """A worker that ends is replaced, and with it its link."""
        link = self._workers.pop(worker, None)
        if link is None:
            return
        link.close()
        if self._serving is not None:
            self._serving.happenings.worker_lost(worker, _now())

    def _on_worker(self, worker: int, message: WorkerToWeb, descriptors: tuple[int, ...]) -> None:
        serving = self._serving
        match message:
            case HttpConnection():
                connection = _socket_of(descriptors)
                if serving is None:
                    refuse(connection)
                else:
                    serving.connections.offer(connection, message.address, message.scheme)
            case Live():
                if serving is not None:
                    serving.happenings.receive(worker, message, _now())
            case LivePushes():
                if serving is not None:
                    serving.happenings.pushes.receive(worker, message.pushes)
            case AccessQuestion():
                if serving is not None:
                    self._start(self._answer(serving, self._workers[worker], message))
            case SentAway():
                for each, link in self._workers.items():
                    if each != worker:
                        link.send(message)
            case _:
                assert_never(message)

    async def _answer(self, serving: "_Serving", worker: Link[WorkerToWeb], question: AccessQuestion) -> None:
        worker.send(await serving.access.answer(question))

    async def _serve(self, serving: "_Serving") -> None:
        self._start(serving.connections.run())
        self._start(serving.hooks.run())
        if serving.api is not None:
            self._start(serving.api.run())
        complaint = await complaint_of(serving.connections)
        if complaint is not None:
            self._fail(complaint)
            return
        self._link.send(Ready())
        while True:
            self._link.send(Alive({}))
            serving.happenings.second_passed(_now())
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

    def __init__(self, welcome: Welcome, orders: LinkOrders) -> None:
        config = Config.model_validate(welcome.config)
        configure_logs(config.logs.level, config.logs.format)
        self.board = Board(welcome.workers, os.getpid())
        self.happenings = Happenings(config.server.id, welcome.boot_id)
        self.orders = orders
        routes = OperatorRoutes(
            self.board,
            time.monotonic,
            config.server.data_dir,
            look_at_streams=lambda: live_figures(self.happenings),
            look_at_beacons=lambda: self.beacons.counts,
        )
        self.hooks = Hooks(config, self.happenings)
        self.api = _api_of(config, welcome, self.board, self.hooks, self.happenings, orders=orders)
        site = Site(routes.routes())
        pages = with_watch(config, site if self.api is None else with_page(site))
        self.beacons = Beacons(orders.to_worker, time.monotonic, pages)
        self._site: App = self.beacons if self.api is None else beside_api(self.beacons, self.api.app)
        self._http = config.http
        self.connections = HttpConnections(_behind_proxies(self._site, config), time.monotonic)
        self._own_port: OwnPort | None = None
        self.access = AccessDesk(config, os.environ)

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
            self.hooks.configure(config)
            self.access.reload(config)
        except (ValueError, ConfigError) as error:
            get_logger().warning("configuration not reloaded", reason=str(error))
        else:
            if self.api is not None:
                self.api.reload(config)
            self.connections.app = _behind_proxies(self._site, config)


def _api_of(
    config: Config, welcome: Welcome, board: Board, hooks: Hooks, happenings: Happenings, *, orders: LinkOrders
) -> "ApiService | None":
    """The API, where the extra is installed that it needs. Without it nothing of that is imported."""
    if find_spec("fastapi") is None:
        return None
    from penstock.web.api.service import ApiService  # noqa: PLC0415 - see above
    from penstock.web.events import routes as events  # noqa: PLC0415
    from penstock.web.hooks import routes as dead_letters  # noqa: PLC0415

    more = (events.router(events.follow(happenings, time.monotonic)), dead_letters.router(hooks))
    return ApiService(config, welcome, board, happenings, orders=orders, more=more)


def _behind_proxies(site: App, config: Config) -> App:
    """The same, with the addresses that trusted proxies tell. Others may tell what they want."""
    networks = list(config.http.trusted_proxies)
    return cast("App", ProxyHeadersMiddleware(cast("Any", site), networks)) if networks else site


def _now() -> Now:
    return Now(time.monotonic_ns() // 1000, time.time_ns() // 1000)


def _socket_of(descriptors: tuple[int, ...]) -> socket.socket:
    """The one that came with a message."""
    try:
        (descriptor,) = descriptors
        return socket.socket(fileno=descriptor)
    except (ValueError, OSError) as error:
        for each in descriptors:
            os.close(each)
        raise MalformedInput("link", f"{len(descriptors)} descriptors where one socket should be") from error
