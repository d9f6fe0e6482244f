"""Our client session against Debian's nginx-rtmp, in both roles, and nginx as a client of our server session.

What is published must come back to the byte and to the millisecond. Only metadata is not compared: nginx writes its
own. Captures in Enhanced RTMP are tried elsewhere, since nginx drops what it does not know.
"""

import random
import re
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from penstock.protocol.events import (
    HandshakeCompleted,
    PublishEnded,
    PublishRequested,
    StreamEnded,
)
from tests.interop.ffmpeg_copies import (
    DEADLINE_S,
    RECORDING_PATH,
    copy_command,
    listed_packets,
    packet_lines,
    packet_list_command,
    run_cleanly,
)
from tests.support.nginx_rtmp import NginxRtmp, nginx_rtmp
from tests.support.processes import POLL_S, running
from tests.support.rtmp_driver import DriverError, RtmpClient, rtmp_client
from tests.support.rtmp_server import rtmp_server
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples, golden_samples, media_of, shifted

CHUNK_SIZES = (128, 4096, 65536)
CAPTURES = (
    "ffmpeg_publish",
    "ffmpeg_publish_audio_only",
    "ffmpeg_publish_video_only",
    "ffmpeg_publish_extended_delta",
    "gstreamer_rtmp2sink_publish",
    "gstreamer_rtmpsink_publish",
    "nginx_push",
    "obs_publish",
)
# nginx takes messages of up to 1 MiB.
LARGE_FRAME_BYTES = 500_000

names = (f"stream{number}" for number in count())


@pytest.fixture(scope="module", params=CHUNK_SIZES, ids=lambda size: f"chunks of {size}")
def chunk_size(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size


@pytest.fixture(scope="module")
def nginx(chunk_size: int) -> Iterator[NginxRtmp]:
    with nginx_rtmp(chunk_size=chunk_size) as server:
        yield server


def assert_same_media(received: Sequence[Sample], published: Sequence[Sample]) -> None:
    for type_id in (AUDIO, VIDEO):
        assert fingerprints(received, type_id) == fingerprints(published, type_id)
    assert media_of(published) != []


def publish_and_play(nginx: NginxRtmp, samples: Sequence[Sample], chunk_size: int, *, digest: bool = False) -> None:
    """Publish to nginx and play from it at the same time, by two clients of ours, and compare."""
    name = next(names)
    with (
        rtmp_client(nginx.port, chunk_size=chunk_size, digest=digest) as viewer,
        rtmp_client(nginx.port, chunk_size=chunk_size, digest=digest) as publisher,
    ):
        viewer.play(name)
        publisher.publish(name)
        publisher.send(samples)
        publisher.end()
        viewer.wait_for(StreamEnded)
    assert_same_media(viewer.samples, samples)
    assert [handshake_of(client) for client in (viewer, publisher)] == [digest, digest]


def handshake_of(client: RtmpClient) -> bool:
    (used_digest,) = [event.used_digest for event in client.events if isinstance(event, HandshakeCompleted)]
    return used_digest


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_we_publish_comes_back(nginx: NginxRtmp, chunk_size: int, capture: str) -> None:
    publish_and_play(nginx, golden_samples(capture), chunk_size)


def test_the_digest_handshake_is_understood_both_ways(nginx: NginxRtmp, chunk_size: int) -> None:
    publish_and_play(nginx, golden_samples("ffmpeg_publish"), chunk_size, digest=True)


@pytest.mark.parametrize("start_ms", [0xFFFF00, 0xFFFFFF, 0x1000000], ids=hex)
def test_time_runs_on_past_24_bits(nginx: NginxRtmp, chunk_size: int, start_ms: int) -> None:
    publish_and_play(nginx, shifted(golden_samples("ffmpeg_publish"), start_ms), chunk_size)


@pytest.mark.parametrize("start_ms", [0, 0x1000000], ids=hex)
def test_large_frames_come_back(nginx: NginxRtmp, chunk_size: int, start_ms: int) -> None:
    sequence_header = next(each for each in golden_samples("ffmpeg_publish") if each.type_id == VIDEO)
    noise = random.Random(1).randbytes(LARGE_FRAME_BYTES)
    key_frame = Sample(VIDEO, start_ms, b"\x17\x01\x00\x00\x00" + noise)
    inter_frame = Sample(VIDEO, start_ms + 40, b"\x27\x01\x00\x00\x00" + noise[::-1])
    publish_and_play(nginx, [sequence_header, key_frame, inter_frame], chunk_size)


def test_a_name_that_is_taken_is_refused_to_us(nginx: NginxRtmp) -> None:
    name = next(names)
    with rtmp_client(nginx.port) as first, rtmp_client(nginx.port) as second:
        first.publish(name)
        with pytest.raises(DriverError, match=re.escape("NetStream.Publish.BadName")):
            second.publish(name)


def test_what_ffmpeg_publishes_reaches_us(nginx: NginxRtmp, tmp_path: Path) -> None:
    name = next(names)
    run_cleanly(copy_command(RECORDING_PATH, tmp_path / "copy.flv"), tmp_path / "copy.log")
    with rtmp_client(nginx.port) as viewer:
        viewer.play(name)
        run_cleanly(copy_command(RECORDING_PATH, f"{nginx.url}/{name}"), tmp_path / "publish.log")
        viewer.wait_for(StreamEnded)
    assert_same_media(viewer.samples, flv_samples(tmp_path / "copy.flv"))


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
def test_what_we_publish_reaches_ffmpeg(chunk_size: int, tmp_path: Path) -> None:
    list_path = tmp_path / "played.txt"
    with nginx_rtmp(chunk_size=chunk_size) as nginx:
        play = packet_list_command(f"{nginx.url}/stream", list_path)
        with running(play, tmp_path / "play.log") as player:
            wait_for_play(nginx)
            with (
                rtmp_client(nginx.port, chunk_size=chunk_size) as publisher,
                rtmp_client(nginx.port, chunk_size=chunk_size) as witness,
            ):
                witness.play("stream")
                publisher.publish("stream")
                publisher.send(flv_samples(RECORDING_PATH))
                publisher.end()
                witness.wait_for(StreamEnded)
            # nginx does not tell FFmpeg of the end, so FFmpeg hears it by the end of the connection.
            nginx.program.stop()
            assert player.wait_for_exit(DEADLINE_S) == 0
    assert packet_lines(list_path) == listed_packets(RECORDING_PATH, tmp_path)


def wait_for_play(nginx: NginxRtmp) -> None:
    """Return once nginx has a viewer: what is published before is lost to it."""
    give_up_at = time.monotonic() + DEADLINE_S
    while " play: name='stream'" not in nginx.log_path.read_text(encoding="utf-8"):
        assert time.monotonic() < give_up_at, f"no play within {DEADLINE_S} s"
        time.sleep(POLL_S)


def test_what_nginx_pushes_reaches_our_server() -> None:
    samples = golden_samples("ffmpeg_publish")
    with (
        rtmp_server() as server,
        nginx_rtmp(push_url=f"rtmp://127.0.0.1:{server.port}/live") as nginx,
        rtmp_client(nginx.port) as publisher,
    ):
        publisher.publish("pushed")
        # nginx connects on publish, and drops what comes before it is let in.
        server.wait_for(PublishRequested)
        publisher.send(samples)
        publisher.end()
        server.wait_for(PublishEnded)
        assert_same_media(server.samples("pushed"), samples)
        assert [event.used_digest for event in server.events(HandshakeCompleted)] == [True]
