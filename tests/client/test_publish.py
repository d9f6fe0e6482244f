"""Publishing: what goes over the wire, to the byte by another reader, and what a server can do against it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from penstock.client import PublishStream, Timeouts, publish
from penstock.errors import ProtocolViolation, RemoteLost, RemoteRefused
from penstock.media.frame import FrameKind, frame_of
from penstock.protocol.capabilities import CapsEx
from penstock.protocol.command import Error
from penstock.protocol.events import (
    ConnectRequested,
    Event,
    HandshakeCompleted,
    MediaReceived,
    PongReceived,
    PublishEnded,
    PublishRequested,
)
from penstock.protocol.status import StatusCode
from tests.client.peer import LOOPBACK, Peer, peer_server, raw_server
from tests.support.independent_rtmp import command_names, command_values
from tests.support.samples import DATA, golden_samples

KEY_FRAME = frame_of(FrameKind.VIDEO, 40, bytes.fromhex("1701000000000000026588"))
BARE_METADATA = bytes.fromhex("02000a6f6e4d65746144617461") + bytes.fromhex("080000000000" + "0009")
WRAPPED_METADATA = bytes.fromhex("02000d40736574446174614672616d65") + BARE_METADATA
SHORT = Timeouts(connect_s=1.0, answer_s=0.1, stall_s=0.1)


async def send_until_failure(stream: PublishStream) -> None:
    for _ in range(2000):
        await stream.send(KEY_FRAME)
        await asyncio.sleep(0.005)


def test_a_stream_is_announced_published_and_ended_as_encoders_do() -> None:
    async def run() -> Peer:
        async with peer_server() as server:
            async with publish(server.url("test?key=1")) as stream:
                await stream.send(KEY_FRAME)
            await server.wait_for(PublishEnded)
            return server.peers[0]

    peer = asyncio.run(run())
    messages = peer.messages()
    assert command_names(messages) == [
        "connect",
        "releaseStream",
        "FCPublish",
        "createStream",
        "publish",
        "FCUnpublish",
        "deleteStream",
    ]
    (request,) = [event for event in peer.events if isinstance(event, PublishRequested)]
    assert (request.name, request.query) == ("test", "key=1")
    assert [(each.timestamp, each.payload) for each in messages if each.type_id == 9] == [(40, KEY_FRAME.payload)]


def test_what_is_sent_arrives_in_order_and_to_the_byte() -> None:
    samples = [each for each in golden_samples("ffmpeg_publish") if each.type_id != DATA]

    async def run() -> tuple[PublishStream, list[Event]]:
        async with peer_server() as server:
            async with publish(server.url()) as stream:
                for sample in samples:
                    await stream.send(frame_of(FrameKind(sample.type_id), sample.timestamp_ms, sample.payload))
            await server.wait_for(PublishEnded)
            return stream, server.peers[0].events

    stream, events = asyncio.run(run())
    media = [event for event in events if isinstance(event, MediaReceived)]
    assert [(each.type_id, each.timestamp_ms, each.payload) for each in media] == samples
    assert (stream.sent_frames, stream.sent_bytes) == (len(samples), sum(len(each.payload) for each in samples))


def test_metadata_goes_out_wrapped_once() -> None:
    async def run() -> Peer:
        async with peer_server() as server:
            async with publish(server.url()) as stream:
                await stream.send(frame_of(FrameKind.DATA, 0, BARE_METADATA))
                await stream.send(frame_of(FrameKind.DATA, 0, WRAPPED_METADATA))
                await stream.send(frame_of(FrameKind.DATA, 7, bytes.fromhex("02000a6f6e43756550 6f696e7405")))
                await stream.send_metadata({"width": 640.0})
            await server.wait_for(PublishEnded)
            return server.peers[0]

    data = [message for message in asyncio.run(run()).messages() if message.type_id == DATA]
    assert [command_values(message)[:2] for message in data] == [
        ["@setDataFrame", "onMetaData"],
        ["@setDataFrame", "onMetaData"],
        ["onCuePoint", None],
        ["@setDataFrame", "onMetaData"],
    ]
    assert command_values(data[3])[2] == {"width": 640.0}


def test_enhanced_rtmp_is_announced_without_what_only_players_do() -> None:
    async def run() -> ConnectRequested:
        async with peer_server() as server, publish(server.url()):
            return await server.wait_for(ConnectRequested)

    request = asyncio.run(run())
    assert request.capabilities.caps_ex == CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.NANOSECOND_OFFSET
    assert request.capabilities.four_cc_list == ("*",)
    assert request.tc_url is not None
    assert request.tc_url.endswith("/live")


def test_pings_are_answered_while_nothing_is_sent() -> None:
    async def run() -> PongReceived:
        async with peer_server() as server, publish(server.url()):
            server.peers[0].session.send_ping(1234)
            await server.peers[0].flush()
            return await server.wait_for(PongReceived)

    assert asyncio.run(run()).timestamp_ms == 1234


def test_a_refused_connect_tells_code_and_reason() -> None:
    async def refuse(peer: Peer, event: Event) -> bool:
        if isinstance(event, ConnectRequested):
            peer.session.reject_connect("no such\napp")
        return isinstance(event, ConnectRequested)

    async def run() -> None:
        async with peer_server(refuse) as server, publish(server.url()):
            pass

    with pytest.raises(RemoteRefused, match=r"it refused connect: NetConnection.Connect.Rejected \(no such\\x0aapp\)"):
        asyncio.run(run())


def test_a_refused_publish_tells_code_and_reason() -> None:
    async def refuse(peer: Peer, event: Event) -> bool:
        if isinstance(event, PublishRequested):
            peer.session.reject_publish(event.stream_id, "taken")
        return isinstance(event, PublishRequested)

    async def run() -> None:
        async with peer_server(refuse) as server, publish(server.url()):
            pass

    with pytest.raises(RemoteRefused) as refusal:
        asyncio.run(run())
    assert refusal.value.code == "NetStream.Publish.BadName"
    assert "taken" in str(refusal.value)


def test_a_server_that_knows_no_announcements_is_published_to_all_the_same() -> None:
    async def refuse_announcements(peer: Peer, event: Event) -> bool:
        if isinstance(event, ConnectRequested):
            peer.session.accept_connect()
            # The numbers of the two calls that will come; a server that answers ahead of them saves us a second one.
            for transaction_id in (2.0, 3.0):
                peer.session._send_command(Error(transaction_id, (None, {"code": "NetConnection.Call.Failed"})))
        return isinstance(event, ConnectRequested)

    async def run() -> int:
        async with peer_server(refuse_announcements) as server, publish(server.url()) as stream:
            await stream.send(KEY_FRAME)
            return stream.sent_frames

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize("code", [StatusCode.PUBLISH_DENIED, StatusCode.UNPUBLISH_SUCCESS])
def test_a_stream_that_the_server_breaks_off_is_heard_of_by_the_next_send(code: StatusCode) -> None:
    async def run() -> None:
        async with peer_server() as server, publish(server.url()) as stream:
            await stream.send(KEY_FRAME)
            await server.wait_for(MediaReceived)
            peer = server.peers[0]
            peer.session.end_publish(1, "another one came", code)
            await peer.flush()
            await send_until_failure(stream)

    with pytest.raises(RemoteRefused, match="another one came") as refusal:
        asyncio.run(run())
    assert refusal.value.code == code


def test_a_server_that_goes_away_is_heard_of_by_the_next_send() -> None:
    async def run() -> None:
        async with peer_server() as server, publish(server.url()) as stream:
            server.peers[0].writer.close()
            await send_until_failure(stream)

    with pytest.raises(RemoteLost, match=r"closed the connection|broke"):
        asyncio.run(run())


def test_a_server_that_reads_nothing_holds_the_sender_back_and_is_then_given_up() -> None:
    async def stop_reading(peer: Peer, event: Event) -> bool:
        if isinstance(event, MediaReceived):
            await asyncio.sleep(60)
        return False

    async def run() -> int:
        large = frame_of(FrameKind.VIDEO, 0, b"\x17\x01\0\0\0" + bytes(1_000_000))
        async with peer_server(stop_reading) as server, publish(server.url(), timeouts=SHORT) as stream:

            async def send_all() -> None:
                for _ in range(100):
                    await stream.send(large)

            with pytest.raises(RemoteLost, match=r"read nothing for 0\.1 s"):
                await send_all()
            return stream.sent_frames

    assert asyncio.run(run()) < 50


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


async def say_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200)
    await say_nothing(reader, writer)


async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@contextlib.asynccontextmanager
async def nobody() -> AsyncIterator[int]:
    async with raw_server(hang_up) as port:
        pass
    yield port


@pytest.mark.parametrize(
    ("handler", "kind", "complaint"),
    [
        (say_nothing, RemoteLost, r"no handshake within 0\.1 s"),
        (say_nonsense, ProtocolViolation, "version"),
        (hang_up, RemoteLost, "closed the connection|broke"),
        (None, RemoteLost, "no connection: Connection refused"),
    ],
)
def test_what_is_no_server_is_told_apart(handler: object, kind: type[Exception], complaint: str) -> None:
    async def run() -> None:
        served = nobody() if handler is None else raw_server(handler)  # type: ignore[arg-type]
        async with served as port, publish(f"rtmp://{LOOPBACK}:{port}/live/x", timeouts=SHORT):
            pass

    with pytest.raises(kind, match=complaint):
        asyncio.run(run())


def test_a_host_that_cannot_be_looked_up_is_lost() -> None:
    async def run() -> None:
        async with publish("rtmp://a..b/live/x"):
            pass

    with pytest.raises(RemoteLost, match=r"server a\.\.b:1935: no connection"):
        asyncio.run(run())


def test_a_server_that_leaves_connect_unanswered_is_given_up() -> None:
    async def hold(_peer: Peer, event: Event) -> bool:
        return isinstance(event, ConnectRequested)

    async def run() -> None:
        async with peer_server(hold) as server, publish(server.url(), timeouts=SHORT):
            pass

    with pytest.raises(RemoteLost, match=r"no answer to connect within 0\.1 s"):
        asyncio.run(run())


def test_an_error_of_the_caller_ends_the_stream_in_order() -> None:
    async def run() -> list[str]:
        async with peer_server() as server:
            with pytest.raises(KeyError):
                async with publish(server.url()):
                    raise KeyError
            await server.wait_for(PublishEnded)
            return command_names(server.peers[0].messages())

    assert asyncio.run(run())[-2:] == ["FCUnpublish", "deleteStream"]


def test_a_cancelled_publisher_ends_the_stream_in_order() -> None:
    async def run() -> list[str]:
        async with peer_server() as server:

            async def publisher() -> None:
                async with publish(server.url()) as stream:
                    await stream.send(KEY_FRAME)
                    await asyncio.sleep(60)

            task = asyncio.create_task(publisher())
            await server.wait_for(MediaReceived)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.wait_for(PublishEnded)
            return command_names(server.peers[0].messages())

    assert asyncio.run(run())[-2:] == ["FCUnpublish", "deleteStream"]


def test_the_handshake_is_the_simple_one() -> None:
    async def run() -> HandshakeCompleted:
        async with peer_server() as server, publish(server.url()):
            return await server.wait_for(HandshakeCompleted)

    assert not asyncio.run(run()).used_digest
