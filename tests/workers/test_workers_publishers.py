"""Publishers over two workers: races, takeovers, and those who come back elsewhere."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.raw_clients import RawClient
from tests.support.raw_media import Broadcast, gaps, numbers
from tests.support.raw_rtmp import VIDEO
from tests.workers.workers_stage import QUICK, PlacedClients, Workers, send_for, two_workers, until_number, wait_for

MAX_STEP_MS = 1500
"""Between two messages of a stream that goes on: the pause of its publisher, and no jump beyond it."""


def check_time_goes_on(viewer: RawClient) -> None:
    """Set-up is repeated with any time; frames never go back, nor leap."""
    times = [message.timestamp_ms for message in viewer.media(VIDEO) if message.payload[1]]
    assert all(0 <= later - earlier <= MAX_STEP_MS for earlier, later in pairwise(times)), times


def _verdicts(client: RawClient) -> list[str]:
    return [code for code in client.codes() if code.startswith("NetStream.Publish")]


def test_of_two_publishers_that_race_for_a_name_in_two_workers_one_wins(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            for number in range(10):
                racers = [await clients.open_in(worker) for worker in (1, 2)]
                for racer in racers:
                    await racer.connect_app()
                ids = [await racer.create_stream() for racer in racers]
                for racer, stream_id in zip(racers, ids, strict=True):
                    racer.call("publish", 9, None, f"race{number}", "live", stream_id=stream_id)
                for racer in racers:
                    await racer.until(lambda racer=racer: _verdicts(racer), "a verdict")  # type: ignore[misc]
                assert sorted(verdict for racer in racers for verdict in _verdicts(racer)) == [
                    "NetStream.Publish.BadName",
                    "NetStream.Publish.Start",
                ]
                for racer in racers:
                    racer.transport.abort()

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_a_takeover_from_another_worker_lets_viewers_in_both_go_on(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            first = await clients.publisher_in(1)
            viewers = [await clients.viewer_in(worker) for worker in (1, 2)]
            await send_for(first, 1.0)
            for viewer in viewers:
                await until_number(viewer, first.next_number - 1)
            second = await clients.publisher_in(2)
            second.next_number = first.next_number
            await first.client.until_closed()
            await send_for(second, 1.0)
            for viewer in viewers:
                await until_number(viewer, second.next_number - 1)
                assert gaps(numbers(viewer.media())) == 0
                check_time_goes_on(viewer)

    replaces = '[defaults]\ntakeover = "replace"\ngrace_s = 1\n'
    with two_workers(tmp_path, replaces) as workers:
        asyncio.run(scenario(PlacedClients(workers)))


def test_a_publisher_that_comes_back_elsewhere_goes_on_for_viewers_and_in_its_recording(tmp_path: Path) -> None:
    async def scenario(clients: PlacedClients) -> None:
        async with clients:
            first = await clients.publisher_in(1)
            viewers = [await clients.viewer_in(worker) for worker in (1, 2)]
            await send_for(first, 1.0)
            for viewer in viewers:
                await until_number(viewer, first.next_number - 1)
            second = await _come_back(clients, 2, first)
            await send_for(second, 1.0)
            third = await _come_back(clients, 1, second)
            await send_for(third, 1.0)
            for viewer in viewers:
                await until_number(viewer, third.next_number - 1)
                assert gaps(numbers(viewer.media())) == 0
                check_time_goes_on(viewer)
            third.client.call("deleteStream", 0, None, third.stream_id)
            for viewer in viewers:
                await viewer.until_code("NetStream.Play.Stop")

    with two_workers(tmp_path, QUICK, ["--record", "live/*"]) as workers:
        asyncio.run(scenario(PlacedClients(workers)))
        _check_facts(workers)
        segments = wait_for(lambda: _closed_segments(workers), "three closed segments")
        assert len({segment["recording_id"] for segment in segments}) == 1
        assert [segment["segment"] for segment in segments] == [1, 2, 3]
        boots = [segment["boot_id"] for segment in segments]
        assert boots[0] == boots[2] != boots[1]
        assert [segment["keyframes"] for segment in segments] == [3, 3, 3]
        for earlier, later in pairwise(segments):
            assert earlier["last_timestamp_ms"] < later["first_timestamp_ms"]


async def _come_back(clients: PlacedClients, worker: int, before: Broadcast) -> Broadcast:
    before.client.reset()
    after = await clients.publisher_in(worker)
    after.next_number = before.next_number
    return after


def _closed_segments(workers: Workers) -> list[dict[str, Any]] | None:
    segments = workers.manifest()
    return segments if len(segments) == 3 and all(each["status"] == "closed" for each in segments) else None


def _check_facts(workers: Workers) -> None:
    started, stopped = workers.wait_for_facts("publish_started", 3), workers.wait_for_facts("publish_stopped", 3)
    assert len(started) == len(stopped) == 3
    assert sorted(fact["worker"] for fact in started) == [1, 1, 2]
    assert {fact["event_id"] for fact in started} == {fact["publication_id"] for fact in stopped}
    plays = workers.wait_for_facts("play_stopped", 2)
    assert [len(workers.facts(kind)) for kind in ("play_started", "play_stopped")] == [2, 2]
    assert {fact["reason"] for fact in plays} == {"stream ended"}
