"""Joining: whoever comes, whenever, gets set-up first, then a key frame, and from there on everything."""

import asyncio
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast, check_start, gaps, is_setup, numbered, numbers
from tests.support.raw_rtmp import AUDIO, DATA, VIDEO, RawMessage


def test_a_late_joiner_gets_set_up_and_the_last_key_frame_at_once(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=1000)
            broadcast.send_setup()
            for _ in range(50):
                broadcast.send_video()
                broadcast.send_audio()
            await asyncio.sleep(0.3)
            viewer = await clients.viewer("a")
            # Nothing more is published: all of it must come from what the server has kept.
            await viewer.until(lambda: len(viewer.media()) >= 102, "the whole GOP", 2.0)
            check_start(viewer.media())
            assert numbers(viewer.media()) == list(range(100))
            metadata = [message for message in viewer.messages if message.type_id == DATA]
            assert b"onMetaData" in metadata[-1].payload
            assert b"videocodecid" in metadata[-1].payload
            assert viewer.messages.index(metadata[-1]) < viewer.messages.index(viewer.media()[0])

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_a_play_before_the_publish_waits_and_misses_nothing(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            viewer = await clients.viewer("a")
            await asyncio.sleep(0.2)
            assert "NetStream.Play.Start" not in viewer.codes()
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=1000)
            broadcast.send_setup()
            for _ in range(25):
                broadcast.send_video()
            await viewer.until(lambda: len(viewer.media()) == 27, "everything")
            check_start(viewer.media())
            assert numbers(viewer.media()) == list(range(25))

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_a_play_that_waits_in_vain_is_told_so(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            viewer = await clients.viewer("never")
            await viewer.until_code("NetStream.Play.StreamNotFound", 4.0)

    with live_server(tmp_path, app={"play_wait_s": 0.5}) as server:
        asyncio.run(scenario(server.port))


def test_a_viewer_may_wait_for_the_next_key_frame_if_the_app_says_so(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=10)
            broadcast.send_setup()
            for _ in range(15):
                broadcast.send_video()
            await asyncio.sleep(0.3)
            viewer = await clients.viewer("a")
            await viewer.until_code("NetStream.Play.Start")
            await asyncio.sleep(0.2)
            assert viewer.media() == []
            for _ in range(10):
                broadcast.send_video()
            await viewer.until(lambda: len(viewer.media()) == 7, "the next GOP")
            check_start(viewer.media())
            assert numbers(viewer.media()) == list(range(20, 25))

    with live_server(tmp_path, app={"join": "next"}) as server:
        asyncio.run(scenario(server.port))


@pytest.mark.parametrize(("app", "within_s"), [({"join": "live"}, 1.0), ({"keyframe_wait_s": 0.5}, 3.0)])
def test_without_a_key_frame_a_viewer_begins_at_the_live_edge_with_set_up(
    tmp_path: Path, app: dict[str, object], within_s: float
) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            publisher.send_media(RawMessage(VIDEO, 0, stream_id, bytes.fromhex("17 00 000000 01 42c01e")))
            sending = asyncio.create_task(_send_inter_frames(publisher, stream_id))
            await asyncio.sleep(0.3)
            viewer = await clients.viewer("a")
            await viewer.until(lambda: len(viewer.media()) > 5, "live pictures", within_s)
            assert is_setup(viewer.media()[0].payload)
            found = numbers(viewer.media())
            assert found[0] > 0
            assert gaps(found) == 0
            sending.cancel()

    with live_server(tmp_path, app=app) as server:
        asyncio.run(scenario(server.port))


async def _send_inter_frames(publisher: object, stream_id: int) -> None:
    for number in range(1000):
        publisher.send_media(RawMessage(VIDEO, number * 20, stream_id, numbered("inter", 1, number)))  # type: ignore[attr-defined]
        await asyncio.sleep(0.02)


@pytest.mark.alone
def test_audio_alone_is_joined_at_once_and_sent_without_waiting_for_pictures(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            publisher.send_media(RawMessage(AUDIO, 0, stream_id, bytes.fromhex("af 00 1210")))
            broadcast = Broadcast(publisher, stream_id)
            for _ in range(10):
                broadcast.send_audio()
            await asyncio.sleep(0.3)
            viewer = await clients.viewer("a")
            await viewer.until(lambda: len(viewer.media()) >= 11, "what was kept", 1.0)
            for _ in range(5):
                before = len(viewer.media())
                sent_at = asyncio.get_running_loop().time()
                broadcast.send_audio()
                await viewer.until(lambda before=before: len(viewer.media()) > before, "one more")  # type: ignore[misc]
                assert asyncio.get_running_loop().time() - sent_at < 0.5
            assert numbers(viewer.media()) == list(range(15))
            metadata = next(m.payload for m in viewer.messages if b"onMetaData" in m.payload)
            assert b"audiocodecid" in metadata
            assert b"videocodecid" not in metadata

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_when_video_stops_audio_goes_on_for_those_who_watch_and_those_who_come(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id)
            broadcast.send_setup()
            watching = await clients.viewer("a")
            for _ in range(5):
                broadcast.send_video()
            await watching.until(lambda: len(watching.media()) == 7, "the pictures")
            for _ in range(30):
                broadcast.send_audio()
                await asyncio.sleep(0.05)
            coming = await clients.viewer("a")
            await coming.until(lambda: len(coming.media()) > 3, "audio", 1.0)
            broadcast.send_audio()
            last = broadcast.next_number - 1
            for viewer in (watching, coming):
                await viewer.until(lambda viewer=viewer: numbers(viewer.media())[-1] == last, "the newest")  # type: ignore[misc]
            assert gaps(numbers(watching.media())) == 0
            assert gaps(numbers(coming.media())) == 0
            assert numbers(coming.media())[0] > 5, "no picture that is long out of date"

    with live_server(tmp_path, log={"max_age_s": 0.5, "min_segment_bytes": 500}) as server:
        asyncio.run(scenario(server.port))


def test_queries_are_no_part_of_names_and_every_app_has_its_own(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a?token=secret", "live?x=1")
            other, other_id = await clients.publisher("a", "other")
            broadcasts = [Broadcast(publisher, stream_id, 1), Broadcast(other, other_id, 2)]
            for broadcast in broadcasts:
                broadcast.send_setup()
                broadcast.send_video()
            viewers = [await clients.viewer("a?session=7", app) for app in ("live/", "live?y", "other")]
            for viewer, tag in zip(viewers, (1, 1, 2), strict=True):
                await viewer.until(lambda viewer=viewer: len(viewer.media()) == 3, "a picture")  # type: ignore[misc]
                assert numbers(viewer.media(), tag) == [0]

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_a_play_on_message_stream_2_is_sent_everything_on_it(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=1000)
            broadcast.send_setup()
            viewer = await clients.open()
            await viewer.connect_app()
            assert [await viewer.create_stream(), await viewer.create_stream()] == [1, 2]
            viewer.call("play", 9, None, "a", stream_id=2)
            for number in range(40):
                broadcast.send_video(20_000 if number % 10 == 0 else 300)
            await viewer.until(lambda: len(viewer.media()) == 42, "everything")
            check_start(viewer.media())
            assert numbers(viewer.media()) == list(range(40))
            assert {message.stream_id for message in viewer.media()} == {2}

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))


def test_two_plays_on_one_connection_are_kept_apart_and_one_may_end(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            broadcasts = []
            for tag, name in ((1, "a"), (2, "b")):
                publisher, stream_id = await clients.publisher(name)
                broadcasts.append(Broadcast(publisher, stream_id, tag))
                broadcasts[-1].send_setup()
                broadcasts[-1].send_video()
            viewer = await clients.open()
            await viewer.connect_app()
            for stream_id, name in ((1, "a"), (2, "b")):
                assert await viewer.create_stream() == stream_id
                viewer.call("play", 9, None, name, stream_id=stream_id)

            def of(stream_id: int) -> list[RawMessage]:
                return [message for message in viewer.media() if message.stream_id == stream_id]

            for _ in range(30):
                for broadcast in broadcasts:
                    broadcast.send_video()
                await asyncio.sleep(0.005)
            await viewer.until(lambda: len(of(1)) == len(of(2)) == 33, "both streams")
            viewer.call("deleteStream", 0, None, 2)
            await asyncio.sleep(0.1)
            for _ in range(30):
                for broadcast in broadcasts:
                    broadcast.send_video()
                await asyncio.sleep(0.005)
            await viewer.until(lambda: len(of(1)) == 63, "the stream that is left")
            assert numbers(of(1), 1) == list(range(61))
            assert numbers(of(2), 2) == list(range(31))

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))
