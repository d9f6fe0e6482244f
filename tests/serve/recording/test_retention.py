"""Retention: no more goes than must, from the stream with most bytes, and never what is being written."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from penstock.serve.recording.manifest import SegmentRow, SegmentStatus
from penstock.serve.recording.retention import RetentionLimits, aged, surplus

NOW = datetime(2025, 10, 1, 12, 0, 0, tzinfo=UTC)


def row(
    segment: int,
    *,
    stream: str = "test",
    age_s: int = 0,
    size: int = 100,
    status: SegmentStatus = SegmentStatus.CLOSED,
) -> SegmentRow:
    ended_at = NOW - timedelta(seconds=age_s)
    begun = SegmentRow.begun(("one", segment), "live", stream, ended_at - timedelta(hours=1), 0)
    return replace(begun, status=status, ended_at=None if status is SegmentStatus.OPEN else ended_at, bytes=size)


# By age.


def aged_out(rows: list[SegmentRow], max_age_s: float = 100) -> list[int]:
    return [each.row.segment for each in aged(rows, max_age_s, NOW)]


def test_what_is_too_old_goes() -> None:
    assert aged_out([row(1, age_s=102), row(2, age_s=101), row(3, age_s=100), row(4, age_s=1)]) == [1, 2]
    assert [each.reason for each in aged([row(1, age_s=102)], 100, NOW)] == ["older than 100 s"]


def test_age_counts_from_the_end_of_a_segment() -> None:
    assert aged_out([row(1, age_s=0)], 60) == []


def test_a_file_being_written_has_no_age() -> None:
    assert aged_out([row(1, age_s=10**6, status=SegmentStatus.OPEN), row(2, age_s=101)]) == [2]


def test_ten_files_go_at_a_time_or_a_sixtieth_of_all() -> None:
    assert aged_out([row(number, age_s=10**6) for number in range(50)]) == [*range(10)]
    assert aged_out([row(number, age_s=10**6) for number in range(1200)]) == [*range(20)]


def test_a_clock_that_was_far_behind_makes_nothing_old() -> None:
    assert aged_out([row(1, age_s=50), row(2, age_s=10**9), row(3, age_s=10)]) == []
    assert aged_out([row(1, age_s=150), row(2, age_s=10**9), row(3, age_s=10)]) == [1, 2]


def test_a_clock_that_was_far_ahead_keeps_nothing_for_longer_than_what_ended_behind_it() -> None:
    assert aged_out([row(1, age_s=-(10**8)), row(2, age_s=99)]) == []
    assert aged_out([row(1, age_s=-(10**8)), row(2, age_s=101), row(3, age_s=-(10**8)), row(4, age_s=99)]) == [1, 2]


# For room.


def segments_to_go(
    rows: list[SegmentRow],
    limits: RetentionLimits,
    *,
    open_bytes: Mapping[str, int] | None = None,
    free_bytes: int = 10**12,
) -> list[int]:
    return [each.row.segment for each in surplus(rows, limits, open_bytes=open_bytes or {}, free_bytes=free_bytes)]


def test_nothing_goes_without_a_limit() -> None:
    limits = RetentionLimits(None, None, 0)
    assert segments_to_go([row(1, age_s=10**9, size=10**12)], limits, free_bytes=0) == []


def test_the_oldest_go_until_the_rest_fits() -> None:
    rows = [row(1), row(2), row(3), row(4)]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=250)) == [1, 2]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=400)) == []


def test_the_stream_with_most_bytes_gives_up_its_oldest() -> None:
    rows = [row(1, stream="show"), *(row(number, stream="stranger") for number in (2, 3, 4)), row(5, stream="show")]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=400)) == [2]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=200)) == [2, 1, 3]


def test_what_a_stream_is_writing_counts_as_its_own() -> None:
    rows = [row(1, stream="show"), row(2, stream="show"), row(3, stream="stranger")]
    open_bytes = {"live/stranger": 200, "live/other": 1000}
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=1400), open_bytes=open_bytes) == [3]


def test_files_being_written_count_but_stay() -> None:
    rows = [row(1, status=SegmentStatus.OPEN), row(2), row(3)]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=250), open_bytes={"live/test": 100}) == [2]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=250), open_bytes={"live/test": 10**6}) == [2, 3]


def test_room_is_made_on_the_disk() -> None:
    rows = [row(1), row(2), row(3)]
    assert segments_to_go(rows, RetentionLimits(min_free_bytes=1000), free_bytes=850) == [1, 2]
    assert segments_to_go(rows, RetentionLimits(min_free_bytes=1000), free_bytes=1000) == []


def test_nothing_goes_in_vain_where_others_fill_the_disk() -> None:
    rows = [row(1), row(2), row(3)]
    assert segments_to_go(rows, RetentionLimits(min_free_bytes=1000), free_bytes=700) == [1, 2, 3]
    assert segments_to_go(rows, RetentionLimits(min_free_bytes=1000), free_bytes=699) == []
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=200, min_free_bytes=1000), free_bytes=0) == [1]


def test_failed_and_repaired_segments_go_as_well() -> None:
    rows = [row(1, status=SegmentStatus.FAILED), row(2, status=SegmentStatus.REPAIRED), row(3)]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=0)) == [1, 2, 3]


def test_the_reason_has_the_numbers() -> None:
    limits = RetentionLimits(max_total_bytes=150, min_free_bytes=1000)
    found = surplus([row(2), row(3), row(4)], limits, open_bytes={}, free_bytes=750)
    assert [reason for _, reason in found] == [
        "300 bytes of recordings, 150 may be kept",
        "200 bytes of recordings, 150 may be kept",
        "950 bytes free on the disk, 1000 are to stay free",
    ]
