"""Retention: the oldest go first, no more than must, and never what is being written."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from penstock.serve.recording.manifest import SegmentRow, SegmentStatus
from penstock.serve.recording.retention import RetentionLimits, surplus

NOW = datetime(2025, 10, 1, 12, 0, 0, tzinfo=UTC)


def row(segment: int, *, age_s: int = 0, size: int = 100, status: SegmentStatus = SegmentStatus.CLOSED) -> SegmentRow:
    ended_at = NOW - timedelta(seconds=age_s)
    begun = SegmentRow.begun(("one", segment), "live", "test", ended_at - timedelta(hours=1), 0)
    return replace(begun, status=status, ended_at=None if status is SegmentStatus.OPEN else ended_at, bytes=size)


def segments_to_go(
    rows: list[SegmentRow], limits: RetentionLimits, *, open_bytes: int = 0, free_bytes: int = 10**12
) -> list[int]:
    found = surplus(rows, limits, now=NOW, open_bytes=open_bytes, free_bytes=free_bytes)
    return [each.row.segment for each in found]


def test_nothing_goes_without_a_limit() -> None:
    limits = RetentionLimits(None, None, 0)
    assert segments_to_go([row(1, age_s=10**9, size=10**12)], limits, free_bytes=0) == []


def test_what_is_too_old_goes() -> None:
    rows = [row(1, age_s=101), row(2, age_s=100), row(3, age_s=1)]
    assert segments_to_go(rows, RetentionLimits(max_age_s=100)) == [1]


def test_age_counts_from_the_end_of_a_segment() -> None:
    assert segments_to_go([row(1, age_s=0)], RetentionLimits(max_age_s=60)) == []


def test_the_oldest_go_until_the_rest_fits() -> None:
    rows = [row(1), row(2), row(3), row(4)]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=250)) == [1, 2]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=400)) == []


def test_files_being_written_count_but_stay() -> None:
    rows = [row(1, status=SegmentStatus.OPEN, age_s=10**6), row(2), row(3)]
    assert segments_to_go(rows, RetentionLimits(max_age_s=10, max_total_bytes=250), open_bytes=100) == [2]
    assert segments_to_go(rows, RetentionLimits(max_total_bytes=250), open_bytes=10**6) == [2, 3]


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
    limits = RetentionLimits(max_age_s=100, max_total_bytes=150, min_free_bytes=1000)
    rows = [row(1, age_s=200), row(2), row(3), row(4)]
    found = surplus(rows, limits, now=NOW, open_bytes=0, free_bytes=650)
    assert [reason for _, reason in found] == [
        "older than 100 s",
        "300 bytes of recordings, 150 may be kept",
        "200 bytes of recordings, 150 may be kept",
        "950 bytes free on the disk, 1000 are to stay free",
    ]
