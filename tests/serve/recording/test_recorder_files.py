"""One recorded file: short writes, failing ends, and what a finished file says of itself."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.amf import EcmaArray, write_amf0_values
from penstock.errors import MalformedMedia
from penstock.media.flv import SCRIPT_TAG, write_file_header, write_tag
from penstock.media.frame import FrameKind
from penstock.serve.recording.recorded_file import RecordedFile, read_recorded_file
from penstock.serve.recording.recording_file import Disk, RecordingFile
from tests.serve.recording.recording_stage import audio, inter, key, video_setup
from tests.support.samples import Sample, flv_samples

SAMPLES = [video_setup(), key(0), inter(40), audio(45), key(2000)]


def record(folder: Path, disk: Disk | None = None, samples: Sequence[Sample] = SAMPLES) -> RecordingFile:
    file = RecordingFile.create(disk or Disk(), folder, ["a.flv"], {"title": "show"})
    for sample in samples:
        is_key = sample.payload[:2] == b"\x17\x01"
        file.add(FrameKind(sample.type_id), sample.timestamp_ms, sample.payload, is_key=is_key)
    return file


def read(path: Path) -> RecordedFile:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_recorded_file(descriptor)
    finally:
        os.close(descriptor)


class Dripping(Disk):
    """Takes seven bytes at a time."""

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        return super().write(descriptor, [b"".join(pieces)[:7]])


@pytest.mark.parametrize("disk", [Disk(), Dripping()], ids=["whole", "dripping"])
def test_however_little_the_disk_takes_the_file_is_whole(disk: Disk, tmp_path: Path) -> None:
    file = record(tmp_path, disk)
    file.finish()
    assert flv_samples(tmp_path / "a.flv")[1:] == SAMPLES
    assert file.file_bytes == (tmp_path / "a.flv").stat().st_size


def test_many_tags_are_few_writes(tmp_path: Path) -> None:
    class Counting(Disk):
        writes = 0

        def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
            self.writes += 1
            return super().write(descriptor, pieces)

    disk = Counting()
    samples = [video_setup(), *(inter(ms) for ms in range(1000))]
    record(tmp_path, disk, samples).finish()
    assert disk.writes == 1 + len(samples) // 64
    assert flv_samples(tmp_path / "a.flv")[1:] == samples


def test_when_every_name_is_taken_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.flv").touch()
    with pytest.raises(FileExistsError):
        record(tmp_path)
    assert (tmp_path / "a.flv").stat().st_size == 0


def test_metadata_that_is_too_large_for_a_tag_is_left_out(tmp_path: Path) -> None:
    file = RecordingFile.create(Disk(), tmp_path, ["a.flv"], {"x": "y" * 0xFFFFFF})
    file.finish()
    assert (tmp_path / "a.flv").stat().st_size < 100_000


def test_a_file_that_was_not_finished_is_made_whole_when_it_is_abandoned(tmp_path: Path) -> None:
    file = record(tmp_path)
    file.flush()
    with (tmp_path / "a.flv").open("ab") as torn:
        torn.write(b"\x09\x00")
    report = file.abandon()
    assert report is not None
    assert (report.cut_bytes, report.duration_ms) == (2, 2000)
    assert read(tmp_path / "a.flv").keyframes == 2


def test_a_file_whose_disk_is_gone_is_abandoned_as_it_is(tmp_path: Path) -> None:
    file = record(tmp_path)
    os.close(file._descriptor)
    file._descriptor = os.open(tmp_path / "a.flv", os.O_WRONLY)
    assert file.abandon() is None
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.close(file._descriptor)


def test_a_finished_file_tells_its_figures_and_set_up(tmp_path: Path) -> None:
    record(tmp_path).finish()
    recorded = read(tmp_path / "a.flv")
    assert recorded.keyframes == 2
    assert recorded.index.keyframe_times_ms == [0, 2000]
    assert (recorded.index.first_ms, recorded.index.last_ms) == (0, 2000)
    assert (recorded.index.has_audio, recorded.index.has_video) == (True, True)
    assert [frame.payload for frame in recorded.setup_frames] == [video_setup().payload]
    assert recorded.metadata.file_bytes == (tmp_path / "a.flv").stat().st_size


def test_a_single_key_frame_is_found_where_the_file_begins(tmp_path: Path) -> None:
    record(tmp_path, samples=[video_setup(), key(0), inter(40)]).finish()
    assert read(tmp_path / "a.flv").keyframes == 1


@pytest.mark.parametrize("samples", [[], [video_setup()], [audio(0), audio(23)]], ids=["empty", "set-up", "audio"])
def test_a_file_without_key_frames_has_none(samples: list[Sample], tmp_path: Path) -> None:
    record(tmp_path, samples=samples).finish()
    recorded = read(tmp_path / "a.flv")
    assert recorded.keyframes == 0
    assert recorded.index.duration_ms == (23 if len(samples) == 2 else 0)


def test_going_on_with_a_file_makes_the_same_as_writing_it_at_once(tmp_path: Path) -> None:
    samples = [video_setup(), *(key(ms) for ms in range(0, 6000, 500))]
    record(tmp_path, samples=samples).finish()
    (tmp_path / "a.flv").rename(tmp_path / "at_once.flv")
    record(tmp_path, samples=samples[:5]).finish()
    file = RecordingFile.reopen(Disk(), tmp_path / "a.flv")
    assert file is not None
    for sample in samples[5:]:
        file.add(FrameKind(sample.type_id), sample.timestamp_ms, sample.payload, is_key=True)
    file.finish()
    assert (tmp_path / "a.flv").read_bytes() == (tmp_path / "at_once.flv").read_bytes()


def script_file(path: Path, members: dict[str, object]) -> Path:
    payload = write_amf0_values("onMetaData", EcmaArray(members))  # type: ignore[arg-type]
    tag = write_tag(SCRIPT_TAG, 0, payload)
    path.write_bytes(write_file_header(has_audio=True, has_video=True) + tag)
    return path


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"filler": [], "duration": 1.0},
        {"filler": [], "duration": 1.0, "lasttimestamp": float("inf"), "filesize": 0.0, "hasKeyframes": False},
        {"filler": [], "duration": float("nan"), "lasttimestamp": 1.0, "filesize": 0.0, "hasKeyframes": False},
        {"filler": [], "duration": "1", "lasttimestamp": 1e300, "filesize": 0.0, "hasKeyframes": False},
    ],
    ids=["not ours", "short", "infinite", "no number", "text"],
)
def test_another_beginning_is_refused(members: dict[str, object], tmp_path: Path) -> None:
    path = script_file(tmp_path / "a.flv", {**members, "more": " " * 200})
    with pytest.raises(MalformedMedia, match="recording: "):
        read(path)
    assert RecordingFile.reopen(Disk(), path) is None


@pytest.mark.parametrize("data", [b"", b"FLV", b"not a video file at all"], ids=["empty", "torn", "other"])
def test_what_is_no_flv_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.flv"
    path.write_bytes(data)
    with pytest.raises(MalformedMedia):
        read(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EISDIR)):
        RecordingFile.reopen(Disk(), tmp_path)
