"""What a stranger's messages cost the disk: files are neither many nor mostly empty, whatever is sent."""

from pathlib import Path

import pytest

from penstock.serve.recording.archive import SegmentLimits
from tests.serve.recording.recording_stage import (
    OTHER_AUDIO_SETUP,
    OTHER_VIDEO_SETUP,
    VIDEO_SETUP,
    Stage,
    audio_setup,
    key,
    video_setup,
)
from tests.support.samples import Sample

SETUPS = (VIDEO_SETUP, OTHER_VIDEO_SETUP)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def send_for(stage: Stage, seconds: int, size: int, *, from_ms: int = 0) -> None:
    """A key frame a second."""
    for second in range(seconds):
        stage.send(key(from_ms + second * 1000, size))
        stage.now += 1.0


def disk_bytes(stage: Stage) -> int:
    return sum(path.stat().st_size for path in stage.folder.iterdir())


def test_set_up_that_changes_in_a_young_file_takes_effect_in_its_place(stage: Stage) -> None:
    changed = video_setup(OTHER_VIDEO_SETUP, 5000)
    stage.send(video_setup())
    send_for(stage, 5, 20_000)
    stage.send(changed)
    send_for(stage, 4, 20_000, from_ms=5000)
    stage.end()
    (row,) = stage.journal.closed
    sent = [*(key(ms, 20_000) for ms in range(0, 9000, 1000))]
    assert stage.recorded(row) == [video_setup(), *sent[:5], changed, *sent[5:]]


def test_it_begins_another_file_once_the_first_is_ten_seconds_old(stage: Stage) -> None:
    stage.send(video_setup())
    send_for(stage, 5, 20_000)
    stage.send(video_setup(OTHER_VIDEO_SETUP, 5000))
    send_for(stage, 10, 20_000, from_ms=5000)
    stage.end()
    assert [row.first_timestamp_ms for row in stage.journal.closed] == [0, 10_000]


def test_set_up_that_changes_after_a_minute_begins_another_file_at_once(stage: Stage) -> None:
    stage.send(video_setup(), audio_setup())
    send_for(stage, 60, 300)
    stage.send(video_setup(OTHER_VIDEO_SETUP, 60_000), audio_setup(OTHER_AUDIO_SETUP, 60_000))
    send_for(stage, 5, 300, from_ms=60_000)
    stage.end()
    first, second = stage.journal.closed
    assert second.first_timestamp_ms == 60_000
    assert OTHER_VIDEO_SETUP not in [each.payload for each in stage.recorded(first)]
    assert stage.recorded(second)[0].payload == OTHER_VIDEO_SETUP


def test_a_file_of_little_media_may_end_when_it_is_a_minute_old(stage: Stage) -> None:
    stage.send(video_setup())
    send_for(stage, 5, 300)
    stage.send(video_setup(OTHER_VIDEO_SETUP, 5000))
    send_for(stage, 60, 300, from_ms=5000)
    stage.end()
    assert [row.first_timestamp_ms for row in stage.journal.closed] == [0, 60_000]


def hostile_messages(count: int) -> list[Sample]:
    """Each with other set-up, and with a timestamp that jumps."""
    return [
        each
        for number in range(count)
        for each in (video_setup(SETUPS[number % 2]), key(number * 3_000_000 % 2**32, 100))
    ]


def test_neither_timestamps_nor_set_up_make_more_files_than_one_in_ten_seconds(stage: Stage) -> None:
    sent_bytes = 0
    for sample in hostile_messages(6000):
        stage.send(sample)
        stage.now += 0.01
        sent_bytes += len(sample.payload) + 12
    stage.end()
    assert len(stage.journal.closed) <= 12
    assert disk_bytes(stage) <= 2 * sent_bytes + 100_000


def test_short_segments_that_the_operator_asked_for_are_made(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SegmentLimits(max_s=2.0))
    stage.send(video_setup())
    send_for(stage, 6, 2000)
    stage.end()
    assert [row.first_timestamp_ms for row in stage.journal.closed] == [0, 2000, 4000]


def test_a_file_that_is_full_by_bytes_ends_however_young_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SegmentLimits(max_bytes=50_000))
    stage.send(video_setup(), key(0, 20_000), key(40), key(80))
    stage.end()
    assert [row.first_timestamp_ms for row in stage.journal.closed] == [0, 40]


def test_publications_that_come_and_go_make_six_files_in_a_minute(stage: Stage) -> None:
    for number in range(800):
        stage.publish(f"r{number}")
        stage.send(video_setup(), key(0, 10))
        stage.end()
        stage.now += 0.01
    assert len(stage.journal.closed) == 6
    assert len(list(stage.folder.glob("*.flv"))) == 6
    assert disk_bytes(stage) < 6 * 40_000
    assert set(stage.journal.failures) == {("live/test", "the stream began more than 6 recordings in 60 s")}


def test_a_stream_that_had_to_wait_is_recorded_when_it_may_be_and_the_gap_is_noted(stage: Stage) -> None:
    for number in range(6):
        stage.publish(f"r{number}")
        stage.send(video_setup(), key(0, 10))
        stage.end()
    stage.publish("last")
    stage.send(video_setup())
    send_for(stage, 12, 300)
    stage.end()
    row = stage.journal.closed[-1]
    assert (row.recording_id, row.first_timestamp_ms) == ("last", 10_000)
    assert [(gap.dropped_messages, gap.reason) for gap in row.gaps] == [
        (10, "the stream began more than 6 recordings in 60 s")
    ]
    assert len(stage.journal.failures) == 10


def test_a_recording_that_runs_is_not_stopped_by_those_that_come_and_go(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SegmentLimits(max_s=1.0, min_small_s=0.0))
    for number in range(700):
        stage.archive.allowance.refusal(f"live/{number}", stage.now - 0.001)
    stage.send(video_setup(), key(0))
    assert stage.journal.failures == [("live/test", "more than 600 recordings began in a short time")]
    stage.now += 1.0
    stage.send(*(key(ms) for ms in range(1000, 20_000, 1000)))
    for number in range(700):
        stage.archive.allowance.refusal(f"live/{number}", stage.now)
    stage.send(*(key(ms) for ms in range(20_000, 40_000, 1000)))
    stage.end()
    assert len(stage.journal.closed) == 39
    assert len(stage.journal.failures) == 1


def test_the_room_that_a_file_reserves_is_counted_while_it_is_open(stage: Stage) -> None:
    stage.send(video_setup(), key(0, 10))
    assert (stage.folder / stage.journal.started[0].path).stat().st_size > 36_864
