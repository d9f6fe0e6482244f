"""The recorder beside the media path: who is recorded, and that nothing waits for the disk."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from penstock.relay.follower import FollowerLimits
from penstock.relay.segment import MemoryStore
from penstock.serve.recording.listener import RecordingListener
from penstock.serve.recording.manifest import SegmentRow, SegmentStatus
from penstock.serve.recording.recorder import Recorder, RecordingSettings
from penstock.serve.recording.recording_file import Disk
from tests.serve.recording.recording_stage import CHUNK_SIZE, Journal, audio, inter, key, video_setup
from tests.serve.recording.recording_studio import DEADLINE_S, SlowDisk, Studio
from tests.support.samples import Sample, flv_samples

ALL = ("*/*",)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Studio]]:
    started: list[Recorder] = []

    def start(
        streams: tuple[str, ...] = ALL,
        *,
        disk: Disk | None = None,
        follower: FollowerLimits | None = None,
        max_total_backlog_bytes: int = 2**30,
        listeners: Sequence[RecordingListener] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> Studio:
        journal = Journal()
        settings = RecordingSettings(
            tmp_path / "recordings",
            streams,
            follower=follower or FollowerLimits(),
            max_total_backlog_bytes=max_total_backlog_bytes,
        )
        recorder = Recorder(settings, CHUNK_SIZE, [*listeners, journal], disk=disk, clock=clock)
        recorder.start()
        started.append(recorder)
        return Studio(recorder, journal)

    yield start
    for recorder in started:
        recorder.close(DEADLINE_S)


def recorded(folder: Path, row: SegmentRow) -> list[Sample]:
    return flv_samples(folder / "recordings" / row.path)[1:]


@pytest.mark.parametrize(
    ("streams", "stream_key", "is_recorded"),
    [
        (ALL, "live/test", True),
        (ALL, "live/eu/test", True),
        ((), "live/test", False),
        (("live/*",), "live/test", True),
        (("live/*",), "Live/test", False),
        (("live/*",), "other/test", False),
        (("a/b", "live/cam?"), "live/cam1", True),
        (("a/b", "live/cam?"), "live/cam", False),
    ],
)
def test_patterns_choose_what_is_recorded(streams: tuple[str, ...], stream_key: str, is_recorded: bool) -> None:
    assert RecordingSettings(Path("x"), streams).records(stream_key) is is_recorded


def test_a_stream_is_recorded_from_its_first_to_its_last_message(start: Callable[..., Studio], tmp_path: Path) -> None:
    studio = start()
    outlet = studio.publish()
    sent = [video_setup(), *(each for ms in range(0, 20_000, 40) for each in (key(ms), audio(ms)))]
    studio.send(outlet, *sent)
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    (row,) = studio.journal.closed
    assert (row.status, row.app, row.stream) == (SegmentStatus.CLOSED, "live", "test")
    assert recorded(tmp_path, row) == sent
    assert (studio.recorder.recordings, outlet.listeners) == (0, [])


def test_memory_is_given_back_once_it_is_written(start: Callable[..., Studio]) -> None:
    studio = start()
    outlet = studio.publish()
    studio.send(outlet, video_setup(), key(0))
    assert studio.recorder.backlog_bytes > 0
    studio.wait_for(lambda: studio.recorder.backlog_bytes == 0)
    studio.send(outlet, inter(40))
    studio.end(outlet)
    assert studio.budget.used_bytes > 0
    studio.wait_for(lambda: studio.budget.used_bytes == 0)


@pytest.mark.parametrize("publishing_type", ["live", "record", "append"])
def test_what_no_pattern_names_is_not_recorded_whatever_its_publisher_asks_for(
    publishing_type: str, start: Callable[..., Studio], tmp_path: Path
) -> None:
    studio = start(("live/*",))
    outlet = studio.publish(app="other", publishing_type=publishing_type)
    assert outlet.listeners == []
    studio.send(outlet, video_setup(), key(0))
    studio.end(outlet)
    assert studio.recorder.close(DEADLINE_S)
    assert list((tmp_path / "recordings").glob("*.flv")) == []


def test_a_publisher_that_comes_back_goes_on_with_its_recording(start: Callable[..., Studio]) -> None:
    studio = start()
    outlet = studio.publish(publishing_type="record")
    studio.send(outlet, video_setup(), key(0))
    studio.come_back(outlet, "record")
    studio.send(outlet, video_setup(timestamp_ms=3000), key(3000))
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    (row,) = studio.journal.closed
    assert [(gap.at_ms, gap.length_ms) for gap in row.gaps] == [(0, 3000)]


def test_append_is_the_next_segment_of_the_recording(start: Callable[..., Studio]) -> None:
    studio = start()
    for _ in range(2):
        outlet = studio.publish(publishing_type="append")
        studio.send(outlet, video_setup(), key(0), inter(40))
        studio.end(outlet)
    studio.wait_for(lambda: len(studio.journal.closed) == 2)
    first, second = studio.journal.closed
    assert second.key == (first.recording_id, first.segment + 1)
    assert second.path != first.path


def test_names_that_are_no_text_are_recorded_all_the_same(start: Callable[..., Studio]) -> None:
    studio = start()
    outlet = studio.publish(stream="caf\udce9")
    studio.send(outlet, video_setup(), key(0))
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    assert studio.journal.closed[0].stream == "caf\\xe9"


def test_closing_keeps_everything_that_was_accepted(start: Callable[..., Studio], tmp_path: Path) -> None:
    studio = start()
    outlet = studio.publish()
    sent = [video_setup(), *(key(ms, 5000) for ms in range(0, 40_000, 40))]
    studio.send(outlet, *sent)
    assert studio.recorder.close(DEADLINE_S)
    (row,) = studio.journal.closed
    assert (row.status, recorded(tmp_path, row)) == (SegmentStatus.CLOSED, sent)
    assert studio.recorder.dropped_messages == 0


# Disks that stand still.


def test_a_disk_that_stands_still_stops_nobody_and_nothing_is_lost(
    start: Callable[..., Studio], tmp_path: Path
) -> None:
    disk = SlowDisk()
    studio = start(disk=disk)
    outlet = studio.publish()
    disk.moves.clear()
    studio.send(outlet, video_setup(), key(0))
    studio.wait_for(disk.waits.is_set)
    began_at = time.monotonic()
    sent = [each for ms in range(40, 9000, 40) for each in (inter(ms), audio(ms))]
    for sample in sent:
        studio.send(outlet, sample)
        studio.now += 0.02
    assert time.monotonic() - began_at < 2.0
    disk.moves.set()
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    (row,) = studio.journal.closed
    assert recorded(tmp_path, row) == [video_setup(), key(0), *sent]
    assert (row.gaps, studio.recorder.dropped_messages) == ((), 0)


def test_a_stall_is_told_once(start: Callable[..., Studio]) -> None:
    disk = SlowDisk()
    studio = start(disk=disk, clock=lambda: 1000.0)
    studio.now = 999.0
    disk.moves.clear()
    studio.send(studio.publish(), video_setup(), key(0))
    # One tick hands over what came. `wait_for` would tick on, and a second passes by each.
    studio.tick()
    assert disk.waits.wait(DEADLINE_S)
    for _ in range(7):
        studio.tick()
    assert studio.journal.stalls == []
    for _ in range(10):
        studio.tick()
    (stalled_s,) = studio.journal.stalls
    assert 8.0 <= stalled_s < 10.0
    disk.moves.set()


def test_beyond_the_allowance_whole_gops_go_and_the_gap_is_told(start: Callable[..., Studio], tmp_path: Path) -> None:
    disk = SlowDisk()
    studio = start(disk=disk, follower=FollowerLimits(max_bytes=3000))
    outlet = studio.publish()
    disk.moves.clear()
    studio.send(outlet, video_setup(), key(0))
    studio.wait_for(disk.waits.is_set)
    for ms in range(1000, 20_000, 1000):
        studio.send(outlet, key(ms), inter(ms + 40))
    disk.moves.set()
    studio.wait_for(lambda: studio.recorder.backlog_bytes == 0)
    studio.send(outlet, key(20_000))
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    (row,) = studio.journal.closed
    (gap,) = row.gaps
    samples = recorded(tmp_path, row)
    assert samples[:2] == [video_setup(), key(0)]
    assert samples[2].payload[0] == 0x17
    assert samples[-1] == key(20_000)
    assert gap.dropped_messages == studio.recorder.dropped_messages == 1 + 1 + 2 * 19 + 1 - len(samples)
    assert studio.journal.gaps == [gap]


def test_all_streams_together_stay_within_their_allowance(start: Callable[..., Studio]) -> None:
    disk = SlowDisk()
    studio = start(disk=disk, max_total_backlog_bytes=50_000)
    outlets = [studio.publish(f"s{number}") for number in range(5)]
    disk.moves.clear()
    for outlet in outlets:
        studio.send(outlet, video_setup(), key(0))
    studio.wait_for(disk.waits.is_set)
    for ms in range(1000, 20_000, 1000):
        for outlet in outlets:
            studio.send(outlet, key(ms, 5000))
        studio.tick()
        assert studio.recorder.backlog_bytes <= 50_000
    assert studio.recorder.dropped_messages > 40
    disk.moves.set()


def test_streams_that_end_while_the_disk_stands_still_count_until_they_are_written(
    start: Callable[..., Studio],
) -> None:
    disk = SlowDisk()
    studio = start(disk=disk)
    disk.moves.clear()
    outlet = studio.publish()
    studio.send(outlet, video_setup(), key(0, 5000))
    studio.end(outlet)
    studio.wait_for(disk.waits.is_set)
    assert studio.recorder.backlog_bytes > 5000
    disk.moves.set()
    studio.wait_for(lambda: studio.recorder.backlog_bytes == 0)


def test_a_disk_that_never_comes_back_does_not_keep_the_server_from_ending(start: Callable[..., Studio]) -> None:
    disk = SlowDisk()
    studio = start(disk=disk)
    disk.moves.clear()
    studio.send(studio.publish(), video_setup(), key(0))
    studio.wait_for(disk.waits.is_set)
    began_at = time.monotonic()
    assert not studio.recorder.close(0.1)
    assert time.monotonic() - began_at < 1.0
    disk.moves.set()


# Bugs at the edges.


class Clumsy(RecordingListener):
    def recording_started(self, row: SegmentRow) -> None:
        raise RuntimeError("dropped it")


def test_a_listener_that_fails_costs_nobody_else_anything(start: Callable[..., Studio]) -> None:
    studio = start(listeners=[Clumsy()])
    outlet = studio.publish()
    studio.send(outlet, video_setup(), key(0))
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    assert len(studio.journal.started) == 1


class Mistaken(Disk):
    def create(self, path: Path, mode: int) -> int:
        if "bad" in path.name:
            raise RuntimeError("a bug")
        return super().create(path, mode)


def test_a_bug_in_one_recording_costs_that_one_alone(start: Callable[..., Studio]) -> None:
    studio = start(disk=Mistaken())
    bad, good = studio.publish("bad"), studio.publish("good")
    for outlet in (bad, good):
        studio.send(outlet, video_setup(), key(0))
    studio.wait_for(lambda: bool(studio.journal.archive_failures))
    assert studio.journal.archive_failures == ["internal error: RuntimeError('a bug')"]
    for outlet in (bad, good):
        studio.send(outlet, inter(40))
        studio.come_back(outlet)
        studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    assert [row.stream for row in studio.journal.closed] == ["good"]
    studio.wait_for(lambda: studio.recorder.backlog_bytes == 0)


def test_plain_memory_can_be_recorded_while_it_grows(start: Callable[..., Studio], tmp_path: Path) -> None:
    studio = start()
    outlet = studio.publish(store=MemoryStore())
    sent = [video_setup(), *(key(ms, 20_000) for ms in range(0, 8000, 40))]
    for sample in sent:
        studio.send(outlet, sample)
        studio.tick()
    studio.end(outlet)
    studio.wait_for(lambda: bool(studio.journal.closed))
    assert recorded(tmp_path, studio.journal.closed[0]) == sent
