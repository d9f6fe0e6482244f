"""FFmpeg's own RTMP client as publisher and player of our server session.

FFmpeg copies one recording over RTMP and to a file; what arrives must be what the file holds, and FFmpeg must not
complain. Refusals must reach the person in front of it: FFmpeg prints our description and ends.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.protocol.events import (
    ConnectRequested,
    EndReason,
    HandshakeCompleted,
    PlayRequested,
    PublishEnded,
    PublishRequested,
)
from tests.interop.ffmpeg_copies import (
    DEADLINE_S,
    RECORDING_PATH,
    copy_command,
    error_lines,
    ffmpeg_command,
    listed_packets,
    packet_lines,
    packet_list_command,
    run_cleanly,
    run_to_failure,
)
from tests.support.ffmpeg import TINY_AAC_ARGUMENTS, TINY_H264_ARGUMENTS, pattern_arguments
from tests.support.processes import running
from tests.support.rtmp_driver import rtmp_client
from tests.support.rtmp_server import Refusals, RtmpServer, rtmp_server
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples, shifted

CHUNK_SIZES = (128, 4096, 65536)
DESCRIPTION = "Ask the operator for a key."
# Frames of noise, kept whole by the quantiser 0: about 1 MB each.
NOISE_ARGUMENTS = (
    *("-f", "lavfi", "-i", "color=gray:size=960x540:rate=5:duration=0.6,noise=alls=100:allf=t"),
    *("-c:v", "libx264", "-preset", "ultrafast", "-qp", "0", "-threads", "1"),
)


def assert_same_media(received: Sequence[Sample], expected: Sequence[Sample]) -> None:
    for type_id in (AUDIO, VIDEO):
        assert fingerprints(received, type_id) == fingerprints(expected, type_id)


def publish_recording(server: RtmpServer, name: str, shift_ms: int = 0) -> None:
    """Put the recording on the server by our own client, so that only the player is under test."""
    with rtmp_client(server.port) as publisher:
        publisher.publish(name)
        publisher.send(shifted(flv_samples(RECORDING_PATH), shift_ms))
        publisher.end()
        server.wait_for(PublishEnded)


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
@pytest.mark.parametrize("offset_s", [0, 16777, 16780], ids=lambda offset_s: f"from {offset_s} s")
def test_what_ffmpeg_publishes_arrives(chunk_size: int, offset_s: int, tmp_path: Path) -> None:
    """From 16777 s the time passes 24 bits on the way; from 16780 s FFmpeg sends it as an extended delta."""
    options = ["-output_ts_offset", str(offset_s)]
    run_cleanly(copy_command(RECORDING_PATH, tmp_path / "copy.flv", options), tmp_path / "copy.log")
    with rtmp_server(chunk_size=chunk_size) as server:
        run_cleanly(copy_command(RECORDING_PATH, server.url("s"), options), tmp_path / "publish.log")
        (ended,) = server.wait_for(PublishEnded)
        assert_same_media(server.samples("s"), flv_samples(tmp_path / "copy.flv"))
        assert ended.reason is EndReason.FC_UNPUBLISH
        assert [event.used_digest for event in server.events(HandshakeCompleted)] == [True]


def test_frames_of_a_megabyte_arrive(tmp_path: Path) -> None:
    local_path = tmp_path / "large.flv"
    run_cleanly(ffmpeg_command(*NOISE_ARGUMENTS, "-f", "flv", local_path), tmp_path / "encode.log")
    local = flv_samples(local_path)
    assert max(len(sample.payload) for sample in local) > 1_000_000
    # So wide that no Acknowledgement is sent: FFmpeg looks at what comes in only at each tenth message, and where it
    # closes with something unread, the kernel resets the connection and drops what was still to be sent.
    with rtmp_server(window_bytes=100_000_000) as server:
        run_cleanly(copy_command(local_path, server.url("s")), tmp_path / "publish.log")
        server.wait_for(PublishEnded)
        assert_same_media(server.samples("s"), local)
        assert listed_packets(server.url("s"), tmp_path) == listed_packets(local_path, tmp_path)


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
def test_ffmpeg_plays_the_same_packets(chunk_size: int, tmp_path: Path) -> None:
    with rtmp_server(chunk_size=chunk_size) as server:
        publish_recording(server, "s")
        assert listed_packets(server.url("s"), tmp_path) == listed_packets(RECORDING_PATH, tmp_path)


def test_ffmpeg_records_the_same_payloads(tmp_path: Path) -> None:
    run_cleanly(copy_command(RECORDING_PATH, tmp_path / "copy.flv"), tmp_path / "copy.log")
    with rtmp_server() as server:
        publish_recording(server, "s")
        run_cleanly(copy_command(server.url("s"), tmp_path / "played.flv"), tmp_path / "play.log")
    assert_same_media(flv_samples(tmp_path / "played.flv"), flv_samples(tmp_path / "copy.flv"))


@pytest.mark.parametrize("shift_ms", [0xFFFF00, 0x1000000], ids=hex)
def test_ffmpeg_follows_time_past_24_bits(shift_ms: int, tmp_path: Path) -> None:
    run_cleanly(packet_list_command(RECORDING_PATH, tmp_path / "file.txt"), tmp_path / "file.log")
    # Chunks of 128, so that key frames have continuations with extended timestamps.
    with rtmp_server(chunk_size=128) as server:
        publish_recording(server, "s", shift_ms)
        assert listed_packets(server.url("s"), tmp_path) == packet_lines(tmp_path / "file.txt", shift_ms)


@pytest.mark.parametrize(
    "options",
    [
        ("-rtmp_live", "live"),
        ("-rtmp_live", "recorded"),
        ("-rtmp_buffer", "100"),
        ("-rtmp_conn", "B:1 S:word O:1 NN:code:1.5 NS:flag:ok O:0"),
        ("-rtmp_flashver", "WIN 32,0,0,137"),
    ],
    ids=" ".join,
)
def test_ffmpeg_plays_with_any_of_its_options(options: tuple[str, str], tmp_path: Path) -> None:
    with rtmp_server() as server:
        publish_recording(server, "s")
        assert listed_packets(server.url("s"), tmp_path, options) == listed_packets(RECORDING_PATH, tmp_path)


def test_a_query_reaches_the_server_and_is_no_part_of_the_name(tmp_path: Path) -> None:
    with rtmp_server() as server:
        run_cleanly(copy_command(RECORDING_PATH, server.url("s?key=1&b=2")), tmp_path / "publish.log")
        server.wait_for(PublishEnded)
        assert [(event.name, event.query) for event in server.events(PublishRequested)] == [("s", "key=1&b=2")]
        assert listed_packets(server.url("s?who=me"), tmp_path) != []
        assert [(event.name, event.query) for event in server.events(PlayRequested)] == [("s", "who=me")]
        assert {event.app for event in server.events(ConnectRequested)} == {"live"}


def test_a_live_encode_reaches_a_viewer_that_waited_for_it(tmp_path: Path) -> None:
    local_path, list_path = tmp_path / "local.flv", tmp_path / "played.txt"
    encoding = [*pattern_arguments(1.5), *TINY_H264_ARGUMENTS, *TINY_AAC_ARGUMENTS]
    # Unlike FLV itself, tee does not ask the encoders for the configuration that becomes the sequence headers.
    tee = ["-flags:v", "+global_header", "-flags:a", "+global_header", "-map", "0", "-map", "1", "-f", "tee"]
    with rtmp_server() as server:
        play = packet_list_command(server.url("s"), list_path)
        with running(play, tmp_path / "play.log") as player:
            server.wait_for(PlayRequested)
            outputs = f"[f=flv]{local_path}|[f=flv]{server.url('s')}"
            run_cleanly(ffmpeg_command(*encoding, *tee, outputs), tmp_path / "publish.log")
            assert player.wait_for_exit(DEADLINE_S) == 0
            assert error_lines(player.log_text()) == []
        assert_same_media(server.samples("s"), flv_samples(local_path))
    assert packet_lines(list_path) == listed_packets(local_path, tmp_path)


@pytest.mark.parametrize(
    "refusals", [Refusals(connect=DESCRIPTION), Refusals(publish=DESCRIPTION)], ids=["connect", "publish"]
)
def test_a_refused_publisher_shows_our_description_and_ends(refusals: Refusals, tmp_path: Path) -> None:
    with rtmp_server(refusals=refusals) as server:
        printed = run_to_failure(copy_command(RECORDING_PATH, server.url("s")), tmp_path / "publish.log")
        assert server.publications == {}
    assert f"Server error: {DESCRIPTION}" in printed


@pytest.mark.parametrize(
    "refusals", [Refusals(connect=DESCRIPTION), Refusals(play=DESCRIPTION)], ids=["connect", "play"]
)
def test_a_refused_player_shows_our_description_and_ends(refusals: Refusals, tmp_path: Path) -> None:
    with rtmp_server(refusals=refusals) as server:
        play = packet_list_command(server.url("s"), tmp_path / "packets.txt")
        printed = run_to_failure(play, tmp_path / "play.log")
    assert f"Server error: {DESCRIPTION}" in printed
