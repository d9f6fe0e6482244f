"""Publishing as `append`: going on with the newest file of a stream."""

from pathlib import Path

import pytest

from penstock.media.flv_metadata import read_flv_metadata
from penstock.serve.recording.archive import SegmentLimits
from penstock.serve.recording.manifest import Gap
from tests.serve.recording.recording_stage import (
    OTHER_VIDEO_SETUP,
    Stage,
    audio,
    audio_setup,
    inter,
    key,
    metadata,
    video_setup,
)
from tests.support.samples import VIDEO, flv_samples, shifted

SHORT = SegmentLimits(max_s=1.0)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def record_once(stage: Stage) -> None:
    stage.send(metadata(), video_setup(), audio_setup(), key(700), audio(720), key(1700), inter(1740))
    stage.end()


def test_append_goes_on_behind_the_last_message_of_the_newest_file(stage: Stage) -> None:
    record_once(stage)
    (first,) = stage.journal.closed
    before = stage.recorded(first)
    stage.now += 100.0
    stage.publish("two", is_append=True)
    stage.send(metadata(), video_setup(), audio_setup(), key(50_000), audio(50_010), inter(50_040))
    stage.end()
    row = stage.journal.closed[-1]
    assert row.key == first.key
    assert (row.path, row.started_at) == (first.path, first.started_at)
    assert stage.recorded(row) == [*before, *shifted([key(50_000), audio(50_010), inter(50_040)], 1080 - 50_000)]
    assert [each.timestamp_ms for each in stage.recorded(row)[len(before) :]] == [1080, 1090, 1120]
    assert (row.duration_ms, row.keyframes, row.bytes) == (1120, 3, (stage.folder / row.path).stat().st_size)
    assert row.gaps == (Gap(1040, 40, 0, 0, "appended by a later publication"),)
    assert (row.first_timestamp_ms, row.last_timestamp_ms) == (700, 50_040)
    assert [each.status for each in stage.rows()] == ["open", "closed", "open", "open", "closed"]


def test_what_was_appended_is_in_the_index(stage: Stage) -> None:
    record_once(stage)
    stage.publish("two", is_append=True)
    stage.send(video_setup(), audio_setup(), key(0), key(1000))
    stage.end()
    _, members = read_flv_metadata(flv_samples(stage.folder / stage.journal.closed[-1].path)[0].payload) or ("", None)
    assert isinstance(members, dict)
    assert (members["title"], members["duration"]) == ("show", 2.08)
    match members["keyframes"]:
        case {"times": [*times], "filepositions": [*positions]}:
            assert times == [0.0, 1.0, 1.08, 2.08]
            data = (stage.folder / stage.journal.closed[-1].path).read_bytes()
            assert [data[int(position)] for position in positions if isinstance(position, float)] == [VIDEO] * 4


def test_append_with_another_set_up_is_the_next_file_of_the_recording(stage: Stage) -> None:
    record_once(stage)
    before = (stage.folder / stage.journal.closed[0].path).read_bytes()
    stage.publish("two", is_append=True)
    stage.send(video_setup(OTHER_VIDEO_SETUP), audio_setup(), key(0))
    stage.end()
    first, second = stage.journal.closed
    assert (second.recording_id, second.segment) == ("one", 2)
    assert second.path != first.path
    assert (stage.folder / first.path).read_bytes() == before


def test_append_without_anything_to_append_to_is_a_new_recording(stage: Stage) -> None:
    stage.publish("two", is_append=True, stream="new")
    stage.send(video_setup(), key(0))
    stage.end()
    assert stage.journal.closed[0].key == ("two", 1)


@pytest.mark.parametrize("damage", ["gone", "cut", "grown", "foreign"])
def test_append_to_a_file_that_is_not_as_it_was_left_is_the_next_file(damage: str, stage: Stage) -> None:
    record_once(stage)
    path = stage.folder / stage.journal.closed[0].path
    match damage:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-10])
        case "grown":
            path.write_bytes(path.read_bytes() + b"\x08\x00\x00\x00")
        case _:
            path.write_bytes(b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")
    stage.publish("two", is_append=True)
    stage.send(video_setup(), audio_setup(), key(0))
    stage.end()
    assert stage.journal.closed[-1].key == ("one", 2)
    assert stage.journal.failures == []


def test_append_to_a_full_file_goes_on_in_the_next_at_a_key_frame(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limits=SHORT)
    stage.send(video_setup(), key(0), inter(900))
    stage.end()
    stage.publish("two", is_append=True)
    stage.send(video_setup(), key(0), inter(40), key(80))
    stage.end()
    assert [row.key for row in stage.journal.closed] == [("one", 1), ("one", 1), ("one", 2)]


def test_a_new_recording_leaves_the_last_one_alone(stage: Stage) -> None:
    record_once(stage)
    before = (stage.folder / stage.journal.closed[0].path).read_bytes()
    stage.publish("two")
    stage.send(video_setup(), audio_setup(), key(0))
    stage.end()
    assert stage.journal.closed[-1].key == ("two", 1)
    assert (stage.folder / stage.journal.closed[0].path).read_bytes() == before
