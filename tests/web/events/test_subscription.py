"""One client's place in the log."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.web.events.batches import Batch, Batches
from penstock.web.events.event_filter import EventFilter
from penstock.web.events.event_log import EventLog
from penstock.web.events.rhythm import Rhythm
from penstock.web.events.subscription import Asked, EventFeed, Subscription


class Client:
    """Notes what it is sent, and takes it when it may."""

    def __init__(self, last_event_id: str | None = None, wanted: EventFilter | None = None) -> None:
        self.log = EventLog("b7", max_events=1000)
        self.now = 0.0
        self.rhythm = Rhythm()
        self.feed = EventFeed(Batches(self.log), self.rhythm, lambda: self.now)
        self.asked = Asked(wanted or EventFilter(), 10, last_event_id)
        self.sent: list[int | str] = []
        self.may_take = asyncio.Event()
        self.may_take.set()
        self.is_gone = asyncio.Event()

    async def send_batch(self, batch: Batch) -> None:
        await self.may_take.wait()
        self.sent += [event.number for event in batch.events]

    async def send_reset(self) -> None:
        self.sent.append("reset")

    async def send_place(self) -> None:
        self.sent.append("place")

    def happens(self, count: int = 1) -> None:
        for _ in range(count):
            self.log.append("play_started", "live", "main", b"{}", 0.0)
            self.rhythm.happened()

    async def until_gone(self) -> None:
        await self.is_gone.wait()

    async def sees(self, *expected: int | str) -> None:
        async with asyncio.timeout(2.0):
            while self.sent != list(expected):
                await asyncio.sleep(0.005)


def run(
    test: Callable[[Client], Coroutine[Any, Any, None]],
    last_event_id: str | None = None,
    wanted: EventFilter | None = None,
    before: int = 0,
) -> None:
    async def main() -> None:
        client = Client(last_event_id, wanted)
        client.happens(before)
        task = asyncio.create_task(Subscription(client.feed, client.asked, client).run(client.until_gone))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await test(client)
        client.is_gone.set()
        await asyncio.wait_for(task, 1.0)

    asyncio.run(main())


def test_a_new_client_is_sent_what_happens_from_then_on() -> None:
    async def test(client: Client) -> None:
        client.happens(2)
        await client.sees(4, 5)
        client.happens()
        await client.sees(4, 5, 6)

    run(test, before=3)


def test_one_that_comes_back_is_sent_what_it_missed() -> None:
    async def test(client: Client) -> None:
        await client.sees(2, 3)

    run(test, "b7:1", before=3)


@pytest.mark.parametrize("last_event_id", ["b6:1", "b7:9", "b7:x", "nonsense"])
def test_one_that_knows_what_we_do_not_is_reset_and_goes_on_from_now(last_event_id: str) -> None:
    async def test(client: Client) -> None:
        await client.sees("reset")
        client.happens()
        await client.sees("reset", 4)

    run(test, last_event_id, before=3)


def test_one_that_takes_nothing_for_long_is_sent_the_rest_later_or_a_reset() -> None:
    async def test(client: Client) -> None:
        client.may_take.clear()
        client.happens()
        await asyncio.sleep(0.05)
        client.happens(999)
        client.may_take.set()
        await client.sees(*range(1, 1001))
        client.may_take.clear()
        client.happens()
        await asyncio.sleep(0.05)
        client.happens(2000)
        client.may_take.set()
        await client.sees(*range(1, 1002), "reset")

    run(test)


def test_a_quiet_client_is_sent_its_place_now_and_then() -> None:
    async def test(client: Client) -> None:
        client.now = 14.0
        client.happens()
        await asyncio.sleep(0.05)
        assert client.sent == []
        client.now = 15.0
        client.happens()
        await client.sees("place")

    run(test, wanted=EventFilter(app="other"))


def test_a_fault_in_sending_ends_it() -> None:
    async def main() -> None:
        client = Client()
        client.send_batch = broken  # type: ignore[method-assign, assignment]
        task = asyncio.create_task(Subscription(client.feed, client.asked, client).run(client.until_gone))
        await asyncio.sleep(0.02)
        client.happens()
        with pytest.raises(ExceptionGroup):
            await asyncio.wait_for(task, 1.0)

    async def broken(_batch: Batch) -> None:
        raise RuntimeError("a bug")

    asyncio.run(main())
