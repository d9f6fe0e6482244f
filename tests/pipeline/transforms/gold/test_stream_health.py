"""Health of streams, usage and the catalogue: literal rows in, literal rows out."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.gold.recordings import recordings
from penstock.pipeline.transforms.gold.stream_health import stream_health
from penstock.pipeline.transforms.gold.usage import usage
from tests.pipeline.bronze_rows import assert_is_table
from tests.pipeline.silver_rows import at, rows, shuffled, told

SECOND = 1_000_000


def second(stream: str, time: str, received_bytes: int = 500_000, **fields: Any) -> dict[str, Any]:
    known = {"publication_id": f"p-{stream}", "interval_us": SECOND, "video_frames": 25}
    return {"stream": stream, "at": at(time), "received_bytes": received_bytes, **known, **fields}


SECONDS = [
    second("good", "20:00:01", viewers=3, av_skew_us=-1500, drift_ms=-20, keyframe_interval_ms=2000),
    second("good", "20:00:02", viewers=7, av_skew_us=1000, drift_ms=-30, keyframe_interval_ms=2000),
    second("good", "20:00:02.5", 100_000, interval_us=SECOND // 2, video_frames=12, is_last=True),
    second("stalls", "20:00:01"),
    second("stalls", "20:00:08", 0, interval_us=7 * SECOND, video_frames=0),
    second("stalls", "20:00:13.5", 0, interval_us=5 * SECOND + SECOND // 2, video_frames=0, timestamp_jumps=1),
    second("bad", "20:00:01", av_skew_us=250_900, keyframe_interval_ms=10_040, timestamp_jumps=2),
    second("bad", "20:00:02", av_skew_us=-260_000),
    *(second("falls", f"20:0{minute}:30", 500_000 if minute < 3 else 100_000) for minute in range(4)),
    # Ten minutes after the start 1.2 s are too much, and 30 minutes after it they are not.
    second("drifts", "20:10:30", drift_ms=-1200),
    second("drifts", "20:30:30", drift_ms=-1200),
    second("two servers", "20:00:01", publication_id="p1", drift_ms=5),
    second("two servers", "20:00:01", publication_id="p2", drift_ms=9, video_frames=50),
]
PUBLICATIONS = [
    {"publication_id": "p-drifts", "started_at": at("20:01:00"), "is_estimated": True, "is_open": True},
    {"publication_id": "p1", "is_estimated": True},
]
COLUMNS = ("stream", "minute", "bitrate_bps", "fps", "av_skew_ms", "drift_ms", "ingress_bytes", "viewers", "verdict")
BAD = "key frames 10.0 s apart; audio and video 260 ms apart; 2 timestamp jumps"
WANTED = [
    ("bad", "20:00:00", 4_000_000, 25.0, -260.0, None, 1_000_000, 0, BAD),
    ("drifts", "20:10:00", 4_000_000, 25.0, None, -1200, 500_000, 0, "media time 1200 ms behind the clock"),
    ("drifts", "20:30:00", 4_000_000, 25.0, None, -1200, 500_000, 0, "healthy"),
    ("falls", "20:00:00", 4_000_000, 25.0, None, None, 500_000, 0, "healthy"),
    ("falls", "20:01:00", 4_000_000, 25.0, None, None, 500_000, 0, "healthy"),
    ("falls", "20:02:00", 4_000_000, 25.0, None, None, 500_000, 0, "healthy"),
    ("falls", "20:03:00", 800_000, 25.0, None, None, 100_000, 0, "bitrate fell to 20 % of the hour's median"),
    ("good", "20:00:00", 3_520_000, 24.8, -1.5, -30, 1_100_000, 7, "healthy"),
    ("stalls", "20:00:00", 296_296, 25 / 13.5, None, None, 500_000, 0, "no data for 12 s; 1 timestamp jump"),
    ("two servers", "20:00:00", 4_000_000, 37.5, None, 9, 1_000_000, 0, "healthy"),
]


def test_a_minute_has_its_figures_and_a_verdict_in_words(spark: SparkSession) -> None:
    found = stream_health(
        rows(spark, "silver.stream_seconds", SECONDS), rows(spark, "silver.publications", PUBLICATIONS)
    ).localCheckpoint()
    assert_is_table(found, "gold.stream_health")
    assert told(found, *COLUMNS) == WANTED
    counted = told(found.where("publications > 1 OR is_estimated"), "stream", "publications", "is_estimated")
    assert counted == [("two servers", 2, True)]


def test_amounts_that_nothing_has_stop_no_run(spark: SparkSession) -> None:
    seconds = [second("absurd", "20:00:01", 10**15, video_frames=10**15)]
    found = stream_health(rows(spark, "silver.stream_seconds", seconds), rows(spark, "silver.publications", []))
    assert told(found, "bitrate_bps", "fps", "ingress_bytes") == [(0, 0.0, 10**15)]


def test_health_does_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    seconds = rows(spark, "silver.stream_seconds", SECONDS)
    published = rows(spark, "silver.publications", PUBLICATIONS)
    mixed = stream_health(shuffled(seconds), shuffled(published))
    assert told(mixed, *COLUMNS) == WANTED


def test_usage_adds_up_a_day_of_either_side(spark: SparkSession) -> None:
    watched = [
        {"minute": at(f"20:{minute:02}:00"), "egress_bytes": 600 * (minute + 1), "watched_us": 30 * SECOND}
        for minute in range(40)
    ]
    watched += [
        {"minute": at("00:00:00", 16), "egress_bytes": 75, "is_estimated": True},
        {"stream": "only watched", "minute": at("20:00:00")},
    ]
    published = [
        {"minute": at("23:59:00"), "ingress_bytes": 7500},
        {"stream": "only published", "minute": at("20:00:00"), "ingress_bytes": 15, "is_estimated": True},
    ]
    # What a lost server had sent is added to its minute, which is the most of the day.
    unreported = spark.createDataFrame(
        [("live", "x", at("20:39:00"), 75_000, 60 * SECOND), ("live", "other", at("20:39:00"), 1, 1)],
        "app string, stream string, minute timestamp, unreported_bytes bigint, unreported_us bigint",
    )
    audience, health = rows(spark, "gold.audience", watched), rows(spark, "gold.stream_health", published)
    found = usage(shuffled(audience), shuffled(health), unreported)
    assert_is_table(found, "gold.usage")
    columns = ("stream", "ingress_bytes", "egress_bytes", "viewer_minutes", "ingress_bps_p95", "egress_bps_p95")
    days = found.selectExpr("*", "day(day) AS of_month")
    assert told(days, *columns, "of_month", "is_estimated") == [
        ("only published", 15, 0, 0.0, 2, 0, 15, True),
        ("only watched", 0, 0, 0.0, 0, 0, 15, False),
        ("x", 0, 75, 0.0, 0, 10, 16, True),
        # The 38th of 40 minutes: 22,800 bytes.
        ("x", 7500, 600 * 820 + 75_000, 21.0, 1000, 3040, 15, False),
    ]


def test_the_catalogue_has_the_last_word_on_each_file(spark: SparkSession) -> None:
    segments = [
        {"server_id": "a", "boot_id": "b1", "path": "1.flv", "status": "failed", "closed_at": at("20:00:00")},
        {"server_id": "a", "boot_id": "b2", "path": "1.flv", "status": "repaired", "closed_at": at("21:00:00")},
        {"server_id": "b", "boot_id": "b1", "path": "1.flv", "status": "closed", "closed_at": at("20:30:00")},
    ]
    found = recordings(rows(spark, "silver.recording_segments", segments))
    assert_is_table(found, "gold.recordings")
    assert told(found, "server_id", "path", "status") == [("a", "1.flv", "repaired"), ("b", "1.flv", "closed")]
