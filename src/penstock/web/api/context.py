"""What routes need of the rest of the process, and how they have workers and supervisor do something.

Owns no state: each part does. An order is sent and then seen to have happened, by what workers push, so an answer never
says more than what is so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

from penstock.control.live import WebToWorker
from penstock.web.access.links import Links
from penstock.web.api.catalogue import Catalogue
from penstock.web.api.config_view import ConfigView
from penstock.web.api.problems import Problem
from penstock.web.board import Board
from penstock.web.kept_lists.block_list import BlockList
from penstock.web.kept_lists.push_list import PushList
from penstock.web.live.happenings import Happenings
from penstock.web.programs.test_pattern import TestPattern

_LOOK_S: Final = 0.02
_DONE_WITHIN_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Which server this is, and which life of it."""

    server_id: str
    life_id: str
    version: str
    started_at_us: int
    workers: int
    listening: Mapping[str, str] = field(default_factory=dict)
    """Where it listens, by the names of listeners: HOST:PORT."""


class Orders(Protocol):
    """The way to other processes. Nothing here waits, but for the answer to a reload."""

    def to_worker(self, worker: int, order: WebToWorker) -> bool:
        """Send it to a worker. False: it is not there now."""

    def to_any_worker(self, order: WebToWorker) -> bool:
        """Send it to one of them. False: there is none now."""

    def drain(self, within_s: float) -> None:
        """Have the server end when it is empty, or by then."""

    def reload(self) -> Awaitable[str | None]:
        """Have the configuration read anew: what is wrong with it, or None."""


@dataclass(frozen=True, slots=True)
class ApiContext:
    """All of it."""

    identity: Identity
    board: Board
    happenings: Happenings
    recordings: Catalogue
    blocks: BlockList
    pushes: PushList
    config: ConfigView
    orders: Orders
    clock: Callable[[], float]
    """Monotonic."""
    now: Callable[[], float]
    """Seconds since 1970."""
    links: Links
    test_pattern: TestPattern


def ordered(is_sent: bool) -> None:
    """Refuse where nobody was there to be told."""
    if not is_sent:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "The worker is being replaced.")


async def seen(is_done: Callable[[], bool], within_s: float = _DONE_WITHIN_S) -> None:
    """Wait until an order shows in what workers tell."""
    try:
        async with asyncio.timeout(within_s):
            while not is_done():
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, f"The worker did not do it within {within_s:g} s.") from None
