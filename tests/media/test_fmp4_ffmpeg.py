"""Our MP4 under FFmpeg's eyes: every pair of codecs demuxes to the packets and times of its FLV, and all frames decode.

Each codec is encoded once, by FFmpeg 8.1.2 (PyAV); pairs are put together here. Two FFmpegs read what we wrote: PyAV's,
which also reads the FLV, and Debian's 5.1.9, which decodes it. GStreamer's qtdemux, which shares no code with them,
finds the same bytes.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.media.fmp4_remux import remuxed
from tests.support.mp4_reader import read_samples
from tests.support.processes import find_program, run_to_end
from tests.support.samples import flv_samples, media_of

DEADLINE_S = 30.0
VIDEO_ENCODERS = ("libx264", "libx265", "libsvtav1", "libvpx-vp9")
AUDIO_ENCODERS = ("aac", "libopus", "ac3", "eac3", "flac", "libmp3lame")
NAMES = {
    "libx264": "h264",
    "libx265": "hevc",
    "libsvtav1": "av1",
    "libvpx-vp9": "vp9",
    "libopus": "opus",
    "libmp3lame": "mp3",
}
PAIRS = [(video, audio) for video in (*VIDEO_ENCODERS, "none") for audio in (*AUDIO_ENCODERS, "none")][:-1]

Encode = Callable[[str, str], Path]


class Packet(NamedTuple):
    """One packet as FFmpeg reads it, in milliseconds."""

    dts_ms: int
    pts_ms: int
    size: int
    md5: str


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Encode:
    """The FLV of an encoder, made once."""
    folder = tmp_path_factory.mktemp("encoded")

    def encode(video: str, audio: str) -> Path:
        path = folder / f"{video}_{audio}.flv"
        if not path.exists():
            run_to_end(
                [sys.executable, "-m", "tests.support.pyav_encode", video, audio, str(path)], folder / "log", DEADLINE_S
            )
        return path

    return encode


def packets_of(path: Path) -> dict[str, list[Packet]]:
    """Packets by kind of track. FFmpeg gives the empty set-up that it writes for AC-3 as a packet; that is not one."""
    list_path = path.with_suffix(".packets")
    if not list_path.exists():
        command = [sys.executable, "-m", "tests.support.pyav_packets", str(path), str(list_path)]
        run_to_end(command, path.with_suffix(".log"), DEADLINE_S)
    lines = list_path.read_text(encoding="utf-8").splitlines()
    kinds = {line.split(", ")[0][2:]: line.split(", ")[1] for line in lines if line.startswith("#")}
    packets: dict[str, list[Packet]] = {kind: [] for kind in kinds.values()}
    for line in lines:
        if line.startswith("#"):
            continue
        track, dts, pts, _, size, md5 = line.split(", ")
        if size != "0":
            packets[kinds[track]].append(Packet(int(dts), int(pts), int(size), md5))
    return packets


@pytest.mark.parametrize(("video", "audio"), PAIRS)
def test_every_pair_of_codecs_is_demuxed_and_decoded_as_its_flv(
    video: str, audio: str, encoded: Encode, tmp_path: Path
) -> None:
    sources = [encoded(video, "none")] * (video != "none") + [encoded("none", audio)] * (audio != "none")
    messages = [message for source in sources for message in media_of(flv_samples(source))]
    path = tmp_path / "ours.mp4"
    path.write_bytes(remuxed(sorted(messages, key=lambda message: message.timestamp_ms)).write())

    expected: dict[str, list[Packet]] = {}
    for source in sources:
        expected |= packets_of(source)
    assert packets_of(path) == expected

    probe = [find_program("ffprobe", "ffmpeg"), "-v", "warning", "-count_frames", "-of", "json", "-show_streams"]
    printed = run_to_end([*probe, str(path)], tmp_path / "log", DEADLINE_S)
    streams = json.loads(printed)["streams"]
    names = [NAMES.get(encoder, encoder) for encoder in (video, audio) if encoder != "none"]
    assert [stream["codec_name"] for stream in streams] == names
    decoded = {stream["codec_type"]: int(stream["nb_read_frames"]) for stream in streams}
    assert decoded == {kind: len(packets) for kind, packets in expected.items()}


@pytest.mark.parametrize(("video", "audio"), [("libx264", "aac"), ("libx265", "libopus"), ("libvpx-vp9", "flac")])
def test_gstreamer_finds_every_sample(video: str, audio: str, encoded: Encode, tmp_path: Path) -> None:
    sources = (encoded(video, "none"), encoded("none", audio))
    messages = [message for source in sources for message in media_of(flv_samples(source))]
    path = tmp_path / "ours.mp4"
    path.write_bytes(remuxed(sorted(messages, key=lambda message: message.timestamp_ms)).write())
    launch = [find_program("gst-launch-1.0", "gstreamer1.0-tools"), "filesrc", f"location={path}", "!", "qtdemux"]
    outputs = {1: tmp_path / "pictures", 2: tmp_path / "sounds"}
    pads = [
        *("name=demux", "demux.video_0", "!", "queue", "!", "filesink", f"location={outputs[1]}"),
        *("demux.audio_0", "!", "queue", "!", "filesink", f"location={outputs[2]}"),
    ]
    run_to_end([*launch, *pads], tmp_path / "log", DEADLINE_S)
    written = list(read_samples(path.read_bytes()))
    for track_id, output in outputs.items():
        assert output.read_bytes() == b"".join(sample.data for sample in written if sample.track_id == track_id)
