"""librtmp, by rtmpdump, as a player of our server session.

rtmpdump writes payloads to a file as they come and knows no codec, so it is also the real program that plays Enhanced
RTMP from us. It leaves out video messages of 5 bytes or fewer: the end of a sequence in the old form.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.protocol.events import HandshakeCompleted, PublishEnded
from tests.support.processes import find_program, run_to_end, running
from tests.support.rtmp_driver import rtmp_client
from tests.support.rtmp_server import Refusals, RtmpServer, rtmp_server
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples, golden_samples, shifted

DEADLINE_S = 30.0
LARGEST_IGNORED_BYTES = 5
CAPTURES = (
    "ffmpeg_publish",
    "ffmpeg_publish_audio_only",
    "ffmpeg_publish_extended_delta",
    "ffmpeg7_publish_av1",
    "ffmpeg7_publish_hevc",
    "ffmpeg7_publish_vp9",
    "obs_publish",
    "pyav_publish_flac",
    "pyav_publish_multitrack",
    "pyav_publish_opus",
)
# With the hash and the size of a player in hand librtmp signs its handshake.
DIGEST_OPTIONS = ("-w", bytes(range(32)).hex(), "-x", "1000")


def rtmpdump_command(url: str, recording_path: Path, options: Sequence[str] = ("--live",)) -> list[str]:
    return [find_program("rtmpdump", "rtmpdump"), *options, "-r", url, "-o", str(recording_path)]


def publish(server: RtmpServer, samples: Sequence[Sample]) -> None:
    with rtmp_client(server.port) as publisher:
        publisher.publish("s")
        publisher.send(samples)
        publisher.end()
        server.wait_for(PublishEnded)


def assert_same_media(recording_path: Path, published: Sequence[Sample]) -> None:
    recorded = flv_samples(recording_path)
    expected = [each for each in published if each.type_id != VIDEO or len(each.payload) > LARGEST_IGNORED_BYTES]
    for type_id in (AUDIO, VIDEO):
        assert fingerprints(recorded, type_id) == fingerprints(expected, type_id)


@pytest.mark.parametrize("capture", CAPTURES)
def test_rtmpdump_writes_the_payloads_that_were_published(capture: str, tmp_path: Path) -> None:
    samples, recording_path = golden_samples(capture), tmp_path / "played.flv"
    with rtmp_server() as server:
        publish(server, samples)
        printed = run_to_end(rtmpdump_command(server.url("s"), recording_path), tmp_path / "play.log", DEADLINE_S)
    assert "Download complete" in printed
    assert "ERROR" not in printed
    assert_same_media(recording_path, samples)


@pytest.mark.parametrize("chunk_size", [128, 4096, 65536])
@pytest.mark.parametrize("start_ms", [0, 0xFFFF00, 0x1000000], ids=hex)
def test_rtmpdump_follows_any_chunk_size_and_time(chunk_size: int, start_ms: int, tmp_path: Path) -> None:
    samples, recording_path = shifted(golden_samples("ffmpeg_publish"), start_ms), tmp_path / "played.flv"
    with rtmp_server(chunk_size=chunk_size) as server:
        publish(server, samples)
        run_to_end(rtmpdump_command(server.url("s"), recording_path), tmp_path / "play.log", DEADLINE_S)
    assert_same_media(recording_path, samples)


@pytest.mark.parametrize(
    "options", [("--live", *DIGEST_OPTIONS), (), ("--buffer", "100")], ids=["digest", "recorded", "buffer"]
)
def test_rtmpdump_plays_with_its_options(options: tuple[str, ...], tmp_path: Path) -> None:
    samples, recording_path = golden_samples("ffmpeg_publish"), tmp_path / "played.flv"
    with rtmp_server() as server:
        publish(server, samples)
        run_to_end(rtmpdump_command(server.url("s"), recording_path, options), tmp_path / "play.log", DEADLINE_S)
        assert server.events(HandshakeCompleted)[-1].used_digest is ("-w" in options)
    assert_same_media(recording_path, samples)


@pytest.mark.parametrize(
    ("refusals", "complaint"),
    [
        (Refusals(connect="No entry."), "ERROR: rtmp server sent error"),
        (Refusals(play="No entry."), "ERROR: Closing connection: NetStream.Play.StreamNotFound"),
    ],
    ids=["connect", "play"],
)
def test_rtmpdump_ends_when_it_is_refused(refusals: Refusals, complaint: str, tmp_path: Path) -> None:
    with rtmp_server(refusals=refusals) as server:
        command = rtmpdump_command(server.url("s"), tmp_path / "played.flv")
        with running(command, tmp_path / "play.log") as program:
            assert program.wait_for_exit(DEADLINE_S) != 0
            assert complaint in program.log_text()
