"""Orders on their way: to workers and to the supervisor, over the links of this process.

Owns which reloads are waited for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from penstock.control.live import WebToWorker
from penstock.control.messages import AskReload, Drain, Message, Reloaded


class Sender(Protocol):
    """A link, as far as it is needed here."""

    def send(self, message: Any) -> None:
        """Tell something, without waiting."""


class LinkOrders:
    """Orders over links."""

    def __init__(self, workers: Mapping[int, Sender], to_supervisor: Callable[[Message], None]) -> None:
        """`workers` has the links to those that are there now."""
        self._workers = workers
        self._to_supervisor = to_supervisor
        self._reloads: dict[int, asyncio.Future[str | None]] = {}
        self._asked = 0

    def to_worker(self, worker: int, order: WebToWorker) -> bool:
        """Send it to a worker. False: it is not there now."""
        link = self._workers.get(worker)
        if link is not None:
            link.send(order)
        return link is not None

    def to_any_worker(self, order: WebToWorker) -> bool:
        """Send it to the first of them. False: there is none now."""
        return bool(self._workers) and self.to_worker(min(self._workers), order)

    def to_all_workers(self, order: WebToWorker) -> None:
        """Send it to all that are there."""
        for link in self._workers.values():
            link.send(order)

    def drain(self, within_s: float) -> None:
        """Have the server end when it is empty, or by then."""
        self._to_supervisor(Drain(within_s))

    def reload(self) -> Awaitable[str | None]:
        """Have the configuration read anew: what is wrong with it, or None."""
        self._asked += 1
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._reloads[self._asked] = waiting
        self._to_supervisor(AskReload(self._asked))
        return waiting

    def reloaded(self, message: Reloaded) -> None:
        """The supervisor has done so."""
        waiting = self._reloads.pop(message.request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message.complaint)
