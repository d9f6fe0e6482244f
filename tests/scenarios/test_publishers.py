"""Publishers that go, come back, are replaced or refused, and what their viewers see of it."""

import asyncio
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast, check_start, gaps, is_setup, numbers

GRACE = {"grace_s": 1.0}


@pytest.mark.parametrize("way", ["reset", "closed"])
def test_a_publisher_that_is_lost_and_returns_goes_on_in_the_same_time(tmp_path: Path, way: str) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            first = Broadcast(publisher, stream_id, 1, start_ms=500_000)
            first.send_setup()
            viewer = await clients.viewer("a")
            for _ in range(20):
                first.send_video()
                await asyncio.sleep(0.01)
            await viewer.until(lambda: len(viewer.media()) == 22, "the first publication")
            publisher.reset() if way == "reset" else publisher.transport.close()
            await asyncio.sleep(0.5)
            again, stream_id = await clients.publisher("a")
            second = Broadcast(again, stream_id, 2)
            second.send_setup()
            for _ in range(20):
                second.send_video()
                second.send_audio()
            await viewer.until(lambda: len(viewer.media()) == 64, "the second publication")
            media = viewer.media()
            assert numbers(media[:22], 1) == list(range(20))
            assert [is_setup(message.payload) for message in media[22:25]] == [True, True, False]
            assert numbers(media[22:], 2) == list(range(40))
            times = [message.timestamp_ms for message in media]
            assert all(later >= earlier for earlier, later in pairwise(times))
            assert 400 <= times[22] - times[21] <= 900, "the wall time that passed"
            assert [later - earlier for earlier, later in pairwise(times[24:])][:4] == [40, 0, 40, 0]
            assert "NetStream.Play.UnpublishNotify" not in viewer.codes()

    with live_server(tmp_path, app={"grace_s": 3.0}) as server:
        asyncio.run(scenario(server.port))


def test_when_the_grace_is_over_viewers_are_told_that_the_stream_is(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            broadcast.send_video()
            viewer = await clients.viewer("a")
            await viewer.until(lambda: len(viewer.media()) == 3, "a picture")
            publisher.reset()
            await viewer.until_code("NetStream.Play.Stop", 4.0)
            codes = viewer.codes()
            assert codes[-3:] == ["NetStream.Play.UnpublishNotify", "event 1", "NetStream.Play.Stop"]

    with live_server(tmp_path, app=GRACE) as server:
        asyncio.run(scenario(server.port))
        server.wait_for("stream_closed")
        server.wait_until_empty()


def test_one_who_joins_during_the_grace_gets_no_stale_picture(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            first = Broadcast(publisher, stream_id, 1)
            first.send_setup()
            for _ in range(15):
                first.send_video()
            await asyncio.sleep(0.4)
            publisher.reset()
            await asyncio.sleep(0.1)
            viewer = await clients.viewer("a")
            await viewer.until_code("NetStream.Play.Start")
            await asyncio.sleep(0.4)
            assert viewer.media() == []
            again, stream_id = await clients.publisher("a")
            second = Broadcast(again, stream_id, 2, gop=1000)
            second.send_setup()
            for _ in range(5):
                second.send_video()
            await viewer.until(lambda: len(viewer.media()) == 7, "the second publication")
            check_start(viewer.media())
            assert numbers(viewer.media(), 2) == list(range(5))

    with live_server(tmp_path, app={"grace_s": 3.0, "keyframe_wait_s": 0.2}) as server:
        asyncio.run(scenario(server.port))


def test_where_the_app_says_so_the_second_publisher_takes_over(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            first = Broadcast(publisher, stream_id, 1, start_ms=90_000)
            first.send_setup()
            viewer = await clients.viewer("a")
            for _ in range(10):
                first.send_video()
            await viewer.until(lambda: len(viewer.media()) == 12, "the first")
            again, stream_id = await clients.publisher("a")
            await publisher.until_code("NetStream.Unpublish.Success")
            await publisher.until_closed()
            second = Broadcast(again, stream_id, 2)
            second.send_setup()
            for _ in range(10):
                second.send_video()
            await viewer.until(lambda: len(viewer.media()) == 24, "the second")
            assert numbers(viewer.media()[12:], 2) == list(range(10))
            times = [message.timestamp_ms for message in viewer.media()]
            assert times[14] > times[11]
            assert "NetStream.Play.UnpublishNotify" not in viewer.codes()

    with live_server(tmp_path, app={"may_replace_publisher": True}) as server:
        asyncio.run(scenario(server.port))


def test_a_second_publisher_is_refused_while_the_first_is_alive(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            viewer = await clients.viewer("a")
            sending = asyncio.create_task(broadcast.run())
            second = await clients.open()
            await second.connect_app()
            await second.create_stream()
            second.call("publish", 9, None, "a", "live", stream_id=1)
            await second.until_code("NetStream.Publish.BadName", 3.0)
            second.call("publish", 10, None, "b", "live", stream_id=1)
            await second.until_code("NetStream.Publish.Start")
            broadcast.is_stopped = True
            await sending
            last = broadcast.next_number - 1
            await viewer.until(lambda: numbers(viewer.media())[-1:] == [last], "the first goes on")
            assert gaps(numbers(viewer.media())) == 0

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_a_connection_cannot_publish_the_same_name_twice(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            assert await publisher.create_stream() == 2
            publisher.call("publish", 9, None, "a", "live", stream_id=2)
            await publisher.until_code("NetStream.Publish.BadName", 5.0)
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            broadcast.send_video()
            viewer = await clients.viewer("a")
            await viewer.until(lambda: len(viewer.media()) == 3, "the first goes on")

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


_STOPPED_PUBLISHER = """
import asyncio, sys
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast

async def publish():
    async with RawClients(int(sys.argv[1])) as clients:
        publisher, stream_id = await clients.publisher("a")
        broadcast = Broadcast(publisher, stream_id)
        broadcast.send_setup()
        print("publishing", flush=True)
        await broadcast.run()

asyncio.run(publish())
"""


def test_a_publisher_whose_process_is_stopped_is_replaced_after_a_while(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            second = await clients.open()
            await second.connect_app()
            await second.create_stream()
            asked_at = asyncio.get_running_loop().time()
            second.call("publish", 9, None, "a", "live", stream_id=1)
            await second.until_code("NetStream.Publish.Start", 5.0)
            assert asyncio.get_running_loop().time() - asked_at > 0.9, "the first is asked for a sign of life"

    with live_server(tmp_path) as server:
        command = [sys.executable, "-c", _STOPPED_PUBLISHER, str(server.port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
            try:
                assert first.stdout is not None
                assert first.stdout.readline() == b"publishing\n"
                server.wait_for("codecs_known")
                os.kill(first.pid, signal.SIGSTOP)
                asyncio.run(asyncio.sleep(0.7))  # what is under way to the server is no sign of life
                asyncio.run(scenario(server.port))
            finally:
                first.kill()


@pytest.mark.alone
def test_a_publisher_that_sends_nothing_is_replaced_at_once(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            silent, _ = await clients.publisher("a")
            await asyncio.sleep(3.1)
            asked_at = asyncio.get_running_loop().time()
            await clients.publisher("a")
            assert asyncio.get_running_loop().time() - asked_at < 0.5
            await silent.until_closed()

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


@pytest.mark.parametrize("command", ["FCUnpublish", "closeStream", "deleteStream"])
def test_a_publisher_that_says_goodbye_ends_the_stream_at_once(tmp_path: Path, command: str) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=1000)
            broadcast.send_setup()
            viewers = [await clients.viewer("a") for _ in range(3)]
            for viewer in viewers:
                # In another worker it may be heard later than what the publisher says meanwhile.
                await viewer.until_code("NetStream.Play.Start")
            for _ in range(10):
                broadcast.send_video()
            match command:
                case "FCUnpublish":
                    publisher.call("FCUnpublish", 7, None, "a")
                case "closeStream":
                    publisher.call("closeStream", 0, None, stream_id=stream_id)
                case _:
                    publisher.call("deleteStream", 0, None, stream_id)
            for viewer in viewers:
                await viewer.until_code("NetStream.Play.Stop", 0.9)
                assert viewer.codes()[-3:] == ["NetStream.Play.UnpublishNotify", "event 1", "NetStream.Play.Stop"]
                assert numbers(viewer.media()) == list(range(10)), "the tail is not cut off"
            again, _ = await clients.publisher("a")
            assert not again.is_closed

    with live_server(tmp_path, app={"grace_s": 30.0}) as server:
        asyncio.run(scenario(server.port))


def test_publishers_and_viewers_that_break_off_leave_nothing_behind(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            witness, witness_id = await clients.publisher("witness")
            broadcast = Broadcast(witness, witness_id)
            broadcast.send_setup()
            viewer = await clients.viewer("witness")
            sending = asyncio.create_task(broadcast.run())
            for number in range(30):
                publisher, stream_id = await clients.publisher(f"s{number}")
                doomed = Broadcast(publisher, stream_id)
                doomed.send_setup()
                watching = [await clients.viewer(f"s{number}"), await clients.viewer("witness")]
                doomed.send_video(50_000)
                await watching[0].until(lambda seen=watching[0]: len(seen.media()) == 3, "a picture")  # type: ignore[misc]
                doomed.send_video(50_000)
                for client in watching if number % 2 else (publisher, *watching):
                    client.reset()
                publisher.reset()
            broadcast.is_stopped = True
            await sending
            last = broadcast.next_number - 1
            await viewer.until(lambda: numbers(viewer.media())[-1] == last, "the witness")
            assert gaps(numbers(viewer.media())) == 0

    with live_server(tmp_path, app=GRACE) as server:
        before = server.descriptors()
        asyncio.run(scenario(server.port))
        server.wait_for("stream_closed", 31)
        server.wait_until_empty(before)


def test_one_connection_that_plays_a_stream_twice_and_breaks_off_does_not_hold_up_its_end(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            broadcast.send_video()
            for _ in range(5):
                twice = await clients.open()
                await twice.connect_app()
                for play_id in (1, 2):
                    assert await twice.create_stream() == play_id
                    twice.call("play", 9, None, "a", stream_id=play_id)
                await twice.until(lambda twice=twice: len(twice.media()) == 6, "both")  # type: ignore[misc]
                twice.reset()
            publisher.call("deleteStream", 0, None, stream_id)
            await clients.publisher("a")

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))
