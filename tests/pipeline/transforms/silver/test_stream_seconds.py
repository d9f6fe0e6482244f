"""Stream seconds: literal samples and stops in, literal rows out."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.transforms.silver.stream_seconds import stream_carry_of, stream_seconds
from tests.pipeline.bronze_rows import HOUR, SECOND, Row, assert_is_table, bronze, clock, collected, fact, of_kind


def sample(seq: int, at_us: int, publication_seq: int, **fields: Any) -> Row:
    return fact("stream_sample", seq, at_us, publication_seq=publication_seq, **fields)


FACTS = [
    sample(
        *(2, HOUR - SECOND, 1),
        viewers=3,
        bitrate_bps=800,
        fps=29.9704,
        av_skew_ms=-12.3,
        keyframe_interval_ms=2000,
        media_ms=900,
        wall_ms=1000,
        received_bytes=100,
        video_frames=30,
        audio_frames=40,
        keyframes=1,
    ),
    sample(3, HOUR, 1, received_bytes=350, video_frames=60, audio_frames=90, keyframes=1, timestamp_jumps=2),
    fact(
        *("publish_stopped", 4, HOUR + SECOND // 2),
        publication_seq=1,
        duration_us=1_500_000,
        received_bytes=475,
        video_frames=75,
        audio_frames=90,
        keyframes=2,
        timestamp_jumps=2,
    ),
    # Stopped before its first sample; and the same number in another boot.
    fact("publish_stopped", 9, HOUR, publication_seq=8, duration_us=SECOND // 4, received_bytes=1000, video_frames=5),
    sample(2, HOUR, 1, boot_id="b2", received_bytes=7),
]


def computed(spark: SparkSession, facts: list[Row], carry: DataFrame) -> DataFrame:
    samples, stopped = (bronze(spark, of_kind(facts, kind)) for kind in ("stream_sample", "publish_stopped"))
    return stream_seconds(samples, stopped, carry)


@pytest.fixture(scope="module")
def at_once(spark: SparkSession) -> list[tuple[Any, ...]]:
    frame = computed(spark, FACTS, stream_carry_of(bronze(spark, [])))
    assert_is_table(frame, "silver.stream_seconds")
    return collected(frame)


def test_amounts_that_nothing_has_stop_no_run(spark: SparkSession) -> None:
    counters: dict[str, Any] = {"received_bytes": 10**15, "video_frames": 10**15}
    stopped = fact("publish_stopped", 2, HOUR, publication_seq=1, duration_us=SECOND, **counters)
    (row,) = computed(spark, [stopped], stream_carry_of(bronze(spark, []))).collect()
    assert (row.bitrate_bps, row.fps_milli, row.received_bytes) == (0, 0, 10**15)


def test_amounts_are_differences_and_the_stop_is_the_last_row(at_once: list[tuple[Any, ...]]) -> None:
    def row(event_id: str, publication_id: str, at: str, *figures: object) -> tuple[object, ...]:
        server_id, boot_id, _ = event_id.split("-")
        return (event_id, server_id, boot_id, publication_id, "live", "x", clock(at), *figures)

    unknown, is_last, goes_on = (None, None, None), True, False
    assert at_once == [
        row(
            *("a-b1-2", "a-b1-1", "20:59:59", SECOND, 3, 800),
            *(100, 30, 40, 1, 0, 29_970, 2000, -12_300, -100, goes_on),
        ),
        row("a-b1-3", "a-b1-1", "21:00:00", SECOND, 0, 0, 250, 30, 50, 0, 2, 0, *unknown, goes_on),
        row("a-b1-4", "a-b1-1", "21:00:00.500", SECOND // 2, 0, 2000, 125, 15, 0, 1, 0, 30_000, *unknown, is_last),
        row("a-b1-9", "a-b1-8", "21:00:00", SECOND // 4, 0, 32_000, 1000, 5, 0, 0, 0, 20_000, *unknown, is_last),
        row("a-b2-2", "a-b2-1", "21:00:00", SECOND, 0, 0, 7, 0, 0, 0, 0, 0, *unknown, goes_on),
    ]


def test_an_hour_by_itself_in_any_order_gives_the_same_rows(
    spark: SparkSession, at_once: list[tuple[Any, ...]]
) -> None:
    earlier, later = ([row for row in FACTS if row["hour"] == hour] for hour in ("2026-11-15T20", "2026-11-15T21"))
    carry = stream_carry_of(bronze(spark, of_kind(earlier, "stream_sample")))
    assert collected(computed(spark, list(reversed(later)), carry).repartition(3)) == at_once[1:]
