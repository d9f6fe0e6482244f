"""Time in a recorded file: distances are kept, and a clock that is set costs nobody his time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import FrameKind
from penstock.serve.recording.file_time import FileTime

A, V = FrameKind.AUDIO, FrameKind.VIDEO


def times_of(messages: list[tuple[FrameKind, int]]) -> list[int]:
    file_time = FileTime(messages[0][1])
    times = []
    for kind, timestamp_ms in messages:
        placed = file_time.place(kind, timestamp_ms)
        file_time.advance(kind, placed)
        times.append(placed.time_ms)
    return times


def test_a_file_begins_at_0_and_keeps_distances() -> None:
    assert times_of([(V, 5000), (A, 5010), (V, 5040), (A, 5033)]) == [0, 10, 40, 33]


def test_what_is_older_than_the_file_gets_the_time_of_the_message_before() -> None:
    assert times_of([(V, 5000), (V, 5040), (A, 4990), (V, 5080)]) == [0, 40, 40, 80]


def test_jitter_of_up_to_a_second_is_kept() -> None:
    assert times_of([(V, 0), (V, 3000), (V, 2000), (V, 3040)]) == [0, 3000, 2000, 3040]


def test_a_step_back_of_more_than_a_second_goes_on_behind_the_newest_message() -> None:
    assert times_of([(V, 0), (V, 3000), (V, 1999), (V, 2039), (V, 2080)]) == [0, 3000, 3040, 3080, 3121]


def test_a_pause_of_up_to_an_hour_is_kept_and_a_longer_one_is_a_step() -> None:
    assert times_of([(V, 0), (V, 3_600_000)]) == [0, 3_600_000]
    assert times_of([(V, 0), (V, 3_600_001), (V, 3_600_041)]) == [0, 40, 80]


def test_the_other_track_follows_a_step_and_stays_in_step() -> None:
    assert times_of([(V, 90_000), (A, 90_010), (V, 90_040), (A, 15), (V, 40), (A, 38)]) == [0, 10, 40, 80, 105, 103]


def test_a_late_message_of_the_old_clock_keeps_its_place() -> None:
    assert times_of([(V, 90_000), (A, 90_020), (A, 60), (V, 90_040), (V, 80), (A, 83)]) == [0, 20, 60, 40, 80, 83]


def test_a_track_that_comes_late_or_far_behind_keeps_its_distance() -> None:
    assert times_of([(V, 0), (V, 5000), (A, 3400), (V, 5040), (A, 3423)]) == [0, 5000, 3400, 5040, 3423]


def test_tracks_with_clocks_of_their_own_each_keep_their_distances() -> None:
    messages = [(V, 5_000_000), (A, 0), (V, 5_000_040), (A, 23), (V, 5_000_080), (A, 46)]
    assert times_of(messages) == [0, 40, 40, 63, 80, 86]


@given(steps=st.lists(st.tuples(st.sampled_from([A, V]), st.integers(0, 2**32)), min_size=1))
def test_whatever_the_timestamps_a_file_never_goes_back_far_or_leaps(steps: list[tuple[FrameKind, int]]) -> None:
    newest_ms = 0
    last: dict[FrameKind, int] = {}
    for (kind, _), time_ms in zip(steps, times_of(steps), strict=True):
        assert 0 <= time_ms <= newest_ms + 3_600_000
        assert time_ms >= last.get(kind, 0) - 1000
        last[kind] = time_ms
        newest_ms = max(newest_ms, time_ms)


@pytest.mark.parametrize(
    ("timestamp_ms", "time_ms"),
    [(5080, 80), (0, 40), (4000, 40), (2**40, 40), (5000 + 3_600_041, 40), (10_000, 5000)],
)
def test_set_up_and_data_go_where_they_say_if_that_is_near(timestamp_ms: int, time_ms: int) -> None:
    file_time = FileTime(5000)
    file_time.advance(V, file_time.place(V, 5040))
    assert file_time.place_other(timestamp_ms) == time_ms
    assert file_time.place(V, 5080).time_ms == 80
