"""Gaps and disks that fail: what is missing is noted, and what is there is whole."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.relay.follower import FollowerLimits
from penstock.serve.recording.archive import SegmentLimits
from penstock.serve.recording.manifest import Gap, SegmentStatus
from penstock.serve.recording.recording_file import Disk
from tests.serve.recording.recording_stage import (
    OTHER_VIDEO_SETUP,
    FullDisk,
    Stage,
    audio,
    audio_setup,
    inter,
    key,
    video_setup,
)
from tests.support.samples import shifted

SHORT = SegmentLimits(max_s=1.0, min_small_s=0.0)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_gap_of_a_slow_disk_is_noted_where_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tap_limits=FollowerLimits(max_bytes=670))
    stage.send(video_setup(), key(0), inter(40))
    stage.append(inter(80))
    stage.append(inter(120))
    stage.append(key(160))
    stage.append(key(200))
    stage.write()
    stage.send(inter(240))
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row) == [video_setup(), key(0), inter(40), key(160), key(200), inter(240)]
    gap = Gap(40, 120, 2, 2 * (12 + 15), "the disk is too slow")
    assert (row.gaps, stage.journal.gaps) == ((gap,), [gap])
    assert [len(each.gaps) for each in stage.rows()] == [0, 1, 1]


def test_set_up_that_changed_within_a_gap_begins_another_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SHORT, tap_limits=FollowerLimits(max_bytes=700))
    stage.send(video_setup(), key(0), inter(40))
    stage.append(inter(80))
    stage.append(video_setup(OTHER_VIDEO_SETUP, 120), audio_setup(timestamp_ms=120))
    stage.append(key(160))
    stage.append(key(200))
    stage.write()
    stage.end()
    first, second = stage.journal.closed
    assert stage.recorded(first) == [video_setup(), key(0), inter(40)]
    assert [each.payload for each in stage.recorded(second)[:2]] == [OTHER_VIDEO_SETUP, audio_setup().payload]
    assert [(gap.at_ms, gap.length_ms, gap.dropped_messages) for gap in second.gaps] == [(0, 120, 3)]


def test_set_up_of_a_new_track_within_a_gap_is_written_behind_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tap_limits=FollowerLimits(max_bytes=670))
    stage.send(video_setup(), key(0), inter(40))
    stage.append(audio_setup(timestamp_ms=80))
    stage.append(inter(120))
    stage.append(key(160))
    stage.append(key(200))
    stage.write()
    stage.send(audio(210))
    stage.end()
    (row,) = stage.journal.closed
    assert stage.recorded(row)[3:] == [key(160), key(200), audio_setup(timestamp_ms=200), audio(210)]
    assert row.audio is not None


def test_a_publisher_that_comes_back_goes_on_in_the_same_file(stage: Stage) -> None:
    stage.send(video_setup(), key(0), inter(40))
    stage.recording.continue_at(stage.log.head)
    stage.send(video_setup(timestamp_ms=5040), key(5040), inter(5080))
    stage.end()
    (row,) = stage.journal.closed
    assert [each.timestamp_ms for each in stage.recorded(row)] == [0, 0, 40, 5040, 5040, 5080]
    assert row.gaps == (Gap(40, 5000, 0, 0, "the publisher was away"),)
    assert row.duration_ms == 5080


def test_a_return_is_noted_where_it_is_even_if_the_writer_hears_of_it_early(stage: Stage) -> None:
    stage.send(video_setup(), key(0))
    stage.append(inter(40))
    stage.recording.continue_at(stage.log.head)
    stage.append(key(1000))
    stage.recording.continue_at(stage.log.head)
    stage.append(key(3000))
    stage.write()
    stage.end()
    assert [(gap.at_ms, gap.length_ms) for gap in stage.journal.closed[0].gaps] == [(40, 960), (1000, 2000)]


def test_a_return_before_anything_was_recorded_is_no_gap(stage: Stage) -> None:
    stage.recording.continue_at(0)
    stage.send(video_setup(), key(0))
    stage.end()
    assert stage.journal.closed[0].gaps == ()


def test_very_many_gaps_become_one(stage: Stage) -> None:
    stage.send(video_setup(), key(0))
    for time_ms in range(1000, 103_000, 1000):
        stage.recording.continue_at(stage.log.head)
        stage.send(key(time_ms, 5))
    stage.end()
    gaps = stage.journal.closed[0].gaps
    assert len(gaps) == 100
    assert (gaps[-1].at_ms, gaps[-1].length_ms) == (99_000, 3000)


def test_the_manifest_hears_of_the_first_gap_at_once_and_of_more_once_a_minute(stage: Stage) -> None:
    stage.send(video_setup(), key(0))
    for time_ms in range(1000, 130_000, 1000):
        stage.now += 1.0
        stage.recording.continue_at(stage.log.head)
        stage.send(key(time_ms, 5))
    assert [len(row.gaps) for row in stage.rows()] == [0, 1, 61, 100]


# Encoders that set their clock.


def test_an_encoder_that_sets_its_clock_back_costs_no_frame_its_time(stage: Stage) -> None:
    before = [each for ms in range(1_000_000, 1_004_000, 40) for each in (key(ms), audio(ms + 3))]
    after = [each for ms in range(0, 20_000, 40) for each in (key(ms), audio(ms + 3))]
    stage.send(video_setup(), audio_setup(), *before, *after)
    stage.end()
    (row,) = stage.journal.closed
    times = [each.timestamp_ms for each in stage.recorded(row)[2:]]
    assert times[: len(before)] == [each.timestamp_ms - 1_000_000 for each in before]
    # 40 ms behind the newest message, which was audio at 3,963.
    assert times[len(before) :] == [each.timestamp_ms + 4003 for each in after]
    assert row.gaps == (Gap(3963, 0, 0, 0, "the encoder's clock stepped"),)
    assert row.duration_ms == 4003 + 19_963


def test_a_clock_that_is_set_with_each_message_is_noted_once_a_second(stage: Stage) -> None:
    stage.send(video_setup(), key(0))
    for number in range(50):
        stage.now += 0.1
        stage.send(key(50_000 * (1 - number % 2)))
    stage.end()
    (row,) = stage.journal.closed
    assert 3 <= len(stage.journal.gaps) == len(row.gaps) <= 5
    times = [each.timestamp_ms for each in stage.recorded(row)[1:]]
    assert times == sorted(set(times))


# Disks that fail.


def test_a_full_disk_ends_the_file_and_leaves_it_whole(tmp_path: Path) -> None:
    disk = FullDisk(10**6)
    stage = Stage(tmp_path, disk=disk)
    stage.send(video_setup(), key(0), inter(40))
    disk.room_bytes = 11 + 7
    stage.send(inter(80), inter(120))
    (row,) = stage.journal.closed
    assert (row.status, row.reason) == (SegmentStatus.FAILED, "No space left on device")
    assert stage.journal.failures == [("live/test", "No space left on device")]
    assert stage.recorded(row) == [video_setup(), key(0), inter(40)]
    assert (row.duration_ms, row.bytes) == (40, (tmp_path / row.path).stat().st_size)
    assert row.last_timestamp_ms == 40


def test_after_a_pause_the_recording_goes_on_in_another_file_and_the_gap_is_noted(tmp_path: Path) -> None:
    disk = FullDisk(10**6)
    stage = Stage(tmp_path, disk=disk)
    stage.send(video_setup(), key(0), inter(40))
    disk.room_bytes = 0
    stage.send(inter(80))
    disk.room_bytes = 10**6
    stage.now += 9.9
    stage.send(key(9000))
    assert len(stage.journal.started) == 1
    stage.now += 0.1
    stage.send(inter(9040), key(9080), inter(9120))
    stage.end()
    failed, row = stage.journal.closed
    assert (failed.segment, row.segment, row.status) == (1, 2, SegmentStatus.CLOSED)
    assert stage.recorded(row)[1:] == shifted([key(9080), inter(9120)], -9080)
    (gap,) = row.gaps
    assert gap == Gap(0, 9040, 3, 15 + len(key(9000).payload) + 15, "No space left on device")
    assert stage.recording.dropped_messages == 3


def test_a_disk_that_stays_full_is_tried_again_and_again_without_leaving_files(tmp_path: Path) -> None:
    stage = Stage(tmp_path, disk=FullDisk(0))
    for second in range(25):
        stage.send(video_setup(), key(second * 1000), inter(second * 1000 + 40))
        stage.now += 1.0
    assert len(stage.journal.failures) == 3
    assert [row.status for row in stage.journal.closed] == [SegmentStatus.FAILED] * 3
    assert stage.recording.dropped_messages == 50


class FailingOnce(Disk):
    """Fails at its second write."""

    def __init__(self) -> None:
        self.writes = 0

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        self.writes += 1
        if self.writes == 2:
            raise OSError(5, "Input/output error")
        return super().write(descriptor, pieces)


def test_only_what_the_disk_had_not_taken_counts_as_lost(tmp_path: Path) -> None:
    stage = Stage(tmp_path, disk=FailingOnce())
    stage.append(video_setup(), key(0), *(inter(ms) for ms in range(1, 100)))
    stage.write()
    (failed,) = stage.journal.closed
    recorded = stage.recorded(failed)[1:]
    assert 60 <= len(recorded) <= 64
    assert stage.recording.dropped_messages == 100 - len(recorded)
    stage.now += 10.0
    stage.send(key(5000))
    stage.end()
    (gap,) = stage.journal.closed[-1].gaps
    assert gap.length_ms == 5000 - recorded[-1].timestamp_ms


class Forbidden(Disk):
    def create(self, path: Path, mode: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))


def test_a_folder_that_forbids_files_fails_the_recording_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path, disk=Forbidden())
    stage.send(video_setup(), key(0), inter(40))
    stage.end()
    assert stage.journal.failures == [("live/test", "Permission denied")]
    assert stage.rows() == []


class Dying(Disk):
    """Takes tags, but neither the end nor a repair."""

    def write_at(self, descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(5, "Input/output error")


def test_a_file_that_cannot_be_finished_has_failed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, disk=Dying())
    stage.send(video_setup(), key(0), inter(40))
    stage.end()
    (row,) = stage.journal.closed
    assert (row.status, row.reason, row.duration_ms) == (SegmentStatus.FAILED, "Input/output error", 40)


def test_a_full_disk_at_the_end_of_one_file_and_the_beginning_of_another(tmp_path: Path) -> None:
    disk = FullDisk(10**6)
    stage = Stage(tmp_path, limits=SHORT, disk=disk)
    stage.send(video_setup(), key(0), inter(40))
    disk.room_bytes = 0
    stage.send(key(2000), inter(2040))
    first, second = stage.journal.closed
    assert (first.status, second.status, second.segment) == (SegmentStatus.CLOSED, SegmentStatus.FAILED, 2)
    assert stage.recording.dropped_messages == 2


def test_without_a_folder_nothing_is_recorded_until_there_is_one(tmp_path: Path) -> None:
    in_the_way = tmp_path / "recordings"
    in_the_way.touch()
    stage = Stage(in_the_way)
    stage.send(video_setup(), key(0), inter(40))
    assert "File exists" in stage.journal.archive_failures[0]
    in_the_way.unlink()
    stage.now += 10.0
    stage.archive.do_chores()
    stage.send(key(80), inter(120))
    stage.end()
    (row,) = stage.journal.closed
    assert [(gap.dropped_messages, gap.reason) for gap in row.gaps] == [(2, "the folder of recordings cannot be used")]
