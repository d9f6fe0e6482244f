"""Publishers that would fill the memory: the logs stay within their bounds, and those who watch lose nothing."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast, check_start, gaps, numbered, numbers
from tests.support.raw_rtmp import AUDIO, VIDEO, RawMessage

pytestmark = pytest.mark.alone

KIB = 1024
MIB = 1024 * KIB
# What a process of Python needs for its own work on bursts, and gives back late.
SLACK_BYTES = 24 * MIB


def test_set_up_without_end_is_not_kept(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            publisher.set_chunk_size(MIB)
            viewer = await clients.viewer("a")
            await viewer.until_code("NetStream.Play.Start")
            before = server.memory()
            for number in range(200):
                # Enhanced RTMP, one of many tracks, sequence start, AVC; each for a track of its own.
                head = bytes.fromhex("96 00") + b"avc1" + bytes((number,))
                publisher.send_media(RawMessage(VIDEO, 0, stream_id, head + bytes(500 * KIB)))
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            broadcast.send_video()
            broadcast.send_audio()
            await viewer.until(lambda: len(viewer.media()) >= 4, "a picture")
            after = server.memory()
            assert after.own_bytes - before.own_bytes < SLACK_BYTES
            assert after.memfd_bytes <= 4 * MIB + 2 * MIB

    limits = {"max_bytes": 4 * MIB, "max_segment_bytes": MIB}
    with live_server(tmp_path, log=limits, max_publish_bps=10**12) as server:
        asyncio.run(scenario(server.port))


def test_tiny_messages_are_bounded_by_what_they_cost(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=10**9)
            broadcast.send_setup()
            broadcast.send_video()
            await asyncio.sleep(0.5)
            before = server.memory()
            tiny = RawMessage(AUDIO, 100, stream_id, b"\xaf\x01")
            for _ in range(100):
                for _ in range(3000):
                    publisher.send_media(tiny)
                await asyncio.sleep(0.01)
            publisher.call("createStream", 99, None)
            await publisher.until(lambda: publisher.codes().count("_result") == 2, "the last answer", 30.0)
            after = server.memory()
            assert after.own_bytes + after.memfd_bytes - before.own_bytes - before.memfd_bytes < SLACK_BYTES

    with live_server(
        tmp_path, log={"max_bytes": 4 * MIB, "max_segment_bytes": MIB}, max_publish_messages_per_s=10**9
    ) as server:
        asyncio.run(scenario(server.port))


def test_all_streams_together_stay_within_the_budget_and_viewers_in_step_lose_nothing(tmp_path: Path) -> None:
    streams = 8

    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            broadcasts, viewers = [], []
            for tag in range(streams):
                publisher, stream_id = await clients.publisher(f"s{tag}")
                publisher.set_chunk_size(64 * KIB)
                broadcast = Broadcast(publisher, stream_id, tag, gop=50)
                broadcast.send_setup()
                broadcasts.append(broadcast)
                viewers.append(await clients.viewer(f"s{tag}"))
            running = [asyncio.create_task(broadcast.run(size=20 * KIB)) for broadcast in broadcasts]
            highest = 0
            for _ in range(20):
                await asyncio.sleep(0.15)
                highest = max(highest, server.memory().memfd_bytes)
            joining = await clients.viewer("s0")
            await joining.until(lambda: len(joining.media()) > 10, "the next key frame")
            for broadcast in broadcasts:
                broadcast.is_stopped = True
            await asyncio.gather(*running)
            for tag, viewer in enumerate(viewers):
                last = broadcasts[tag].next_number - 1
                await viewer.until(lambda v=viewer, t=tag, n=last: numbers(v.media(), t)[-1] == n, "everything")  # type: ignore[misc]
                assert gaps(numbers(viewer.media(), tag)) == 0
            check_start(joining.media())
            assert gaps(numbers(joining.media(), 0)) == 0
            page_slack = streams * 8 * KIB
            # What other workers have yet to let go of is over the budget by an eighth at most.
            held_elsewhere = 6 * MIB // 8 if "PENSTOCK_SERVER_WORKERS" in os.environ else 0
            assert 3 * MIB < highest <= 6 * MIB + held_elsewhere + streams * 30 * KIB + page_slack

    with live_server(tmp_path, max_total_log_bytes=6 * MIB) as server:
        asyncio.run(scenario(server.port))


def test_a_picture_of_16_mib_reaches_everybody(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            publisher.set_chunk_size(MIB)
            viewers = [await clients.viewer("a") for _ in range(3)]
            broadcast = Broadcast(publisher, stream_id, gop=1000)
            broadcast.send_setup()
            broadcast.send_video(16 * MIB - 1)
            broadcast.send_audio()
            for viewer in viewers:
                await viewer.until(lambda v=viewer: len(v.media()) == 4, "the picture", 20.0)  # type: ignore[misc]
                assert numbers(viewer.media()) == [0, 1]
                assert len(viewer.media()[2].payload) == len(numbered("key", 1, 0, 16 * MIB - 1))

    with live_server(tmp_path, max_publish_bps=10**12) as server:
        asyncio.run(scenario(server.port))
