"""One time over several publications: what continues a stream follows its last frame by the wall time that passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import Frame
from penstock.relay.timeline import Timeline
from tests.relay.support import audio, audio_setup, inter, metadata, video_setup


def placed_times(timeline: Timeline, *frames: Frame, now: float) -> list[int]:
    return [placed.timestamp_ms for frame in frames for placed in timeline.place(frame, now)]


def test_the_first_publication_keeps_its_times() -> None:
    timeline = Timeline()
    assert timeline.offset_ms == 0
    assert timeline.place(video_setup(7), 0.0) == [video_setup(7)]
    assert timeline.place(inter(4_000_000_000), 0.0) == [inter(4_000_000_000)]


def test_an_encoder_that_starts_at_zero_again_follows_by_the_wall_time_that_passed() -> None:
    timeline = Timeline().next(last_ms=60_000, last_at=100.0)
    assert placed_times(timeline, inter(0), audio(21), inter(40), now=103.5) == [63_500, 63_521, 63_540]


def test_an_encoder_that_kept_its_clock_is_not_moved() -> None:
    timeline = Timeline().next(last_ms=60_000, last_at=100.0)
    assert placed_times(timeline, inter(63_100), inter(63_140), now=103.5) == [63_100, 63_140]
    assert timeline.offset_ms == 0


def test_an_encoder_that_keeps_its_clock_over_two_reconnects_keeps_its_first_offset() -> None:
    second = Timeline().next(last_ms=60_000, last_at=100.0)
    assert placed_times(second, inter(0), now=103.0) == [63_000]
    third = second.next(last_ms=73_000, last_at=113.0)
    assert placed_times(third, inter(12_005), now=115.0) == [75_005]


def test_a_publication_without_a_frame_leaves_the_offset_of_the_one_before() -> None:
    second = Timeline().next(last_ms=60_000, last_at=100.0)
    second.place(inter(0), 103.0)
    empty = second.next(last_ms=73_000, last_at=113.0)
    empty.place(video_setup(), 114.0)
    fourth = empty.next(last_ms=73_000, last_at=113.0)
    assert placed_times(fourth, inter(14_005), now=117.0) == [77_005]


@pytest.mark.parametrize(
    "first_ms",
    [59_999, 60_000, 60_500, 66_000, 10_000_000],
    ids=["earlier", "the same", "slow clock", "fast clock", "another clock"],
)
def test_an_encoder_with_another_clock_is_moved_to_where_it_follows(first_ms: int) -> None:
    timeline = Timeline().next(last_ms=60_000, last_at=100.0)
    assert placed_times(timeline, inter(first_ms), inter(first_ms + 40), now=104.0) == [64_000, 64_040]


def test_time_goes_on_even_if_none_passed() -> None:
    timeline = Timeline().next(last_ms=60_000, last_at=100.0)
    assert placed_times(timeline, inter(0), now=100.0) == [60_001]


def test_set_up_waits_for_the_first_frame_and_gets_its_time() -> None:
    timeline = Timeline().next(last_ms=60_000, last_at=100.0)
    assert timeline.place(metadata(0), 102.0) == []
    assert timeline.place(video_setup(0), 102.0) == []
    assert timeline.place(audio_setup(999), 102.0) == []
    times = [(placed.kind.name, placed.timestamp_ms) for placed in timeline.place(inter(40), 102.0)]
    assert times == [("DATA", 62_000), ("VIDEO", 62_000), ("AUDIO", 62_000), ("VIDEO", 62_000)]


def test_set_up_after_the_first_frame_is_moved_like_any_other() -> None:
    timeline = Timeline().next(last_ms=60_000, last_at=100.0)
    assert placed_times(timeline, inter(0), video_setup(500), now=101.0) == [61_000, 61_500]


def test_set_up_without_end_is_held_within_bounds_newest_last() -> None:
    timeline = Timeline().next(last_ms=0, last_at=0.0)
    for number in range(1000):
        timeline.place(video_setup(0, str(number).encode()), 1.0)
    held = timeline.place(inter(0), 1.0)
    assert len(held) == 64 + 1
    assert held[-2].payload.endswith(b"999")


def test_large_set_up_is_held_within_bounds() -> None:
    timeline = Timeline().next(last_ms=0, last_at=0.0)
    for _ in range(5):
        timeline.place(video_setup(0, bytes(100_000)), 1.0)
    assert len(timeline.place(inter(0), 1.0)) == 2 + 1


@given(
    last_ms=st.integers(0, 2**34),
    elapsed_s=st.floats(0, 3600),
    first_ms=st.integers(0, 2**34),
    later_ms=st.lists(st.integers(-5000, 5000), max_size=8),
)
def test_differences_inside_a_publication_are_unchanged_and_time_moves_on(
    last_ms: int, elapsed_s: float, first_ms: int, later_ms: list[int]
) -> None:
    timeline = Timeline().next(last_ms, last_at=50.0)
    times = placed_times(timeline, *(inter(first_ms + shift) for shift in (0, *later_ms)), now=50.0 + elapsed_s)
    assert [time - times[0] for time in times[1:]] == later_ms
    assert times[0] > last_ms
    assert abs(times[0] - (last_ms + elapsed_s * 1000)) <= 1001
