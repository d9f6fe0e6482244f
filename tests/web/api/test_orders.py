"""Orders on their way, over links of the test."""

import asyncio
from typing import Any

from penstock.control.live import Blocks, Kick
from penstock.control.messages import AskReload, Drain, Reloaded
from penstock.web.api.orders import LinkOrders


class FakeLink:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


def test_orders_go_to_the_worker_that_is_meant() -> None:
    links = {1: FakeLink(), 2: FakeLink()}
    orders = LinkOrders(links, FakeLink().send)
    assert orders.to_worker(2, Kick("c1", None))
    assert orders.to_any_worker(Kick("c2", None))
    assert not orders.to_worker(3, Kick("c3", None))
    orders.to_all_workers(Blocks({}, {}))
    assert links[1].sent == [Kick("c2", None), Blocks({}, {})]
    assert links[2].sent == [Kick("c1", None), Blocks({}, {})]
    assert not LinkOrders({}, FakeLink().send).to_any_worker(Kick("c1", None))


def test_a_reload_is_answered_by_its_number() -> None:
    async def story() -> list[str | None]:
        orders = LinkOrders({}, supervisor.send)
        first, second = orders.reload(), orders.reload()
        orders.reloaded(Reloaded(2, "line 3"))
        orders.reloaded(Reloaded(7, "of somebody else"))
        orders.reloaded(Reloaded(1, None))
        orders.reloaded(Reloaded(1, "too late"))
        return [await first, await second]

    supervisor = FakeLink()
    assert asyncio.run(story()) == [None, "line 3"]
    assert supervisor.sent == [AskReload(1), AskReload(2)]


def test_a_drain_is_the_supervisors_matter() -> None:
    supervisor = FakeLink()
    LinkOrders({}, supervisor.send).drain(5.0)
    assert supervisor.sent == [Drain(5.0)]
