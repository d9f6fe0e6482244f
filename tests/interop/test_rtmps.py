"""The whole server under TLS: FFmpeg publishes and plays, viewers are many, slow or late, and nobody gets a wrong byte.

What viewers are sent is read by the independent reader, message by message. The server runs in a thread of its own,
with a port for RTMP beside the one for RTMPS: both lead to the same streams.
"""

import asyncio
import hashlib
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.amf import write_amf0_values
from penstock.certificates import ReloadableTls
from penstock.protocol.chunk_writer import write_standalone
from penstock.protocol.client_session import ClientSession
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.handshake import NONCE_BYTES
from penstock.protocol.message import Message
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.tls_acceptor import TlsAcceptor
from penstock.serve.server import Server
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.viewer import Viewer
from tests.interop.ffmpeg_copies import (
    RECORDING_PATH,
    copy_command,
    ffmpeg_command,
    run_cleanly,
    run_to_failure,
)
from tests.support.independent_rtmp import read_messages
from tests.support.lone_worker import listen, lone_registry, port_of
from tests.support.processes import running
from tests.support.rtmp_driver import RtmpClient
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples
from tests.support.tls import Files, trusting

DEADLINE_S = 20.0
# A client that does not wait for answers: the handshake, then connect, createStream and play.
PLAY_SCRIPT = (
    b"\x03"
    + bytes(2 * 1536)
    + b"".join(
        write_standalone(Message(20, 0, stream_id, write_amf0_values(*values), 3), 128)
        for stream_id, values in (
            (0, ("connect", 1.0, {"app": "live", "tcUrl": "rtmps://localhost/live"})),
            (0, ("createStream", 2.0, None)),
            (1, ("play", 3.0, None, "s")),
        )
    )
)
VIDEO_SETUP = Sample(VIDEO, 0, bytes.fromhex("17 00 000000 0142c00b ffe1 0004 6742c00b 01 0002 68ce"))
AUDIO_SETUP = Sample(AUDIO, 0, bytes.fromhex("af 00 1390"))
SETUPS = [VIDEO_SETUP.payload, AUDIO_SETUP.payload]


@dataclass(slots=True)
class Witness(Observer):
    """Keeps what the server says about its connections."""

    reasons: list[str] = field(default_factory=list)
    skips: int = 0
    first_frames: int = 0
    bugs: list[BaseException] = field(default_factory=list)

    def tls_failed(self, address: str, reason: str) -> None:
        self.reasons.append(reason)

    def connection_closed(self, peer: MediaConnection, reason: str) -> None:
        self.reasons.append(reason)

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        self.skips += 1

    def first_frame_sent(self, viewer: Viewer) -> None:
        self.first_frames += 1

    def error(self, peer: MediaConnection | None, error: BaseException) -> None:
        self.bugs.append(error)


@dataclass(frozen=True, slots=True)
class Live:
    """A server that runs."""

    server: Server
    witness: Witness
    port: int
    plain_port: int
    files: Files
    thread: threading.Thread

    @property
    def url(self) -> str:
        return f"rtmps://localhost:{self.port}/live/s"

    @property
    def players(self) -> int:
        """How many peers have asked to play."""
        return sum(len(peer.plays) for peer in list(self.server.broker.connections.values()))

    @property
    def published_ms(self) -> int:
        """How far the stream has come, 0 if there is none."""
        channel = self.server.broker.streams.get("live/s")
        return 0 if channel is None else channel.log.last_timestamp_ms

    @property
    def lagging(self) -> int:
        """How many viewers have yet to be sent something."""
        channel = self.server.broker.streams["live/s"]
        return sum(not viewer.is_in_step for viewer in list(channel.viewers))

    def wait_for_reason(self, reason: str) -> None:
        """One connection is closed, for this reason."""
        wait_until(lambda: self.witness.reasons != [])
        assert self.witness.reasons == [reason]

    def shut_down(self) -> None:
        self.server.reactor.call_from_thread(self.server.shut_down)
        self.thread.join(DEADLINE_S)

    def connect(self, receive_bytes: int | None = None) -> ssl.SSLSocket:
        raw = socket.socket()
        if receive_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(DEADLINE_S)
        raw.connect(("127.0.0.1", self.port))
        return trusting(self.files.authority).wrap_socket(raw, server_hostname="localhost")


@contextmanager
def serving(folder: Path, settings: ServerSettings, acceptor_type: type[TlsAcceptor] = TlsAcceptor) -> Iterator[Live]:
    """Run a server for the length of the block; its sockets under TLS pass through an acceptor of this type."""
    files = Files.made_in(folder)
    witness = Witness()
    server = Server(settings, lone_registry(), witness)
    server.tls_acceptor = acceptor_type(server.reactor.call_from_thread)
    listener, plain_listener = listen(server, ReloadableTls(files.cert, files.key)), listen(server)
    live = Live(server, witness, port_of(listener), port_of(plain_listener), files, threading.Thread(target=server.run))
    live.thread.start()
    try:
        yield live
    finally:
        live.shut_down()
        listener.close()
        plain_listener.close()
    assert not live.thread.is_alive()
    assert witness.bugs == []


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path, ServerSettings()) as running_server:
        yield running_server


@contextmanager
def publishing(live: Live) -> Iterator[RtmpClient]:
    """Our own client under TLS, publishing live/s."""
    session = ClientSession(
        nonce=bytes(NONCE_BYTES), time_ms=0, digest=False, settings=ConnectionSettings(chunk_size=65_536)
    )
    with live.connect() as connection:
        client = RtmpClient(connection, session)
        client.open("live", f"rtmps://localhost:{live.port}/live")
        client.publish("s")
        yield client
        client.end()
        # One who leaves with something unread resets the connection, and what it said last may be lost with that.
        wait_until(lambda: "live/s" not in live.server.broker.streams)


def frames(count: int, *, frame_bytes: int, key_each: int, from_ms: int = 0) -> list[Sample]:
    """Video that is noise behind its header, 25 frames a second, each with some audio behind it."""
    noise = random.Random(count)
    samples = []
    for number in range(count):
        header = "17 01 000000" if number % key_each == 0 else "27 01 000000"
        time_ms = from_ms + 40 * number
        picture = noise.randbytes(noise.randint(frame_bytes // 2, frame_bytes * 3 // 2))
        samples.append(Sample(VIDEO, time_ms, bytes.fromhex(header) + len(picture).to_bytes(4, "big") + picture))
        samples.append(Sample(AUDIO, time_ms + 1, bytes.fromhex("af 01") + noise.randbytes(200)))
    return samples


def hashes(samples: Sequence[Sample]) -> list[str]:
    return [hashlib.sha256(sample.payload).hexdigest() for sample in samples if sample.payload not in SETUPS]


def media_in(sent: bytes) -> list[Sample]:
    """The audio and video that a viewer was sent, read to the last byte."""
    messages = read_messages(sent)
    return [Sample(each.type_id, each.timestamp, each.payload) for each in messages if each.type_id in (8, 9)]


def wait_until(is_done: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not is_done():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def read_to_end(connection: ssl.SSLSocket) -> bytes:
    """Until the server says that it is the end: one that just hangs up is an error here."""
    connection.settimeout(DEADLINE_S)
    sent = bytearray()
    while data := connection.recv(65_536):
        sent += data
    return bytes(sent)


# FFmpeg.


@pytest.mark.parametrize(("publisher", "player"), [("rtmps", "rtmps"), ("rtmps", "rtmp"), ("rtmp", "rtmps")])
def test_ffmpeg_plays_what_ffmpeg_publishes(live: Live, tmp_path: Path, publisher: str, player: str) -> None:
    urls = {"rtmps": live.url, "rtmp": f"rtmp://127.0.0.1:{live.plain_port}/live/s"}
    run_cleanly(copy_command(RECORDING_PATH, tmp_path / "copy.flv"), tmp_path / "copy.log")
    with running(copy_command(urls[player], tmp_path / "played.flv"), tmp_path / "play.log") as playing:
        wait_until(lambda: live.players == 1)
        # Spread over half a second: of what comes all at once, one who waited gets the newest key frame and the rest.
        source = ffmpeg_command("-readrate", "4", "-i", RECORDING_PATH, "-c", "copy", "-f", "flv", urls[publisher])
        run_cleanly(source, tmp_path / "publish.log")
        assert playing.wait_for_exit(DEADLINE_S) == 0
    for type_id in (AUDIO, VIDEO):
        played = fingerprints(flv_samples(tmp_path / "played.flv"), type_id)
        assert played == fingerprints(flv_samples(tmp_path / "copy.flv"), type_id)


def test_ffmpeg_joins_late_and_believes_the_certificate(live: Live, tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    live.files.authority.cert_pem.write_to_path(str(authority))
    faster = ("-readrate", "4", "-stream_loop", "20")
    source = ffmpeg_command(*faster, "-i", RECORDING_PATH, "-c", "copy", "-f", "flv", live.url)
    with running(source, tmp_path / "publish.log"):
        wait_until(lambda: live.published_ms > 500)
        trust = ("-tls_verify", "1", "-ca_file", str(authority))
        target = ("-t", "1", "-c", "copy", "-f", "flv", "-y", tmp_path / "late.flv")
        run_cleanly(ffmpeg_command(*trust, "-i", live.url, *target), tmp_path / "play.log")
    video = [sample for sample in flv_samples(tmp_path / "late.flv") if sample.type_id == VIDEO]
    assert [sample.payload[:2].hex() for sample in video[:2]] == ["1700", "1701"]
    assert len(video) > 5


def test_ffmpeg_that_wants_another_authority_is_turned_away_by_itself(live: Live, tmp_path: Path) -> None:
    command = ffmpeg_command("-tls_verify", "1", "-i", live.url, "-f", "null", "-")
    assert "failed verification" in run_to_failure(command, tmp_path / "play.log")


# Many viewers.


async def view(port: int, context: ssl.SSLContext) -> bytes:
    """What one viewer is sent until the server ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(PLAY_SCRIPT)
    sent = bytearray()
    while data := await reader.read(65_536):
        sent += data
    writer.close()
    return bytes(sent)


def test_two_hundred_viewers_get_every_message_of_a_stream_that_some_join_late(live: Live) -> None:
    context = trusting(live.files.authority)
    first_half = frames(50, frame_bytes=3000, key_each=25)
    second_half = frames(50, frame_bytes=3000, key_each=25, from_ms=2000)

    def publish(samples: list[Sample], client: RtmpClient) -> None:
        for sample in samples:
            client.send([sample])
            time.sleep(0.005)

    async def watch() -> list[bytes]:
        early = [asyncio.create_task(view(live.port, context)) for _ in range(100)]
        await asyncio.to_thread(wait_until, lambda: live.players == 100)
        with publishing(live) as client:
            await asyncio.to_thread(publish, [VIDEO_SETUP, AUDIO_SETUP, *first_half], client)
            late = [asyncio.create_task(view(live.port, context)) for _ in range(100)]
            await asyncio.to_thread(wait_until, lambda: live.witness.first_frames == 200)
            await asyncio.to_thread(publish, second_half, client)
        await asyncio.to_thread(live.shut_down)
        return await asyncio.gather(*early, *late)

    sent = asyncio.run(watch())
    published = hashes([*first_half, *second_half])
    last_key = 2 * 25
    expected = {"early": published, "late": published[last_key:]}
    for number, each in enumerate(sent):
        media = media_in(each)
        assert [sample.payload for sample in media[:2]] == SETUPS
        assert hashes(media) == expected["early" if number < 100 else "late"], f"viewer {number}"
    assert live.witness.skips == 0


def test_a_viewer_that_stops_reading_skips_to_a_key_frame_and_nothing_is_torn(live: Live) -> None:
    """Most of it goes past the viewer while it reads nothing: far more than its buffers and the log hold."""
    passed = frames(300, frame_bytes=60_000, key_each=25)
    fresh = frames(50, frame_bytes=60_000, key_each=25, from_ms=40 * 300)
    heard: list[bytes] = []
    with live.connect(receive_bytes=16_384) as viewer:
        reading = threading.Thread(target=lambda: heard.append(read_to_end(viewer)))
        viewer.sendall(PLAY_SCRIPT)
        with publishing(live) as client:
            client.send([VIDEO_SETUP, AUDIO_SETUP, *passed])
            wait_until(lambda: live.published_ms >= passed[-1].timestamp_ms)
            reading.start()
            wait_until(lambda: live.witness.skips > 0)
            client.send(fresh)
            wait_until(lambda: live.published_ms == fresh[-1].timestamp_ms and not live.lagging)
        live.shut_down()
        reading.join(DEADLINE_S)
    published = hashes([*passed, *fresh])
    places = {each: place for place, each in enumerate(published)}
    media = [sample for sample in media_in(heard[0]) if sample.payload not in SETUPS]
    received = [places[each] for each in hashes(media)]
    assert received == sorted(set(received))
    gaps = [index for index in range(1, len(received)) if received[index] != received[index - 1] + 1]
    assert len(gaps) == live.witness.skips > 0
    assert all(media[index].payload[0] == 0x17 for index in gaps)
    assert received[-1] == len(published) - 1


class Hesitant(socket.socket):
    """Takes at most 1000 bytes, and nothing each second time, as a full socket does."""

    _is_full = False

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._is_full = not self._is_full
        if self._is_full:
            raise BlockingIOError
        return super().send(memoryview(data)[:1000], flags)


class HesitantAcceptor(TlsAcceptor):
    def accept(self, connection: socket.socket, *arguments: Any, **named: Any) -> None:
        hesitant = Hesitant(fileno=connection.detach())
        hesitant.setblocking(False)
        super().accept(hesitant, *arguments, **named)


def test_what_a_socket_does_not_take_at_once_is_sent_without_another_cause(tmp_path: Path) -> None:
    """Steps of the handshake, answers and the end of what was published: nothing comes after it that would push it."""
    with serving(tmp_path, ServerSettings(ping_interval_s=60.0), HesitantAcceptor) as live:
        published = frames(4, frame_bytes=40_000, key_each=25)
        with live.connect() as viewer, publishing(live) as client:
            client.send([VIDEO_SETUP, AUDIO_SETUP, *published])
            wait_until(lambda: live.published_ms == published[-1].timestamp_ms)
            viewer.sendall(PLAY_SCRIPT)
            sent = bytearray()
            while published[-1].payload not in sent:
                sent += viewer.recv(65_536)
    assert hashes(media_in(bytes(sent))) == hashes(published)


# Those who do not get that far.


def test_plain_rtmp_on_the_port_for_tls_is_named_as_such(live: Live) -> None:
    with socket.create_connection(("127.0.0.1", live.port), DEADLINE_S) as plain:
        plain.sendall(PLAY_SCRIPT)
        live.wait_for_reason("connection lost: TLS: this looks like plain RTMP; is the port for rtmp:// meant?")


@pytest.mark.parametrize("said", [b"", bytes.fromhex("16 0301 0200 01")], ids=["nothing", "half a hello"])
def test_a_tls_handshake_that_does_not_end_is_ended(tmp_path: Path, said: bytes) -> None:
    with (
        serving(tmp_path, ServerSettings(handshake_deadline_s=0.5)) as live,
        socket.create_connection(("127.0.0.1", live.port), DEADLINE_S) as silent,
    ):
        silent.sendall(said)
        assert silent.recv(100) == b""
        live.wait_for_reason("handshake not finished in 0.5 s")


def test_a_finished_tls_handshake_without_rtmp_is_ended_too(tmp_path: Path) -> None:
    with serving(tmp_path, ServerSettings(handshake_deadline_s=0.5)) as live, live.connect() as silent:
        assert silent.recv(100) == b""
        live.wait_for_reason("handshake not finished in 0.5 s")
