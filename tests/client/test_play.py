"""Playing: frames as they came, ends and refusals, and connections that are lost and found again."""

import asyncio
import ssl
from pathlib import Path

import pytest

from penstock.client import Backoff, PlayStream, Timeouts, play, publish
from penstock.errors import RemoteLost, RemoteRefused
from penstock.media.frame import Frame, FrameKind
from penstock.protocol.capabilities import CapsEx
from penstock.protocol.events import ConnectRequested, Event, PlayEnded, PlayRequested, PongReceived, PublishRequested
from tests.client.peer import DEADLINE_S, Answer, Peer, peer_server
from tests.support.independent_rtmp import command_names
from tests.support.processes import find_program, run_to_end

SETUP = bytes.fromhex("1700000000")
KEY = bytes.fromhex("1701000000aa")
INTER = bytes.fromhex("2701000000bb")
SOUND = bytes.fromhex("af01cc")
METADATA = bytes.fromhex("02000a6f6e4d657461446174610800000000000009")
SHORT = Timeouts(connect_s=1.0, answer_s=0.1, silence_s=0.1)
QUICK = Backoff(first_s=0.01, longest_s=0.05, tries=3)


def send(peer: Peer, stream_id: int, *payloads: bytes, start_ms: int = 0) -> None:
    for number, payload in enumerate(payloads):
        peer.session.send_media(stream_id, 8 if payload[0] == 0xAF else 9, start_ms + number * 40, payload)


def sends_and_ends(*payloads: bytes) -> Answer:
    async def answer(peer: Peer, event: Event) -> bool:
        if isinstance(event, PlayRequested):
            peer.session.accept_play(event.stream_id)
            send(peer, event.stream_id, *payloads)
            peer.session.end_play(event.stream_id)
        return isinstance(event, PlayRequested)

    return answer


async def frames_of(stream: PlayStream) -> list[Frame]:
    return [frame async for frame in stream]


def test_frames_come_as_they_were_sent_until_the_server_says_that_it_is_over() -> None:
    async def answer(peer: Peer, event: Event) -> bool:
        if isinstance(event, PlayRequested):
            peer.session.accept_play(event.stream_id)
            peer.session.send_data(event.stream_id, 0, METADATA)
            send(peer, event.stream_id, SETUP, KEY, SOUND, INTER, start_ms=0xFFFFFF)
            peer.session.end_play(event.stream_id)
        return isinstance(event, PlayRequested)

    async def run() -> tuple[list[Frame], PlayRequested]:
        async with peer_server(answer) as server:
            async with play(server.url("test?key=1")) as stream:
                frames = await frames_of(stream)
                assert await frames_of(stream) == []
            return frames, await server.wait_for(PlayRequested)

    frames, request = asyncio.run(run())
    assert [(frame.kind, frame.timestamp_ms, frame.payload) for frame in frames] == [
        (FrameKind.DATA, 0, METADATA),
        (FrameKind.VIDEO, 0xFFFFFF, SETUP),
        (FrameKind.VIDEO, 0xFFFFFF + 40, KEY),
        (FrameKind.AUDIO, 0xFFFFFF + 80, SOUND),
        (FrameKind.VIDEO, 0xFFFFFF + 120, INTER),
    ]
    assert [frame.is_key for frame in frames] == [False, False, True, False, False]
    assert [frame.is_setup for frame in frames] == [True, True, False, False, False]
    assert (request.name, request.query) == ("test", "key=1")


def test_leaving_ends_the_play_on_the_server() -> None:
    async def run() -> list[str]:
        async with peer_server() as server:
            async with play(server.url()):
                pass
            await server.wait_for(PlayEnded)
            return command_names(server.peers[0].messages())

    assert asyncio.run(run()) == ["connect", "createStream", "play", "deleteStream"]


def test_frames_that_come_before_the_answer_are_not_lost() -> None:
    async def answer(peer: Peer, event: Event) -> bool:
        if isinstance(event, PlayRequested):
            send(peer, event.stream_id, KEY)
            peer.session.accept_play(event.stream_id)
            peer.session.end_play(event.stream_id)
        return isinstance(event, PlayRequested)

    async def run() -> list[Frame]:
        async with peer_server(answer) as server, play(server.url()) as stream:
            return await frames_of(stream)

    assert [frame.payload for frame in asyncio.run(run())] == [KEY]


def test_a_server_may_be_silent_until_somebody_publishes() -> None:
    async def answer_later(peer: Peer, event: Event) -> bool:
        return isinstance(event, PlayRequested)

    async def run() -> list[Frame]:
        async with (
            peer_server(answer_later) as server,
            play(server.url(), timeouts=Timeouts(answer_s=0.1)) as stream,
        ):
            peer = server.peers[0]
            peer.session.accept_play(1)
            send(peer, 1, KEY)
            peer.session.end_play(1)
            await peer.flush()
            return await frames_of(stream)

    assert [frame.payload for frame in asyncio.run(run())] == [KEY]


def test_a_refused_play_tells_code_and_reason() -> None:
    async def refuse(peer: Peer, event: Event) -> bool:
        if isinstance(event, PlayRequested):
            peer.session.reject_play(event.stream_id, "nobody publishes it")
        return isinstance(event, PlayRequested)

    async def run() -> None:
        async with peer_server(refuse) as server, play(server.url(), reconnect=True):
            pass

    with pytest.raises(RemoteRefused, match="nobody publishes it") as refusal:
        asyncio.run(run())
    assert refusal.value.code == "NetStream.Play.StreamNotFound"


def test_a_stream_that_is_silent_for_too_long_is_lost() -> None:
    async def run() -> None:
        async with peer_server() as server, play(server.url(), timeouts=SHORT) as stream:
            await frames_of(stream)

    with pytest.raises(RemoteLost, match=r"sent nothing for 0\.1 s"):
        asyncio.run(run())


def test_pings_are_answered_while_frames_are_waited_for() -> None:
    async def run() -> PongReceived:
        async with peer_server() as server, play(server.url()) as stream:
            waiting = asyncio.create_task(frames_of(stream))
            server.peers[0].session.send_ping(77)
            await server.peers[0].flush()
            pong = await server.wait_for(PongReceived)
            waiting.cancel()
            await asyncio.wait([waiting])
            return pong

    assert asyncio.run(run()).timestamp_ms == 77


def test_a_slow_caller_holds_the_server_back() -> None:
    payload = KEY + bytes(100_000)

    async def run() -> tuple[int, int]:
        async with peer_server() as server, play(server.url()) as stream:
            peer = server.peers[0]
            send(peer, 1, payload)
            await peer.flush()
            await anext(stream)
            send(peer, 1, *[payload] * 500)
            peer.writer.write(peer.session.data_to_send())
            await asyncio.sleep(0.3)
            assert stream._link is not None
            return peer.writer.transport.get_write_buffer_size(), stream._link.session.buffered_bytes

    unsent_bytes, held_bytes = asyncio.run(run())
    assert unsent_bytes > 30_000_000
    assert held_bytes < 1_000_000


def breaking_at_first(*payloads: bytes) -> Answer:
    """The first connection breaks after two frames; the next ones play to their end."""
    ends = sends_and_ends(*payloads)

    async def answer(peer: Peer, event: Event) -> bool:
        if isinstance(event, PlayRequested) and peer.number == 0:
            peer.session.accept_play(event.stream_id)
            send(peer, event.stream_id, SETUP, KEY)
            await peer.flush()
            peer.writer.close()
            return True
        return await ends(peer, event)

    return answer


def test_a_lost_connection_is_an_error() -> None:
    async def run() -> None:
        async with peer_server(breaking_at_first()) as server, play(server.url()) as stream:
            assert (await anext(stream)).payload == SETUP
            assert (await anext(stream)).payload == KEY
            await anext(stream)

    with pytest.raises(RemoteLost, match=r"closed the connection|broke"):
        asyncio.run(run())


def test_a_lost_connection_is_opened_anew_if_asked_for() -> None:
    async def run() -> tuple[list[bytes], int]:
        async with (
            peer_server(breaking_at_first(SETUP, KEY, INTER)) as server,
            play(server.url(), reconnect=QUICK) as stream,
        ):
            return [frame.payload for frame in await frames_of(stream)], stream.reconnects

    assert asyncio.run(run()) == ([SETUP, KEY, SETUP, KEY, INTER], 1)


def test_a_server_that_does_not_come_back_is_given_up() -> None:
    breaking = breaking_at_first()

    async def answer(peer: Peer, event: Event) -> bool:
        if peer.number > 0:
            peer.writer.close()
            return True
        return await breaking(peer, event)

    async def run() -> int:
        async with peer_server(answer) as server, play(server.url(), reconnect=QUICK) as stream:
            with pytest.raises(RemoteLost, match=r"closed the connection|broke"):
                await frames_of(stream)
            return len(server.peers)

    assert asyncio.run(run()) == 1 + QUICK.tries


def test_what_a_server_tells_the_player_is_no_part_of_the_stream() -> None:
    async def answer(peer: Peer, event: Event) -> bool:
        if isinstance(event, PlayRequested):
            peer.session.accept_play(event.stream_id)
            peer.session.send_data(
                event.stream_id, 0, bytes.fromhex("0200117c52746d7053616d706c6541636365737301010101")
            )
            peer.session.send_data(event.stream_id, 0, bytes.fromhex("0200086f6e53746174757303000009"))
            peer.session.send_data(event.stream_id, 0, METADATA)
            peer.session.end_play(event.stream_id)
        return isinstance(event, PlayRequested)

    async def run() -> list[Frame]:
        async with peer_server(answer) as server, play(server.url()) as stream:
            return await frames_of(stream)

    assert [frame.payload for frame in asyncio.run(run())] == [METADATA]


def test_a_request_to_come_back_elsewhere_is_followed() -> None:
    async def run() -> tuple[list[bytes], list[Peer], list[Peer]]:
        async with peer_server(sends_and_ends(SETUP, KEY)) as second:

            async def send_away(peer: Peer, event: Event) -> bool:
                if isinstance(event, PlayRequested):
                    peer.session.accept_play(event.stream_id)
                    send(peer, event.stream_id, INTER)
                    peer.session.request_reconnect("maintenance", f"rtmp://127.0.0.1:{second.port}/live")
                return isinstance(event, PlayRequested)

            async with peer_server(send_away) as first, play(first.url(), reconnect=QUICK) as stream:
                payloads = [frame.payload for frame in await frames_of(stream)]
            return payloads, first.peers, second.peers

    payloads, first_peers, second_peers = asyncio.run(run())
    assert payloads == [INTER, SETUP, KEY]
    assert (len(first_peers), len(second_peers)) == (1, 1)


@pytest.mark.parametrize("reconnect", [False, True])
def test_reconnecting_is_announced_only_by_those_who_do_it(reconnect: bool) -> None:
    async def run() -> ConnectRequested:
        async with peer_server() as server, play(server.url(), reconnect=reconnect):
            return await server.wait_for(ConnectRequested)

    assert bool(asyncio.run(run()).capabilities.caps_ex & CapsEx.RECONNECT) is reconnect


def test_pauses_between_tries_double_up_to_a_bound() -> None:
    assert [Backoff(0.5, 3.0).pause_s(tries) for tries in (0, 1, 2, 3, 1000)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key_path, certificate_path = folder / "key.pem", folder / "certificate.pem"
    command = [find_program("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key_path), "-out", str(certificate_path)]
    run_to_end(command, folder / "openssl.log", DEADLINE_S)
    return certificate_path, key_path


def tls_of_server(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


def test_tls_carries_publish_and_play(certificate: tuple[Path, Path]) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate[0]))

    async def run() -> tuple[list[Frame], PublishRequested]:
        async with peer_server(sends_and_ends(SETUP, KEY), tls_of_server(certificate)) as server:
            async with play(server.url(), ssl_context=trusting) as stream:
                frames = await frames_of(stream)
            async with publish(server.url(), ssl_context=trusting) as publication:
                await publication.send(frames[1])
            return frames, await server.wait_for(PublishRequested)

    frames, request = asyncio.run(run())
    assert [frame.payload for frame in frames] == [SETUP, KEY]
    assert request.name == "test"


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: tuple[Path, Path]) -> None:
    async def run() -> None:
        async with peer_server(ssl_context=tls_of_server(certificate)) as server, play(server.url()):
            pass

    with pytest.raises(RemoteLost, match="certificate verify failed"):
        asyncio.run(run())
