"""The wire at its edges: time beyond 24 and 32 bits, and every size of chunk."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast, check_start, numbers
from tests.support.raw_rtmp import DATA, RawMessage, amf0


@pytest.mark.parametrize("edge_ms", [0xFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF], ids=["24 bits", "31 bits", "32 bits"])
def test_time_crosses_its_edges_without_a_jump(tmp_path: Path, edge_ms: int) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=1000, start_ms=edge_ms - 400)
            broadcast.send_setup()
            viewer = await clients.viewer("a")
            for number in range(30):
                # Larger than a chunk on both ways, so that continuations carry the extended time.
                broadcast.send_video(6000, step_ms=20)
                broadcast.send_audio()
                if number == 25:
                    late = await clients.viewer("a")
            for each in (viewer, late):
                await each.until(lambda each=each: len(each.media()) == 62, "everything")  # type: ignore[misc]
                check_start(each.media())
                assert numbers(each.media()) == list(range(60))
                times = [message.timestamp_ms for message in each.media()[2:]]
                assert times[0] == edge_ms - 400
                steps = [(later - earlier) & 0xFFFFFFFF for earlier, later in pairwise(times)]
                assert steps == [20, 0] * 29 + [20]

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_a_publisher_that_returns_goes_on_in_time_beyond_32_bits(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            first = Broadcast(publisher, stream_id, 1, start_ms=0xFFFFFFFF - 100)
            first.send_setup()
            viewer = await clients.viewer("a")
            for _ in range(3):
                first.send_video(step_ms=50)
            await viewer.until(lambda: len(viewer.media()) == 5, "the first")
            publisher.reset()
            await asyncio.sleep(0.3)
            again, stream_id = await clients.publisher("a")
            second = Broadcast(again, stream_id, 2)
            second.send_setup()
            second.send_video()
            await viewer.until(lambda: len(viewer.media()) == 8, "the second")
            step_ms = viewer.media()[-1].timestamp_ms - viewer.media()[4].timestamp_ms
            assert 250 <= step_ms & 0xFFFFFFFF <= 1500

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


@pytest.mark.parametrize("chunk_size", [1, 2, 127, 128, 4096, 65_536, 1 << 20, 0x7FFFFFFF])
def test_a_publisher_may_choose_any_chunk_size(tmp_path: Path, chunk_size: int) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            viewer = await clients.viewer("a")
            publisher = await clients.open()
            publisher.set_chunk_size(chunk_size)
            stream_id = await publisher.publish("a")
            publisher.send_media(RawMessage(DATA, 0, stream_id, amf0("@setDataFrame", "onMetaData", {"width": 64})))
            broadcast = Broadcast(publisher, stream_id, gop=1000)
            broadcast.send_setup()
            for number in range(20):
                broadcast.send_video(70_000 if number == 0 else 3000)
                broadcast.send_audio()
                if number == 10:
                    publisher.set_chunk_size(max(1, chunk_size // 2))
            await viewer.until(lambda: len(viewer.media()) >= 42, "everything")
            check_start(viewer.media())
            assert numbers(viewer.media()) == list(range(40))

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


@pytest.mark.parametrize("chunk_size", [128, 4096, 65_536])
def test_the_server_keeps_to_the_chunk_size_that_it_announced(tmp_path: Path, chunk_size: int) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            publisher.set_chunk_size(10_000)
            broadcast = Broadcast(publisher, stream_id, gop=1000, start_ms=0x1000000)
            broadcast.send_setup()
            viewer = await clients.viewer("a")
            for _ in range(10):
                broadcast.send_video(150_000)
            await viewer.until(lambda: len(viewer.media()) == 12, "everything")
            assert numbers(viewer.media()) == list(range(10))

    with live_server(tmp_path, connection={"chunk_size": chunk_size}) as server:
        asyncio.run(scenario(server.port))


def test_metadata_reaches_those_who_watch_and_those_who_come(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=2)
            broadcast.send_setup()
            broadcast.send_video()
            watching = await clients.viewer("a")
            await watching.until(lambda: len(watching.media()) >= 3, "a picture")
            tagged = {"title": "first", "videocodecid": 7}
            publisher.send_media(RawMessage(DATA, 0, stream_id, amf0("@setDataFrame", "onMetaData", tagged)))
            broadcast.send_video()
            broadcast.send_video()
            await watching.until(lambda: any(b"first" in m.payload for m in watching.messages), "metadata")
            coming = await clients.viewer("a")
            await coming.until(lambda: len(coming.media()) >= 3, "a picture")
            found = [m.payload for m in coming.messages if m.type_id == DATA and b"onMetaData" in m.payload]
            assert len(found) == 1
            assert b"first" in found[0]
            assert b"setDataFrame" not in found[0]
            assert found[0][13] == 8, "an ECMA array"

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))
