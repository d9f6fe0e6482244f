"""The clock at its wraps, and after any walk that a real peer may make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.clock import UnwrappingClock

HALF = 0x80000000
CIRCLE = 0x100000000
MINUTE = 60_000

timestamps = st.integers(0, CIRCLE - 1)
# Where a rule of the clock changes, and a little to either side.
edges = st.builds(
    lambda edge, offset: (edge + offset) % CIRCLE,
    st.sampled_from([0, HALF // 2, HALF - MINUTE, HALF, HALF + MINUTE, HALF + HALF // 2]),
    st.integers(-100, 100),
)


def times_of(raws: list[int]) -> list[int]:
    clock = UnwrappingClock()
    return [clock.unwrap(raw) for raw in raws]


@pytest.mark.parametrize("first", [0, 1, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_the_first_timestamp_is_taken_as_it_is(first: int) -> None:
    assert times_of([first]) == [first]


def test_time_goes_on_past_24_bits() -> None:
    assert times_of([0xFFFFFE, 0xFFFFFF, 0x1000000]) == [16777214, 16777215, 16777216]


def test_time_goes_on_over_the_wrap_of_32_bits() -> None:
    assert times_of([0xFFFFFFF0, 0xFFFFFFFF, 0, 40]) == [4294967280, 4294967295, 4294967296, 4294967336]


def test_time_goes_on_over_the_wrap_of_a_31_bit_peer() -> None:
    assert times_of([0x7FFFFFF0, 0x7FFFFFFF, 0, 40]) == [2147483632, 2147483647, 2147483648, 2147483688]


def test_a_32_bit_peer_walks_through_the_middle_of_the_circle() -> None:
    assert times_of([0x7FFFFFF0, 0x7FFFFFFF, 0x80000000, 0x80000028]) == [
        2147483632,
        2147483647,
        2147483648,
        2147483688,
    ]


@pytest.mark.parametrize("wraps_at", [HALF, CIRCLE])
def test_a_peer_may_wrap_again_and_again(wraps_at: int) -> None:
    times = list(range(0, 5 * wraps_at, 45_000))
    assert times_of([time % wraps_at for time in times]) == times


def test_long_steps_may_meet_in_0_at_a_wrap() -> None:
    assert times_of([0xC0000001, 0, 0x3FFFFFFF]) == [3221225473, 4294967296, 5368709119]


def test_time_may_go_back() -> None:
    assert times_of([1000, 960, 2000, 500]) == [1000, 960, 2000, 500]


def test_time_may_go_back_over_a_wrap() -> None:
    assert times_of([0xFFFFFFF0, 5, 0xFFFFFFF8, 6]) == [4294967280, 4294967301, 4294967288, 4294967302]
    assert times_of([0x7FFFFFF0, 5, 0x7FFFFFF8, 6]) == [2147483632, 2147483653, 2147483640, 2147483654]


def test_time_may_go_back_beyond_its_beginning() -> None:
    assert times_of([5, 0xFFFFFFF6, 45]) == [5, -10, 45]


def test_a_stream_may_begin_anew_at_0() -> None:
    assert times_of([1_000_000, 0, 40, 80]) == [1_000_000, 0, 40, 80]
    assert times_of([1_500_000_000, 0, 40, 80]) == [1_500_000_000, 0, 40, 80]


@pytest.mark.parametrize(
    "before",
    [40, 1_000_000, 1 << 30, HALF - MINUTE - 1, HALF - MINUTE + 1, HALF - 1, HALF, HALF + MINUTE, 3_000_000_000],
)
@pytest.mark.parametrize("step", [-40, 0, 40])
def test_one_message_with_time_0_in_mid_stream_leaves_no_trace(before: int, step: int) -> None:
    assert times_of([before, 0, before + step])[2] == before + step


@given(timestamps | edges, st.integers(-1000, 1000), st.integers(1, 3))
def test_set_up_with_time_0_anywhere_leaves_no_trace(before: int, step: int, count: int) -> None:
    after = times_of([before, *[0] * count, (before + step) % CIRCLE])[-1]
    assert after == before + step


def test_to_peek_moves_nothing() -> None:
    clock = UnwrappingClock()
    assert clock.peek(7) == 7
    assert clock.unwrap(0xFFFFFFF0) == 4294967280
    assert [clock.peek(raw) for raw in (0, 0xFFFFFFF8, 0x90000000)] == [4294967296, 4294967288, 0x90000000]
    assert clock.unwrap(8) == 4294967304


@given(timestamps | edges, st.lists(st.integers(1 - (1 << 30), (1 << 30) - 1), max_size=30))
def test_any_walk_with_steps_below_2_to_the_30_is_followed_exactly(first: int, steps: list[int]) -> None:
    clock = UnwrappingClock()
    time = clock.unwrap(first)
    assert time == first
    for step in steps:
        time += step
        assert clock.peek(time % CIRCLE) == time
        assert clock.unwrap(time % CIRCLE) == time


@given(timestamps | edges, st.lists(st.integers(-5000, 5000), max_size=30))
def test_a_31_bit_peer_is_followed_in_steps_of_seconds(first: int, steps: list[int]) -> None:
    clock = UnwrappingClock()
    time = clock.unwrap(first % HALF)
    for step in steps:
        time += step
        assert clock.unwrap(time % HALF) == time


@given(st.lists(timestamps | edges, max_size=30))
def test_any_timestamps_at_all_give_times_that_stand_for_them(raws: list[int]) -> None:
    clock = UnwrappingClock()
    for raw in raws:
        expected = clock.peek(raw)
        time = clock.unwrap(raw)
        assert time == expected
        assert time % HALF == raw % HALF
