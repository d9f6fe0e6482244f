"""When clients are woken."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.web.events.rhythm import Rhythm


def waiting(
    rhythm: Rhythm, count: int, interval_ms: int = 10, *, with_samples: bool = False
) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(rhythm.wait(interval_ms, with_samples=with_samples)) for _ in range(count)]


def run(test: Callable[[Rhythm], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(Rhythm()))


def test_those_with_the_same_interval_wake_together_after_an_event() -> None:
    async def test(rhythm: Rhythm) -> None:
        tasks = waiting(rhythm, 250)
        await asyncio.sleep(0.03)
        assert not any(task.done() for task in tasks)
        rhythm.happened()
        rhythm.happened()
        await asyncio.wait_for(asyncio.gather(*tasks), 1.0)
        assert rhythm.is_quiet

    run(test)


def test_a_longer_interval_wakes_later() -> None:
    async def test(rhythm: Rhythm) -> None:
        (soon,) = waiting(rhythm, 1, 10)
        (late,) = waiting(rhythm, 1, 5000)
        await asyncio.sleep(0)
        rhythm.happened()
        await asyncio.wait_for(soon, 1.0)
        assert not late.done()
        late.cancel()

    run(test)


def test_samples_wake_those_who_ask_for_samples_alone() -> None:
    async def test(rhythm: Rhythm) -> None:
        (without,) = waiting(rhythm, 1)
        (with_them,) = waiting(rhythm, 1, with_samples=True)
        await asyncio.sleep(0)
        rhythm.happened(is_sample=True)
        await asyncio.wait_for(with_them, 1.0)
        await asyncio.sleep(0.03)
        assert not without.done()
        without.cancel()

    run(test)


def test_one_for_whom_there_is_more_already_does_not_wait_for_an_event() -> None:
    async def test(rhythm: Rhythm) -> None:
        await asyncio.wait_for(rhythm.wait(10, with_samples=False, has_more=True), 1.0)

    run(test)


def test_one_that_leaves_is_forgotten() -> None:
    async def test(rhythm: Rhythm) -> None:
        (task,) = waiting(rhythm, 1)
        await asyncio.sleep(0)
        assert not rhythm.is_quiet
        task.cancel()
        await asyncio.wait([task])
        assert rhythm.is_quiet
        rhythm.happened()

    run(test)
