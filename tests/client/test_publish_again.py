"""Publishing to a server that asks its clients to come back: elsewhere, at a key frame, with nothing lost or twice."""

import asyncio

from penstock.client import publish
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.protocol.capabilities import CapsEx
from penstock.protocol.events import ConnectRequested, DataReceived, MediaReceived, PublishEnded
from tests.client.peer import Peer, peer_server

SETUP = frame_of(FrameKind.VIDEO, 0, bytes.fromhex("1700000000") + b"avc")
BARE_METADATA = bytes.fromhex("02000a6f6e4d65746144617461") + bytes.fromhex("0800000000000009")


def key(timestamp_ms: int) -> Frame:
    return frame_of(FrameKind.VIDEO, timestamp_ms, bytes.fromhex("1701000000") + b"key")


def inter(timestamp_ms: int) -> Frame:
    return frame_of(FrameKind.VIDEO, timestamp_ms, bytes.fromhex("2701000000") + b"inter")


def times(peer: Peer) -> list[int]:
    """Of what came behind the sequence header."""
    return [each.timestamp_ms for each in peer.events if isinstance(each, MediaReceived) and each.payload[1]]


def test_the_stream_goes_on_elsewhere_from_the_next_key_frame_on() -> None:
    async def run() -> tuple[Peer, Peer, int]:
        async with peer_server() as first, peer_server() as second:
            async with publish(first.url("test"), reconnect=True) as stream:
                for frame in (frame_of(FrameKind.DATA, 0, BARE_METADATA), SETUP, key(0), inter(40)):
                    await stream.send(frame)
                peer = first.peers[0]
                peer.session.request_reconnect("moving", second.url("").rstrip("/"))
                await peer.flush()
                # Frames between key frames go where they went, also when the other connection is there.
                await second.wait_for(ConnectRequested)
                while "createStream" not in str([message.payload for message in second.peers[0].messages()]):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                await stream.send(inter(80))
                await stream.send(key(120))
                await stream.send(inter(160))
                reconnects = stream.reconnects
            await second.wait_for(PublishEnded)
            await first.wait_for(PublishEnded)
            return peer, second.peers[0], reconnects

    old, new, reconnects = asyncio.run(run())
    assert (times(old), times(new), reconnects) == ([0, 40, 80], [120, 160], 1)
    setup = [each.payload for each in new.events if isinstance(each, MediaReceived) and not each.payload[1]]
    assert setup == [SETUP.payload]
    assert [each.name for each in new.events if isinstance(each, DataReceived)] == ["onMetaData"]


def test_only_those_who_want_it_say_that_they_come_back() -> None:
    async def run() -> list[CapsEx]:
        async with peer_server() as server:
            for reconnect in (False, True):
                async with publish(server.url("test"), reconnect=reconnect):
                    pass
            events = [event for peer in server.peers for event in peer.events]
            return [event.capabilities.caps_ex for event in events if isinstance(event, ConnectRequested)]

    without, with_it = asyncio.run(run())
    assert not without & CapsEx.RECONNECT
    assert with_it & CapsEx.RECONNECT


def test_a_server_that_asks_and_cannot_be_reached_again_is_used_to_its_end() -> None:
    async def run() -> list[int]:
        async with peer_server() as server:
            async with publish(server.url("test"), reconnect=True) as stream:
                await stream.send(key(0))
                peer = server.peers[0]
                peer.session.request_reconnect("moving", "rtmp://127.0.0.1:1/live")
                await peer.flush()
                for timestamp_ms in range(40, 400, 40):
                    await stream.send(key(timestamp_ms))
                    await asyncio.sleep(0.01)
            await server.wait_for(PublishEnded)
            return times(peer)

    assert asyncio.run(run()) == list(range(0, 400, 40))
