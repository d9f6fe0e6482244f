"""From FFmpeg to FFmpeg: an FLV through log, boundaries and packager to files that decode frame by frame."""

import json
import sys
from pathlib import Path

import pytest

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.packaging.boundaries import BoundaryRule
from tests.relay.packaging.hls_player import playlists, write_folder
from tests.relay.packaging.stage import Stage, packaged
from tests.support.golden import GOLDEN_DIR
from tests.support.hls_checker import violations
from tests.support.modern_ffmpeg import find_modern_ffmpeg
from tests.support.processes import find_program, run_to_end
from tests.support.samples import flv_samples

DEADLINE_S = 60.0
H264 = GOLDEN_DIR / "flv" / "h264_aac.flv"
HEVC = GOLDEN_DIR / "flv" / "hevc_aac.flv"
# Golden files have a key frame each half second.
SHORT = BoundaryRule(min_segment_ms=500)
PAIRS = [("libx264", "aac"), ("libx265", "libopus"), ("libsvtav1", "ac3"), ("libvpx-vp9", "eac3"), ("none", "flac")]


def frames_of(path: Path) -> list[Frame]:
    return [frame_of(FrameKind(each.type_id), each.timestamp_ms, each.payload) for each in flv_samples(path)]


def decoded_times(path: Path, log_path: Path, kind: str) -> list[str]:
    """Times of presentation of every frame that FFmpeg decodes, in seconds."""
    probe = [find_program("ffprobe", "ffmpeg"), "-v", "error", "-allowed_extensions", "ALL"]
    show = ["-select_streams", kind, "-show_entries", "frame=pts_time", "-of", "json"]
    flags = probe if path.suffix == ".m3u8" else probe[:3]
    printed = run_to_end([*flags, *show, str(path)], log_path, DEADLINE_S)
    return [frame["pts_time"] for frame in json.loads(printed)["frames"]]


def test_every_frame_of_an_flv_decodes_from_its_playlist(tmp_path: Path) -> None:
    source = H264
    stage = packaged(frames_of(source), SHORT)
    playlist = write_folder(stage, tmp_path, 1)
    assert [segment.end.duration_ms for segment in stage.segments if segment.end] == [500, 500, 500, 720]
    for kind in ("v", "a"):
        assert decoded_times(playlist, tmp_path / "log", kind) == decoded_times(source, tmp_path / "log", kind)
    assert violations(playlists(stage, 1)) == []


@pytest.mark.parametrize(("video", "audio"), PAIRS)
def test_enhanced_codecs_play_from_their_playlist(video: str, audio: str, tmp_path: Path) -> None:
    source = tmp_path / "source.flv"
    encode = [sys.executable, "-m", "tests.support.pyav_encode", video, audio, str(source)]
    run_to_end(encode, tmp_path / "log", DEADLINE_S)
    stage = packaged(frames_of(source), SHORT)
    playlist = write_folder(stage, tmp_path, 2)
    frames = [each for each in frames_of(source) if not each.is_setup and len(each.payload) > 5]
    # A stream with pictures begins with one: AV1 and VP9 come 5 ms behind the first sound.
    begin = next((index for index, each in enumerate(frames) if each.is_key), 0)
    for selector, kind in (("v", FrameKind.VIDEO), ("a", FrameKind.AUDIO)):
        sent = [each for each in frames[begin:] if each.kind is kind]
        assert len(decoded_times(playlist, tmp_path / "log", selector)) == len(sent)


def test_a_newer_ffmpeg_plays_over_a_change_of_codec(tmp_path: Path) -> None:
    stage = Stage(SHORT)
    stage.publish(frames_of(H264))
    stage.finish()
    stage.boundaries.begin_anew()
    stage.log.begin_anew()
    later = [each._replace(timestamp_ms=each.timestamp_ms + 2300) for each in frames_of(HEVC)]
    stage.publish(later)
    stage.finish()
    playlist = write_folder(stage, tmp_path, 2)
    command = [find_modern_ffmpeg(), "-nostdin", "-v", "error", "-allowed_extensions", "ALL", "-i", str(playlist)]
    printed = run_to_end([*command, "-map", "0:a", "-f", "framecrc", "-"], tmp_path / "log", DEADLINE_S)
    assert all(segment.start.init is not None for segment in stage.segments)
    assert [segment.start.is_discontinuous for segment in stage.segments].count(True) == 1
    sounds = [frame for frame in frames_of(H264) + frames_of(HEVC) if frame.kind is FrameKind.AUDIO]
    # It says that pictures are missing: its HLS reader keeps the first codec. The sound goes on over the change.
    assert len([line for line in printed.splitlines() if line.startswith("0,")]) == len(sounds) - 2
