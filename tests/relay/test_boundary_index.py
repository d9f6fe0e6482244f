"""Boundaries in a log: stamped at append, dropped with their messages, the same for a follower in another process."""

from itertools import pairwise

import pytest

from penstock.media.frame import Frame
from penstock.relay.boundary_index import IndexedBoundary
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.packaging.boundaries import Boundaries, BoundaryRule, Numbering
from penstock.relay.readable_log import LogLimits, ReadableLog
from tests.relay.following_stage import FollowingStage
from tests.relay.packaging.stage import WALL_MS, audio_setup, steady, video_setup
from tests.relay.support import ENCODERS

SMALL = LogLimits(max_gops=2, max_age_s=3.0, min_segment_bytes=1000, max_segment_bytes=4000)


class StampedStage(FollowingStage):
    """A log with boundaries, and one who follows it."""

    def __init__(self, limits: LogLimits = SMALL) -> None:
        super().__init__(limits)
        stamps = Boundaries(BoundaryRule(), Numbering.at(WALL_MS))
        self.log = StreamLog(self.memory, ENCODERS, limits, LogBudget(1 << 40), stamps=stamps)

    def publish(self, frames: list[Frame]) -> None:
        for frame in frames:
            now = frame.timestamp_ms / 1000
            self.log.append(frame, now, WALL_MS + frame.timestamp_ms)
            self.flush(now)


def all_of(log: ReadableLog) -> list[IndexedBoundary]:
    return log.boundaries.between(0, log.head)


def numbers_of(log: ReadableLog) -> list[tuple[int, int]]:
    return [(each.boundary.segment, each.boundary.part_index) for each in all_of(log)]


def test_a_log_stamps_what_is_appended() -> None:
    stage = StampedStage(LogLimits())
    stage.publish(steady(2.1))
    boundaries = [each.boundary for each in all_of(stage.log)]
    assert [each.timestamp_ms for each in boundaries] == [*range(0, 2100, 200)]
    assert boundaries[0].segment == WALL_MS // 1000
    assert boundaries[10].segment == WALL_MS // 1000 + 1
    assert all(each.wall_ms == WALL_MS + each.timestamp_ms for each in boundaries)
    assert stage.log.segment_at(boundaries[3].position).entry_at(boundaries[3].position).timestamp_ms == 600  # type: ignore[union-attr]


def test_a_log_knows_that_a_part_began_in_what_is_not_flushed_yet() -> None:
    stage = StampedStage(LogLimits())
    began: list[int] = []
    for frame in steady(1.1):
        stage.log.append(frame, 0.0, WALL_MS + frame.timestamp_ms)
        if stage.log.has_unflushed_boundary:
            began.append(frame.timestamp_ms)
            stage.flush(0.0)
            assert not stage.log.has_unflushed_boundary
    assert began == [*range(0, 1100, 200)]


def test_a_log_without_stamps_has_no_boundaries() -> None:
    log = StreamLog(FollowingStage().memory, ENCODERS, SMALL, LogBudget(1 << 40))
    for frame in steady(1):
        log.append(frame, 0.0)
    log.flush(0.0)
    assert all_of(log) == []
    assert log.numbering is None


def test_each_boundary_has_the_codec_configuration_before_it() -> None:
    stage = StampedStage(LogLimits())
    stage.publish(steady(4.1))
    kinds = [
        [frame.kind for frame in each.config.frames] for each in all_of(stage.log) if each.boundary.part_index == 0
    ]
    assert kinds == [[video_setup().kind, audio_setup().kind]] * 3


def test_boundaries_go_with_their_messages() -> None:
    stage = StampedStage()
    stage.publish(steady(20))
    positions = [each.boundary.position for each in all_of(stage.log)]
    assert stage.log.start > 0
    assert positions[0] >= stage.log.start
    assert len(positions) < 40


def test_who_follows_has_the_same_boundaries_from_whenever_it_began() -> None:
    stage = StampedStage()
    frames = steady(20)
    stage.publish(frames[:300])
    stage.follow()
    assert all_of(stage.followed) == all_of(stage.log) != []
    for first, last in pairwise(range(300, len(frames), 7)):
        stage.publish(frames[first:last])
        stage.deliver_all()
        assert all_of(stage.followed) == all_of(stage.log)
    assert stage.followed.numbering == stage.log.numbering


def test_a_follower_that_dropped_what_the_writer_keeps_hears_of_later_boundaries_all_the_same() -> None:
    stage = StampedStage(LogLimits(min_segment_bytes=1000, max_segment_bytes=4000))
    stage.publish(steady(3))
    stage.follow()
    stage.followed.drop_everything()
    other = [video_setup(payload=video_setup().payload[:-1] + b"\x01", timestamp_ms=3000)]
    stage.publish(other + steady(1, start_ms=3000)[2:])
    stage.deliver_all()
    assert numbers_of(stage.followed) == numbers_of(stage.log)[-len(numbers_of(stage.followed)) :] != []


def test_what_a_follower_missed_it_has_no_boundaries_of() -> None:
    stage = StampedStage()
    stage.publish(steady(1))
    stage.follow()
    stage.publish(steady(20, start_ms=1000)[2:])
    stage.take(room_bytes=0)
    stage.publish(steady(20, start_ms=21_000)[2:])
    stage.deliver_all()
    assert stage.gaps
    missed, told = numbers_of(stage.log), numbers_of(stage.followed)
    assert told == missed


@pytest.mark.parametrize("has_begun", [False, True])
def test_numbers_go_on_in_another_log_and_never_go_back(has_begun: bool) -> None:
    stage = StampedStage(LogLimits())
    stage.publish(steady(2.1) if has_begun else [])
    numbering = stage.log.numbering
    assert numbering is not None
    assert numbering.has_begun is has_begun
    stamps = Boundaries(BoundaryRule(), numbering)
    elsewhere = StreamLog(stage.memory, ENCODERS, SMALL, LogBudget(1 << 40), stage.log.head, stamps=stamps)
    elsewhere.begin_anew()
    for frame in steady(0.5, start_ms=9000):
        elsewhere.append(frame, 9.0, WALL_MS + 9000)
    elsewhere.flush(9.0)
    first = all_of(elsewhere)[0].boundary
    began_s = WALL_MS // 1000
    assert first.segment == began_s + 2 * has_begun
    assert first.part == began_s * 20 + 11 * has_begun
    assert first.is_discontinuous is has_begun
    assert first.part_target_ms == (223 if has_begun else None)
    assert first.longest_segment_ms == (2000 if has_begun else 0)


def test_who_may_not_have_heard_of_all_leaves_numbers_out() -> None:
    fresh = Numbering.at(WALL_MS)
    assert fresh.skipping() == fresh
    heard = fresh._replace(segment=fresh.segment + 5, part=fresh.part + 50)
    assert heard.skipping() == heard._replace(segment=heard.segment + 1, part=heard.part + 20)


def test_a_log_that_is_packaged_keeps_whole_segments_of_as_much_as_is_wanted() -> None:
    stage = StampedStage()
    stage.publish(steady(10))
    stage.log.kept_ms = 12_000
    stage.publish([frame for frame in steady(60)[2:] if frame.timestamp_ms >= 10_000])
    first = all_of(stage.log)[0].boundary
    newest = stage.log.boundaries.newest
    assert newest is not None
    assert first.part_index == 0
    assert 12_000 <= newest.timestamp_ms - first.timestamp_ms <= 15_000
    stage.log.kept_ms = 0
    stage.publish([frame for frame in steady(66)[2:] if frame.timestamp_ms >= 60_000])
    assert all_of(stage.log)[0].boundary.timestamp_ms >= 60_000


def test_it_keeps_no_more_than_the_log_may_hold() -> None:
    stage = StampedStage(LogLimits(max_bytes=30_000, min_segment_bytes=1000, max_segment_bytes=4000))
    stage.log.kept_ms = 1 << 40
    stage.publish(steady(30))
    assert stage.log.held_bytes <= 30_000 + 4000 + 230 * 40


def test_where_a_packager_begins() -> None:
    stage = StampedStage(LogLimits(max_gops=100, max_age_s=100.0, max_messages=1 << 20))
    boundaries = stage.log.boundaries
    assert boundaries.segment_start_back(0, 1 << 40) is None
    stage.publish(steady(20.1))
    at = [boundaries.segment_start_back(ms, stage.log.head) for ms in (0, 1, 4000, 10_000, 10**9)]
    assert [None if each is None else each.boundary.timestamp_ms for each in at] == [20_000, 18_000, 16_000, 10_000, 0]
