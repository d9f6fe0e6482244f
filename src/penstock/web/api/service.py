"""The API as a part of the web process: what it is made of, what keeps it current, and what a reload changes.

Owns the parts that only the API has: the catalogue of recordings, the lists of blocks and of
pushes, the view of the configuration.
Imported only where the extra `web` is installed.
"""

import asyncio
import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Final

from fastapi import APIRouter

from penstock import __version__
from penstock.config import Config
from penstock.control.messages import Welcome
from penstock.logs import get_logger
from penstock.web.access.links import Links
from penstock.web.api.app import Api
from penstock.web.api.catalogue import Catalogue
from penstock.web.api.config_view import ConfigView
from penstock.web.api.context import ApiContext, Identity
from penstock.web.api.guard import GuardSettings
from penstock.web.api.orders import LinkOrders, Sender
from penstock.web.board import Board
from penstock.web.kept_lists.block_list import BlockList
from penstock.web.kept_lists.push_list import PushList
from penstock.web.live.happenings import Happenings
from penstock.web.process_figures import collect_process
from penstock.web.programs.launcher import Launcher
from penstock.web.programs.test_pattern import TestPattern

_LOOK_EVERY_S: Final = 0.5


class ApiService:
    """All of it."""

    def __init__(
        self,
        config: Config,
        welcome: Welcome,
        board: Board,
        happenings: Happenings,
        *,
        orders: LinkOrders,
        more: Iterable[APIRouter] = (),
    ) -> None:
        self._orders = orders
        self._catalogue = Catalogue(config.recordings_dir)
        self._blocks = BlockList(config.server.data_dir, time.time, orders.to_all_workers)
        self._pushes = PushList(config.server.data_dir, orders.to_all_workers)
        self._config = ConfigView(config)
        identity = Identity(
            config.server.id,
            welcome.life_id,
            __version__,
            _began_at_us(os.getppid()),
            welcome.workers,
            welcome.listening,
        )
        self._test_pattern = TestPattern(Launcher(), os.environ, time.time)
        self.context = ApiContext(
            identity,
            board,
            happenings,
            self._catalogue,
            self._blocks,
            self._pushes,
            self._config,
            orders,
            time.monotonic,
            time.time,
            Links(welcome.link_secret, time.time),
            self._test_pattern,
        )
        self.app = Api(self.context, guard_settings(config), more)

    def reload(self, config: Config) -> None:
        """Take over what can change."""
        self._config.config = config
        self.app.reload(guard_settings(config))

    def take_origins(self, origins: Mapping[str, str]) -> None:
        """Where values of the configuration come from."""
        self._config.origins = origins

    def greet(self, worker: Sender) -> None:
        """A worker is there anew: what it has to know."""
        if self._blocks.blocks():
            worker.send(self._blocks.message())
        if self._pushes.pushes:
            worker.send(self._pushes.message())

    async def run(self) -> None:
        """Keep the catalogue current, until cancelled; a test stream ends then."""
        complaint: str | None = None
        try:
            while True:
                before, complaint = complaint, await asyncio.to_thread(self._look)
                if complaint not in (None, before):
                    get_logger().warning("recordings cannot be listed", reason=complaint)
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            await self._test_pattern.close()

    def _look(self) -> str | None:
        try:
            self._catalogue.look()
        except OSError as error:
            return str(error)
        return None


def guard_settings(config: Config) -> GuardSettings:
    """Who may come, by the configuration."""
    listen = (config.http.listen, config.http.web_listen)
    names = [socket.gethostname(), *(each.host for each in listen if each is not None and each.host)]
    return GuardSettings(
        config.api.keys,
        config.api.loopback_reads,
        config.http.cors_origins,
        (*config.http.hosts, *names),
    )


def _began_at_us(pid: int) -> int:
    """When a process began: the supervisor's life is the server's, whichever web process this is."""
    samples = {sample.name: sample.value for metric in collect_process(pid) for sample in metric.samples}
    return round(samples.get("process_start_time_seconds", time.time()) * 1_000_000)
