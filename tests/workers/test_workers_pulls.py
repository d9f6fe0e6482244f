"""Pulls of a server with two workers: one of them is killed while it fetches what both have viewers of."""

import asyncio
from pathlib import Path

from tests.support.edge_servers import pull_config
from tests.support.penstock_server import penstock_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast
from tests.workers.workers_stage import PlacedClients, two_workers, until_number


def test_another_worker_goes_on_with_what_a_killed_one_fetched(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "e").mkdir()

    async def scenario() -> None:
        with penstock_server(tmp_path / "o") as origin:
            config = pull_config(f"rtmp://127.0.0.1:{origin.port}/{{app}}/{{stream}}")
            with two_workers(tmp_path / "e", config) as edge:
                clients = PlacedClients(edge)
                async with RawClients(origin.port) as at_origin, clients:
                    publisher = await at_origin.open()
                    broadcast = Broadcast(publisher, await publisher.publish("a"))
                    broadcast.send_setup()
                    task = asyncio.create_task(broadcast.run())
                    near, far = await clients.viewer_in(1), await clients.viewer_in(2)
                    await until_number(near, 20)
                    await until_number(far, 20)
                    (started,) = edge.lines("publish started: live/a")
                    puller = int(started["worker"])
                    stays = far if puller == 1 else near
                    await asyncio.to_thread(edge.kill, puller)
                    sent = broadcast.next_number
                    await stays.until(
                        lambda: any(_number(each.payload) > sent for each in stays.media()),
                        "what was published since",
                    )
                    restarted = edge.wait_for_lines("publish started: live/a", 2)[-1]
                    assert restarted["worker"] == 3 - puller
                    assert "NetStream.Play.UnpublishNotify" not in stays.codes()
                    times = [each.timestamp_ms for each in stays.media() if _number(each.payload) >= 0]
                    assert times == sorted(times)
                    task.cancel()
                    # The holdings of the server are judged when nobody watches any more.
                    stays.reset()

    asyncio.run(asyncio.wait_for(scenario(), 90))


def _number(payload: bytes) -> int:
    """Of a message of the broadcast; codec configuration has none."""
    return -1 if payload[1] == 0 else int.from_bytes(payload[6 if payload[0] == 0xAF else 9 :][:4], "big")
