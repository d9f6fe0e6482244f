"""Histograms and the quality that is read from them: literal views in, literal counts and percentiles out."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import NO_DIMENSIONS, Dimensions
from penstock.pipeline.transforms.gold.view_quality import view_quality
from penstock.pipeline.transforms.histograms import bucket_of
from penstock.pipeline.transforms.rollup.histogram_hours import histogram_hours
from tests.pipeline.bronze_rows import assert_is_table, collected
from tests.pipeline.silver_rows import at, rows, shuffled, told

SECOND = 1_000_000


def view(number: int, **fields: Any) -> dict[str, Any]:
    peer = {"client": "VLC", "protocol": "rtmp", "server_id": "a", "network": "10.0.0.0/24"}
    return {"boot_key": 1, "view_seq": number, "started_at": at("20:10:00"), **peer, **fields}


VIEWS = [
    view(1, startup_us=400_000, watched_us=90 * SECOND, stalled_us=9 * SECOND, bytes_sent=900, skipped_bytes=100),
    view(2, startup_us=400_001, client=None, network="loopback", watched_us=10 * SECOND, bytes_sent=1000),
    view(3, is_failed_start=True, protocol="rtmps"),
    view(4, stream="y", startup_us=5_500_000, started_at=at("21:00:00")),
    view(5, stream="y", is_exit_before_picture=True, started_at=at("21:59:59.999999")),
    view(6, stream="long", startup_us=1000, started_at=at("20:59:59")),
]
MINUTES = [
    {"boot_key": 1, "view_seq": 1, "minute": at("20:10:00")},
    {"boot_key": 1, "view_seq": 1, "minute": at("20:11:00"), "rtt_us_sum": 90_001, "rtt_samples": 3},
    {"boot_key": 1, "view_seq": 2, "minute": at("20:11:00"), "samples": 9, "rtt_us_sum": 30_000, "rtt_samples": 1},
    {"boot_key": 1, "view_seq": 6, "minute": at("21:30:00")},
]
LAGS = [
    {"boot_key": 1, "view_seq": 1, "hour_at": at("20:00:00"), "bucket": 0, "samples": 3},
    {"boot_key": 1, "view_seq": 1, "hour_at": at("20:00:00"), "bucket": bucket_of(500), "samples": 1},
    {"boot_key": 1, "view_seq": 6, "hour_at": at("21:00:00"), "bucket": bucket_of(7), "samples": 1},
]


def given(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    return (
        rows(spark, "silver.views", VIEWS),
        rows(spark, "rollup.view_minutes", MINUTES),
        rows(spark, "rollup.view_lags", LAGS),
    )


def test_values_are_counted_by_the_hour_and_by_every_dimension(spark: SparkSession) -> None:
    found = histogram_hours(*given(spark), NO_DIMENSIONS)
    assert_is_table(found, "rollup.histogram_hours")
    columns = ("stream", "dimension", "value", "hour_at", "metric", "bucket", "count")
    of_all = [row for row in told(found, *columns) if row[1] in ("all", "client")]
    assert of_all == [
        ("long", "all", "all", "20:00:00", "startup_us", bucket_of(1000), 1),
        ("long", "all", "all", "21:00:00", "lag_ms", 7, 1),
        ("long", "client", "VLC", "20:00:00", "startup_us", bucket_of(1000), 1),
        ("long", "client", "VLC", "21:00:00", "lag_ms", 7, 1),
        ("x", "all", "all", "20:00:00", "lag_ms", 0, 3),
        ("x", "all", "all", "20:00:00", "lag_ms", bucket_of(500), 1),
        ("x", "all", "all", "20:00:00", "rtt_us", bucket_of(30_000), 2),
        ("x", "all", "all", "20:00:00", "startup_us", bucket_of(400_000), 2),
        ("x", "client", "VLC", "20:00:00", "lag_ms", 0, 3),
        ("x", "client", "VLC", "20:00:00", "lag_ms", bucket_of(500), 1),
        ("x", "client", "VLC", "20:00:00", "rtt_us", bucket_of(30_000), 1),
        ("x", "client", "VLC", "20:00:00", "startup_us", bucket_of(400_000), 1),
        ("x", "client", "unknown", "20:00:00", "rtt_us", bucket_of(30_000), 1),
        ("x", "client", "unknown", "20:00:00", "startup_us", bucket_of(400_000), 1),
        ("y", "all", "all", "21:00:00", "startup_us", bucket_of(5_500_000), 1),
        ("y", "client", "VLC", "21:00:00", "startup_us", bucket_of(5_500_000), 1),
    ]


def test_quality_is_told_for_every_value_with_a_score(spark: SparkSession) -> None:
    frames = given(spark)
    found = view_quality(frames[0], histogram_hours(*frames, NO_DIMENSIONS), NO_DIMENSIONS)
    assert_is_table(found, "gold.view_quality")
    names = ("stream", "dimension", "value", "hour_at", "views", "failed_starts", "exits_before_picture")
    figures = ("startup_ms_p50", "startup_ms_p99", "lag_ms_p50", "lag_ms_p95", "stall_ratio", "drop_rate", "score")
    found_rows = {row[:3]: row[3:] for row in told(found, *names, *figures)}
    # 30 points lost for 1 of 3 that failed, 31.5 for 9 % stalled, 7.5 for 5 % skipped.
    assert found_rows["x", "all", "all"] == ("20:00:00", 2, 1, 0, 397, 397, 0, 499, 0.09, 0.05, 31.0)
    assert found_rows["x", "protocol", "rtmps"] == ("20:00:00", 0, 1, 0, None, None, None, None, 0.0, 0.0, 70.0)
    assert found_rows["x", "network", "loopback"] == ("20:00:00", 1, 0, 0, 397, 397, None, None, 0.0, 0.0, 100.0)
    # 30 for one of two that left before a picture, 9.9 for a wait of 5.44 s, as the bucket says.
    assert found_rows["y", "all", "all"] == ("21:00:00", 2, 0, 1, 5439, 5439, None, None, 0.0, 0.0, 60.1)
    assert ("long", "all", "all") in found_rows


WATCHED_BY = [
    view(1, player_beacons=9, player_startup_ms=300, player_played_ms=9000, player_stalls=2, player_stalled_ms=1000),
    view(2, player_beacons=1, player_startup_ms=401, player_latency_ms=700, player_dropped_frames=5),
    view(3, player_beacons=1),
    view(4),
    view(5, stream="y"),
]


def test_what_players_told_is_summed_up_beside_what_the_server_counted(spark: SparkSession) -> None:
    views = rows(spark, "silver.views", WATCHED_BY)
    counts = histogram_hours(
        views, rows(spark, "rollup.view_minutes", []), rows(spark, "rollup.view_lags", []), NO_DIMENSIONS
    )
    found = view_quality(views, counts, NO_DIMENSIONS).where("dimension = 'all'")
    columns = tuple(name for name in found.columns if name.startswith("player_"))
    assert columns == (
        *("player_views", "player_startup_ms", "player_played_ms", "player_stalls", "player_stalled_ms"),
        *("player_stall_ratio", "player_latency_ms", "player_dropped_frames"),
    )
    assert told(found, "stream", "views", "score", *columns) == [
        ("x", 4, 100.0, 3, 350, 9000, 2, 1000, 0.1, 700, 5),
        ("y", 1, 100.0, *(None,) * 8),
    ]


def test_percentiles_and_scores_do_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    frames = given(spark)
    views, counts = frames[0], histogram_hours(*frames, NO_DIMENSIONS)
    mixed_views, minutes, lags = map(shuffled, frames)
    mixed = histogram_hours(mixed_views, minutes, lags, NO_DIMENSIONS)
    assert collected(view_quality(mixed_views, mixed, NO_DIMENSIONS)) == collected(
        view_quality(views, counts, NO_DIMENSIONS)
    )


NAMED = Dimensions(parameters=("campaign",), country_db="x", asn_db="y", max_values=2)
SPRING = {"dimensions": '{"campaign":"spring"}', "country": "DE", "asn": 64_500}
CAMPAIGNS = [
    view(1, startup_us=100, bytes_sent=1, **SPRING),
    view(2, startup_us=100, bytes_sent=2, **SPRING),
    view(3, startup_us=100, bytes_sent=4, dimensions='{"campaign":"fall"}', country="FR"),
    view(4, startup_us=70_000, bytes_sent=8, dimensions='{"campaign":"summer"}', country="DE"),
    view(5, startup_us=70_000, bytes_sent=16, dimensions='{"campaign":"winter"}'),
    view(6, is_failed_start=True, dimensions=f'{{"campaign":"{"x" * 65}"}}'),
    view(7, startup_us=200_000, bytes_sent=32, dimensions='{"other":"thing"}', started_at=at("21:00:00")),
    # Not begun in the hour of its lag, so it has no row there that its lag could count in.
    view(8, startup_us=100, dimensions='{"campaign":"winter"}', started_at=at("19:00:00")),
]


def campaigns(spark: SparkSession, dimensions: Dimensions) -> tuple[DataFrame, DataFrame]:
    views = rows(spark, "silver.views", CAMPAIGNS)
    lags = [
        {"boot_key": 1, "view_seq": number, "hour_at": at("20:00:00"), "bucket": bucket, "samples": 10}
        for number, bucket in ((1, 0), (4, 5), (5, 9))
    ]
    counts = histogram_hours(
        views, rows(spark, "rollup.view_minutes", MINUTES), rows(spark, "rollup.view_lags", lags), dimensions
    )
    return views, counts


def test_quality_is_told_for_every_dimension_of_the_configuration(spark: SparkSession) -> None:
    views, counts = campaigns(spark, NAMED)
    found = view_quality(views, counts, NAMED)
    columns = ("dimension", "value", "views", "failed_starts", "bytes_sent", "startup_ms_p99", "lag_ms_p95")
    of_eight = found.where("hour(hour_at) = 20 AND dimension IN ('campaign', 'country', 'asn')")
    # Of four campaigns with one view each fall comes first by name; the others are counted together.
    assert told(of_eight, *columns) == [
        ("asn", "AS64500", 2, 0, 3, 0, 0),
        ("asn", "unknown", 3, 1, 28, 71, 9),
        ("campaign", "fall", 1, 0, 4, 0, None),
        ("campaign", "other", 2, 1, 24, 71, 9),
        ("campaign", "spring", 2, 0, 3, 0, 0),
        ("country", "DE", 3, 0, 11, 71, 5),
        ("country", "other", 1, 0, 4, 0, None),
        ("country", "unknown", 1, 1, 16, 71, 9),
    ]
    assert told(found.where("hour(hour_at) = 21 AND dimension = 'campaign'"), "value", "views") == [("unknown", 1)]


@pytest.mark.parametrize("max_values", [1, 2, 100])
def test_values_of_every_dimension_add_up_to_all(spark: SparkSession, max_values: int) -> None:
    dimensions = replace(NAMED, max_values=max_values)
    views, counts = campaigns(spark, dimensions)
    amounts = ("views", "failed_starts", "exits_before_picture", "watched_us", "stalled_us", "bytes_sent")
    found = view_quality(views, counts, dimensions)
    summed = found.groupBy("stream", "hour_at", "dimension").agg(
        *(F.sum(name).alias(name) for name in amounts), F.count("*").alias("values")
    )
    totals: dict[Any, set[Any]] = {}
    found_rows = summed.collect()
    for row in found_rows:
        totals.setdefault((row.stream, row.hour_at), set()).add(tuple(row[name] for name in amounts))
        assert row["values"] <= max_values + 1
    assert [len(each) for each in totals.values()] == [1, 1, 1]
    assert len({row.dimension for row in found_rows}) == len(NAMED.configured) + 5
