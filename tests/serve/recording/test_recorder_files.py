"""One recorded file: short writes, failing ends, and what is left of an unfinished one."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.amf import AmfValue
from penstock.media.frame import FrameKind
from penstock.serve.recording.recording_file import Disk, RecordingFile
from tests.serve.recording.recording_stage import audio, inter, key, video_setup
from tests.support.samples import Sample, flv_samples

SAMPLES = [video_setup(), key(0), inter(40), audio(45), key(2000)]


def record(folder: Path, disk: Disk | None = None, samples: Sequence[Sample] = SAMPLES) -> RecordingFile:
    file = RecordingFile.create(disk or Disk(), folder, ["a.flv"], 0o600, members={"title": "show"}, keyframe_room=64)
    for sample in samples:
        is_key = sample.payload[:2] == b"\x17\x01"
        file.add(FrameKind(sample.type_id), sample.timestamp_ms, sample.payload, is_key=is_key)
    return file


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


@pytest.mark.parametrize("size", [64 * 1024, 0xFFFFFF])
def test_metadata_that_is_too_large_is_left_out(size: int, tmp_path: Path) -> None:
    members: dict[str, AmfValue] = {"x": "y" * size}
    file = RecordingFile.create(Disk(), tmp_path, ["a.flv"], 0o600, members=members, keyframe_room=64)
    file.finish()
    assert (tmp_path / "a.flv").stat().st_size < 2000


def test_a_file_that_was_not_finished_is_made_whole_when_it_is_abandoned(tmp_path: Path) -> None:
    file = record(tmp_path)
    file.flush()
    with (tmp_path / "a.flv").open("ab") as torn:
        torn.write(b"\x09\x00")
    report = file.abandon()
    assert report is not None
    assert (report.cut_bytes, report.duration_ms, report.keyframes) == (2, 2000, 2)


def test_a_file_whose_disk_is_gone_is_abandoned_as_it_is(tmp_path: Path) -> None:
    file = record(tmp_path)
    os.close(file._descriptor)
    file._descriptor = os.open(tmp_path / "a.flv", os.O_WRONLY)
    assert file.abandon() is None
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.close(file._descriptor)
