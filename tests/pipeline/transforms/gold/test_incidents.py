"""Incidents: literal seconds, minutes and publications in, literal incidents out."""

from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.transforms.gold.incidents import incidents
from penstock.pipeline.transforms.rollup.stream_episodes import stream_episodes
from tests.pipeline.bronze_rows import assert_is_table
from tests.pipeline.silver_rows import at, rows, shuffled, told

SECOND = 1_000_000
DAYS = ["2026-11-15"]


def seconds(stream: str, first: datetime, *bytes_each: int, **fields: Any) -> list[dict[str, Any]]:
    """Samples a second apart; each tells of the second before it."""
    return [
        {
            "stream": stream,
            "publication_id": f"p-{stream}",
            "at": first + timedelta(seconds=place + 1),
            "interval_us": SECOND,
            "received_bytes": received,
            "bitrate_bps": received * 8,
            **fields,
        }
        for place, received in enumerate(bytes_each)
    ]


def minutes(stream: str, first: str, *peaks: int, **fields: Any) -> list[dict[str, Any]]:
    start = at(first)
    return [
        {"stream": stream, "minute": start + timedelta(minutes=place), "viewers_peak": peak, **fields}
        for place, peak in enumerate(peaks)
        if peak
    ]


def publication(stream: str, started_at: datetime, ended_at: datetime, publishing_type: str = "live") -> dict[str, Any]:
    return {
        "publication_id": f"p-{stream}",
        "stream": stream,
        "started_at": started_at,
        "last_seen_at": ended_at,
        "ended_at": ended_at,
        "publishing_type": publishing_type,
    }


SECONDS = [
    *seconds("stall", at("20:00:00"), 500, 0, 0, 0, 500, 0, 0, 500),
    *seconds("stall at midnight", at("23:59:58"), 0, 0, 0, 0),
    *seconds("stall of the day before", at("23:59:58", 14), 0, 0, 0, 0),
    *seconds("collapse", at("20:00:00"), *[500_000] * 30, *[100_000] * 9, 0, 90_000, *[500_000] * 5),
    *seconds("short collapse", at("20:00:00"), *[500_000] * 30, *[100_000] * 9, *[500_000] * 5),
    *seconds("skew", at("20:00:00"), *[500] * 10, av_skew_us=-320_000),
    *seconds("drift", at("20:00:00"), *[500] * 12, drift_ms=1500),
    *seconds("old drift", at("20:00:00"), *[500] * 12, drift_ms=1500),
    *seconds("far key frames", at("20:00:00"), *[500] * 10, fps_milli=25_000, keyframe_interval_ms=8340),
    *seconds("one key frame", at("20:00:00"), *[500] * 12, fps_milli=25_000),
    # The row of an end has no interval, and is no sign.
    *seconds("near key frames", at("20:00:00"), *[500] * 9, fps_milli=25_000, keyframe_interval_ms=5000),
    *seconds("near key frames", at("20:00:09"), 500, fps_milli=25_000, is_last=True, interval_us=11 * SECOND),
    # Over the end of an hour; its samples are rows of two.
    *seconds("jumps", at("20:59:57"), 500, 500, 500, timestamp_jumps=1),
    *seconds("jumps", at("21:00:30"), 500, timestamp_jumps=2),
    *seconds("few jumps", at("20:59:57"), 500, 500, 500, 500, timestamp_jumps=1),
    *seconds("few jumps", at("21:00:10"), 500, timestamp_jumps=9, is_last=True),
    # Two servers have the stream and stall one after the other.
    *seconds("two servers", at("20:00:00"), 0, 0, publication_id="p1"),
    *seconds("two servers", at("20:00:01"), 0, 0, publication_id="p2"),
]
AUDIENCE = [
    *minutes("stall", "19:59:00", 4, 12, 9),
    *minutes("exodus", "20:00:00", 20, 20, 12, 8, 7, 7),
    *minutes("all gone", "20:00:00", 6, 6, 0),
    *minutes("stream ended", "20:00:00", 20, 20, 2, 2),
    *minutes("few", "20:00:00", 4, 4),
    *minutes("come and go", "20:00:00", 7, joins=21),
    *minutes("first night", "20:00:00", 30, joins=30),
]
PUBLICATIONS = [
    publication("exodus", at("19:00:00"), at("20:06:30")),
    publication("all gone", at("20:00:00"), at("20:03:00")),
    publication("stream ended", at("19:00:00"), at("20:01:50")),
    publication("stream ended", at("20:01:55"), at("21:00:00")),
    publication("few", at("19:00:00"), at("21:00:00")),
    publication("drift", at("19:55:00"), at("20:30:00")),
    publication("old drift", at("19:30:00"), at("20:30:00")),
    *(publication("reconnects", at(f"20:0{minute}:00"), at(f"20:0{minute}:30")) for minute in range(6)),
    *(publication("pulled anew", at(f"20:0{minute}:00"), at(f"20:0{minute}:30"), "pull") for minute in range(6)),
    *(publication("few reconnects", at(f"20:0{minute}:00"), at(f"20:0{minute}:30")) for minute in range(4)),
]
COLUMNS = ("stream", "kind", "started_at", "ended_at", "evidence", "affected_viewers")
LOWEST = "bitrate down to 0 kbit/s, 0 % of the hour's median of 4030 kbit/s, for 11.0 s"
WANTED = [
    ("all gone", "viewer_exodus", "20:01:00", "20:03:00", "viewers fell from 6 to 0", 6),
    ("collapse", "bitrate_collapse", "20:00:30", "20:00:41", LOWEST, 0),
    ("come and go", "reconnect_storm", "20:00:00", "20:01:00", "21 joins within a minute", 7),
    ("drift", "av_drift", "20:00:00", "20:00:12", "media time up to 1500 ms off the clock for 12.0 s", 0),
    ("exodus", "viewer_exodus", "20:01:00", "20:04:00", "viewers fell from 20 to 8", 20),
    ("far key frames", "keyframe_interval", "20:00:00", "20:00:10", "key frames up to 8.3 s apart for 10.0 s", 0),
    ("jumps", "timestamp_jumps", "20:59:57", "21:00:31", "5 timestamp jumps within a minute", 0),
    ("one key frame", "keyframe_interval", "20:00:00", "20:00:12", "no second key frame for 12.0 s", 0),
    ("reconnects", "reconnect_storm", "20:00:00", "20:05:00", "6 publications within 5 minutes", 0),
    ("skew", "av_drift", "20:00:00", "20:00:10", "audio and video up to 320 ms apart for 10.0 s", 0),
    ("stall", "ingest_stalled", "20:00:01", "20:00:04", "nothing came for 3.0 s", 12),
    ("stall at midnight", "ingest_stalled", "23:59:58", "00:00:02", "nothing came for 4.0 s", 0),
    ("two servers", "ingest_stalled", "20:00:00", "20:00:03", "nothing came for 3.0 s", 0),
]


def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    return (
        rows(spark, "silver.stream_seconds", SECONDS),
        rows(spark, "gold.audience", AUDIENCE),
        rows(spark, "silver.publications", PUBLICATIONS),
    )


def test_what_went_wrong_is_told_with_its_length_and_figures(spark: SparkSession) -> None:
    seconds_, audience, publications = frames(spark)
    found = incidents(stream_episodes(seconds_, publications), audience, publications, DAYS)
    assert_is_table(found, "gold.incidents")
    assert told(found, *COLUMNS) == WANTED


def test_a_run_over_the_end_of_an_hour_is_a_row_of_each(spark: SparkSession) -> None:
    over = seconds("stall", at("20:59:57.5"), 0, 0, 0, 0)
    found = stream_episodes(rows(spark, "silver.stream_seconds", over), rows(spark, "silver.publications", []))
    placed = [(row.hour_us // (3600 * SECOND) % 24, row.started_at.second) for row in found.collect()]
    assert sorted(placed) == [(20, 57), (21, 59)]


def test_incidents_do_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    seconds_, audience, publications = (shuffled(frame) for frame in frames(spark))
    assert told(incidents(stream_episodes(seconds_, publications), audience, publications, DAYS), *COLUMNS) == WANTED
