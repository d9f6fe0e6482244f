"""The frames that bench checks, what it counts, whom it may load, and a swarm against nginx."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.describe import describe
from penstock.media.frame import FrameKind, frame_of
from penstock.tools.bench import is_loopback, main, misuse_of
from penstock.tools.bench_media import (
    KEY_FRAME_FRAMES,
    BenchMedia,
    Latencies,
    Planned,
    Seen,
    ViewerTally,
    planned_frames,
)
from penstock.tools.command_line import BENCH
from tests.support.nginx_rtmp import nginx_rtmp
from tests.support.rtmp_server import Refusals, rtmp_server
from tests.tools.frames import parsed

MEDIA = BenchMedia.make()
AUDIO, VIDEO = FrameKind.AUDIO, FrameKind.VIDEO


def seen(sequence: int, sent_at_ns: int = 0, publisher: int = 0) -> Seen:
    return Seen(publisher, sequence, sent_at_ns)


def test_a_frame_is_laid_out_as_documented() -> None:
    payload = MEDIA.frame(Planned(1000, VIDEO, 30, 4096), publisher=7, sent_at_ns=0x0102030405060708).payload
    assert payload[:27] == bytes.fromhex("1701000000") + b"PENS" + bytes.fromhex(
        "0007 0000001e 00001000 0102030405060708"
    )
    assert len(payload) == 4096


@pytest.mark.parametrize(("kind", "sequence", "start"), [(VIDEO, 0, "17"), (VIDEO, 1, "27"), (AUDIO, 0, "af01")])
def test_a_frame_that_arrives_whole_is_read(kind: FrameKind, sequence: int, start: str) -> None:
    frame = MEDIA.frame(Planned(40, kind, sequence, 300), publisher=1, sent_at_ns=5)
    assert frame.payload.hex().startswith(start)
    assert frame.is_key is (start == "17")
    assert MEDIA.check(frame) == Seen(1, sequence, 5)


@given(st.integers(0, 299), st.integers(1, 255))
def test_no_changed_byte_passes(place: int, change: int) -> None:
    frame = MEDIA.frame(Planned(40, VIDEO, 1, 300), publisher=1, sent_at_ns=5)
    payload = bytearray(frame.payload)
    payload[place] ^= change
    changed = MEDIA.check(frame_of(VIDEO, 40, bytes(payload)))
    # The FLV header is the server's to read, and the marker's own fields are compared by whoever knows them.
    assert changed is None or changed != Seen(1, 1, 5) or place < 5


@pytest.mark.parametrize("size", [0, 10, 26, 27, 299])
def test_no_cut_frame_passes(size: int) -> None:
    frame = MEDIA.frame(Planned(40, VIDEO, 1, 300), publisher=1, sent_at_ns=5)
    assert MEDIA.check(frame_of(VIDEO, 40, frame.payload[:size])) is None


def test_frames_larger_than_the_noise_are_checked_too() -> None:
    frame = MEDIA.frame(Planned(40, VIDEO, 12345, 3_000_000), publisher=1, sent_at_ns=5)
    assert MEDIA.check(frame) == Seen(1, 12345, 5)


def test_a_stream_has_the_rate_and_rhythm_that_were_asked_for() -> None:
    frames = list(planned_frames(2_000_000, 4.0))
    assert sum(frame.size_bytes for frame in frames) * 8 / 4 == pytest.approx(2_000_000, rel=0.02)
    assert [frame.timestamp_ms for frame in frames] == sorted(frame.timestamp_ms for frame in frames)
    pictures = [frame for frame in frames if frame.kind is VIDEO]
    assert [frame.sequence for frame in pictures] == list(range(120))
    assert pictures[KEY_FRAME_FRAMES].size_bytes == 5 * pictures[1].size_bytes
    assert sum(frame.kind is AUDIO for frame in frames) == pytest.approx(4 * 46.875, abs=1)


def test_a_rate_too_low_for_markers_still_has_markers() -> None:
    assert all(MEDIA.check(MEDIA.frame(frame, 0, 0)) for frame in planned_frames(1000, 1.0))


def test_the_setup_is_what_players_know() -> None:
    picture, sound = MEDIA.setup()
    assert describe(picture.payload, sound.payload) == "H.264 Constrained Baseline 3.0 640x360, AAC-LC 48 kHz stereo"


def test_percentiles_are_those_of_the_counted_latencies() -> None:
    latencies = Latencies()
    for latency_ms in range(1, 101):
        latencies.add(latency_ms - 0.05)
    assert [latencies.percentile_ms(percent) for percent in (50, 99, 100)] == pytest.approx([50, 99, 100])


def test_latencies_beyond_the_histogram_count_as_its_ends() -> None:
    latencies = Latencies()
    latencies.add(-1.0)
    latencies.add(1e9)
    assert latencies.percentile_ms(50) == pytest.approx(0.1)
    assert latencies.percentile_ms(100) == pytest.approx(10_000)


def test_without_messages_there_is_no_percentile() -> None:
    assert Latencies().percentile_ms(50) is None


def test_what_is_missing_between_two_messages_is_a_gap() -> None:
    tally = ViewerTally(0)
    for sequence in (10, 11, 14, 15):
        tally.add(VIDEO, seen(sequence), 100, 0)
    tally.add(AUDIO, seen(3), 10, 0)
    assert (tally.gaps, tally.missing_messages, tally.messages, tally.payload_bytes) == (1, 2, 5, 410)


def test_a_message_that_comes_again_is_a_gap_without_loss() -> None:
    tally = ViewerTally(0)
    for sequence in (10, 11, 10, 12):
        tally.add(VIDEO, seen(sequence), 100, 0)
    assert (tally.gaps, tally.missing_messages) == (1, 0)


def test_what_is_missing_at_the_end_is_a_gap() -> None:
    tally = ViewerTally(0)
    tally.add(VIDEO, seen(8), 100, 0)
    assert not tally.lacks({VIDEO: 9})
    assert tally.lacks({VIDEO: 12, AUDIO: 0})
    tally.end({VIDEO: 12, AUDIO: 5})
    assert (tally.gaps, tally.missing_messages) == (2, 3 + 5)


@pytest.mark.parametrize("damaged", [None, seen(0, publisher=1)])
def test_a_message_that_is_damaged_or_of_another_stream_is_a_corruption(damaged: Seen | None) -> None:
    tally = ViewerTally(0)
    assert tally.add(VIDEO, damaged, 100, 0) is None
    assert tally.corruptions == 1


def test_latency_is_counted_from_when_the_viewer_was_there() -> None:
    tally = ViewerTally(0)
    tally.join(asked_at_ns=0, joined_at_ns=5_000_000)
    assert tally.add(VIDEO, seen(0, sent_at_ns=1_000_000), 100, 6_000_000) is None
    assert tally.add(VIDEO, seen(1, sent_at_ns=6_000_000), 100, 8_000_000) == 2.0
    assert tally.first_frame_ms == 6.0


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("192.0.2.1", False), ("0.0.0.0", False)],
)
def test_only_this_machine_is_loopback(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


def test_a_swarm_finds_nothing_wrong_with_nginx(capsys: pytest.CaptureFixture[str]) -> None:
    with nginx_rtmp() as nginx:
        words = (f"{nginx.url}/bench?key=1", "--publishers", "2", "--viewers", "5", "--seconds", "3", "--json")
        status = asyncio.run(main(parsed(BENCH, *words)))
    report = json.loads(capsys.readouterr().out)
    found = {name: report[name] for name in ("gaps", "missing_messages", "corruptions", "failures", "is_clean")}
    assert found == {"gaps": 0, "missing_messages": 0, "corruptions": 0, "failures": [], "is_clean": True}
    assert (status, report["publishers"], report["viewers"]) == (0, 2, 10)
    assert report["sent_messages"] == 2 * (90 + 141)
    # Viewers join within the first group of pictures and have all from the second on.
    assert report["received_messages"] >= 10 * (60 + 94)
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"] < 3000
    assert report["first_frame_ms"]["p100"] < 3000


def test_a_server_that_refuses_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with rtmp_server(refusals=Refusals(publish="no")) as server:
        status = asyncio.run(main(parsed(BENCH, server.url("b"), "--seconds", "2")))
    printed = capsys.readouterr().out
    assert status == 1
    assert "NetStream.Publish.BadName" in " ".join(printed.split())


def test_viewers_that_are_refused_are_a_failure_and_all_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with rtmp_server(refusals=Refusals(play="no")) as server:
        status = asyncio.run(main(parsed(BENCH, server.url("b"), "--seconds", "2", "--bitrate", "100k", "--json")))
    report = json.loads(capsys.readouterr().out)
    assert (status, report["missing_messages"], report["is_clean"]) == (1, report["sent_messages"], False)
    assert "NetStream.Play.StreamNotFound" in report["failures"][0]


@pytest.mark.parametrize(
    ("url", "options", "complaint"),
    [
        ("rtmp://192.0.2.1/live/x", [], "192.0.2.1 is another machine; use --allow-remote"),
        (
            "rtmp://192.0.2.1/live/x",
            ["--allow-remote", "--viewers", "20"],
            "21 connections for 10 s to another machine",
        ),
        ("rtmp://192.0.2.1/live/x", ["--allow-remote", "--seconds", "31"], "at most 20 connections for 30 s"),
        ("rtmp://[2001:db8::1]/live/x", [], "is another machine"),
        ("rtmp://127.0.0.1/live/x", ["--seconds", "1"], "too short"),
        ("rtmp://127.0.0.1/live", [], "no stream name"),
        ("rtmp://a..b/live/x", [], "a..b"),
    ],
)
def test_bench_refuses_what_is_not_its_to_load(
    url: str, options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert BENCH.run(parsed(BENCH, url, *options)) == 2
    assert complaint in capsys.readouterr().err


def test_a_small_swarm_may_be_let_loose_on_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("rtmp://192.0.2.1/live/x", "--allow-remote", "--viewers", "19", "--seconds", "30")
    assert misuse_of(parsed(BENCH, *words)) is None
    assert capsys.readouterr().err.endswith("192.0.2.1 is another machine: at most 20 connections for 30 s\n")
