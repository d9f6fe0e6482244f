"""Viewers that do everything at once: whatever they ask for and however they read, they get whole messages.

Each draws its deeds from a seed: plays that come, go, wait and fail on several message streams, switches, pings, and
reading in fits and starts. What they are sent is read strictly and every checksum is looked at.
"""

import asyncio
import random
import struct
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, gaps, is_setup, number_of, numbers
from tests.support.raw_rtmp import RawMessage

KIB = 1024
VIEWERS = 10
SECONDS = 5.0
STREAMS = {"a": 1, "b": 2}


def check(message: RawMessage) -> None:
    """Every byte is as it was published, whichever stream it is of."""
    payload = message.payload
    if not is_setup(payload):
        (tag,) = struct.unpack_from(">I", payload, 2 if payload[0] == 0xAF else 5)
        number_of(payload, tag)


async def misbehave(viewer: RawClient, dice: random.Random) -> None:
    """One deed after the other until the time is over."""
    await viewer.connect_app()
    for _ in range(3):
        await viewer.create_stream()
    end_at = asyncio.get_running_loop().time() + SECONDS
    is_reading = True
    while asyncio.get_running_loop().time() < end_at and not viewer.is_closed:
        stream_id = dice.randint(1, 3)
        match dice.choice(("play", "play", "stop", "pause", "audio", "video", "ping", "seek", "read", "read")):
            case "play":
                viewer.call("play", 9, None, dice.choice(("a", "a", "b", "missing")), stream_id=stream_id)
            case "stop":
                viewer.call("closeStream", 0, None, stream_id=stream_id)
            case "pause":
                viewer.call("pause", 0, None, dice.random() < 0.3, 0, stream_id=stream_id)
            case "audio":
                viewer.call("receiveAudio", 0, None, dice.random() < 0.7, stream_id=stream_id)
            case "video":
                viewer.call("receiveVideo", 0, None, dice.random() < 0.7, stream_id=stream_id)
            case "ping":
                viewer.send(RawMessage(4, 0, 0, struct.pack(">HI", 6, 1)), csid=2)
            case "seek":
                viewer.call("seek", 0, None, 0, stream_id=stream_id)
            case _:
                (viewer.transport.pause_reading if is_reading else viewer.transport.resume_reading)()
                is_reading = not is_reading
        await asyncio.sleep(dice.random() * 0.1)
    if not is_reading and not viewer.is_closed:
        viewer.transport.resume_reading()


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_viewers_do_they_get_whole_messages(tmp_path: Path, seed: int) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            running = []
            for name, tag in STREAMS.items():
                publisher, stream_id = await clients.publisher(name)
                publisher.set_chunk_size(64 * KIB)
                broadcast = Broadcast(publisher, stream_id, tag, gop=7)
                broadcast.send_setup()
                running.append(asyncio.create_task(broadcast.run(size=5 * KIB, key_size=150 * KIB)))
            witness = await clients.viewer("a")
            deeds = []
            for number in range(VIEWERS):
                viewer = await clients.open(16 * KIB)
                viewer.keeps_media = False
                viewer.on_media = check
                deeds.append(misbehave(viewer, random.Random(100 * seed + number)))
            await asyncio.gather(*deeds)
            for task in running:
                task.cancel()
            assert len(witness.media()) > 150
            assert gaps(numbers(witness.media())) == 0

    settings = {"app": {"play_wait_s": 0.3}, "ping_interval_s": 0.5, "log": {"max_segment_bytes": 64 * KIB}}
    with live_server(tmp_path, **settings) as server:
        asyncio.run(scenario(server.port))
