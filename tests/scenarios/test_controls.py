"""What viewers switch while they watch: pause, audio and video."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, check_start, gaps, is_key, is_setup, number_of, numbers
from tests.support.raw_rtmp import AUDIO, VIDEO

Play = Callable[[RawClients, RawClient, Broadcast], Coroutine[None, None, None]]


def watch(tmp_path: Path, play: Play, **settings: object) -> None:
    """Run what a viewer does while a stream of 50 pictures a second with a key frame every 0.2 s goes on."""

    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=10)
            broadcast.send_setup()
            viewer = await clients.viewer("a")
            sending = asyncio.create_task(broadcast.run(fps=50, size=3000))
            await viewer.until(lambda: len(viewer.media()) > 20, "the stream")
            await play(clients, viewer, broadcast)
            broadcast.is_stopped = True
            await sending

    with live_server(tmp_path, **settings) as server:
        asyncio.run(scenario(server.port))


def test_a_paused_viewer_gets_nothing_and_goes_on_at_a_key_frame(tmp_path: Path) -> None:
    async def play(_clients: RawClients, viewer: RawClient, _broadcast: Broadcast) -> None:
        viewer.call("pause", 0, None, True, 0, stream_id=1)
        await viewer.until_code("NetStream.Pause.Notify")
        before = len(viewer.media())
        await asyncio.sleep(0.6)
        assert len(viewer.media()) == before
        viewer.call("pause", 0, None, False, 0, stream_id=1)
        await viewer.until_code("NetStream.Unpause.Notify")
        await viewer.until(lambda: len(viewer.media()) > before + 20, "the stream again")
        check_start(viewer.media())
        check_start(viewer.media()[before:])
        assert gaps(numbers(viewer.media())) == 1
        assert viewer.codes()[-4:] == ["NetStream.Pause.Notify", "event 1", "NetStream.Unpause.Notify", "event 0"]

    watch(tmp_path, play)


def test_a_viewer_that_pauses_before_its_first_picture_gets_none(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            publisher, stream_id = await clients.publisher("a")
            broadcast = Broadcast(publisher, stream_id, gop=25)
            broadcast.send_setup()
            sending = asyncio.create_task(broadcast.run(fps=50))
            await asyncio.sleep(0.1)
            viewer = await clients.viewer("a")
            await viewer.until_code("NetStream.Play.Start")
            viewer.call("pause", 0, None, True, 0, stream_id=1)
            await viewer.until_code("NetStream.Pause.Notify")
            await asyncio.sleep(0.6)
            assert viewer.media() == []
            sending.cancel()

    # To wait for the next key frame is to be without a place for a while.
    with live_server(tmp_path, app={"join": "next"}) as server:
        asyncio.run(scenario(server.port))


def test_audio_can_be_switched_off_and_on_while_pictures_go_on(tmp_path: Path) -> None:
    async def play(_clients: RawClients, viewer: RawClient, _broadcast: Broadcast) -> None:
        viewer.call("receiveAudio", 0, None, False, stream_id=1)
        await asyncio.sleep(0.3)
        before = len(viewer.media(AUDIO)), len(viewer.media(VIDEO))
        await asyncio.sleep(0.4)
        assert len(viewer.media(AUDIO)) == before[0]
        assert len(viewer.media(VIDEO)) > before[1] + 5
        viewer.call("receiveAudio", 0, None, True, stream_id=1)
        await viewer.until(lambda: len(viewer.media(AUDIO)) > before[0] + 5, "audio again")
        video = [number_of(m.payload, 1) for m in viewer.media(VIDEO) if not is_setup(m.payload)]
        assert {later - earlier for earlier, later in pairwise(video)} == {2}, "every picture came"
        assert {later - earlier for earlier, later in pairwise(numbers(viewer.media()))} == {1, 2}

    watch(tmp_path, play)


def test_video_can_be_switched_off_and_begins_again_with_a_key_frame(tmp_path: Path) -> None:
    async def play(_clients: RawClients, viewer: RawClient, _broadcast: Broadcast) -> None:
        viewer.call("receiveVideo", 0, None, False, stream_id=1)
        await asyncio.sleep(0.3)
        before = len(viewer.media(AUDIO)), len(viewer.media(VIDEO))
        await asyncio.sleep(0.4)
        assert len(viewer.media(VIDEO)) == before[1]
        assert len(viewer.media(AUDIO)) > before[0] + 5
        viewer.call("receiveVideo", 0, None, True, stream_id=1)
        await viewer.until(lambda: len(viewer.media(VIDEO)) > before[1] + 5, "video again", 2.0)
        pictures = [m for m in viewer.media(VIDEO)[before[1] :] if not is_setup(m.payload)]
        assert is_key(pictures[0].payload)
        numbers(viewer.media())

    watch(tmp_path, play)


def test_switches_in_quick_succession_leave_a_stream_in_order(tmp_path: Path) -> None:
    async def play(_clients: RawClients, viewer: RawClient, broadcast: Broadcast) -> None:
        for number in range(40):
            command = ("receiveAudio", "receiveVideo", "pause")[number % 3]
            is_on = bool(number // 3 % 2)
            viewer.call(command, 0, None, is_on, 0, stream_id=1)
            await asyncio.sleep(0.01)
        for command in ("receiveAudio", "receiveVideo"):
            viewer.call(command, 0, None, True, stream_id=1)
        viewer.call("pause", 0, None, False, 0, stream_id=1)
        target = broadcast.next_number + 40
        await viewer.until(lambda: numbers(viewer.media())[-1] > target, "the stream again", 5.0)
        found = numbers(viewer.media())
        assert gaps(found[-20:]) == 0

    watch(tmp_path, play)


def test_a_seek_in_a_live_stream_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def play(_clients: RawClients, viewer: RawClient, _broadcast: Broadcast) -> None:
        viewer.call("seek", 0, None, 1000, stream_id=1)
        await viewer.until_code("NetStream.Seek.Failed")
        before = len(viewer.media())
        await viewer.until(lambda: len(viewer.media()) > before + 20, "the stream")
        assert gaps(numbers(viewer.media())) == 0

    watch(tmp_path, play)


def test_a_second_play_on_the_same_message_stream_replaces_the_first(tmp_path: Path) -> None:
    async def play(clients: RawClients, viewer: RawClient, _broadcast: Broadcast) -> None:
        publisher, stream_id = await clients.publisher("b")
        other = Broadcast(publisher, stream_id, tag=2, gop=5)
        other.send_setup()
        for _ in range(10):
            other.send_video()
        await asyncio.sleep(0.3)  # a publisher that nobody watches is read a little later
        viewer.call("play", 9, None, "b", stream_id=1)
        await viewer.until(lambda: viewer.codes().count("NetStream.Play.Start") == 2, "the second")
        await asyncio.sleep(0.4)
        start = next(i for i, m in enumerate(viewer.messages) if b"Play.Start" in m.payload and i > 20)
        second = [m for m in viewer.messages[start:] if m.type_id in (AUDIO, VIDEO)]
        check_start(second)
        assert numbers(second, 2) == list(range(5, 10))

    watch(tmp_path, play)
