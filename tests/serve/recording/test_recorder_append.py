"""Publishing as `append`: the next segments of a stream's newest recording, in files of their own."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.serve.recording.manifest import SegmentStatus
from tests.serve.recording.recording_stage import Stage, audio, audio_setup, inter, key, metadata, video_setup


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def record(stage: Stage) -> None:
    stage.send(metadata(), video_setup(), audio_setup(), key(700), audio(720), key(1700), inter(1740))
    stage.end()


def test_append_is_the_next_file_of_the_newest_recording(stage: Stage) -> None:
    record(stage)
    stage.publish("two", is_append=True)
    record(stage)
    first, second = stage.journal.closed
    assert (first.key, second.key) == (("one", 1), ("one", 2))
    assert second.path != first.path
    assert stage.recorded(second) == stage.recorded(first)
    assert second.gaps == ()


def test_append_never_touches_a_finished_file(stage: Stage) -> None:
    record(stage)
    path = stage.folder / stage.journal.closed[0].path
    path.chmod(0o400)
    before, changed_at_ns = path.read_bytes(), path.stat().st_mtime_ns
    stage.publish("two", is_append=True)
    record(stage)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, changed_at_ns)
    assert [row.status for row in stage.rows()] == ["open", "closed", "open", "closed"]


def test_append_without_anything_to_append_to_is_a_new_recording(stage: Stage) -> None:
    stage.publish("two", is_append=True, stream="new")
    record(stage)
    assert stage.journal.closed[0].key == ("two", 1)


def test_append_takes_a_number_that_no_segment_has(stage: Stage) -> None:
    record(stage)
    for recording_id in ("two", "three"):
        stage.publish(recording_id, is_append=True)
        record(stage)
    manifest = stage.archive.manifest
    assert manifest is not None
    # A segment that is looked at again at a start is the newest row of its stream.
    manifest.save(replace(stage.journal.closed[0], status=SegmentStatus.REPAIRED))
    stage.publish("four", is_append=True)
    record(stage)
    assert [row.key for row in stage.journal.closed] == [("one", 1), ("one", 2), ("one", 3), ("one", 4)]


def test_a_new_recording_leaves_the_last_one_alone(stage: Stage) -> None:
    record(stage)
    before = (stage.folder / stage.journal.closed[0].path).read_bytes()
    stage.publish("two")
    record(stage)
    assert stage.journal.closed[-1].key == ("two", 1)
    assert (stage.folder / stage.journal.closed[0].path).read_bytes() == before
