"""Several workers, one folder: each repairs what is its to repair, one tidies up, and a recording can move."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from penstock.serve.boot import Boot
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.recording.manifest import Gap, Manifest, SegmentStatus
from penstock.serve.recording.recorder import Recorder, RecordingSettings
from penstock.serve.recording.retention import RetentionLimits
from penstock.serve.settings import FileModes
from penstock.serve.streams.live_stream import LiveStream
from tests.serve.recording.recording_stage import CHUNK_SIZE, Journal, Stage, inter, key, video_setup
from tests.serve.recording.recording_studio import DEADLINE_S, Studio

FIRST = Boot("aaaaaaaa0001", "aaaaaaaa", worker=1, workers=2, recovers=("*",))
SECOND = Boot("aaaaaaaa0002", "aaaaaaaa", worker=2, workers=2, recovers=())
MESSAGES = [video_setup(), key(0), inter(40), key(2000), inter(2040)]


def statuses(stage: Stage) -> list[tuple[str | None, SegmentStatus]]:
    return [(row.boot_id, row.status) for row in stage.rows()]


# Repair.


def test_a_row_says_which_worker_writes_the_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, boot=SECOND)
    stage.send(*MESSAGES)
    stage.end()
    assert statuses(stage) == [("aaaaaaaa0002", SegmentStatus.OPEN), ("aaaaaaaa0002", SegmentStatus.CLOSED)]


def test_a_file_that_another_worker_is_writing_is_left_alone(tmp_path: Path) -> None:
    writing = Stage(tmp_path, boot=SECOND)
    writing.send(*MESSAGES)
    path = tmp_path / writing.journal.started[0].path
    before = path.read_bytes()
    starting = Stage(tmp_path, boot=FIRST)
    assert starting.journal.closed == []
    assert path.read_bytes() == before
    writing.end()
    assert writing.journal.closed[0].status is SegmentStatus.CLOSED


def test_who_replaces_a_lost_worker_repairs_its_files_and_no_others(tmp_path: Path) -> None:
    lost, living = Stage(tmp_path, boot=SECOND), Stage(tmp_path, boot=FIRST)
    for stage, stream in ((lost, "lost"), (living, "living")):
        stage.publish(stream, stream=stream)
        stage.send(*MESSAGES)
    lost.archive.close()
    replacement = Stage(tmp_path, boot=replace(SECOND, boot_id="aaaaaaaa0003", recovers=("aaaaaaaa0002",)))
    assert [(row.stream, row.status, row.boot_id) for row in replacement.journal.closed] == [
        ("lost", SegmentStatus.REPAIRED, "aaaaaaaa0002")
    ]
    living.end()
    assert living.journal.closed[0].status is SegmentStatus.CLOSED


def test_the_first_worker_repairs_what_lives_before_left_and_older_servers_too(tmp_path: Path) -> None:
    before = Stage(tmp_path, boot=Boot("bbbbbbbb0002", "bbbbbbbb", worker=2))
    before.send(*MESSAGES)
    before.publish("two", stream="two")
    before.send(*MESSAGES)
    before.archive.close()
    manifest = Manifest(tmp_path, FileModes())
    manifest.save(replace(manifest.rows["two", 1], boot_id=None))
    manifest.close()
    assert Stage(tmp_path, boot=SECOND).journal.closed == []
    stage = Stage(tmp_path, boot=FIRST)
    assert [(row.recording_id, row.status) for row in stage.journal.closed] == [
        ("one", SegmentStatus.REPAIRED),
        ("two", SegmentStatus.REPAIRED),
    ]


# Tidying up.

SMALL = RetentionLimits(max_total_bytes=80_000, min_free_bytes=0)


def record(stage: Stage, recording_id: str) -> None:
    stage.publish(recording_id)
    stage.send(*MESSAGES)
    stage.end()
    stage.now += 10.0


def test_the_first_worker_gives_up_files_of_all(tmp_path: Path) -> None:
    first, second = Stage(tmp_path, boot=FIRST, retention=SMALL), Stage(tmp_path, boot=SECOND, retention=SMALL)
    for recording_id in ("a", "b", "c", "d"):
        record(second, recording_id)
    second.archive.do_chores()
    assert second.journal.deleted == []
    first.now += 10.0
    assert first.archive.next_chore_at <= first.now
    first.archive.do_chores()
    assert [row.recording_id for row in first.journal.deleted] == ["a", "b"]
    assert len(list(tmp_path.glob("*.flv"))) == 2
    record(second, "e")
    assert second.archive.manifest is not None
    assert [row.recording_id for row in second.archive.manifest.rows.values()] == ["c", "d", "e"]


def test_files_that_others_are_writing_count_and_stay(tmp_path: Path) -> None:
    first, second = Stage(tmp_path, boot=FIRST, retention=SMALL), Stage(tmp_path, boot=SECOND, retention=SMALL)
    record(first, "a")
    second.publish("open", stream="open")
    second.send(video_setup(), key(0, 60_000))
    first.archive.do_chores()
    assert [row.recording_id for row in first.journal.deleted] == ["a"]
    assert (tmp_path / second.journal.started[0].path).exists()


def test_a_file_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    first, second = Stage(tmp_path, boot=FIRST, retention=SMALL), Stage(tmp_path, boot=SECOND)
    for recording_id in ("a", "b", "c"):
        record(second, recording_id)
    second.publish("open", stream="open")
    second.send(*MESSAGES)
    for path in tmp_path.glob("*.flv"):
        path.unlink()
    first.now += 60.0
    first.archive.do_chores()
    assert first.journal.archive_failures == []
    assert [row.recording_id for row in first.journal.deleted] == ["a"]


def test_a_worker_that_tidies_nothing_is_not_woken_for_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, boot=SECOND)
    record(stage, "a")
    assert stage.archive.next_chore_at == float("inf")


# A recording that moves.


def test_a_recording_goes_on_elsewhere_in_its_next_segment(tmp_path: Path) -> None:
    old, new = Stage(tmp_path, boot=FIRST), Stage(tmp_path, boot=SECOND)
    old.send(*MESSAGES)
    new.publish("one", is_continued=True, last_timestamp_ms=2040)
    new.send(inter(6000), video_setup(timestamp_ms=6040), key(6040), inter(6080))
    old.end()
    new.end()
    (row,) = new.journal.closed
    assert (old.journal.closed[0].key, row.key) == (("one", 1), ("one", 2))
    assert row.gaps == (Gap(0, 4000, 0, 0, "the publisher was away"),)
    assert new.recording.dropped_messages == 0
    assert [each.timestamp_ms for each in new.recorded(row)] == [0, 0, 40]


def test_of_a_recording_whose_last_time_is_unknown_the_gap_has_no_length(tmp_path: Path) -> None:
    stage = Stage(tmp_path, boot=SECOND)
    stage.publish("lost", is_continued=True)
    stage.send(video_setup(timestamp_ms=6040), key(6040))
    stage.end()
    assert stage.journal.closed[0].gaps == (Gap(0, 0, 0, 0, "the publisher was away"),)


def test_only_the_first_file_of_a_continued_recording_has_the_gap(tmp_path: Path) -> None:
    stage = Stage(tmp_path, boot=SECOND)
    stage.publish("one", is_continued=True, last_timestamp_ms=0)
    stage.send(*MESSAGES)
    stage.end()
    stage.send(key(3000))
    stage.end()
    assert [len(row.gaps) for row in stage.journal.closed] == [1, 0]


NewStudio = Callable[[Boot], Studio]


@pytest.fixture
def new_studio(tmp_path: Path) -> Iterator[NewStudio]:
    studios: list[Studio] = []

    def start(boot: Boot) -> Studio:
        journal = Journal()
        studio = Studio(Recorder(RecordingSettings(tmp_path, ("live/*",)), CHUNK_SIZE, [journal], boot), journal)
        studio.recorder.start()
        studios.append(studio)
        return studio

    yield start
    for studio in studios:
        studio.recorder.close(DEADLINE_S)


def test_a_recorder_gives_up_a_stream_and_another_goes_on_with_it(new_studio: NewStudio) -> None:
    old, new = new_studio(FIRST), new_studio(SECOND)
    outlet = old.publish()
    old.send(outlet, *MESSAGES)
    recording_id = old.told["live/test"]
    assert recording_id is not None
    old.recorder.stream_left(cast("LiveStream", outlet))
    assert (old.recorder.recordings, outlet.listeners) == (0, [])
    old.wait_for(lambda: bool(old.journal.closed))
    new.recorder.continue_recording("live/test", recording_id, 2040)
    moved = new.publish()
    new.send(moved, video_setup(timestamp_ms=5040), key(5040), inter(5080))
    new.end(moved)
    new.wait_for(lambda: bool(new.journal.closed))
    rows = [*old.journal.closed, *new.journal.closed]
    assert [row.key for row in rows] == [(recording_id, 1), (recording_id, 2)]
    assert [row.duration_ms for row in rows] == [2040, 40]
    assert [gap.length_ms for gap in rows[1].gaps] == [3000]


def test_what_is_not_recorded_is_given_up_for_nothing(new_studio: NewStudio) -> None:
    studio = new_studio(FIRST)
    outlet = studio.publish(app="other")
    assert studio.told == {}
    studio.recorder.stream_left(cast("LiveStream", outlet))
    studio.recorder.continue_recording("other/test", "one")
    studio.publish(app="other")
    assert studio.recorder.recordings == 0


def test_a_recording_is_continued_once(new_studio: NewStudio) -> None:
    studio = new_studio(FIRST)
    studio.recorder.continue_recording("live/test", "one")
    for _ in range(2):
        outlet = studio.publish()
        studio.send(outlet, *MESSAGES)
        studio.end(outlet)
    studio.wait_for(lambda: len(studio.journal.closed) == 2)
    names = [row.recording_id for row in studio.journal.closed]
    assert names[0] == "one" != names[1]


def test_what_was_appended_to_a_recording_moves_under_the_name_of_that(new_studio: NewStudio) -> None:
    studio = new_studio(FIRST)
    first = studio.publish()
    studio.send(first, *MESSAGES)
    studio.end(first)
    studio.wait_for(lambda: len(studio.journal.closed) == 1)
    second = studio.publish(publishing_type="append")
    ordered = studio.told["live/test"]
    assert ordered is not None
    studio.send(second, *MESSAGES[:-1])
    studio.now += 1.0
    studio.send(second, MESSAGES[-1])
    give_up_at = time.monotonic() + DEADLINE_S
    while studio.recorder._thread.recording_id_of(ordered) == ordered:
        assert time.monotonic() < give_up_at
        time.sleep(0.005)
    assert studio.told["live/test"] == ordered, "it is told a few times a second"
    studio.recorder.publish_stopped(cast("RtmpConnection", None), cast("LiveStream", second), "replaced")
    assert studio.told["live/test"] == studio.journal.closed[0].recording_id


def test_what_a_recording_that_was_appended_is_called_is_told_while_it_goes_on(new_studio: NewStudio) -> None:
    studio = new_studio(FIRST)
    first = studio.publish()
    studio.send(first, *MESSAGES)
    studio.end(first)
    studio.wait_for(lambda: len(studio.journal.closed) == 1)
    second = studio.publish(publishing_type="append")
    studio.send(second, *MESSAGES)
    studio.wait_for(lambda: studio.told["live/test"] == studio.journal.closed[0].recording_id)


def test_one_that_goes_on_after_its_worker_was_lost_does_not_know_how_much_is_missing(new_studio: NewStudio) -> None:
    studio = new_studio(FIRST)
    outlet = studio.publish(app="other")
    studio.recorder.stream_arrived(cast("LiveStream", outlet), "one")
    assert studio.recorder._continued == {"other/test": ("one", None)}
    studio.send(outlet, *MESSAGES)
    studio.recorder.stream_arrived(cast("LiveStream", outlet), "one")
    assert studio.recorder._continued == {"other/test": ("one", 2040)}
