"""The log: what is visible when, where one may begin, and how much is kept."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import Frame
from penstock.relay.cursor import Cursor
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import ENTRY_BYTES
from tests.relay.support import (
    CountingStore,
    audio,
    audio_setup,
    caption,
    fill,
    inter,
    key,
    messages_of,
    metadata,
    new_log,
    video_setup,
)

SMALL = LogLimits(min_segment_bytes=1000, max_segment_bytes=4000)


def kept_bytes(log: StreamLog) -> int:
    return log.head - log.start


def live(
    log: StreamLog, seconds: float, *, fps: float = 25, gop_s: float = 2, frame_bytes: int = 1000, start: float = 0.0
) -> Iterator[float]:
    """A live stream of simulated time: each frame is appended and flushed, and its moment is given."""
    for number in range(int(seconds * fps)):
        now = start + number / fps
        is_key = number % max(1, round(gop_s * fps)) == 0
        log.append((key if is_key else inter)(round(now * 1000), bytes(frame_bytes)), now)
        log.flush(now)
        yield now


def test_what_was_appended_is_seen_when_it_is_flushed() -> None:
    log = new_log()
    assert log.flush(0.0) is None
    log.append(video_setup(), 1.0)
    log.append(key(40), 2.0)
    assert (log.head, log.unflushed_since, log.has_unflushed_video) == (0, 1.0, True)
    flush = log.flush(3.0)
    assert flush is not None
    assert (log.unflushed_bytes, log.unflushed_since, log.has_unflushed_video) == (0, None, False)
    assert flush.segment.read(flush.position, flush.size) == flush.data
    assert [message.payload for message in messages_of(flush.data)[0]] == [
        video_setup().payload,
        key(40).payload,
    ]
    assert log.head == flush.position + flush.size


def test_each_record_says_where_its_message_is() -> None:
    log = new_log()
    fill(log, [metadata(), audio(5, b"x" * 300), key(9)])
    segment = log.segment_at(0)
    assert segment is not None
    for entry, frame in zip(segment.entries, [metadata(), audio(5, b"x" * 300), key(9)], strict=True):
        ((message,), tail_bytes) = messages_of(segment.read(entry.position, entry.encoded_bytes))
        assert (message.payload, message.timestamp, tail_bytes) == (frame.payload, frame.timestamp_ms, 0)
        assert (entry.kind, entry.payload_bytes) == (frame.kind, len(frame.payload))
        assert (entry.is_key, entry.is_setup) == (frame.is_key, frame.is_setup)


def test_the_next_video_frame_is_expected_by_the_pace_of_the_last_ones() -> None:
    log = new_log()
    assert log.next_video_at is None, "there may be no video at all"
    *_, last = live(log, 4.0, fps=25, start=100.0)
    assert log.next_video_at == pytest.approx(last + 0.040, abs=0.001)
    *_, last = live(log, 4.0, fps=50, start=104.0)
    assert log.next_video_at == pytest.approx(last + 0.020, abs=0.001)


def test_two_frames_that_come_together_do_not_change_the_pace() -> None:
    log = new_log()
    for pair in range(100):
        log.append(inter(pair * 80), 100.0 + pair * 0.080)
        log.append(inter(pair * 80 + 40), 100.0 + pair * 0.080)
    assert log.next_video_at == pytest.approx(100.0 + 99 * 0.080 + 0.040, abs=0.005)


def test_the_pace_is_known_from_the_second_frame_on() -> None:
    log = new_log()
    log.append(key(0), 100.0)
    assert log.video_interval_s == 0.0
    log.append(inter(40), 100.040)
    assert log.video_interval_s == pytest.approx(0.040)


def test_audio_alone_is_no_reason_to_hurry() -> None:
    log = new_log()
    log.append(audio(0), 0.0)
    assert not log.has_unflushed_video


# Where one may begin.


def test_the_newest_key_frame_is_where_one_begins_with_the_set_up_in_force_there() -> None:
    log = new_log()
    fill(log, [video_setup(0, b"one"), key(0), inter(40), video_setup(80, b"two"), key(80)])
    point = log.newest_point
    assert point is not None
    assert point.timestamp_ms == 80
    assert [frame.payload for frame in point.config.frames] == [video_setup(0, b"two").payload]
    log.append(video_setup(120, b"three"), 0.0)
    assert log.newest_point == point, "set-up behind a key frame is not in force at it"


def test_a_stream_of_pictures_without_a_key_frame_has_no_place_to_begin() -> None:
    log = new_log()
    fill(log, [video_setup(), inter(0), audio(10), inter(40)])
    assert log.newest_point is None


def test_audio_alone_can_be_entered_once_a_second() -> None:
    log = new_log()
    points = []
    for number in range(100):
        now = number * 0.02
        log.append(audio(number * 20), now)
        log.flush(now)
        points.append(log.newest_point)
    assert [point.timestamp_ms for point in dict.fromkeys(points) if point is not None] == [0, 1000]


def test_data_is_no_place_to_begin() -> None:
    log = new_log()
    fill(log, [caption(0), metadata(0)])
    assert log.newest_point is None


def test_the_first_picture_ends_beginning_at_audio() -> None:
    log = new_log()
    fill(log, [audio(0), inter(10)])
    assert log.newest_point is None


def test_when_video_has_stopped_for_long_one_begins_with_audio() -> None:
    log = new_log(LogLimits(max_age_s=10.0))
    fill(log, [key(0)], now=0.0)
    fill(log, [audio(10_000)], now=10.0)
    assert log.newest_point is not None
    assert log.newest_point.timestamp_ms == 0
    fill(log, [audio(10_020)], now=10.02)
    assert log.newest_point.timestamp_ms == 10_020
    fill(log, [inter(20_000)], now=20.0)
    assert log.newest_point is None, "video is back, and one waits for its key frame"
    fill(log, [audio(20_010), key(20_040)], now=20.04)
    assert log.newest_point.timestamp_ms == 20_040


def test_metadata_taken_back_is_not_in_force_at_the_next_place() -> None:
    log = new_log()
    fill(log, [metadata(), key(0)])
    log.clear_metadata()
    fill(log, [key(40)])
    assert log.newest_point is not None
    assert log.newest_point.config.frames == ()


def test_every_kind_of_media_is_known_from_its_first_message() -> None:
    log = new_log()
    fill(log, [audio_setup(), video_setup()])
    assert (log.config.audio_codec_id, log.config.video_codec_id) == (10.0, 7.0)


# Time.


@pytest.mark.parametrize(
    ("frames", "last_ms"),
    [
        ([inter(100), audio(90)], 100),
        ([inter(100), metadata(5000), video_setup(9000), caption(7000)], 100),
        ([inter(100_000), audio(98_999)], 98_999),
        ([inter(2**33)], 2**33),
    ],
    ids=["interleaved", "set-up and data do not count", "a clock set back", "beyond 32 bits"],
)
def test_the_last_time_is_that_of_the_newest_picture_or_sound(frames: list[Frame], last_ms: int) -> None:
    log = new_log()
    fill(log, frames)
    assert log.last_timestamp_ms == last_ms


# Bounds.


def test_two_gops_are_kept() -> None:
    log = new_log(SMALL)
    for now in live(log, 20, gop_s=2):
        if now > 6:
            kept_s = kept_bytes(log) / (1033 * 25)
            assert 2.0 <= kept_s <= 4.3


def test_the_newest_gop_is_kept_whole_and_older_ones_go_by_age() -> None:
    log = new_log(LogLimits(max_age_s=10, min_segment_bytes=1000, max_segment_bytes=4000))
    for now in live(log, 70, gop_s=30):
        point = log.newest_point
        assert point is not None
        assert log.segment_at(point.position) is not None
        if now > 42:
            assert kept_bytes(log) / (1033 * 25) <= 41


def test_gops_longer_than_the_bytes_allow_leave_no_place_to_begin_until_the_next_key_frame() -> None:
    log = new_log(LogLimits(max_bytes=200_000, min_segment_bytes=1000, max_segment_bytes=4000))
    moments_without = []
    for now in live(log, 65, gop_s=30):
        assert log.held_bytes <= 200_000 + 4000 + 2 * (1300 + ENTRY_BYTES)
        if log.newest_point is None:
            moments_without.append(now)
    assert min(moments_without) == pytest.approx(6.2, abs=0.5)
    assert all(now < 30 or now > 36 for now in moments_without)


def test_a_stream_without_key_frames_is_kept_by_age() -> None:
    log = new_log(LogLimits(max_age_s=10, min_segment_bytes=1000, max_segment_bytes=4000))
    for now in live(log, 40, gop_s=1e9, start=0.0):
        if now < 0.02:
            log.forget_entry_points()
        elif now > 12:
            assert 9.5 <= kept_bytes(log) / (1033 * 25) <= 10.7


def test_a_slow_camera_is_kept_like_any_other() -> None:
    log = new_log(SMALL)
    for now in live(log, 60, fps=2, gop_s=2):
        if now > 6:
            assert 2.0 <= kept_bytes(log) / (1033 * 2) <= 5.0


def test_key_frames_alone_do_not_pile_up() -> None:
    store = CountingStore()
    log = new_log(SMALL, store=store)
    for _ in live(log, 60, gop_s=0):
        assert kept_bytes(log) <= 3 * 5000
        assert len(store.open_buffers) <= 3


def test_audio_alone_is_kept_for_a_few_seconds() -> None:
    log = new_log()
    for number in range(43 * 30):
        now = number / 43
        log.append(audio(round(now * 1000), bytes(370)), now)
        log.flush(now)
        assert log.held_bytes <= 100_000


def test_tiny_messages_are_bounded_by_what_their_records_cost() -> None:
    log = new_log(LogLimits(max_bytes=100_000, min_segment_bytes=1000, max_segment_bytes=4000))
    fill(log, [key(0)])
    for number in range(5000):
        log.append(audio(number, b""), 0.0)
        log.flush(0.0)
    segment_entries = log.held_bytes // ENTRY_BYTES
    assert segment_entries <= 100_000 // ENTRY_BYTES + 30


@pytest.mark.parametrize("rate_bytes", [500, 50_000, 500_000, 20_000_000])
def test_segments_hold_about_a_second_within_their_bounds(rate_bytes: int) -> None:
    store = CountingStore()
    log = new_log(LogLimits(max_gops=10**6, max_age_s=1e9, max_bytes=10**12), store=store)
    for _ in live(log, 12, frame_bytes=rate_bytes // 25):
        pass
    held = rate_bytes + 25 * (ENTRY_BYTES + 13 + rate_bytes // 25 // 128)
    size = min(max(held, 32 * 1024), 4 * 1024 * 1024)
    assert store.created == pytest.approx(held * 12 / size, rel=0.35, abs=2)


# The budget of all logs.


def test_past_the_budget_the_largest_log_goes_back_to_its_newest_key_frame() -> None:
    budget = LogBudget(60_000)
    large, small = new_log(SMALL, budget), new_log(SMALL, budget)
    for _ in live(small, 0.2):
        pass
    kept_of_small = kept_bytes(small)
    for _ in live(large, 3, gop_s=1):
        assert budget.used_bytes <= 60_000 + 1300 + ENTRY_BYTES
        assert kept_bytes(small) == kept_of_small
        assert large.newest_point is not None


def test_logs_that_have_nothing_older_to_give_are_emptied() -> None:
    budget = LogBudget(50_000)
    logs = [new_log(LogLimits(), budget) for _ in range(40)]
    for number in range(200):
        for log in logs:
            log.append(inter(number), 0.0)
            log.flush(0.0)
            assert budget.used_bytes <= 50_000 + 40 * (22 + ENTRY_BYTES)


def test_a_flush_larger_than_the_budget_is_visible_all_the_same() -> None:
    budget = LogBudget(10_000)
    log = new_log(SMALL, budget)
    fill(log, [inter(0)])
    log.append(key(40, bytes(50_000)), 0.0)
    flush = log.flush(0.0)
    assert flush is not None
    assert flush.segment.read(flush.position, 12)[:1] == b"\x06"
    assert log.newest_point is not None
    assert log.start == flush.position


def test_memory_that_a_reader_holds_counts_until_it_is_done() -> None:
    budget, store = LogBudget(20_000), CountingStore()
    log = new_log(SMALL, budget, store)
    fill(log, [key(0, bytes(8000))])
    cursor = Cursor(log)
    cursor.position = 0
    cursor.next_range()
    cursor.advance(100)
    held = log.held_bytes
    for _ in live(log, 4, frame_bytes=900):
        pass
    assert log.start > 0
    assert budget.used_bytes == log.held_bytes + held
    cursor.release()
    assert budget.used_bytes == log.held_bytes


def test_a_log_that_is_closed_gives_everything_back_but_what_is_being_read() -> None:
    budget, store = LogBudget(1 << 30), CountingStore()
    log = new_log(SMALL, budget, store)
    for _ in live(log, 3):
        pass
    cursor = Cursor(log)
    cursor.position = log.start
    cursor.next_range()
    cursor.advance(5)
    log.close()
    assert len(store.open_buffers) == 1
    assert log.newest_point is None
    cursor.release()
    assert store.open_buffers == set()
    assert budget.used_bytes == 0


@given(
    sizes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3000), st.booleans(), st.booleans()), min_size=20, max_size=150
    ),
    max_bytes=st.integers(1000, 30_000),
)
def test_the_budget_is_never_passed_by_more_than_one_flush_of_each_log(
    sizes: list[tuple[int, int, bool, bool]], max_bytes: int
) -> None:
    store = CountingStore()
    budget = LogBudget(max_bytes)
    logs = [new_log(LogLimits(min_segment_bytes=500, max_segment_bytes=4000), budget, store) for _ in range(4)]
    largest_flush = [0, 0, 0, 0]
    for now, (index, size, is_key, flushes) in zip(itertools.count(), sizes, strict=False):
        log = logs[index]
        log.append((key if is_key else inter)(now * 40, bytes(size)), now / 25)
        if flushes:
            flush = log.flush(now / 25)
            assert flush is not None
            largest_flush[index] = max(largest_flush[index], flush.size + ENTRY_BYTES * len(flush.entries))
            assert budget.used_bytes <= max_bytes + sum(largest_flush)
            assert budget.used_bytes == sum(each.held_bytes for each in logs)
    for log in logs:
        log.close()
    assert store.open_buffers == set()
    assert budget.used_bytes == 0


@pytest.mark.parametrize(("payload_bytes", "most"), [(1, 512), (150, 512), (1000, 8192)], ids=["1", "150", "1000"])
def test_a_log_keeps_so_many_messages_and_of_tiny_ones_fewer(payload_bytes: int, most: int) -> None:
    log = new_log(LogLimits(max_age_s=1e9, max_gops=1000))
    for number in range(20_000):
        log.append(audio(number, bytes(payload_bytes)), number / 1000)
        if number % 20 == 19:
            log.flush(number / 1000)
    kept = sum(len(segment.entries) for segment in log._segments)
    assert 0.7 * most < kept <= 1.3 * most
