"""The real server between programs that speak Enhanced RTMP: the FFmpeg of a wheel, and PyAV.

HEVC, AV1 and VP9 go from one FFmpeg to another; Opus, FLAC and several tracks of a kind go from PyAV to PyAV. Each is
judged by the program's own list of packets, from the stream and from the file that was published.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.interop.ffmpeg_copies import DEADLINE_S, ffmpeg_command, packet_lines, packet_list_command, run_cleanly
from tests.interop.live_player import player_command, pyav_command, waiting_player
from tests.support.golden import GOLDEN_DIR
from tests.support.live_publisher import live_publisher
from tests.support.modern_ffmpeg import ENHANCED_CODECS, by_modern_ffmpeg
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import run_to_end
from tests.support.samples import golden_samples

# In real time from the first packet on; by default this FFmpeg sends half a second at once, and 0 means the default.
IN_REAL_TIME = ("-re", "-readrate_initial_burst", "0.001")
PATTERN = "testsrc=size=128x72:rate=10:duration=2,format=yuv420p"
VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "5", "-b:v", "60k")
PUBLISH_PYAV = GOLDEN_DIR / "sessions" / "publish_pyav.py"

names = (f"stream{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockServer]:
    with penstock_server(tmp_path_factory.mktemp("penstock")) as running_server:
        yield running_server


def source_in(codec: str, work_dir: Path) -> Path:
    """A recording in this codec."""
    if codec != "vp9":
        return GOLDEN_DIR / "flv" / {"hevc": "hevc_aac.flv", "av1": "av1.flv"}[codec]
    path = work_dir / "vp9.flv"
    encode = ffmpeg_command("-f", "lavfi", "-i", PATTERN, *VP9, "-f", "flv", path)
    run_cleanly(by_modern_ffmpeg(encode), work_dir / "encode.log")
    return path


@pytest.mark.parametrize("codec", ["hevc", "av1", "vp9"])
def test_ffmpeg_plays_the_packets_that_ffmpeg_publishes(server: PenstockServer, codec: str, tmp_path: Path) -> None:
    name, list_path, source = next(names), tmp_path / "played.txt", source_in(codec, tmp_path)
    run_cleanly(by_modern_ffmpeg(packet_list_command(source, tmp_path / "source.txt")), tmp_path / "source.log")
    play = by_modern_ffmpeg(player_command(server.url(name), list_path, ENHANCED_CODECS))
    publish = ffmpeg_command(*IN_REAL_TIME, "-i", source, "-c", "copy", *ENHANCED_CODECS, "-f", "flv", server.url(name))
    with waiting_player(server, name, play, list_path) as player:
        run_cleanly(by_modern_ffmpeg(publish), tmp_path / "publish.log")
        played = player.finish()
    assert played == packet_lines(tmp_path / "source.txt")
    assert len(played) >= 15


def listed_by_pyav(source: Path, work_dir: Path) -> tuple[list[str], list[str]]:
    """The tracks and the packets of a file."""
    list_path = work_dir / "source.txt"
    run_to_end(pyav_command(source, list_path), work_dir / "source.log", DEADLINE_S)
    return tracks_of(list_path), packet_lines(list_path)


def tracks_of(list_path: Path) -> list[str]:
    lines = list_path.read_text(encoding="utf-8").splitlines()
    return sorted(line.partition(", ")[2] for line in lines if line.startswith("#"))


@pytest.mark.parametrize(
    "encoders",
    [("libx264", "libopus"), ("libx264", "flac"), ("libx264", "libx264", "aac", "libopus")],
    ids=["Opus", "FLAC", "multitrack"],
)
def test_pyav_plays_the_packets_that_pyav_publishes(
    server: PenstockServer, encoders: Sequence[str], tmp_path: Path
) -> None:
    name, list_path, source = next(names), tmp_path / "played.txt", tmp_path / "source.flv"
    run_to_end([sys.executable, str(PUBLISH_PYAV), str(source), *encoders], tmp_path / "encode.log", DEADLINE_S)
    tracks, packets = listed_by_pyav(source, tmp_path)
    with waiting_player(server, name, pyav_command(server.url(name), list_path), list_path) as player:
        publish = [sys.executable, "-m", "tests.support.pyav_copy", str(source), server.url(name)]
        run_to_end(publish, tmp_path / "publish.log", DEADLINE_S)
        played = player.finish()
    assert tracks_of(list_path) == tracks
    assert played == packets
    assert len(tracks) == len(encoders)


def test_one_who_joins_late_gets_the_set_up_of_each_track(server: PenstockServer, tmp_path: Path) -> None:
    name, list_path = next(names), tmp_path / "late.txt"
    samples = golden_samples("pyav_publish_multitrack")
    with live_publisher(server.port, name, samples) as publisher:
        publisher.wait_for_second_round()
        run_to_end([*pyav_command(server.url(name), list_path), "1"], tmp_path / "late.log", DEADLINE_S)
    assert [track.split(", ")[:2] for track in tracks_of(list_path)] == [
        ["audio", "aac"],
        ["audio", "opus"],
        ["video", "h264"],
        ["video", "h264"],
    ]
    empty_md5 = "d41d8cd98f00b204e9800998ecf8427e"
    assert not any(track.endswith(empty_md5) for track in tracks_of(list_path))
    assert {line.split(", ")[0] for line in packet_lines(list_path)} == {"0", "1", "2", "3"}
