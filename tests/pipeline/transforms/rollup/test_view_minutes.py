"""View minutes: literal facts in, literal rows out."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.transforms.common import hour_of
from penstock.pipeline.transforms.histograms import bucket_of
from penstock.pipeline.transforms.rollup.view_lags import view_lags
from penstock.pipeline.transforms.rollup.view_minutes import carry_of, view_minutes
from tests.pipeline.bronze_rows import (
    HOUR,
    SECOND,
    Row,
    assert_is_table,
    boot_key_of,
    bronze,
    clock,
    collected,
    fact,
    of_kind,
    table,
)

FIRST_HOUR, SECOND_HOUR = "2026-11-15T20", "2026-11-15T21"


def sample(seq: int, at_us: int, view_seq: int, **fields: Any) -> Row:
    return fact("viewer_sample", seq, at_us, view_seq=view_seq, **fields)


FACTS = [
    # A view over the edge of the hour, with a minute of nothing but its stop.
    fact("play_started", 1, HOUR - 70 * SECOND),
    fact("play_first_keyframe", 2, HOUR - 69 * SECOND, view_seq=1, startup_us=SECOND),
    sample(3, HOUR - 65 * SECOND, 1, watched_us=5 * SECOND, sent_bytes=1000, rtt_us=20_000, retransmits=1),
    sample(4, HOUR - 30 * SECOND, 1, watched_us=40 * SECOND, sent_bytes=9000, lag_ms=150, skips=1, skipped_bytes=50),
    sample(5, HOUR + 20 * SECOND, 1, watched_us=90 * SECOND, sent_bytes=20_000, lag_ms=3000, skips=1, skipped_bytes=50),
    sample(
        6,
        HOUR + 25 * SECOND,
        1,
        watched_us=95 * SECOND,
        sent_bytes=20_000,
        lag_ms=None,
        skips=1,
        skipped_bytes=50,
        rtt_us=40_000,
        retransmits=3,
    ),
    sample(
        7,
        HOUR + 30 * SECOND,
        1,
        watched_us=100 * SECOND,
        sent_bytes=21_000,
        lag_ms=10,
        skips=1,
        skipped_bytes=50,
        rtt_us=20_000,
        retransmits=3,
    ),
    fact(
        "play_stopped",
        8,
        HOUR + 65 * SECOND,
        view_seq=1,
        watched_us=135 * SECOND,
        sent_bytes=30_000,
        skips=2,
        skipped_bytes=80,
        startup_us=SECOND,
    ),
    # The same numbers in another boot are another view.
    fact("play_started", 1, HOUR - 10 * SECOND, boot_id="b2", stream="y"),
    sample(2, HOUR + 5 * SECOND, 1, boot_id="b2", stream="y", watched_us=15 * SECOND, sent_bytes=700, lag_ms=2000),
    # Its start was lost, and it is behind in both hours.
    sample(51, HOUR - 50 * SECOND, 50, watched_us=30 * SECOND, sent_bytes=300, lag_ms=2001, retransmits=4),
    sample(52, HOUR + 10 * SECOND, 50, watched_us=90 * SECOND, sent_bytes=900, lag_ms=5, retransmits=4),
    # Never let in: no view.
    fact("play_stopped", 60, HOUR - 5 * SECOND, reason="no such stream"),
]


def computed(spark: SparkSession, facts: list[Row], carry: DataFrame | None = None) -> DataFrame:
    samples = bronze(spark, of_kind(facts, "viewer_sample"))
    plays = bronze(spark, of_kind(facts, "play_started", "play_first_keyframe", "play_stopped"))
    return view_minutes(samples, plays, carry or carry_of(table(spark, "rollup.view_minutes")))


@pytest.fixture(scope="module")
def at_once(spark: SparkSession) -> list[tuple[Any, ...]]:
    """Both hours, computed together."""
    frame = computed(spark, FACTS)
    assert_is_table(frame, "rollup.view_minutes")
    return collected(frame)


def test_amounts_are_differences_and_the_stop_has_the_rest(at_once: list[tuple[Any, ...]]) -> None:
    def row(minute: str, first_at: str, last_at: str, *figures: object) -> tuple[object, ...]:
        times: tuple[datetime, ...] = (clock(minute), clock("20:58:50"), clock(first_at), clock(last_at))
        return (boot_key_of("a", "b1"), 1, "live", "x", *times, *figures)

    is_joined, is_left, no = True, True, False
    assert [row for row in at_once if row[:2] == (boot_key_of("a", "b1"), 1)] == [
        row(
            *("20:58:00", "20:58:50", "20:58:55", is_joined, no),
            *(5 * SECOND, 1000, 0, 0, 1),
            *(5 * SECOND, 1000, 0, 0, 1),
            *(1, 0, 1, 0, 20_000, 1, 20_000),
        ),
        row(
            *("20:59:00", "20:59:30", "20:59:30", no, no),
            *(35 * SECOND, 8000, 1, 50, 0),
            *(40 * SECOND, 9000, 1, 50, 1),
            *(1, 0, 1, 150, 0, 0, None),
        ),
        row(
            *("21:00:00", "21:00:20", "21:00:30", no, no),
            *(60 * SECOND, 12_000, 0, 0, 2),
            *(100 * SECOND, 21_000, 1, 50, 3),
            *(3, 2, 2, 3000, 60_000, 2, 40_000),
        ),
        row(
            *("21:01:00", "21:01:05", "21:01:05", no, is_left),
            *(35 * SECOND, 9000, 1, 30, 0),
            *(135 * SECOND, 30_000, 2, 80, 3),
            *(0, 0, 0, None, 0, 0, None),
        ),
    ]


def test_the_same_number_in_another_boot_is_another_view(at_once: list[tuple[Any, ...]]) -> None:
    rows = [row for row in at_once if row[0] == boot_key_of("a", "b2")]
    assert [(row[1], row[3], row[4], row[5], row[10], row[11]) for row in rows] == [
        (1, "y", clock("20:59:00"), clock("20:59:50"), 0, 0),
        (1, "y", clock("21:00:00"), clock("20:59:50"), 15 * SECOND, 700),
    ]
    at_the_threshold = rows[1]
    assert at_the_threshold[20:24] == (1, 0, 1, 2000)


def test_a_view_without_its_start_began_by_its_watch_time(at_once: list[tuple[Any, ...]]) -> None:
    rows = [row for row in at_once if row[1] == 50]
    assert [row[4:10] for row in rows] == [
        (clock("20:59:00"), clock("20:58:40"), clock("20:59:10"), clock("20:59:10"), False, False),
        (clock("21:00:00"), clock("20:58:40"), clock("21:00:10"), clock("21:00:10"), False, False),
    ]
    stalled_samples = [row[21] for row in rows]
    assert stalled_samples == [1, 0]


def test_a_play_that_was_never_let_in_has_no_minutes(at_once: list[tuple[Any, ...]]) -> None:
    assert {row[1] for row in at_once} == {1, 50}


def test_hour_by_hour_gives_the_same_rows_as_both_at_once(spark: SparkSession, at_once: list[tuple[Any, ...]]) -> None:
    before = collected(computed(spark, [row for row in FACTS if row["hour"] == FIRST_HOUR]))
    stored = table(spark, "rollup.view_minutes", before)
    after = collected(computed(spark, [row for row in FACTS if row["hour"] == SECOND_HOUR], carry_of(stored)))
    assert len(before) == 4
    assert sorted(before + after, key=repr) == at_once


def test_neither_the_order_of_facts_nor_how_they_are_cut_changes_a_row(
    spark: SparkSession, at_once: list[tuple[Any, ...]]
) -> None:
    samples = bronze(spark, reversed(of_kind(FACTS, "viewer_sample"))).repartition(7)
    plays = bronze(spark, reversed(of_kind(FACTS, "play_started", "play_first_keyframe", "play_stopped")))
    minutes = view_minutes(samples, plays, carry_of(table(spark, "rollup.view_minutes")))
    assert collected(minutes.repartition(3)) == at_once


def test_lags_are_counted_by_view_hour_and_bucket(spark: SparkSession) -> None:
    frame = view_lags(bronze(spark, reversed(of_kind(FACTS, "viewer_sample"))))
    assert_is_table(frame, "rollup.view_lags")
    first, second = clock("20:00:00"), clock("21:00:00")
    here, there = boot_key_of("a", "b1"), boot_key_of("a", "b2")
    expected = [
        (here, 1, first, 0, 1),
        (here, 1, first, bucket_of(150), 1),
        (here, 1, second, bucket_of(3000), 1),
        (here, 1, second, bucket_of(10), 1),
        (there, 1, second, bucket_of(2000), 1),
        (here, 50, first, bucket_of(2001), 1),
        (here, 50, second, bucket_of(5), 1),
    ]
    assert collected(frame) == sorted(expected, key=repr)
    twice = view_lags(bronze(spark, of_kind(FACTS * 2, "viewer_sample")))
    assert {row[-1] for row in collected(twice)} == {2}


def test_partitions_are_named_by_the_hour_in_utc(spark: SparkSession) -> None:
    frame = bronze(spark, FACTS[:1]).selectExpr("timestamp_micros(at_us) as at")
    assert frame.select(hour_of("at")).first() == (FIRST_HOUR,)
