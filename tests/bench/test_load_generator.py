"""The load generator against nginx-rtmp and against messages made by hand: what it claims to check, it checks."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from bench.load import LoadFailed, Result, compile_generator, load

from tests.bench.stamped_server import AUDIO, VIDEO, chunk, payload, spoiling_relay, stamped_server
from tests.support.nginx_rtmp import NginxRtmp, nginx_rtmp

# What it counts is what came within a window of tenths of a second.
pytestmark = pytest.mark.alone

DEADLINE_S = 15.0
SMALL_STREAM = {"video_bps": 1_000_000, "gop_s": 0.5}
PLAY = SMALL_STREAM | {"warmup_s": 0.1, "check_every": 1}


@pytest.fixture(scope="module")
def nginx() -> Iterator[NginxRtmp]:
    with nginx_rtmp(log_level="error") as server:
        yield server


def play(server_port: int, viewer_port: int | None = None, streams: int = 1, **options: object) -> Result:
    """Publish to a server and watch it, perhaps by another port."""
    name = f"s{time.monotonic_ns()}-"
    shared = {"name": name, "streams": streams}
    with load("publish", SMALL_STREAM | shared | {"port": server_port, "seconds": 0}) as publishers:
        publishers.wait_for("ready", DEADLINE_S)
        with load("play", PLAY | shared | {"port": viewer_port or server_port} | options) as viewers:
            viewers.wait_for("window_end", DEADLINE_S)
            result = viewers.result()
        published = publishers.stop()
    assert (published["failed"], published["dropped"], published["live_at_end"]) == (0, 0, streams)
    return result


def play_by_hand(video_sequences: Sequence[int], *more: bytes) -> Result:
    """Let one viewer get these frames, all in the window, and whatever else."""

    def wire() -> bytes:
        # Later than the viewer's settling: only what arrives in the window is counted.
        time.sleep(0.15)
        frames = [chunk(6, VIDEO, payload(VIDEO, each, time.monotonic_ns())) for each in video_sequences]
        return b"".join([*frames, *more])

    with (
        stamped_server(wire) as port,
        load("play", {"port": port, "check_every": 1, "settle_s": 0.05, "warmup_s": 0, "seconds": 0.35}) as viewer,
    ):
        return viewer.result()


def test_viewers_of_nginx_get_every_byte_in_order(nginx: NginxRtmp) -> None:
    result = play(nginx.port, streams=3, connections=6, seconds=2)
    steady = result["steady"]
    assert (result["live_at_start"], result["live_at_end"], result["with_key_frame"]) == (6, 6, 6)
    assert (result["corrupt_messages"], result["protocol_errors"]) == (0, 0)
    assert [steady[name] for name in ("gaps", "missing", "duplicates", "reordered")] == [0, 0, 0, 0]
    assert steady["messages"] == pytest.approx(6 * 73 * result["window_s"], rel=0.1)
    assert result["checked_bytes"] > 0.9 * steady["bytes"]
    assert 0 < steady["latency"]["p50_ms"] < 1000
    assert 0 < result["first_key_frame"]["p50_ms"] < 2000
    assert result["cpu_s"] > 0


@pytest.mark.parametrize("offset_from_magic", [-1, 9, 20, 150])
def test_one_wrong_byte_is_found_wherever_it_is(nginx: NginxRtmp, offset_from_magic: int) -> None:
    with spoiling_relay(nginx.port, offset_from_magic) as port:
        result = play(nginx.port, port, seconds=0.2)
    assert (result["corrupt_messages"], result["protocol_errors"], result["dropped"]) == (1, 0, 0)


def test_slow_viewers_are_slow_and_the_others_are_not(nginx: NginxRtmp) -> None:
    slow: dict[str, Any] = {"slow_share": 0.5, "slow_bytes_per_s": 30_000, "slow_receive_buffer": 4096}
    result = play(nginx.port, connections=4, seconds=2, settle_s=0.5, **slow)
    assert (result["steady"]["viewers"], result["slow"]["viewers"]) == (2, 2)
    assert result["steady"]["messages"] == pytest.approx(2 * 73 * result["window_s"], rel=0.1)
    assert 0.5 * 60_000 < result["slow"]["bytes"] / result["window_s"] < 1.2 * 60_000
    assert result["slow"]["latency"]["p50_ms"] > 5 * result["steady"]["latency"]["p50_ms"]


def test_idle_connections_stay_connected(nginx: NginxRtmp) -> None:
    with load("idle", {"port": nginx.port, "connections": 20, "seconds": 0.3, "warmup_s": 0}) as idle:
        result = idle.result()
    assert (result["live_at_start"], result["live_at_end"], result["failed"]) == (20, 20, 0)


def test_frames_made_by_hand_are_right() -> None:
    audio = chunk(4, AUDIO, payload(AUDIO, 0, time.monotonic_ns()))
    result = play_by_hand([0, 1, 2, 3], audio)
    steady = result["steady"]
    assert (steady["messages"], steady["video_messages"], result["corrupt_messages"]) == (5, 4, 0)
    assert [steady[name] for name in ("gaps", "missing", "duplicates", "reordered")] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("sequences", "counted"),
    [
        ([0, 1, 5, 6], {"gaps": 1, "missing": 3, "resumed_off_key": 1}),
        ([0, 1, 60, 61], {"gaps": 1, "missing": 58}),
        ([0, 1, 1, 2, 0], {"duplicates": 2}),
        ([0, 2, 1, 3], {"gaps": 1, "missing": 1, "reordered": 1, "resumed_off_key": 1}),
        ([70, 71, 3], {"reordered": 1}),
    ],
)
def test_gaps_duplicates_and_disorder_are_counted(sequences: list[int], counted: dict[str, int]) -> None:
    steady = play_by_hand(sequences)["steady"]
    names = ("gaps", "missing", "duplicates", "reordered", "resumed_off_key")
    assert {name: steady[name] for name in names if steady[name]} == counted


def test_every_kind_of_chunk_header_is_read() -> None:
    frames = [payload(VIDEO, sequence, time.monotonic_ns()) for sequence in range(5)]
    size = len(frames[0]).to_bytes(3, "big")
    full, rest = payload(AUDIO, 0, time.monotonic_ns(), 70_000), 65_536
    wire = [
        b"\x41\x06\x00" + bytes(3) + size + b"\x09" + frames[1],  # fmt 1 on chunk stream 70, three-byte form
        b"\x80\x06" + b"\x00\x00\x21" + frames[2],  # fmt 2 on the same, two-byte form
        b"\xc0\x06" + frames[3],  # fmt 3 starts a message
        b"\x00\x06\xff\xff\xff" + size + b"\x09\x01\x00\x00\x00" + b"\x01\x00\x00\x00" + frames[4],  # extended time
        # A long message in two chunks with an extended timestamp, and a ping between them.
        b"\x04\xff\xff\xff" + len(full).to_bytes(3, "big") + b"\x08\x01\x00\x00\x00\x01\x00\x00\x00" + full[:rest],
        chunk(2, 4, b"\x00\x06\x00\x00\x00\x01"),
        b"\xc4\x01\x00\x00\x00" + full[rest:],
        chunk(4, AUDIO, payload(AUDIO, 1, time.monotonic_ns())),
        chunk(4, AUDIO, b""),
    ]
    result = play_by_hand([0], *wire)
    assert (result["protocol_errors"], result["corrupt_messages"]) == (0, 0)
    assert (result["steady"]["messages"], result["steady"]["gaps"], result["send_calls"]) == (7, 0, 1)


def test_a_header_that_cannot_be_ends_the_connection() -> None:
    result = play_by_hand([0], b"\xc9")
    assert (result["protocol_errors"], result["dropped"]) == (1, 1)


@pytest.mark.parametrize(
    ("flush", "by", "sends_per_s"), [("message", "write", 73), ("frame", "sendfile", 30), ("50", "sendfile", 20)]
)
def test_the_floor_sends_every_byte_as_often_as_asked(flush: str, by: str, sends_per_s: int) -> None:
    options = PLAY | {"connections": 10, "seconds": 0.8, "flush": flush, "by": by}
    with load("floor", options) as floor:
        result = floor.result()
    reader = result["reader"]
    assert result["send_calls"] / 10 / result["window_s"] == pytest.approx(sends_per_s, rel=0.15)
    assert (reader["corrupt_messages"], reader["protocol_errors"], reader["steady"]["gaps"]) == (0, 0, 0)
    assert reader["steady"]["messages"] > 0.8 * 10 * 73 * reader["window_s"]
    assert result["cpu_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        # Not loopback by its number, yet the kernel takes it for this machine: a broken guard would reach nobody.
        (["play", "--host", "0.0.0.0"], "0.0.0.0 is not an IPv4 loopback address"),
        (["play", "--host", "localhost"], "localhost is not an IPv4 loopback address"),
        (["watch"], "watch is none of publish, play, idle, floor"),
        (["play", "--fps", "fast"], "--fps fast is not a number from 0.1 to 1000"),
        (["play", "--loud", "1"], "--loud is no option"),
        (["play", "--port"], "--port needs a value"),
        (["floor", "--by", "pigeon"], "--by pigeon is neither write nor sendfile"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], complaint: str) -> None:
    done = subprocess.run([compile_generator(), *arguments], capture_output=True, text=True, check=False, timeout=5)
    assert (done.returncode, done.stderr) == (2, f"rtmp_load: {complaint}\n")


def test_a_server_that_is_not_there_is_a_failure_of_every_connection() -> None:
    with load("play", {"port": 1, "connections": 3}) as viewers:
        result = viewers.result()
    assert (result["failed"], result["window_s"]) == (3, 0)


def test_an_event_that_does_not_come_is_an_error() -> None:
    with load("play", {"port": 1}) as viewers, pytest.raises(LoadFailed, match="no window_start within"):
        viewers.wait_for("window_start", DEADLINE_S)
