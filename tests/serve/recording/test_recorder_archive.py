"""The folder of recordings: whole after a crash, never fuller than allowed, and no reason to stop when it fails."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.serve.recording.manifest import Manifest, SegmentStatus
from penstock.serve.recording.recording_file import Disk
from penstock.serve.recording.retention import RetentionLimits
from penstock.serve.settings import FileModes
from tests.serve.recording.recording_stage import Stage, audio, audio_setup, inter, key, metadata, video_setup
from tests.support.samples import Sample, flv_samples

HEAD = [video_setup(), audio_setup()]
MESSAGES = [key(0), audio(5), inter(40), key(2000), inter(2040)]


def crash(stage: Stage) -> Path:
    """Record, then stop as a killed process does: nothing is finished, and its locks are gone."""
    stage.send(metadata(), *HEAD, *MESSAGES)
    stage.archive.close()
    return stage.folder / stage.journal.started[0].path


def test_a_file_that_a_crash_left_open_is_repaired_at_the_next_start(tmp_path: Path) -> None:
    path = crash(Stage(tmp_path))
    with path.open("ab") as file:
        file.write(b"\x09\x00\x10\x00\x00\x00")
    stage = Stage(tmp_path)
    (row,) = stage.journal.closed
    assert (row.status, row.duration_ms, row.keyframes) == (SegmentStatus.REPAIRED, 2040, 2)
    assert row.reason is not None
    assert "torn" in row.reason
    assert stage.recorded(row) == [*HEAD, *MESSAGES]
    assert row.bytes == path.stat().st_size
    assert row.ended_at is not None
    assert (row.ended_at - row.started_at).total_seconds() == 2.04
    assert (row.first_timestamp_ms, row.last_timestamp_ms) == (0, 2040)
    assert stage.rows()[-1] == row


def test_what_is_repaired_is_repaired_once(tmp_path: Path) -> None:
    crash(Stage(tmp_path))
    Stage(tmp_path).archive.close()
    stage = Stage(tmp_path)
    assert stage.journal.closed == []
    assert [row.status for row in stage.rows()] == [SegmentStatus.OPEN, SegmentStatus.REPAIRED]


def test_an_open_file_that_is_not_there_is_noted(tmp_path: Path) -> None:
    crash(Stage(tmp_path)).unlink()
    stage = Stage(tmp_path)
    assert (stage.rows()[-1].status, stage.rows()[-1].reason) == (SegmentStatus.DELETED, "the file is not there")


def test_a_file_of_which_nothing_is_left_is_kept_and_noted_once(tmp_path: Path) -> None:
    path = crash(Stage(tmp_path))
    path.write_bytes(b"")
    stage = Stage(tmp_path)
    (row,) = stage.journal.closed
    assert row.status is SegmentStatus.FAILED
    assert row.reason is not None
    assert row.reason.startswith("nothing in it can be used")
    stage.archive.close()
    assert Stage(tmp_path).journal.closed == []
    assert path.exists()


def test_a_failed_file_is_looked_at_again_and_keeps_its_reason(tmp_path: Path) -> None:
    crash(Stage(tmp_path))
    manifest = Manifest(tmp_path, FileModes())
    (row,) = manifest.rows.values()
    manifest.save(replace(row, status=SegmentStatus.FAILED, reason="Input/output error"))
    manifest.close()
    (repaired,) = Stage(tmp_path).journal.closed
    assert (repaired.status, repaired.reason) == (SegmentStatus.REPAIRED, "Input/output error")


class Unreadable(Disk):
    def reopen(self, path: Path) -> int:
        raise OSError(5, "Input/output error", str(path))


def test_a_file_that_cannot_be_read_keeps_nobody_from_recording(tmp_path: Path) -> None:
    crash(Stage(tmp_path))
    stage = Stage(tmp_path, disk=Unreadable())
    assert [(row.status, row.reason) for row in stage.journal.closed] == [
        (SegmentStatus.FAILED, "Input/output error"),
    ]
    stage.send(*HEAD, *MESSAGES)
    stage.end()
    assert stage.journal.closed[-1].status is SegmentStatus.CLOSED


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    path = crash(Stage(tmp_path / "recordings"))
    precious = tmp_path / "precious"
    precious.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(precious)
    before = precious.read_bytes()
    stage = Stage(tmp_path / "recordings")
    assert stage.journal.closed[0].status is SegmentStatus.FAILED
    assert precious.read_bytes() == before


def test_a_name_that_is_taken_is_never_written_over(tmp_path: Path) -> None:
    taken = tmp_path / "live_test_20251001_120000.flv"
    taken.write_bytes(b"mine")
    (tmp_path / "live_test_20251001_120000-2.flv").symlink_to(tmp_path / "nowhere")
    stage = Stage(tmp_path)
    stage.send(*HEAD, *MESSAGES)
    stage.end()
    assert stage.journal.closed[0].path == "live_test_20251001_120000-3.flv"
    assert taken.read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("stream", ["../../x", "a/b", "nul\0byte", "x" * 5000, ".hidden", "\\udc80"])
def test_hostile_names_are_files_in_the_folder_and_themselves_in_the_manifest(stream: str, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "recordings")
    stage.publish("two", stream=stream)
    stage.send(*HEAD, *MESSAGES)
    stage.end()
    (row,) = stage.journal.closed
    assert (row.stream, stage.rows()[-1].stream) == (stream, stream)
    assert (tmp_path / "recordings" / row.path).is_file()
    assert os.listdir(tmp_path) == ["recordings"]


# Who may read it.


def modes_below(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("modes", [FileModes(0o700, 0o600), FileModes(0o750, 0o640)])
def test_all_that_is_made_has_the_modes_that_were_asked_for(modes: FileModes, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "data" / "recordings", modes=modes)
    stage.send(*HEAD, *MESSAGES)
    stage.end()
    assert modes_below(tmp_path / "data") == {
        "data": modes.folder,
        "recordings": modes.folder,
        "manifest.jsonl": modes.file,
        stage.journal.closed[0].path: modes.file,
    }


@pytest.mark.usefixtures("umask")
def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    Stage(tmp_path / "recordings")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o775


# What is given up.


def record(stage: Stage, recording_id: str, samples: list[Sample]) -> None:
    stage.publish(recording_id)
    stage.send(*HEAD, *samples)
    stage.end()
    stage.now += 10.0
    stage.archive.do_chores()


def test_after_each_file_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=RetentionLimits(max_total_bytes=80_000, min_free_bytes=0))
    for recording_id in ("a", "b", "c", "d"):
        record(stage, recording_id, MESSAGES)
    kept, deleted = stage.journal.closed[2:], stage.journal.closed[:2]
    assert [row.recording_id for row in stage.journal.deleted] == ["a", "b"]
    assert [(tmp_path / row.path).exists() for row in (*deleted, *kept)] == [False, False, True, True]
    stage.archive.close()
    assert [row.recording_id for row in Stage(tmp_path).archive.manifest.rows.values()] == ["c", "d"]  # type: ignore[union-attr]


def test_what_is_too_old_goes_within_a_minute(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=RetentionLimits(max_age_s=100.0, min_free_bytes=0))
    record(stage, "a", MESSAGES)
    stage.now += 85.0
    assert stage.archive.next_chore_at <= stage.now
    stage.archive.do_chores()
    assert stage.journal.deleted == []
    stage.now += 60.0
    assert stage.archive.next_chore_at <= stage.now
    stage.archive.do_chores()
    assert [row.reason for row in stage.journal.deleted] == ["older than 100 s"]


def test_a_stranger_who_records_little_costs_nobody_a_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=RetentionLimits(max_total_bytes=130_000, min_free_bytes=0))
    record(stage, "show 1", [*MESSAGES, key(4000, 20_000)])
    for number in range(5):
        stage.publish(f"stranger {number}", stream="stranger")
        stage.send(*HEAD, key(0, 10))
        stage.end()
        stage.now += 10.0
        stage.archive.do_chores()
    assert [row.recording_id for row in stage.journal.deleted] == [f"stranger {number}" for number in range(4)]


# Clocks that are set.

KEEP_A_DAY = RetentionLimits(max_age_s=86_400.0, min_free_bytes=0)


def minute(stage: Stage) -> None:
    stage.now += 60.0
    stage.archive.do_chores()


def test_a_clock_that_jumps_ahead_deletes_nothing_for_an_hour_and_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=KEEP_A_DAY)
    record(stage, "a", MESSAGES)
    minute(stage)
    stage.clock_error_s = 400 * 86_400.0
    for _ in range(59):
        minute(stage)
    assert stage.journal.deleted == []
    assert [(round(jump_s), pause_s) for jump_s, pause_s in stage.journal.clock_jumps] == [(400 * 86_400, 3600.0)]
    for _ in range(2):
        minute(stage)
    assert len(stage.journal.deleted) == 1


def test_a_clock_that_is_put_right_in_time_costs_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=KEEP_A_DAY)
    record(stage, "a", MESSAGES)
    minute(stage)
    stage.clock_error_s = 400 * 86_400.0
    minute(stage)
    stage.clock_error_s = 0.0
    for _ in range(100):
        minute(stage)
    assert stage.journal.deleted == []
    assert len(stage.journal.clock_jumps) == 2


def test_by_age_ten_files_go_in_a_minute_however_many_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=KEEP_A_DAY)
    for number in range(25):
        record(stage, str(number), MESSAGES)
    stage.archive.close()
    stage = Stage(tmp_path, retention=KEEP_A_DAY, clock_error_s=400 * 86_400.0)
    assert len(stage.journal.deleted) == 10
    for number in range(5):
        record(stage, f"new {number}", MESSAGES)
    assert len(stage.journal.deleted) == 10
    minute(stage)
    assert len(stage.journal.deleted) == 20
    minute(stage)
    assert [row.recording_id for row in stage.journal.deleted] == [str(number) for number in range(25)]


def test_the_file_being_written_stays_whatever_the_limits(tmp_path: Path) -> None:
    stage = Stage(tmp_path, retention=RetentionLimits(max_age_s=0.0, max_total_bytes=0, min_free_bytes=10**18))
    stage.send(*HEAD, *MESSAGES)
    stage.now += 1000.0
    stage.archive.do_chores()
    assert stage.journal.deleted == []
    stage.end()
    stage.archive.do_chores()
    assert [row.status for row in stage.journal.deleted] == [SegmentStatus.DELETED]


class Refusing(Disk):
    def delete(self, path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))


def test_a_file_that_cannot_be_deleted_is_told_and_tried_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, disk=Refusing(), retention=RetentionLimits(max_total_bytes=0, min_free_bytes=0))
    record(stage, "a", MESSAGES)
    assert len(stage.journal.archive_failures) == 1
    assert "Operation not permitted" in stage.journal.archive_failures[0]
    stage.now += 60.0
    stage.archive.do_chores()
    assert len(stage.journal.archive_failures) == 2
    assert stage.journal.deleted == []


def test_real_room_on_the_disk_is_looked_at(tmp_path: Path) -> None:
    assert 0 < Disk().free_bytes(tmp_path) < 2**60


def test_a_recording_is_readable_while_it_grows(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.send(*HEAD, *MESSAGES)
    assert flv_samples(tmp_path / stage.journal.started[0].path)[1:] == [*HEAD, *MESSAGES]
