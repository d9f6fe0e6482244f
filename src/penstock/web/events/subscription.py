"""One client's place in the log, until it is gone: what it is sent next, and when.

Owns the loop that SSE and WebSocket have in common. What a client has not taken is not kept for it: it is sent when the
client takes it, from the log, or a reset if the log has gone on too far.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.web.events.batches import Batch, Batches
from penstock.web.events.event_filter import EventFilter
from penstock.web.events.rhythm import Rhythm

KEEP_ALIVE_S: Final = 15.0
"""Below the idle time of the proxies that people use, of which nginx's 60 s is the shortest."""


class Outlet(Protocol):
    """How a client is told. Waits while the client takes nothing."""

    async def send_batch(self, batch: Batch) -> None: ...

    async def send_reset(self) -> None: ...

    async def send_place(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EventFeed:
    """What all clients share."""

    batches: Batches
    rhythm: Rhythm
    clock: Callable[[], float]
    """Monotonic."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks for."""

    wanted: EventFilter
    interval_ms: int
    last_event_id: str | None


class Subscription:
    """One client."""

    def __init__(self, feed: EventFeed, asked: Asked, outlet: Outlet) -> None:
        self._feed = feed
        self._asked = asked
        self._outlet = outlet
        log = feed.batches.log
        # From now, and not from when the first answer was sent: meanwhile something may happen.
        self._number = log.newest if asked.last_event_id is None else log.number_of(asked.last_event_id)

    async def run(self, until_gone: Callable[[], Awaitable[None]]) -> None:
        """Send until the client is gone, as the other says."""
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_all())
            await until_gone()
            sending.cancel()

    async def _send_all(self) -> None:
        batches, clock, asked = self._feed.batches, self._feed.clock, self._asked
        log, rhythm = batches.log, self._feed.rhythm
        number = self._number
        sent_at = clock()
        while True:
            batch = None if number is None else batches.after(number, asked.wanted)
            if batch is None:
                number = log.newest
                await self._outlet.send_reset()
                sent_at = clock()
            else:
                number = batch.upto
                if batch.events:
                    await self._outlet.send_batch(batch)
                    sent_at = clock()
                elif clock() - sent_at >= KEEP_ALIVE_S:
                    await self._outlet.send_place()
                    sent_at = clock()
                if batch.has_more:  # it is behind: the next piece as soon as this one was taken
                    continue
            await rhythm.wait(asked.interval_ms, with_samples=asked.wanted.samples, has_more=log.newest > number)
