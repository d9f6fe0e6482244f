"""Timestamps that jump, and the continuous time that becomes of them."""

import pytest

from penstock.media.continuous_time import Jump, Timeline

VIDEO = (9, 0)
AUDIO = (8, 0)


def placed(*frames: tuple[tuple[int, int], int], start_ms: int = 0) -> tuple[list[int], list[Jump]]:
    timeline = Timeline(start_ms)
    return [timeline.place(track, timestamp_ms) for track, timestamp_ms in frames], timeline.jumps


def test_timestamps_without_jumps_keep_their_distances() -> None:
    frames = ((VIDEO, 5000), (AUDIO, 4990), (VIDEO, 5040), (AUDIO, 5011), (VIDEO, 6040))
    assert placed(*frames) == ([0, -10, 40, 11, 1040], [])
    assert placed(*frames, start_ms=10) == ([10, 0, 50, 21, 1050], [])


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000, 10_500, -200])
def test_picture_and_sound_that_jump_together_stay_together(jump_ms: int) -> None:
    base = 4_000_000
    before = ((VIDEO, base), (AUDIO, base + 5), (VIDEO, base + 40), (AUDIO, base + 28))
    after = ((AUDIO, base + 51 + jump_ms), (VIDEO, base + 80 + jump_ms), (AUDIO, base + 74 + jump_ms))
    times, jumps = placed(*before, *after)
    assert times == [0, 5, 40, 28, 51, 80, 74]
    assert jumps == [Jump(at_ms=51, by_ms=jump_ms, track="audio")]


def test_tracks_that_begin_again_at_zero_wait_for_the_one_that_was_ahead() -> None:
    # The sound was 300 ms ahead; picture and sound then begin again together.
    before = ((VIDEO, 0), (AUDIO, 300), (VIDEO, 40), (AUDIO, 320), (VIDEO, 80))
    after = ((VIDEO, 0), (AUDIO, 0), (VIDEO, 40), (AUDIO, 20))
    times, jumps = placed(*((track, at + 20_000) for track, at in before), *after)
    assert times[-3:] == [340, 380, 360]
    assert len(jumps) == 1


def test_a_track_that_jumps_alone_is_shifted_alone() -> None:
    frames = ((VIDEO, 0), (AUDIO, 0), (VIDEO, 40), (AUDIO, 3_600_020), (VIDEO, 80), (AUDIO, 3_600_040), (VIDEO, 120))
    times, jumps = placed(*frames)
    assert times == [0, 0, 40, 33, 80, 53, 120]
    assert jumps == [Jump(at_ms=33, by_ms=3_599_987, track="audio")]


def test_a_track_that_was_silent_comes_back_where_the_others_are() -> None:
    picture = [(VIDEO, at) for at in range(0, 60_000, 40)]
    times, jumps = placed((AUDIO, 0), *picture, (AUDIO, 59_990))
    assert times[-1] == 59_990
    assert jumps == []


def test_a_track_that_comes_back_by_another_clock_comes_back_where_the_others_are() -> None:
    picture = [(VIDEO, at) for at in range(0, 60_000, 40)]
    times, jumps = placed((AUDIO, 0), *picture, (AUDIO, 9_000_000))
    assert times[-1] == 59_960
    assert [jump.track for jump in jumps] == ["audio"]


def test_a_track_that_begins_by_another_clock_begins_where_the_others_are() -> None:
    times, jumps = placed((VIDEO, 1000), (VIDEO, 1040), (AUDIO, 700_000), (AUDIO, 700_020), (VIDEO, 1080))
    assert times == [0, 40, 40, 60, 80]
    assert jumps == [Jump(at_ms=40, by_ms=698_960, track="audio")]


def test_a_pause_that_a_player_can_wait_for_is_left() -> None:
    assert placed((VIDEO, 0), (VIDEO, 10_000)) == ([0, 10_000], [])


def test_times_of_a_track_grow_although_its_timestamps_stand_still_or_tremble() -> None:
    timeline = Timeline()
    times = [timeline.place(AUDIO, at) for at in (0, 20, 20, 19, 40)]
    assert times == [0, 20, 21, 22, 40]
    assert timeline.jumps == []
    assert timeline.moved_frames == 2


def test_the_clock_runs_on_over_the_wrap_of_32_bits() -> None:
    assert placed((VIDEO, 2**32 - 40), (VIDEO, 0), (AUDIO, 2**32 - 20), (AUDIO, 1)) == ([0, 40, 20, 41], [])
