"""Recorded files: literal facts in, literal rows out."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.silver.recording_segments import recording_segments
from tests.pipeline.bronze_rows import MINUTE, T0, Row, assert_is_table, bronze, clock, collected, fact


def closed(seq: int, at_us: int, segment: int, **fields: Any) -> Row:
    return fact("recording_segment_closed", seq, at_us, segment=segment, started_at_us=T0, **fields)


CLOSED = [
    closed(5, MINUTE, 1, duration_ms=60_000, size_bytes=999, video="avc1", audio="mp4a", keyframes=30, gaps=2),
    # Failed, tried again in vain at the next start, repaired at the one after.
    closed(6, MINUTE, 2, status="failed", reason="disk full"),
    closed(1, 2 * MINUTE, 2, boot_id="b2", status="failed", reason="disk full"),
    closed(1, 3 * MINUTE, 2, boot_id="b3", status="repaired", reason="index written", size_bytes=5),
]
GAPS = [
    fact("recording_gap", 3, 0, segment=1, gap_ms=100),
    fact("recording_gap", 4, 0, segment=1, gap_ms=20),
]


def test_a_recorded_file_is_one_row_as_its_last_fact_says(spark: SparkSession) -> None:
    frame = recording_segments(bronze(spark, reversed(CLOSED)), bronze(spark, GAPS))
    assert_is_table(frame, "silver.recording_segments")
    path, started_at = "live/x/1.flv", clock("20:00:00")
    assert collected(frame) == [
        (
            *("a", "b1", "r1", 1, "live", "x", path, "closed", None, started_at, clock("20:01:00")),
            *(60_000, 999, "avc1", "mp4a", 30, 2, 120),
        ),
        (
            *("a", "b3", "r1", 2, "live", "x", path, "repaired", "index written", started_at, clock("20:03:00")),
            *(0, 5, None, None, 0, 0, 0),
        ),
    ]
