"""The sockets that the other tests here stand on: our client against our server, and what goes wrong."""

import socket
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocol.events import PlayRequested, PublishEnded, StreamEnded
from tests.support.rtmp_driver import DriverError, RtmpClient, rtmp_client
from tests.support.rtmp_server import Refusals, rtmp_server
from tests.support.samples import AUDIO, DATA, VIDEO, fingerprints, golden_samples

PUBLISHED = golden_samples("ffmpeg7_publish_hevc")


@pytest.mark.parametrize("is_early", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("digest", [True, False], ids=["digest", "simple"])
def test_a_viewer_gets_everything_whenever_it_comes(*, digest: bool, is_early: bool) -> None:
    with rtmp_server() as server:
        with rtmp_client(server.port, digest=digest) as publisher, rtmp_client(server.port, digest=digest) as viewer:
            if is_early:
                viewer.play("s")
            publisher.publish("s")
            publisher.send(PUBLISHED)
            publisher.end()
            server.wait_for(PublishEnded)
            if not is_early:
                viewer.play("s")
            viewer.wait_for(StreamEnded)
        assert server.samples("s") == [sample for sample in viewer.samples if b"SampleAccess" not in sample.payload]
        for type_id in (AUDIO, VIDEO):
            assert fingerprints(server.samples("s"), type_id) == fingerprints(PUBLISHED, type_id)
        assert [each.type_id for each in server.samples("s")].count(DATA) == 1


def test_a_refused_connect_ends_the_wait_with_its_description() -> None:
    with rtmp_server(refusals=Refusals(connect="No entry.")) as server:
        client = rtmp_client(server.port)
        with pytest.raises(DriverError, match="No entry"):
            client.__enter__()


@pytest.mark.parametrize("action", [RtmpClient.publish, RtmpClient.play])
def test_a_refused_stream_ends_the_wait_with_its_description(action: Callable[[RtmpClient, str], None]) -> None:
    refusals = Refusals(publish="Taken.", play="Taken.")
    with (
        rtmp_server(refusals=refusals) as server,
        rtmp_client(server.port) as client,
        pytest.raises(DriverError, match="Taken"),
    ):
        action(client, "s")


def test_a_wait_in_vain_says_what_it_waited_for() -> None:
    with rtmp_server() as server, rtmp_client(server.port) as client:
        client.play("s")
        assert [event.name for event in server.wait_for(PlayRequested)] == ["s"]
        with pytest.raises(DriverError, match="in vain for StreamEnded"):
            client.wait_for(StreamEnded, deadline_s=0.05)
        with pytest.raises(DriverError, match="in vain for 1 PublishEnded"):
            server.wait_for(PublishEnded, deadline_s=0.05)


def test_a_peer_that_breaks_rtmp_is_raised_when_the_server_stops() -> None:
    with pytest.raises(ProtocolViolation, match="HTTP"):
        serve_a_stranger(b"GET / HTTP/1.1\r\n\r\n")


def serve_a_stranger(data: bytes) -> None:
    with rtmp_server() as server, socket.create_connection(("127.0.0.1", server.port), 10) as stranger:
        stranger.sendall(data)
        assert stranger.recv(1) == b""


def test_nothing_is_left_when_the_server_has_stopped() -> None:
    before = threading.active_count()
    with rtmp_server() as server:
        port = server.port
        with rtmp_client(port) as client:
            client.play("s")
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10)


def test_the_samples_compared_here_are_real_and_in_order() -> None:
    video = [sample for sample in PUBLISHED if sample.type_id == VIDEO]
    assert len(video) == 17
    assert all(earlier.timestamp_ms <= later.timestamp_ms for earlier, later in pairwise(video))
