"""Boundaries: where parts and segments begin, their numbers, dates and discontinuities."""

from itertools import pairwise

import pytest

from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.relay.packaging.boundaries import Boundaries, Boundary, BoundaryRule, Numbering
from tests.media import setup_messages
from tests.relay.packaging.stage import WALL_MS, audio, audio_setup, steady, video, video_setup


def stamped(frames: list[Frame], rule: BoundaryRule | None = None, late_ms: int = 0) -> list[Boundary]:
    """The boundaries of frames that each take one byte of a log."""
    boundaries = Boundaries(rule or BoundaryRule(), Numbering.at(WALL_MS))
    found = [
        boundaries.stamp(frame, position, WALL_MS + frame.timestamp_ms + late_ms)
        for position, frame in enumerate(frames)
    ]
    return [boundary for boundary in found if boundary is not None]


def starts(boundaries: list[Boundary]) -> list[int]:
    return [boundary.timestamp_ms for boundary in boundaries if boundary.part_index == 0]


def test_a_segment_begins_at_each_key_frame_and_a_part_at_the_sixth_picture() -> None:
    boundaries = stamped(steady(4.5))
    assert starts(boundaries) == [0, 2000, 4000]
    assert [boundary.timestamp_ms for boundary in boundaries[:12]] == [*range(0, 2200, 200), 2200]
    assert boundaries[1].part_target_ms == 223
    assert boundaries[0].part_target_ms is None


def test_a_boundary_lies_before_the_frame_that_it_begins_with() -> None:
    frames = steady(3)
    for boundary in stamped(frames):
        frame = frames[boundary.position]
        assert (frame.timestamp_ms, frame.kind) == (boundary.timestamp_ms, FrameKind.VIDEO)
        assert boundary.is_independent is frame.is_key


def test_numbers_begin_at_the_unix_second_and_discontinuities_at_the_hour_and_count_on() -> None:
    boundaries = stamped(steady(4.5))
    assert [boundary.segment for boundary in boundaries if boundary.part_index == 0] == [
        1795015685,
        1795015686,
        1795015687,
    ]
    assert boundaries[0].part == 35_900_313_700
    assert [boundary.part - boundaries[0].part for boundary in boundaries] == list(range(len(boundaries)))
    assert {boundary.discontinuity for boundary in boundaries} == {498_615}


@pytest.mark.parametrize(
    ("rate", "part_target_ms", "part_ms"),
    [(60, 223, 200), (50, 223, 200), (30, 223, 200), (25, 223, 200), (24, 232, 208), (12, 278, 250), (2, 556, 500)],
)
def test_the_part_target_fits_the_frame_rate(rate: int, part_target_ms: int, part_ms: int) -> None:
    boundaries = stamped(steady(4, rate=rate, gop=1000, sounds=False))
    assert boundaries[-1].part_target_ms == part_target_ms
    assert boundaries[1].timestamp_ms - boundaries[0].timestamp_ms == part_ms


def test_a_stream_that_begins_with_a_pause_has_no_longer_parts_for_ever() -> None:
    frames = [video_setup(), video(0, is_key=True), *(video(at_ms) for at_ms in range(5000, 8000, 40))]
    boundaries = stamped(frames)
    assert boundaries[-1].part_target_ms == 1000


def test_sound_alone_is_cut_at_its_own_frames() -> None:
    boundaries = stamped(steady(6, pictures=False))
    assert starts(boundaries) == [0, 1920, 3840, 5760]
    assert boundaries[1].timestamp_ms == 192
    assert all(boundary.is_independent for boundary in boundaries)


def test_pictures_that_come_late_do_not_hold_up_a_part() -> None:
    pictures = [video(at_ms, is_key=at_ms == 0) for at_ms in (*range(0, 1000, 40), *range(1700, 3000, 40))]
    sounds = [audio(round(number * 64 / 3)) for number in range(140)]
    frames = [video_setup(), audio_setup(), *sorted(pictures + sounds, key=lambda frame: frame.timestamp_ms)]
    boundaries = stamped(frames)
    lengths = [after.timestamp_ms - before.timestamp_ms for before, after in pairwise(boundaries)]
    assert max(lengths) <= 223
    assert min(lengths) >= 0.85 * 223


def test_key_frames_too_close_together_do_not_each_begin_a_segment() -> None:
    boundaries = stamped(steady(3, gop=1))
    assert starts(boundaries) == [0, 1000, 2000]
    assert all(boundary.is_independent for boundary in boundaries)


def test_a_gop_of_more_than_ten_seconds_is_cut_where_a_part_begins() -> None:
    boundaries = stamped(steady(25, gop=10_000))
    assert starts(boundaries) == [0, 10_000, 20_000]
    assert [boundary.is_independent for boundary in boundaries if boundary.part_index == 0] == [True, False, False]
    assert not any(boundary.is_discontinuous for boundary in boundaries)


def test_nothing_begins_before_the_first_key_frame() -> None:
    frames = [video_setup(), audio_setup(), audio(0), video(10), audio(21), video(50, is_key=True)]
    (boundary,) = stamped(frames)
    assert (boundary.position, boundary.timestamp_ms) == (5, 50)


def test_a_stream_without_a_key_frame_begins_after_three_seconds() -> None:
    frames = [video_setup(), *(video(at_ms) for at_ms in range(0, 4000, 40))]
    boundaries = stamped(frames)
    assert boundaries[0].timestamp_ms == 3000
    assert not boundaries[0].is_independent


def test_what_is_no_frame_is_no_boundary() -> None:
    metadata = frame_of(FrameKind.DATA, 0, b"\x02\x00\x0aonMetaData\x05")
    silence = frame_of(FrameKind.AUDIO, 0, b"")
    damaged = frame_of(FrameKind.VIDEO, 0, b"\x9fabcd")
    assert damaged.is_malformed
    assert stamped([metadata, silence, damaged, video_setup(), audio_setup()]) == []


def test_another_publication_goes_on_counting_behind_a_discontinuity() -> None:
    boundaries = Boundaries(BoundaryRule(), Numbering.at(WALL_MS))
    before = [boundaries.stamp(frame, 0, WALL_MS + frame.timestamp_ms) for frame in steady(1)]
    boundaries.begin_anew()
    after = [boundaries.stamp(frame, 0, WALL_MS + frame.timestamp_ms) for frame in steady(1, start_ms=9000)]
    last = [boundary for boundary in before if boundary is not None][-1]
    first = next(boundary for boundary in after if boundary is not None)
    assert (first.segment, first.part, first.discontinuity) == (last.segment + 1, last.part + 1, last.discontinuity + 1)
    assert first.is_discontinuous


@pytest.mark.parametrize("step_ms", [-3_600_000, -1500, 11_000, 3_600_000])
def test_a_clock_that_jumps_is_one_discontinuity_for_sound_and_pictures(step_ms: int) -> None:
    first = steady(5, start_ms=4_000_000)
    second = [frame for frame in steady(5, start_ms=4_005_000 + step_ms) if not frame.is_setup]
    boundaries = stamped([*first, *second])
    assert sum(boundary.is_discontinuous for boundary in boundaries) == 1
    (jump,) = [boundary for boundary in boundaries if boundary.is_discontinuous]
    assert (jump.timestamp_ms, jump.part_index) == (4_005_000 + step_ms, 0)


def test_sound_that_comes_back_after_a_pause_is_no_jump() -> None:
    frames = [
        frame
        for frame in steady(20)
        if not (frame.kind is FrameKind.AUDIO and not frame.is_setup and 2000 < frame.timestamp_ms < 15_190)
    ]
    boundaries = stamped(frames)
    assert not any(boundary.is_discontinuous for boundary in boundaries)
    assert starts(boundaries) == list(range(0, 20_000, 2000))


def test_another_codec_begins_at_its_key_frame_however_soon() -> None:
    other = video_setup(setup_messages.AVC_HIGH_1080P30, timestamp_ms=500)
    frames = [*steady(0.5), other, video(500, is_key=True), video(533)]
    boundaries = stamped(frames)
    assert [(each.timestamp_ms, each.is_discontinuous) for each in boundaries if each.part_index == 0] == [
        (0, False),
        (500, True),
    ]


def test_another_codec_of_sound_alone_begins_at_once() -> None:
    frames = [*steady(0.5, pictures=False), audio_setup(setup_messages.AAC_LC_44K1_MONO, 500), audio(512), audio(535)]
    boundaries = stamped(frames)
    assert [(each.timestamp_ms, each.is_discontinuous) for each in boundaries if each.part_index == 0] == [
        (0, False),
        (512, True),
    ]


def test_a_frame_of_the_time_before_a_jump_is_not_another_jump() -> None:
    frames = [*steady(1), video(3_601_000, is_key=True), audio(1003), audio(3_601_010), video(3_601_033)]
    assert sum(boundary.is_discontinuous for boundary in stamped(frames)) == 1


def test_set_up_that_is_sent_again_changes_nothing() -> None:
    frames: list[Frame] = []
    for frame in steady(5):
        frames += [video_setup(), audio_setup(), frame] if frame.is_key else [frame]
    assert not any(boundary.is_discontinuous for boundary in stamped(frames))


def test_sound_that_comes_late_is_there_from_the_next_key_frame_on() -> None:
    frames = steady(5, sounds=False)
    late = [audio_setup(), *(audio(at_ms) for at_ms in range(700, 5000, 21))]
    merged = sorted([*frames, *late[1:]], key=lambda frame: frame.timestamp_ms)
    index = next(index for index, frame in enumerate(merged) if frame.kind is FrameKind.AUDIO)
    boundaries = stamped([*merged[:index], late[0], *merged[index:]])
    found = [(each.timestamp_ms, each.is_discontinuous) for each in boundaries if each.part_index == 0]
    assert found == [(0, False), (2000, True), (4000, False)]


def test_dates_are_those_of_the_frame_that_came_soonest() -> None:
    boundaries = Boundaries(BoundaryRule(), Numbering.at(WALL_MS))
    # A network that holds up every third frame by 80 ms, and the first by 300.
    frames = [frame for frame in steady(4, sounds=False) if not frame.is_setup]
    late = [300 if number == 0 else 80 * (number % 3 == 0) for number in range(len(frames))]
    found = [
        boundaries.stamp(frame, 0, WALL_MS + frame.timestamp_ms + delay_ms)
        for frame, delay_ms in zip(frames, late, strict=True)
    ]
    dates = [boundary.wall_ms - WALL_MS - boundary.timestamp_ms for boundary in found if boundary is not None]
    assert dates[0] == 300
    assert dates[1:] == [80] * (len(dates) - 1)


def test_dates_follow_a_wall_clock_that_was_set() -> None:
    boundaries = Boundaries(BoundaryRule(), Numbering.at(WALL_MS))
    for frame in steady(2, sounds=False):
        boundaries.stamp(frame, 0, WALL_MS + frame.timestamp_ms)
    later = boundaries.stamp(video(2000, is_key=True), 0, WALL_MS + 62_000)
    assert later is not None
    assert later.wall_ms == WALL_MS + 62_000
