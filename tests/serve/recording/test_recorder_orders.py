"""What the operator orders: a live stream's recording stopped and begun again, and files deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from penstock.serve.boot import Boot
from penstock.serve.recording.recorder import Recorder, RecordingSettings
from penstock.serve.streams.live_stream import LiveStream
from tests.serve.recording.recording_stage import CHUNK_SIZE, Journal, inter, key, video_setup
from tests.serve.recording.recording_studio import DEADLINE_S, Outlet, Studio

BOOT = Boot("aaaaaaaa0001", "aaaaaaaa", worker=1, workers=2, recovers=("*",))
OTHER = Boot("aaaaaaaa0002", "aaaaaaaa", worker=2, workers=2, recovers=())
MESSAGES = [video_setup(), key(0), inter(40), key(2000), inter(2040)]


def new_studio(folder: Path, boot: Boot = BOOT) -> Studio:
    journal = Journal()
    studio = Studio(Recorder(RecordingSettings(folder, ("live/*",)), CHUNK_SIZE, [journal], boot), journal)
    studio.recorder.start()
    return studio


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    studio = new_studio(tmp_path)
    yield studio
    studio.recorder.close(DEADLINE_S)


def set_recording(studio: Studio, outlet: Outlet, *, is_recording: bool) -> None:
    studio.recorder.set_recording(cast("LiveStream", outlet), is_recording=is_recording)


def test_a_stopped_recording_ends_and_one_begun_again_is_another_from_the_next_key_frame_on(studio: Studio) -> None:
    outlet = studio.publish()
    studio.send(outlet, *MESSAGES)
    set_recording(studio, outlet, is_recording=False)
    assert not studio.recorder.is_recording("live/test")
    studio.wait_for(lambda: len(studio.journal.closed) == 1)
    studio.send(outlet, key(4000), inter(4040))
    set_recording(studio, outlet, is_recording=True)
    assert studio.recorder.is_recording("live/test")
    studio.send(outlet, inter(5000), key(6000), inter(6040))
    studio.end(outlet)
    studio.wait_for(lambda: len(studio.journal.closed) == 2)
    first, second = studio.journal.closed
    assert (first.duration_ms, second.duration_ms) == (2040, 40)
    assert second.first_timestamp_ms == 6000
    assert first.recording_id != second.recording_id


def test_what_was_stopped_stays_so_when_the_publisher_comes_back_and_not_in_the_next_stream(studio: Studio) -> None:
    outlet = studio.publish()
    set_recording(studio, outlet, is_recording=False)
    studio.come_back(outlet)
    assert not studio.recorder.is_recording("live/test")
    studio.end(outlet)
    studio.publish()
    assert studio.recorder.is_recording("live/test")


def test_what_was_stopped_in_one_worker_is_not_recorded_in_the_next(studio: Studio, tmp_path: Path) -> None:
    outlet = studio.publish()
    set_recording(studio, outlet, is_recording=False)
    assert studio.told == {"live/test": None}
    other = new_studio(tmp_path, OTHER)
    there = other.new_outlet()
    other.recorder.stream_arrived(cast("LiveStream", there), studio.told["live/test"])
    other.come_back(there)
    assert not other.recorder.is_recording("live/test")
    set_recording(other, there, is_recording=True)
    assert other.recorder.is_recording("live/test")
    assert other.told["live/test"] is not None
    other.recorder.close(DEADLINE_S)


def test_a_stream_that_no_pattern_names_is_not_recorded_whoever_orders_it(studio: Studio) -> None:
    outlet = studio.publish(app="other")
    set_recording(studio, outlet, is_recording=True)
    assert not studio.recorder.is_recording("other/test")


def test_orders_given_twice_change_nothing(studio: Studio) -> None:
    outlet = studio.publish()
    set_recording(studio, outlet, is_recording=True)
    assert (studio.recorder.recordings, len(outlet.listeners)) == (1, 1)
    set_recording(studio, outlet, is_recording=False)
    set_recording(studio, outlet, is_recording=False)
    assert (studio.recorder.recordings, len(outlet.listeners)) == (0, 0)


def test_any_worker_deletes_a_finished_file_and_its_row_says_why(studio: Studio, tmp_path: Path) -> None:
    outlet = studio.publish()
    studio.send(outlet, *MESSAGES)
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    (row,) = studio.journal.closed
    other = new_studio(tmp_path, OTHER)
    other.recorder.delete(row.recording_id, row.segment)
    other.wait_for(lambda: bool(other.journal.deleted))
    other.recorder.close(DEADLINE_S)
    assert not (tmp_path / row.path).exists()
    assert [(each.key, each.reason) for each in other.journal.deleted] == [(row.key, "deleted by the operator")]


def test_a_file_that_is_being_written_or_that_nobody_knows_is_not_deleted(studio: Studio, tmp_path: Path) -> None:
    outlet = studio.publish()
    studio.send(outlet, *MESSAGES)
    studio.wait_for(lambda: bool(studio.journal.started))
    (row,) = studio.journal.started
    studio.recorder.delete(row.recording_id, row.segment)
    studio.recorder.delete("nobody", 7)
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    assert (tmp_path / row.path).exists()
    assert studio.journal.deleted == []
