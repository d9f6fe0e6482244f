"""Files and the test pattern as sources of frames, and FLV as what comes out."""

import hashlib
import io
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import av
import imageio_ffmpeg  # type: ignore[import-untyped]
import pytest

from penstock.errors import MalformedMedia
from penstock.media.frame import Frame, FrameKind
from penstock.tools.command_line import PATTERN_CODECS
from penstock.tools.files import file_frames, is_flv, limited, looped
from penstock.tools.flv import FlvFrames, FlvOutput, flv_file_frames
from penstock.tools.pattern import _ENCODERS, Pattern, pattern_frames
from tests.interop.ffmpeg_copies import listed_packets, run_cleanly
from tests.support.cuts import all_cuts
from tests.support.ffmpeg import find_ffmpeg
from tests.support.golden import GOLDEN_DIR
from tests.support.samples import flv_samples
from tests.tools.frames import AUDIO_SETUP, INTER, KEY, METADATA, VIDEO_SETUP, audio, data, video

GOLDEN_FLV = GOLDEN_DIR / "flv" / "h264_aac.flv"
SMALL = Pattern(width_px=128, height_px=72, frames_per_second=10, video_bps=60_000, seconds=1.0)


def payload_hashes(frames: list[Frame], kind: FrameKind) -> list[str]:
    """Of coded frames; how often set-up is repeated is the muxer's matter."""
    coded = [frame for frame in frames if frame.kind is kind and not frame.is_setup]
    return [hashlib.sha256(frame.payload).hexdigest()[:16] for frame in coded]


def copied(source: Path, target: Path) -> Path:
    command = [find_ffmpeg(), "-nostdin", "-loglevel", "level+error", "-i", str(source), "-c", "copy", str(target)]
    run_cleanly(command, target.with_suffix(".log"))
    return target


def written(frames: list[Frame], path: Path) -> Path:
    with path.open("wb") as file:
        output = FlvOutput(file, can_seek=True)
        for frame in frames:
            output.write(frame)
        output.finish()
    return path


@pytest.mark.parametrize("name", ["h264_aac", "hevc_aac", "av1", "script_data"])
def test_flv_files_are_read_to_the_byte(name: str) -> None:
    path = GOLDEN_DIR / "flv" / f"{name}.flv"
    frames = list(file_frames(path))
    assert [(frame.kind, frame.timestamp_ms, frame.payload) for frame in frames] == flv_samples(path)


@pytest.mark.parametrize(("name", "pieces"), all_cuts(GOLDEN_FLV.read_bytes()), ids=lambda each: str(each)[:20])
def test_flv_bytes_give_the_same_frames_in_every_cut(name: str, pieces: list[bytes]) -> None:
    flv = FlvFrames()
    frames: list[Frame] = []
    for piece in pieces:
        flv.receive_data(piece)
        frames += flv.frames()
    assert [(frame.kind, frame.timestamp_ms, frame.payload) for frame in frames] == flv_samples(GOLDEN_FLV)
    assert flv.unread_bytes == 0


def test_time_runs_on_over_the_wrap_and_amf3_script_data_loses_its_format_byte() -> None:
    tags = "08 000001 ffffff ff 000000 af" + "0000000c" + "08 000001 000010 00 000000 af" + "0000000c"
    script = "0f 000004 000020 00 000000 00 020000" + "0000000f"
    file = io.BytesIO(bytes.fromhex("464c5601 05 00000009 00000000" + tags + script))
    frames = list(flv_file_frames(file))
    assert [frame.timestamp_ms for frame in frames] == [0xFFFFFFFF, 0x100000010, 0x100000020]
    assert (frames[2].kind, frames[2].payload) == (FrameKind.DATA, b"\x02\x00\x00")


def test_a_torn_file_gives_what_is_whole() -> None:
    torn = GOLDEN_FLV.read_bytes()[:-100]
    whole = flv_samples(GOLDEN_FLV)
    frames = list(flv_file_frames(io.BytesIO(torn)))
    assert 0 < len(frames) < len(whole)
    assert [frame.payload for frame in frames] == [sample.payload for sample in whole[: len(frames)]]


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_container_travels_without_encoding_anew(suffix: str, tmp_path: Path) -> None:
    container = copied(GOLDEN_FLV, tmp_path / f"copy.{suffix}")
    frames = list(file_frames(container))
    by_ffmpeg = list(file_frames(copied(container, tmp_path / "judge.flv")))
    for kind in (FrameKind.VIDEO, FrameKind.AUDIO):
        assert payload_hashes(frames, kind) == payload_hashes(by_ffmpeg, kind) != []
    assert b"\xaf\x00" not in [frame.payload for frame in frames]
    assert {frame.kind for frame in frames if frame.is_setup} == set(FrameKind)


def test_a_codec_that_cannot_travel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.avi"
    make = ["-f", "lavfi", "-i", "testsrc=size=32x32:rate=5:duration=1", "-c:v", "mpeg4", str(path)]
    run_cleanly([find_ffmpeg(), "-nostdin", "-loglevel", "level+error", *make], tmp_path / "make.log")
    with pytest.raises(MalformedMedia, match="RTMP cannot carry mpeg4; it can carry h264, hevc, av1, vp9, aac"):
        list(file_frames(path))


def test_a_file_without_picture_and_sound_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    path.write_text("1\n00:00:00,000 --> 00:00:01,000\nBonjour\n", encoding="utf-8")
    with pytest.raises(MalformedMedia, match="neither video nor audio"):
        list(file_frames(path))


def test_a_raw_stream_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h264"
    extract = ["-i", str(GOLDEN_FLV), "-an", "-c", "copy", "-bsf:v", "h264_mp4toannexb", str(path)]
    run_cleanly([find_ffmpeg(), "-nostdin", "-loglevel", "level+error", *extract], tmp_path / "extract.log")
    with pytest.raises(MalformedMedia, match="does not say when its packets are due"):
        list(file_frames(path))


def test_a_file_that_is_no_media_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text", encoding="utf-8")
    assert not is_flv(path)
    with pytest.raises(MalformedMedia, match="Invalid data found"):
        list(file_frames(path))


def test_a_loop_goes_on_in_time() -> None:
    def make_frames() -> Iterator[Frame]:
        return iter([video(0, VIDEO_SETUP), video(0, KEY), audio(100), video(40)])

    times_ms = [frame.timestamp_ms for frame in islice(looped(make_frames), 9)]
    assert times_ms == [0, 0, 100, 40, 133, 133, 233, 173, 266]


def test_a_loop_over_nothing_ends() -> None:
    assert list(looped(lambda: iter(()))) == []


def test_a_limit_counts_from_the_first_coded_frame() -> None:
    frames = [data(0), video(0, VIDEO_SETUP), video(5000, KEY), video(5999), video(6000), video(6040)]
    assert list(limited(iter(frames), 1.0)) == frames[:4]


def test_the_codecs_of_the_command_are_those_of_the_pattern() -> None:
    assert tuple(_ENCODERS) == PATTERN_CODECS


@pytest.mark.parametrize("codec", PATTERN_CODECS)
def test_a_newer_ffmpeg_decodes_every_picture_of_the_pattern(codec: str, tmp_path: Path) -> None:
    pattern = Pattern(codec, SMALL.width_px, SMALL.height_px, 10, SMALL.video_bps, seconds=1.0)
    path = written(list(pattern_frames(pattern)), tmp_path / "pattern.flv")
    decode = [imageio_ffmpeg.get_ffmpeg_exe(), "-nostdin", "-loglevel", "error", "-i", str(path)]
    ended = subprocess.run([*decode, "-f", "framemd5", "-"], capture_output=True, text=True, timeout=30, check=True)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("0,")]
    assert (len(lines), ended.stderr) == (10, "")
    assert len({line.rpartition(",")[2] for line in lines}) == 10, "the picture does not move"


def test_the_pattern_shows_a_clock_that_runs(tmp_path: Path) -> None:
    path = written(list(pattern_frames(SMALL)), tmp_path / "pattern.flv")
    with av.open(str(path)) as container:
        pictures = [bytes(frame.reformat(format="gray").planes[0]) for frame in container.decode(video=0)]
    # The digits stand in the lower left; the rest of that band stays as it is.
    assert len(pictures) == 10
    assert pictures[0] != pictures[9]


def test_the_pattern_has_sound_and_one_key_frame_each_two_seconds() -> None:
    frames = list(pattern_frames(Pattern(width_px=64, height_px=64, frames_per_second=5, seconds=5.0)))
    keys_ms = [frame.timestamp_ms for frame in frames if frame.is_key]
    assert [later - earlier for earlier, later in pairwise(keys_ms)] == [2000, 2000]
    sounds = [frame for frame in frames if frame.kind is FrameKind.AUDIO and not frame.is_setup]
    assert len(sounds) == pytest.approx(5 * 48000 / 1024, abs=3)
    # The last tag tells the end of the pictures, with their time.
    times_ms = [frame.timestamp_ms for frame in frames[:-1] if not frame.is_setup]
    assert times_ms == sorted(times_ms)


def test_a_pattern_that_no_encoder_takes_is_an_error() -> None:
    with pytest.raises(MalformedMedia, match="av1 16x16"):
        list(pattern_frames(Pattern("av1", 16, 16, seconds=1.0)))


@pytest.mark.parametrize("codec", PATTERN_CODECS)
def test_a_pattern_leaves_the_priority_of_its_thread_alone(codec: str) -> None:
    """Run as root, which some encoders give a priority above everything else."""
    before = os.sched_getscheduler(0)
    assert list(pattern_frames(replace(SMALL, codec=codec)))
    assert os.sched_getscheduler(0) == before


def test_a_recording_starts_at_0_with_the_metadata_and_has_an_index(tmp_path: Path) -> None:
    frames = [data(9000), video(9000, VIDEO_SETUP), audio(0, AUDIO_SETUP), video(10_000, KEY), audio(10_010)]
    path = written([*frames, video(10_040), data(10_050), video(11_000, KEY)], tmp_path / "a.flv")
    first, *rest = flv_samples(path)
    assert (first.type_id, first.payload[:13]) == (18, METADATA[:13])
    for text in (b"title", b"width", b"hasKeyframes", b"duration"):
        assert text in first.payload
    assert rest == [
        (9, 0, VIDEO_SETUP),
        (8, 0, AUDIO_SETUP),
        (9, 0, KEY),
        (8, 10, audio(0).payload),
        (9, 40, INTER),
        (18, 50, METADATA),
        (9, 1000, KEY),
    ]


def test_a_pipe_is_written_once_and_in_order() -> None:
    class Pipe(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            raise OSError

    pipe = Pipe()
    output = FlvOutput(pipe, can_seek=False)
    for frame in [video(0, VIDEO_SETUP), video(0, KEY)]:
        output.write(frame)
    output.finish()
    assert pipe.getvalue().startswith(b"FLV\x01")
    assert len(pipe.getvalue()) < 1000, "room for an index that never comes"


def test_data_before_the_first_picture_does_not_start_the_clock(tmp_path: Path) -> None:
    cue = bytes.fromhex("02000a6f6e43756550 6f696e7405")
    path = written([data(50, cue), data(60, METADATA[:20]), video(100, KEY)], tmp_path / "a.flv")
    assert flv_samples(path)[1:] == [(9, 0, KEY)]


def test_endless_setup_is_not_held_for_ever(tmp_path: Path) -> None:
    path = written([video(number, VIDEO_SETUP) for number in range(100)], tmp_path / "a.flv")
    assert len(flv_samples(path)) == 101


def test_a_recording_of_nothing_is_a_file_all_the_same(tmp_path: Path) -> None:
    assert [sample.type_id for sample in flv_samples(written([], tmp_path / "a.flv"))] == [18]


def test_what_is_written_is_what_ffmpeg_reads(tmp_path: Path) -> None:
    path = written(list(file_frames(GOLDEN_FLV)), tmp_path / "copy.flv")
    assert listed_packets(path, tmp_path) == listed_packets(GOLDEN_FLV, tmp_path)
