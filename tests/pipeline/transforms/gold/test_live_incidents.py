"""The same clear cases, live and afterwards: what web finds while it happens is what gold finds in the tables.

Live medians are over what has passed and gold's over the whole hour, so cases are clear in both. Of storms and exoduses
of viewers, which are not looked for live, nothing is compared.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.gold import incidents as gold
from penstock.pipeline.transforms.gold import stream_health as gold_health
from penstock.pipeline.transforms.gold.incidents import incidents
from penstock.pipeline.transforms.histograms import bucket_of, middle_of
from penstock.pipeline.transforms.rollup.stream_episodes import TOUCHING_US, stream_episodes
from penstock.web.incidents import episodes
from penstock.web.incidents import incidents as live
from penstock.web.incidents.incidents import Incidents
from penstock.web.incidents.median import LEAST_SAMPLES, HourMedian
from penstock.web.incidents.second import (
    COLLAPSE_PERCENT,
    DRIFT_MAX_MS,
    DRIFT_PER_MS,
    KEYFRAME_INTERVAL_MAX_MS,
    SKEW_MAX_MS,
    StreamSecond,
)
from penstock.web.incidents.words import ADVICE
from tests.pipeline.silver_rows import at, rows

SECOND = 1_000_000
START = at("20:00:00")
ALL_KINDS = tuple(ADVICE)
WELL = {"bps": 900_000, "fps": 25.0, "keyframe_ms": 2000}
FAR = WELL | {"keyframe_ms": 5001}
NO_SECOND = WELL | {"keyframe_ms": None}
CASES: dict[str, list[dict[str, Any]]] = {
    "well": [{"bps": 4_000_000}] * 40,
    "stall": [{"bps": 4_000_000}] * 5 + [{"bps": 0}] * 4 + [{"bps": 4_000_000}] * 5,
    "two stalls": [{"bps": 0}] * 3 + [{"bps": 4_000_000}] + [{"bps": 0}] * 5 + [{"bps": 4_000_000}],
    "short stall": [{"bps": 4_000_000}, {"bps": 0}, {"bps": 0}, {"bps": 4_000_000}],
    "collapse": [{"bps": 4_000_000}] * 30 + [{"bps": 800_000}] * 9 + [{"bps": 0}, {"bps": 700_000}, {"bps": 4_000_000}],
    "short collapse": [{"bps": 4_000_000}] * 30 + [{"bps": 800_000}] * 9 + [{"bps": 4_000_000}],
    "skew": [{"bps": 900_000, "skew_ms": 320}] * 11 + [{"bps": 900_000, "skew_ms": 10}],
    "drift": [{"bps": 900_000, "drift_ms": -1500}] * 12 + [{"bps": 900_000, "drift_ms": 0}],
    "both": [{"bps": 900_000, "drift_ms": 2500, "skew_ms": -900}] * 15 + [{"bps": 900_000}],
    "stall to the end": [{"bps": 4_000_000}] * 5 + [{"bps": 0}] * 6,
    "far key frames": [WELL] * 3 + [FAR] * 9 + [FAR | {"keyframe_ms": 9870}] * 3 + [WELL],
    "key frames 5 s apart": [WELL | {"keyframe_ms": 5000}] * 15,
    "one key frame": [NO_SECOND] * 12 + [WELL],
    "one, then far": [NO_SECOND] * 8 + [FAR] * 4,
    "far for a while": [FAR] * 9 + [WELL] + [FAR] * 9,
    "far, with a pause": [FAR] * 6 + [FAR | {"fps": 0.0}] + [FAR] * 6,
    "no video": [{"bps": 96_000}] * 15,
    "jumps": [WELL] * 2 + [WELL | {"jumps": 2}] * 3 + [WELL] * 20 + [WELL | {"jumps": 1}] + [WELL] * 5,
    "one jump of both tracks": [WELL] * 2 + [WELL | {"jumps": 2}] + [WELL] * 70 + [WELL | {"jumps": 4}],
    "jumps a minute apart": [WELL | {"jumps": 4}, *[WELL] * 60, WELL | {"jumps": 1}],
    "jumps within a minute": [WELL | {"jumps": 4}, *[WELL] * 59, WELL | {"jumps": 1}],
    "jumps twice": [WELL | {"jumps": 5}, *[WELL] * 90, WELL | {"jumps": 7}],
}
PUBLISHED = {"storm": [0, 40, 80, 120, 160, 200], "few": [0, 60, 120, 180]}
"""When publications of a stream began, in seconds."""


def found_live() -> set[tuple[str, str, datetime, datetime, str]]:
    incidents, ended = Incidents("b1"), []
    start_us = round(START.timestamp()) * SECOND
    for stream, seconds in CASES.items():
        for place, each in enumerate(seconds):
            drift_ms = each.get("drift_ms")
            second = StreamSecond(
                "live",
                stream,
                start_us + (place + 1) * SECOND,
                SECOND,
                each["bps"],
                fps=each.get("fps", 0.0),
                interval_timestamp_jumps=each.get("jumps", 0),
                av_skew_ms=each.get("skew_ms"),
                keyframe_interval_ms=each.get("keyframe_ms"),
                media_ms=None if drift_ms is None else 60_000 + drift_ms,
                wall_ms=None if drift_ms is None else 60_000,
            )
            ended += incidents.sampled(second)
    for stream, begun in PUBLISHED.items():
        for seconds_later in begun:
            ended += incidents.published("live", stream, start_us + seconds_later * SECOND)
    ended += incidents.passed(start_us + 3600 * SECOND)
    return {
        (each.stream, each.kind, _at(each.started_at_us), _at(each.ended_at_us), each.evidence)
        for each in ended
        if each.ended_at_us is not None
    }


def found_in_gold(spark: SparkSession) -> set[tuple[str, str, datetime, datetime, str]]:
    seconds = [
        {
            "stream": stream,
            "publication_id": f"p-{stream}",
            "at": START + timedelta(seconds=place + 1),
            "interval_us": SECOND,
            "received_bytes": each["bps"] // 8,
            "bitrate_bps": each["bps"],
            "av_skew_us": None if each.get("skew_ms") is None else each["skew_ms"] * 1000,
            "drift_ms": each.get("drift_ms"),
            "fps_milli": round(each.get("fps", 0.0) * 1000),
            "keyframe_interval_ms": each.get("keyframe_ms"),
            "timestamp_jumps": each.get("jumps", 0),
        }
        for stream, of_stream in CASES.items()
        for place, each in enumerate(of_stream)
    ]
    published = [
        {"publication_id": f"p-{stream}", "stream": stream, "started_at": START - timedelta(seconds=1)}
        for stream in CASES
    ] + [
        {"publication_id": f"{stream}-{begun}", "stream": stream, "started_at": START + timedelta(seconds=begun)}
        for stream, all_begun in PUBLISHED.items()
        for begun in all_begun
    ]
    publications = rows(spark, "silver.publications", published)
    of_seconds = stream_episodes(rows(spark, "silver.stream_seconds", seconds), publications)
    audience = rows(spark, "gold.audience", [])
    found = incidents(of_seconds, audience, publications, ["2026-11-15"])
    columns = ("stream", "kind", "started_at", "ended_at", "evidence")
    return {
        (row.stream, row.kind, row.started_at.astimezone(UTC), row.ended_at.astimezone(UTC), row.evidence)
        for row in found.select(*columns).collect()
        if row.kind in ALL_KINDS
    }


def _at(us: int | None) -> datetime:
    assert us is not None
    return datetime.fromtimestamp(us / SECOND, UTC)


def test_what_is_found_live_is_what_gold_finds(spark: SparkSession) -> None:
    live_ones = found_live()
    assert live_ones == found_in_gold(spark)
    assert sorted((stream, kind) for stream, kind, *_ in live_ones) == [
        ("both", "av_drift"),
        ("collapse", "bitrate_collapse"),
        ("drift", "av_drift"),
        ("far key frames", "keyframe_interval"),
        ("jumps", "timestamp_jumps"),
        ("jumps twice", "timestamp_jumps"),
        ("jumps twice", "timestamp_jumps"),
        ("jumps within a minute", "timestamp_jumps"),
        ("one key frame", "keyframe_interval"),
        ("one, then far", "keyframe_interval"),
        ("skew", "av_drift"),
        ("stall", "ingest_stalled"),
        ("stall to the end", "ingest_stalled"),
        ("storm", "reconnect_storm"),
        ("two stalls", "ingest_stalled"),
        ("two stalls", "ingest_stalled"),
    ]


def test_limits_are_the_same() -> None:
    assert episodes.TOUCHING_US == TOUCHING_US
    assert live.MIN_US["ingest_stalled"] == gold.STALL_MIN_US
    assert live.MIN_US["bitrate_collapse"] == gold.COLLAPSE_MIN_US
    assert live.MIN_US["keyframe_interval"] == gold.KEYFRAMES_MIN_US
    assert live.MIN_US["av_drift"] == gold.DRIFT_MIN_US
    assert (live.JUMPS, live.JUMPS_WITHIN_US) == (gold.JUMPS, gold.JUMPS_WITHIN_US)
    assert KEYFRAME_INTERVAL_MAX_MS == gold_health.KEYFRAME_INTERVAL_MAX_MS
    assert (live.STORM_PUBLICATIONS, live.STORM_WITHIN_US) == (gold.STORM_PUBLICATIONS, gold.STORM_WITHIN_US)
    assert SKEW_MAX_MS * 1000 == gold_health.SKEW_MAX_US
    assert (DRIFT_MAX_MS, DRIFT_PER_MS) == (gold_health.DRIFT_MAX_MS, gold_health.DRIFT_PER_MS)
    assert COLLAPSE_PERCENT == gold_health.COLLAPSE_PERCENT


def test_a_live_median_is_that_of_the_histograms() -> None:
    for bitrate_bps in (1, 63, 64, 1000, 4_000_000, 123_456_789):
        median = HourMedian()
        for _ in range(LEAST_SAMPLES):
            median.add(bitrate_bps, 0)
        assert median.bps == middle_of(bucket_of(bitrate_bps))
