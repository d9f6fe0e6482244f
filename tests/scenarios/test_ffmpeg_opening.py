"""What a player made with FFmpeg is told so that it opens young streams. That it does is shown with the real one."""

import asyncio
from itertools import pairwise
from pathlib import Path

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import AVC_SETUP, Broadcast, gaps, numbers
from tests.support.raw_rtmp import AUDIO, DATA, VIDEO, RawMessage, amf0

FFMPEG = "LNX 9,0,124,2"
NOTICE = bytes.fromhex("0200086f6e5374617475730300 04636f6465 0200144e657453747265616d2e446174612e5374617274 000009")
METADATA = amf0("@setDataFrame", "onMetaData", {"framerate": 10.0})
METADATA_WITH_AUDIO = amf0("@setDataFrame", "onMetaData", {"framerate": 10.0, "audiocodecid": 10.0})
LOOKED_AT_MS = 90_000
LOOKBACK = {"lookback_s": 5.5}


def notices(viewer: RawClient) -> list[RawMessage]:
    return [message for message in viewer.messages if message.type_id == DATA and message.payload == NOTICE]


async def ffmpeg(clients: RawClients, name: str) -> RawClient:
    client = await clients.open()
    await client.play(name, calls_itself=FFMPEG)
    return client


async def stream(clients: RawClients, name: str, *, has_audio: bool, metadata: bytes | None) -> Broadcast:
    """A stream of ten frames a second that has just begun."""
    publisher, stream_id = await clients.publisher(name)
    broadcast = Broadcast(publisher, stream_id, gop=1000)
    if metadata is not None:
        publisher.send_media(RawMessage(DATA, 0, stream_id, metadata))
    publisher.send_media(RawMessage(VIDEO, 0, stream_id, AVC_SETUP))
    if has_audio:
        broadcast.send_audio()
    broadcast.send_video(step_ms=100)
    return broadcast


async def publish_for(seconds: float, *broadcasts: Broadcast, fps: int = 10) -> None:
    for _ in range(round(seconds * fps)):
        for broadcast in broadcasts:
            broadcast.send_video(step_ms=1000 // fps)
        await asyncio.sleep(1 / fps)


def test_ffmpeg_is_told_that_it_has_seen_enough_of_a_young_stream(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            one_track = await stream(clients, "one_track", has_audio=False, metadata=METADATA)
            bare = await stream(clients, "bare", has_audio=True, metadata=None)
            ordinary = await stream(clients, "ordinary", has_audio=True, metadata=METADATA)
            promising = await stream(clients, "promising", has_audio=False, metadata=METADATA_WITH_AUDIO)
            in_a_hurry = [await ffmpeg(clients, "one_track"), await ffmpeg(clients, "bare")]
            others = [await ffmpeg(clients, "ordinary"), await clients.viewer("one_track")]
            hopeful = await ffmpeg(clients, "promising")
            broadcasts = (one_track, bare, ordinary, promising)
            # A second track may come in its first moments: nobody is hurried before that is over.
            await publish_for(0.6, *broadcasts)
            assert [notices(viewer) for viewer in in_a_hurry] == [[], []]
            await publish_for(1.2, *broadcasts)
            for viewer in in_a_hurry:
                times_ms = [message.timestamp_ms for message in notices(viewer)]
                assert len(times_ms) > 32
                assert all(earlier < later for earlier, later in pairwise(times_ms))
                # Three of them pass before FFmpeg begins to count.
                assert times_ms[-1] - times_ms[3] >= LOOKED_AT_MS
                assert {message.stream_id for message in notices(viewer)} == {1}
            assert [notices(viewer) for viewer in others] == [[], []]
            assert notices(hopeful) == []
            said = len(notices(in_a_hurry[0]))
            await publish_for(1.4, *broadcasts)
            assert len(notices(hopeful)) == said
            assert len(notices(in_a_hurry[0])) == said, "once is enough"
            assert [gaps(numbers(viewer.media())) for viewer in in_a_hurry] == [0, 0]
            assert all(len(viewer.media(VIDEO)) > 30 for viewer in in_a_hurry)

    with live_server(tmp_path, log=LOOKBACK) as server:
        asyncio.run(scenario(server.port))


def test_one_that_has_begun_far_back_or_has_gone_or_may_not_is_told_nothing(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            broadcast = await stream(clients, "old", has_audio=False, metadata=METADATA)
            await publish_for(2.5, broadcast, fps=50)
            late, gone = await ffmpeg(clients, "old"), await ffmpeg(clients, "old")
            await late.until(lambda: bool(late.media(VIDEO)), "a picture")
            await gone.until(lambda: bool(gone.media(VIDEO)), "a picture")
            gone.call("deleteStream", 9.0, None, 1.0)
            await publish_for(0.7, broadcast, fps=50)
            assert len(numbers(late.media())) > 100, "it began two seconds back"
            assert notices(late) == notices(gone) == []
            assert not late.media(AUDIO)

    async def switched_off(port: int) -> None:
        async with RawClients(port) as clients:
            broadcast = await stream(clients, "young", has_audio=False, metadata=METADATA)
            viewer = await ffmpeg(clients, "young")
            await publish_for(2.5, broadcast)
            assert viewer.media(VIDEO)
            assert notices(viewer) == []

    with live_server(tmp_path, log={"lookback_s": 2.0}) as server:
        asyncio.run(scenario(server.port))
    with live_server(tmp_path) as server:
        asyncio.run(switched_off(server.port))
