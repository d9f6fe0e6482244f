"""The commands at work: against nginx, against our own server session, by signals and through pipes."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.media.frame import Frame
from penstock.protocol.events import EndReason, PublishEnded
from penstock.tools.command_line import PLAY, PROBE, PUBLISH
from penstock.tools.files import file_frames
from penstock.tools.flv import FlvOutput
from penstock.tools.pace import RateMeter
from penstock.tools.pattern import Pattern, pattern_frames
from penstock.tools.play import _line
from penstock.tools.play import main as run_play
from penstock.tools.probe import main as run_probe
from penstock.tools.publish import main as run_publish
from penstock.tools.statistics import StreamStatistics
from tests.interop.ffmpeg_copies import copy_command, listed_packets, run_cleanly
from tests.support.golden import GOLDEN_DIR
from tests.support.nginx_rtmp import NginxRtmp, nginx_rtmp
from tests.support.processes import POLL_S, running
from tests.support.rtmp_server import RtmpServer, rtmp_server
from tests.support.samples import AUDIO, DATA, VIDEO, fingerprints, flv_samples
from tests.tools.frames import KEY, audio, parsed, video

DEADLINE_S = 20.0
GOLDEN_FLV = GOLDEN_DIR / "flv" / "h264_aac.flv"
SMALL = ("--size", "128x72", "--fps", "10", "--bitrate", "60k")
COMMAND = [sys.executable, "-m", "penstock"]

TRACK_OF_GOLDEN_VIDEO = {
    "kind": "video",
    "track_id": 0,
    "codec": "H.264 AVC",
    "text": "H.264 High 1.0 160x90",
    "width_px": 160,
    "height_px": 90,
    "sample_rate_hz": None,
    "channels": None,
    "frames": 20,
    "bytes": 4388,
    "start_ms": 0,
    "duration_ms": 2000,
    "fps": 10,
    "bitrate_bps": 17552,
    "keyframes": 4,
    "keyframe_interval_ms": 500,
    "keyframe_interval_max_ms": 500,
    "gaps": 0,
    "gap_max_ms": None,
    "steps_back": 0,
}


def small_pattern(codec: str, seconds: float) -> list[Frame]:
    return list(pattern_frames(Pattern(codec, 128, 72, 10, 60_000, seconds)))


def written(frames: list[Frame], path: Path) -> Path:
    with path.open("wb") as file:
        output = FlvOutput(file, can_seek=True)
        for frame in frames:
            output.write(frame)
        output.finish()
    return path


async def wait_for_viewer(nginx: NginxRtmp) -> None:
    """Return once nginx has a viewer: what is published before is lost to it."""
    async with asyncio.timeout(DEADLINE_S):
        while " play: name=" not in nginx.log_path.read_text(encoding="utf-8"):
            await asyncio.sleep(POLL_S)


def publish_and_play(nginx: NginxRtmp, publish_words: list[str], play_words: list[str]) -> None:
    url = f"{nginx.url}/test"

    async def publish_once_there_is_a_viewer() -> int:
        await wait_for_viewer(nginx)
        return await run_publish(parsed(PUBLISH, url, *publish_words))

    async def run() -> None:
        player = run_play(parsed(PLAY, url, *play_words))
        played, published = await asyncio.gather(player, publish_once_there_is_a_viewer())
        assert (played, published) == (0, 0)

    asyncio.run(run())


def test_the_pattern_comes_back_from_nginx_as_it_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = tmp_path / "played.flv"
    started_at_s = time.monotonic()
    with nginx_rtmp() as nginx:
        publish_and_play(nginx, ["--seconds", "2", *SMALL], ["-o", str(played), "--json", "--stats"])
    assert time.monotonic() - started_at_s > 1.8, "not in real time"
    made = written(small_pattern("h264", 2.0), tmp_path / "made.flv")
    assert listed_packets(played, tmp_path) == listed_packets(made, tmp_path)
    captured = capsys.readouterr()
    assert "published H.264 Constrained Baseline 1b 128x72, AAC-LC 48 kHz stereo: 0:00:02.0" in captured.err
    report, end = json.JSONDecoder().raw_decode(captured.out)
    tracks = {track["kind"]: track for track in report["tracks"]}
    assert (tracks["video"]["frames"], tracks["video"]["fps"], tracks["video"]["gaps"]) == (20, 10, 0)
    assert (report["malformed_messages"], report["reconnects"]) == (0, 0)
    assert report["first_frame_ms"] > 0
    assert "H.264" in captured.out[end:]


def test_a_file_comes_back_from_nginx_as_it_is(tmp_path: Path) -> None:
    played, container = tmp_path / "played.flv", tmp_path / "copy.mp4"
    copy = copy_command(GOLDEN_FLV, container)
    copy[copy.index("flv")] = "mp4"
    run_cleanly(copy, tmp_path / "copy.log")
    with nginx_rtmp() as nginx:
        publish_and_play(nginx, [str(container), "--fast"], ["-o", str(played)])
    samples = flv_samples(played)
    for kind in (VIDEO, AUDIO):
        expected = [frame for frame in file_frames(container) if frame.kind == kind]
        assert [sample.payload for sample in samples if sample.type_id == kind] == [each.payload for each in expected]


@pytest.mark.parametrize("codec", ["hevc", "av1", "vp9"])
def test_enhanced_codecs_reach_a_server_as_they_were_made(codec: str) -> None:
    with rtmp_server() as server:
        words = (server.url("test"), "--codec", codec, "--seconds", "1", "--fast", *SMALL)
        assert asyncio.run(run_publish(parsed(PUBLISH, *words))) == 0
        (ended,) = server.wait_for(PublishEnded)
        samples = server.samples("test")
    frames = small_pattern(codec, 1.0)
    assert [(sample.type_id, sample.timestamp_ms, sample.payload) for sample in samples] == [
        (frame.kind, frame.timestamp_ms, frame.payload) for frame in frames
    ]
    assert ended.reason is EndReason.FC_UNPUBLISH


def test_a_looped_file_goes_on_until_its_time_is_over() -> None:
    with rtmp_server() as server:
        words = (server.url("test"), str(GOLDEN_FLV), "--loop", "--seconds", "5", "--fast")
        assert asyncio.run(run_publish(parsed(PUBLISH, *words))) == 0
        server.wait_for(PublishEnded)
        samples = server.samples("test")
    keys = [sample for sample in samples if sample.type_id == VIDEO and sample.payload[:2] == b"\x17\x01"]
    assert [key.payload for key in keys[:4]] == [key.payload for key in keys[4:8]]
    times_ms = [sample.timestamp_ms for sample in samples if sample.type_id != DATA]
    assert 4900 <= max(times_ms) < 5000 + 200


def test_a_file_without_a_frame_is_not_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.flv"
    path.write_bytes(bytes.fromhex("464c5601050000000900000000"))
    assert asyncio.run(run_publish(parsed(PUBLISH, "rtmp://127.0.0.1:1/live/x", str(path)))) == 0
    assert "published nothing" in capsys.readouterr().err


def probed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert asyncio.run(run_probe(parsed(PROBE, "--json", *words))) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_probe_tells_all_of_an_flv_file(capsys: pytest.CaptureFixture[str]) -> None:
    report = probed(capsys, str(GOLDEN_FLV))
    tracks = report.pop("tracks")
    assert report == {
        "source": str(GOLDEN_FLV),
        "format": "flv",
        "duration_s": 2.197,
        "messages": 112,
        "bytes": 11000,
        "bitrate_bps": 40055,
        "malformed_messages": 0,
        "av_skew_ms": -297,
        "av_skew_max_ms": -297,
        "metadata": {
            "duration": 2.2,
            "width": 160,
            "height": 90,
            "videodatarate": 0,
            "framerate": 10,
            "videocodecid": 7,
            "audiodatarate": 23.4375,
            "audiosamplerate": 44100,
            "audiosamplesize": 16,
            "stereo": False,
            "audiocodecid": 10,
            "filesize": 12693,
        },
    }
    assert isinstance(tracks, list)
    assert tracks[0] == TRACK_OF_GOLDEN_VIDEO
    assert (tracks[1]["text"], tracks[1]["frames"], tracks[1]["start_ms"]) == ("AAC-LC 44.1 kHz mono", 88, 177)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("hevc_aac", ["H.265 Main 1.0 160x90", "AAC-LC 44.1 kHz mono"]),
        ("av1", ["AV1 Main 2.0 160x90"]),
        ("script_data", ["H.264 High 1.0 160x90", "AAC-LC 44.1 kHz mono"]),
    ],
)
def test_probe_names_the_tracks_of_flv_files(name: str, texts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    tracks = probed(capsys, str(GOLDEN_DIR / "flv" / f"{name}.flv"))["tracks"]
    assert isinstance(tracks, list)
    assert [track["text"] for track in tracks] == texts


@pytest.mark.parametrize(("seconds", "frames"), [(None, 20), ("1", 10)])
@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_probe_tells_of_other_containers(
    suffix: str, seconds: str | None, frames: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"copy.{suffix}"
    copy = copy_command(GOLDEN_FLV, path)
    copy[copy.index("flv")] = {"mkv": "matroska", "mp4": "mp4"}[suffix]
    run_cleanly(copy, tmp_path / "copy.log")
    report = probed(capsys, str(path), *(() if seconds is None else ("--seconds", seconds)))
    tracks = report["tracks"]
    assert isinstance(tracks, list)
    assert [track["text"] for track in tracks] == ["h264 High 160x90", "aac LC 44.1 kHz mono"]
    assert (tracks[0]["frames"], tracks[0]["fps"], tracks[0]["keyframe_interval_ms"]) == (frames, 10, 500)


def test_probe_counts_what_has_no_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.h264"
    copy = copy_command(GOLDEN_FLV, path, ["-an", "-bsf:v", "h264_mp4toannexb"])
    copy[len(copy) - 1 - copy[::-1].index("flv")] = "h264"
    run_cleanly(copy, tmp_path / "copy.log")
    tracks = probed(capsys, str(path))["tracks"]
    assert isinstance(tracks, list)
    assert [(track["frames"], track["fps"]) for track in tracks] == [(20, None)]


def test_probe_shows_tables_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncio.run(run_probe(parsed(PROBE, str(GOLDEN_FLV), "--seconds", "1"))) == 0
    printed = capsys.readouterr().out
    assert "AAC-LC" in printed
    assert "framerate" in printed


def test_probe_refuses_what_is_no_media(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text", encoding="utf-8")
    assert PROBE.run(parsed(PROBE, str(path))) == 1
    assert capsys.readouterr().err.startswith("penstock probe: ffmpeg: ")


def test_probe_of_a_silent_stream_ends_in_time_and_fails() -> None:
    started_at_s = time.monotonic()
    with nginx_rtmp() as nginx:
        status = asyncio.run(run_probe(parsed(PROBE, f"{nginx.url}/nobody", "--seconds", "0.3")))
    assert status == 1
    assert time.monotonic() - started_at_s < 5


def test_probe_watches_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    with rtmp_server() as server:
        asyncio.run(run_publish(parsed(PUBLISH, server.url("test"), str(GOLDEN_FLV), "--fast")))
        server.wait_for(PublishEnded)
        capsys.readouterr()
        report = probed(capsys, server.url("test"), "--seconds", "2")
    assert isinstance(report["tracks"], list)
    assert report["tracks"][0] == TRACK_OF_GOLDEN_VIDEO
    assert report["format"] == "rtmp"


def stop_by_signal(program: list[str], server: RtmpServer, number: int) -> tuple[int, str]:
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            give_up_at_s = time.monotonic() + DEADLINE_S
            while len(server.samples("test")) < 40:
                assert time.monotonic() < give_up_at_s
                time.sleep(POLL_S)
            process.send_signal(number)
            _, errors = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_publish_ends_its_stream_and_says_what_it_sent(number: int) -> None:
    with rtmp_server() as server:
        status, errors = stop_by_signal([*COMMAND, "publish", server.url("test"), *SMALL], server, number)
        (ended,) = server.wait_for(PublishEnded)
    assert (status, ended.reason) == (0, EndReason.FC_UNPUBLISH)
    assert errors.startswith("published H.264")
    assert "Traceback" not in errors


def test_a_pipe_gets_flv_and_nothing_else(tmp_path: Path) -> None:
    with rtmp_server() as server:
        asyncio.run(run_publish(parsed(PUBLISH, server.url("test"), str(GOLDEN_FLV), "--fast")))
        server.wait_for(PublishEnded)
        command = [*COMMAND, "play", server.url("test"), "-o", "-", "--json", "--stats"]
        ended = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)
    path = tmp_path / "piped.flv"
    path.write_bytes(ended.stdout)
    for kind in (VIDEO, AUDIO):
        assert fingerprints(flv_samples(path), kind) == fingerprints(flv_samples(GOLDEN_FLV), kind)
    assert b'"format": "rtmp"' in ended.stderr


def test_a_play_ends_by_time_with_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "played.flv"
    with (
        rtmp_server() as server,
        running([*COMMAND, "publish", server.url("test"), *SMALL], tmp_path / "publish.log"),
    ):
        give_up_at_s = time.monotonic() + DEADLINE_S
        while not server.samples("test"):
            assert time.monotonic() < give_up_at_s
            time.sleep(POLL_S)
        assert asyncio.run(run_play(parsed(PLAY, server.url("test"), "-o", str(path), "--seconds", "1"))) == 0
    assert b"hasKeyframes" in path.read_bytes()[:1000]
    assert sum(sample.type_id == VIDEO for sample in flv_samples(path)) >= 8


def test_the_line_of_a_play_tells_rates_key_frames_skew_and_gaps() -> None:
    statistics, meter = StreamStatistics(), RateMeter(0.0)
    assert _line(statistics, meter).endswith("0 gaps")
    for frame in [video(0, KEY), audio(0), video(2000, KEY), audio(1900)]:
        statistics.add(frame)
    line = _line(statistics, meter)
    for text in ("0:00:02.0", "fps", "key frame each 2.0 s", "picture +100 ms to sound", "0 gaps"):
        assert text in line


def test_a_server_that_is_not_there_leaves_a_line_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    url = "rtmp://127.0.0.1:1/live/x"
    assert PLAY.run(parsed(PLAY, url)) == 1
    assert PUBLISH.run(parsed(PUBLISH, url, str(GOLDEN_FLV))) == 1
    assert PROBE.run(parsed(PROBE, url)) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"penstock {name}: server 127.0.0.1:1: no connection: Connection refused"
        for name in ("play", "publish", "probe")
    ]
