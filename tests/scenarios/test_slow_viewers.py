"""Viewers that read slowly or not at all: they skip to a key frame, never get half a message, and cost nobody else."""

import asyncio
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, check_start, gaps, is_key, is_setup, number_of, numbers
from tests.support.raw_rtmp import VIDEO, RawMessage

KIB = 1024
SMALL_BUFFER_BYTES = 16 * KIB
SHORT_LOG = {"max_age_s": 1.0, "min_segment_bytes": 32 * KIB, "max_segment_bytes": 64 * KIB}


def check_skips(media: list[RawMessage], tag: int = 1) -> int:
    """After each gap come set-up and a key frame, before anything else. How many gaps there were."""
    found, last, setups = 0, -1, 0
    for message in media:
        if is_setup(message.payload):
            setups += 1
            continue
        number = number_of(message.payload, tag)
        assert number > last
        if number != last + 1 and last >= 0:
            found += 1
            assert setups >= 1, f"no set-up between {last} and {number}"
            assert is_key(message.payload), f"no key frame between {last} and {number}"
        last, setups = number, 0
    return found


async def read_slowly(viewer: RawClient, piece_bytes: int, pause_s: float, is_enough: Callable[[], object]) -> None:
    """Read little pieces with pauses, as a slow line does."""
    viewer.transport.pause_reading()
    descriptor = viewer.transport.get_extra_info("socket").fileno()
    while not viewer.is_closed and not is_enough():
        try:
            data = os.read(descriptor, piece_bytes)
        except BlockingIOError:
            data = None
        except ConnectionError:
            data = b""
        if data == b"":
            viewer.transport.abort()
        elif data is not None:
            viewer.data_received(data)
        await asyncio.sleep(pause_s)
    if not viewer.is_closed:
        viewer.transport.resume_reading()


def test_a_viewer_that_stops_reading_is_closed_and_the_others_notice_nothing(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            good = await clients.viewer("a")
            stopped = [await clients.viewer("a", receive_buffer_bytes=SMALL_BUFFER_BYTES) for _ in range(20)]
            await asyncio.sleep(0.1)
            for viewer in stopped:
                viewer.transport.pause_reading()
            sending = asyncio.create_task(broadcast.run(size=20 * KIB))
            await asyncio.to_thread(server.wait_for, "connection_closed", 20, 8.0)
            broadcast.is_stopped = True
            await sending
            last = broadcast.next_number - 1
            await good.until(lambda: numbers(good.media())[-1] == last, "everything")
            assert gaps(numbers(good.media())) == 0

    with live_server(tmp_path, slow_viewer_s=2.0) as server:
        asyncio.run(scenario(server.port))
        assert all("no whole message" in text for text in server.heard("connection_closed")[:20])
        assert len(server.heard("viewer_stalled")) >= 20


def test_a_viewer_that_trickles_is_closed_when_no_whole_message_gets_through(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            viewer = await clients.viewer("a", receive_buffer_bytes=SMALL_BUFFER_BYTES)
            sending = asyncio.create_task(broadcast.run(fps=5, size=800 * KIB))
            trickling = asyncio.create_task(read_slowly(viewer, 10, 0.1, lambda: False))
            closed = await asyncio.to_thread(server.wait_for, "connection_closed", 1, 6.0)
            assert "no whole message delivered in 2 s" in closed[0]
            trickling.cancel()
            sending.cancel()

    with live_server(tmp_path, slow_viewer_s=2.0) as server:
        asyncio.run(scenario(server.port))


def test_a_viewer_that_stops_for_a_while_skips_to_a_key_frame(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=8)
            broadcast.send_setup()
            viewers = [await clients.viewer("a", receive_buffer_bytes=SMALL_BUFFER_BYTES) for _ in range(4)]
            sending = asyncio.create_task(broadcast.run(size=16 * KIB, key_size=90 * KIB))
            for number in range(3):
                for viewer in viewers:
                    viewer.transport.pause_reading()
                await asyncio.sleep(1.5 + number / 10)
                for viewer in viewers:
                    viewer.transport.resume_reading()
                await asyncio.sleep(0.5)
            broadcast.is_stopped = True
            await sending
            last = broadcast.next_number - 1
            for viewer in viewers:
                await viewer.until(lambda viewer=viewer: numbers(viewer.media())[-1] == last, "the newest")  # type: ignore[misc]
                check_start(viewer.media())
                assert check_skips(viewer.media()) >= 2

    with live_server(tmp_path, slow_viewer_s=5.0, log=SHORT_LOG) as server:
        asyncio.run(scenario(server.port))
        assert len(server.heard("viewer_skipped")) >= 8


@pytest.mark.parametrize("command", ["receiveAudio", "second stream"])
def test_a_viewer_with_wishes_of_its_own_skips_as_well(tmp_path: Path, command: str) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=8)
            broadcast.send_setup()
            viewer = await clients.open(SMALL_BUFFER_BYTES)
            await viewer.connect_app()
            play_id = await viewer.create_stream()
            if command == "second stream":
                play_id = await viewer.create_stream()
            viewer.call("play", 9, None, "a", stream_id=play_id)
            if command == "receiveAudio":
                viewer.call("receiveAudio", 0, None, False, stream_id=play_id)
            sending = asyncio.create_task(broadcast.run(size=16 * KIB, key_size=90 * KIB))
            for _ in range(2):
                viewer.transport.pause_reading()
                await asyncio.sleep(1.6)
                viewer.transport.resume_reading()
                await asyncio.sleep(0.5)
            broadcast.is_stopped = True
            await sending
            newest = broadcast.next_number - 2
            await viewer.until(lambda: number_of(viewer.media(VIDEO)[-1].payload, 1) == newest, "the newest")
            found = numbers(viewer.media())
            skips = [(a, b) for a, b in pairwise(found) if b - a > 2]
            keys = {number_of(m.payload, 1) for m in viewer.media(VIDEO) if is_key(m.payload)}
            assert len(skips) >= 1
            assert {later for _, later in skips} <= keys

    with live_server(tmp_path, slow_viewer_s=5.0, stalled_reply_s=5.0, log=SHORT_LOG) as server:
        asyncio.run(scenario(server.port))


def test_a_slow_viewer_with_wishes_of_its_own_stays_while_it_makes_progress(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=8)
            broadcast.send_setup()
            viewer = await clients.open(SMALL_BUFFER_BYTES)
            await viewer.connect_app()
            for _ in range(2):
                play_id = await viewer.create_stream()
            viewer.call("play", 9, None, "a", stream_id=play_id)
            sending = asyncio.create_task(broadcast.run(size=16 * KIB))
            began_at = asyncio.get_running_loop().time()
            await read_slowly(viewer, 8 * KIB, 0.04, lambda: asyncio.get_running_loop().time() - began_at > 5)
            assert not viewer.is_closed
            assert len(viewer.media()) > 20
            sending.cancel()

    with live_server(tmp_path, slow_viewer_s=1.5, stalled_reply_s=1.5, log=SHORT_LOG) as server:
        asyncio.run(scenario(server.port))


def test_pings_wait_for_the_end_of_a_message_that_is_half_out(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            viewer = await clients.viewer("a", receive_buffer_bytes=SMALL_BUFFER_BYTES)
            sending = asyncio.create_task(broadcast.run(fps=3, size=500 * KIB))
            began_at = asyncio.get_running_loop().time()
            await read_slowly(viewer, 12 * KIB, 0.01, lambda: asyncio.get_running_loop().time() - began_at > 5)
            broadcast.is_stopped = True
            await sending
            assert not viewer.is_closed
            assert viewer.codes().count("event 6") >= 3
            check_skips(viewer.media())
            assert len(viewer.media(VIDEO)) > 3

    # The sweep is once a second, so this is a ping at each.
    with live_server(tmp_path, ping_interval_s=0.1) as server:
        asyncio.run(scenario(server.port))


def test_a_viewer_that_lags_behind_a_gop_too_long_to_keep_waits_for_the_next(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=75)
            broadcast.send_setup()
            lagging = await clients.viewer("a", receive_buffer_bytes=SMALL_BUFFER_BYTES)
            good = await clients.viewer("a")
            sending = asyncio.create_task(broadcast.run(size=16 * KIB))
            await asyncio.sleep(0.3)
            lagging.transport.pause_reading()
            await asyncio.sleep(1.5)
            joining = await clients.viewer("a")
            lagging.transport.resume_reading()
            await asyncio.sleep(0.3)
            assert joining.media() == [], "the key frame is gone, and so is all that could be shown"
            for viewer in (lagging, joining):
                await viewer.until(
                    lambda viewer=viewer: viewer.media() and numbers(viewer.media())[-1] >= 155,  # type: ignore[misc]
                    "the next GOP",
                )
            broadcast.is_stopped = True
            await sending
            check_start(joining.media())
            assert numbers(joining.media())[0] == 150
            assert check_skips(lagging.media()) == 1
            last = broadcast.next_number - 1
            await good.until(lambda: numbers(good.media())[-1] == last, "everything")
            assert gaps(numbers(good.media())) == 0

    with live_server(tmp_path, log={"max_bytes": 300 * KIB, "min_segment_bytes": 32 * KIB}) as server:
        asyncio.run(scenario(server.port))


@pytest.mark.alone  # the kernel tells the memory of all sockets of the machine together
def test_a_crowd_that_reads_nothing_costs_little_memory(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            crowd = [await clients.viewer("a", receive_buffer_bytes=SMALL_BUFFER_BYTES) for _ in range(150)]
            for viewer in crowd:
                viewer.transport.pause_reading()
            before = server.memory()
            sending = asyncio.create_task(broadcast.run(size=60 * KIB))
            highest = before
            for _ in range(15):
                await asyncio.sleep(0.2)
                highest = max(highest, server.memory(), key=lambda memory: memory.total_bytes)
            sending.cancel()
            assert highest.own_bytes - before.own_bytes < 8 * KIB * KIB
            assert highest.memfd_bytes < 16 * KIB * KIB
            # What the kernel holds for each: what was not sent (128 kB), and what is on its way.
            assert highest.socket_bytes - before.socket_bytes < 150 * 512 * KIB

    with live_server(tmp_path, slow_viewer_s=20.0, log={"max_bytes": 8 * KIB * KIB}) as server:
        asyncio.run(scenario(server.port))


def test_a_play_that_comes_when_another_was_turned_away_does_not_cut_into_a_message(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=5)
            broadcast.send_setup()
            viewer = await clients.open(SMALL_BUFFER_BYTES)
            await viewer.connect_app()
            for name, play_id in (("a", 1), ("missing", 2)):
                assert await viewer.create_stream() == play_id
                viewer.call("play", 9, None, name, stream_id=play_id)
            sending = asyncio.create_task(broadcast.run(fps=10, size=300 * KIB))
            await viewer.until_code("NetStream.Play.StreamNotFound")
            await asyncio.sleep(0.3)
            viewer.transport.pause_reading()
            await asyncio.sleep(0.6)
            viewer.call("play", 9, None, "other", stream_id=2)
            await asyncio.sleep(0.3)
            viewer.transport.resume_reading()
            before = len(viewer.media())
            await viewer.until(lambda: len(viewer.media()) > before + 12, "the stream again")
            broadcast.is_stopped = True
            await sending
            check_skips(viewer.media())

    with live_server(tmp_path, app={"play_wait_s": 0.2}) as server:
        asyncio.run(scenario(server.port))
