"""From events to receivers, with a real file and receivers that are not real."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import orjson

from penstock.web.hooks.deliveries import Clocks, Deliveries
from penstock.web.hooks.matching import Wanted
from penstock.web.hooks.receivers import TAKEN, Outcome
from penstock.web.hooks.retries import Retries
from penstock.web.hooks.settings import key_of, name_of
from penstock.web.hooks.store import Message
from penstock.web.hooks.store_thread import StoreThread
from penstock.web.hooks.webhooks import Webhooks, body_of, message_id
from tests.web.hooks.hook_support import FAILED, FAST, FakeClocks, FakeReceiver, Posted, event, hook, until


@asynccontextmanager
async def running(
    folder: Path, receiver: FakeReceiver, clocks: Clocks | None = None, retries: Retries = FAST
) -> AsyncIterator[Webhooks]:
    webhooks = Webhooks(folder, receiver.post, clocks or FakeClocks(), retries)
    webhooks.configure([hook()])
    task = asyncio.create_task(webhooks.run())
    try:
        yield webhooks
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def counts(posted: list[Posted], stream: str = "main") -> list[int]:
    return [each.number for each in posted if each.stream == stream]


def test_events_are_delivered_in_order_per_stream_to_one_that_fails_half_of_the_time(tmp_path: Path) -> None:
    failures: set[tuple[str, int]] = set()

    def judge(posted: Posted) -> Outcome:
        key = (posted.id, len(receiver.attempts) % 2)
        if posted.number % 2 and key[0] not in {each[0] for each in failures}:
            failures.add(key)
            return FAILED
        return TAKEN

    receiver = FakeReceiver(judge)

    async def run() -> None:
        async with running(tmp_path, receiver) as webhooks:
            for count in range(20):
                webhooks.hear(event(count, "main"))
                webhooks.hear(event(count, "other"))
            await until(lambda: len(receiver.taken) == 40)

    asyncio.run(run())
    assert counts(receiver.taken, "main") == counts(receiver.taken, "other") == list(range(20))
    assert len(receiver.attempts) == 60
    assert len({each.id for each in receiver.taken}) == 40


def test_a_stream_that_waits_for_a_retry_does_not_hold_up_another(tmp_path: Path) -> None:
    receiver = FakeReceiver(lambda posted: FAILED if posted.stream == "bad" else TAKEN)

    async def run() -> None:
        async with running(tmp_path, receiver, retries=Retries(first_s=60.0)) as webhooks:
            webhooks.hear(event(0, "bad"))
            webhooks.hear(event(1, "bad"))
            webhooks.hear(event(0, "good"))
            webhooks.hear(event(1, "good"))
            await until(lambda: len(receiver.taken) == 2)

    asyncio.run(run())
    assert counts(receiver.taken, "good") == [0, 1]
    assert counts(receiver.attempts, "bad") == [0]


def test_a_receiver_that_hangs_delays_only_itself(tmp_path: Path) -> None:
    receiver = FakeReceiver()
    receiver.is_hanging = {"http://slow/"}

    async def run() -> None:
        async with running(tmp_path, receiver) as webhooks:
            webhooks.configure([hook("slow", "http://slow/", timeout_s=60.0), hook("fast", "http://fast/")])
            for count in range(50):
                webhooks.hear(event(count))
            await until(lambda: len(receiver.taken) == 50)

    asyncio.run(run())
    assert counts(receiver.taken) == list(range(50))
    assert [each.url for each in receiver.attempts].count("http://slow/") == 1


def test_what_was_not_taken_is_delivered_by_the_next_process_before_anything_new(tmp_path: Path) -> None:
    down, up = FakeReceiver(lambda _: FAILED), FakeReceiver()

    async def run() -> None:
        async with running(tmp_path, down) as webhooks:
            for count in range(5):
                webhooks.hear(event(count))
            await until(lambda: len(down.attempts) >= 2)
        async with running(tmp_path, up) as webhooks:
            webhooks.hear(event(5))
            await until(lambda: len(up.taken) == 6)

    asyncio.run(run())
    assert counts(up.taken) == [0, 1, 2, 3, 4, 5]
    assert up.taken[0].id == down.attempts[0].id


def test_what_was_heard_in_the_last_moment_is_kept(tmp_path: Path) -> None:
    receiver = FakeReceiver()

    async def run() -> None:
        async with running(tmp_path, FakeReceiver(lambda _: FAILED)) as webhooks:
            await asyncio.sleep(0.05)
            webhooks.hear(event(7))
        async with running(tmp_path, receiver):
            await until(lambda: len(receiver.taken) == 1)

    asyncio.run(run())
    assert counts(receiver.taken) == [7]


def test_after_a_day_a_message_becomes_a_dead_letter_that_can_be_replayed(tmp_path: Path) -> None:
    receiver = FakeReceiver(lambda _: FAILED)
    clocks = FakeClocks()

    async def run() -> None:
        async with running(tmp_path, receiver, clocks, Retries()) as webhooks:
            webhooks.hear(event(1))
            webhooks.hear(event(2, "other"))
            await until(lambda: len(receiver.attempts) == 2)
            clocks.ahead_s = 86_401.0
            webhooks.hear(event(3))
            while len(letters := await webhooks.dead_letters(None, 10)) < 2:
                webhooks.configure([hook()])
                await asyncio.sleep(0.01)
            assert {letter.reason for letter in letters} == {"status 500"}
            assert {letter.lane for letter in letters} == {"live/main", "live/other"}
            receiver.judge = lambda _: TAKEN
            assert await webhooks.replay({letters[0].id, "msg_unknown"}) == 1
            await until(lambda: len(receiver.taken) == 1)
            assert receiver.taken[0].id == letters[0].id
            assert await webhooks.replay(None) == 1
            assert await webhooks.dead_letters(None, 10) == []

    asyncio.run(run())


def test_a_receiver_that_is_gone_for_good_is_not_tried_again(tmp_path: Path) -> None:
    receiver = FakeReceiver(lambda _: Outcome(is_taken=False, reason="status 410", is_final=True))

    async def run() -> None:
        async with running(tmp_path, receiver) as webhooks:
            webhooks.hear(event(1))
            while not await webhooks.dead_letters(None, 10):
                await asyncio.sleep(0.005)

    asyncio.run(run())
    assert len(receiver.attempts) == 1


def test_messages_of_a_hook_that_was_removed_become_dead_letters(tmp_path: Path) -> None:
    receiver = FakeReceiver(lambda _: FAILED)

    async def run() -> None:
        async with running(tmp_path, receiver, retries=Retries(first_s=60.0)) as webhooks:
            webhooks.hear(event(1))
            await until(lambda: len(receiver.attempts) == 1)
            webhooks.configure([hook("other")])
            while not (letters := await webhooks.dead_letters(None, 10)):
                await asyncio.sleep(0.005)
            assert [letter.reason for letter in letters] == ["the hook is not configured"]
            assert await webhooks.replay(None) == 0
            assert (webhooks.name_of("h"), webhooks.name_of("other")) == (None, "http://a")

    asyncio.run(run())


def test_a_changed_hook_gets_what_waits_for_it(tmp_path: Path) -> None:
    receiver = FakeReceiver(lambda posted: FAILED if posted.url == "http://a/" else TAKEN)

    async def run() -> None:
        async with running(tmp_path, receiver) as webhooks:
            webhooks.hear(event(1))
            await until(lambda: len(receiver.attempts) > 1)
            webhooks.configure([hook("h", "http://b/")])
            await until(lambda: len(receiver.taken) == 1)

    asyncio.run(run())


def test_only_what_a_hook_wants_is_sent_to_it(tmp_path: Path) -> None:
    receiver = FakeReceiver()

    async def run() -> None:
        async with running(tmp_path, receiver) as webhooks:
            webhooks.configure([hook("a", wanted=Wanted(("publish_*",), ("live/main",)))])
            webhooks.hear(event(1, "other"))
            webhooks.hear(event(2, "main", "play_started"))
            webhooks.hear(event(3, "main", "publish_stopped"))
            await until(lambda: len(receiver.taken) == 1)
            await asyncio.sleep(0.05)

    asyncio.run(run())
    assert counts(receiver.taken) == [3]


def test_a_body_is_type_time_and_the_fact() -> None:
    happened = event(1)
    body = body_of(happened, orjson.loads(happened.data))
    assert orjson.loads(body) == {
        "type": "publish_started",
        "timestamp": "2023-11-14T22:13:20.123456Z",
        "data": orjson.loads(happened.data),
    }


def test_ids_are_the_same_for_the_same_event_and_differ_by_hook() -> None:
    assert message_id("a", "s-1-1") == message_id("a", "s-1-1") != message_id("b", "s-1-1")
    assert "." not in message_id("a", "server.example-1-1")


def test_a_hook_is_named_without_what_may_be_secret_in_its_url() -> None:
    url = "https://user:pass@hooks.example:8443/services/T0/secret?token=x"
    assert name_of(url) == "https://hooks.example:8443"
    assert key_of(url, 0) != key_of(url, 1)
    assert "secret" not in key_of(url, 0)


def test_a_fault_of_ours_in_an_attempt_counts_as_one_that_failed(tmp_path: Path) -> None:
    def judge(posted: Posted) -> Outcome:
        if len(receiver.attempts) == 1:
            raise RuntimeError("a bug")
        return TAKEN

    receiver = FakeReceiver(judge)

    async def run() -> None:
        async with running(tmp_path, receiver) as webhooks:
            webhooks.hear(event(1))
            await until(lambda: len(receiver.taken) == 1)

    asyncio.run(run())


def test_the_oldest_give_way_when_too_many_wait(tmp_path: Path) -> None:
    receiver = FakeReceiver(lambda _: FAILED)

    async def run() -> list[str]:
        disk = StoreThread(tmp_path)
        deliveries = Deliveries(hook(), disk, receiver.post, FakeClocks(), Retries(first_s=60.0), max_waiting=150)
        messages = [Message("h", f"msg_{n}", "live/main", "k", body_of(event(n), {}), time.time()) for n in range(160)]
        deliveries.add(waiting for _, waiting in await disk.run(lambda store: store.add(messages)))
        task = asyncio.create_task(deliveries.run())
        await until(lambda: deliveries.waiting == 50)
        letters = await disk.run(lambda store: store.dead_letters(None, 1000))
        task.cancel()
        await asyncio.wait([task])
        await disk.close()
        return [letter.id for letter in letters]

    assert asyncio.run(run()) == [f"msg_{number}" for number in reversed(range(110))]
