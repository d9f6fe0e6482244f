"""The audience: literal views in, literal minutes out."""

from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.gold.audience import audience
from tests.pipeline.bronze_rows import assert_is_table
from tests.pipeline.silver_rows import at, rows, shuffled, told

HOURS = ["2026-11-15T20", "2026-11-15T23", "2026-11-16T00"]


def view(stream: str, started_at: datetime, left_at: datetime, viewer: str = "v:1", **fields: Any) -> dict[str, Any]:
    return {
        "stream": stream,
        "viewer_key": viewer,
        "started_at": started_at,
        "last_seen_at": left_at,
        "ended_at": left_at,
        **fields,
    }


VIEWS = [
    view("one minute", at("20:00:10"), at("20:00:40")),
    view("on edges", at("20:00:00"), at("20:02:00")),
    view("no length", at("20:00:05"), at("20:00:05")),
    view("swap", at("20:00:00"), at("20:00:30"), "v:1", server_id="a"),
    view("swap", at("20:00:30"), at("20:00:59"), "v:2", server_id="b"),
    view("open", at("20:00:30"), at("20:03:30"), ended_at=None, is_open=True, is_estimated=True),
    view("same viewer", at("20:00:10"), at("20:00:50")),
    view("same viewer", at("20:00:40"), at("20:01:10")),
    view("same viewer", at("20:03:00"), at("20:03:30")),
    view("failed", at("20:00:10"), at("20:00:40"), is_failed_start=True),
    view("lost", at("20:00:50"), at("20:01:10"), is_estimated=True, end_reason="server_lost"),
    view("from before", at("19:50:00"), at("20:00:30")),
    view("over midnight", at("23:59:30"), at("00:00:30", 16)),
    view("another hour", at("21:00:00"), at("22:00:00")),
    view("peak", at("20:00:10"), at("20:00:20"), "v:1", server_id="a"),
    view("peak", at("20:00:15"), at("20:01:00"), "v:2", server_id="b"),
    view("peak", at("20:00:19.999999"), at("20:00:50"), "v:3", server_id="b"),
    view("peak", at("20:00:20"), at("20:01:00"), "v:4", server_id="a"),
    view("falls at once", at("20:00:30"), at("20:01:00"), "v:1"),
    view("falls at once", at("20:00:40"), at("20:02:00"), "v:2"),
]
MINUTES = [
    {"stream": "one minute", "minute": at("20:00:00"), "sent_bytes": 700},
    {"stream": "one minute", "minute": at("20:01:00"), "sent_bytes": 50},
    {"stream": "swap", "minute": at("20:00:00"), "sent_bytes": 1},
    {"stream": "swap", "minute": at("20:00:00"), "sent_bytes": 2},
    {"stream": "failed", "minute": at("20:00:00"), "sent_bytes": 0},
]
# stream, minute, most at once, different viewers, joins, leaves, watched seconds, bytes, estimated
WANTED = [
    ("falls at once", "20:00:00", 2, 2, 2, 0, 50, 0, False),
    ("falls at once", "20:01:00", 1, 1, 0, 1, 60, 0, False),
    ("falls at once", "20:02:00", 0, 0, 0, 1, 0, 0, False),
    ("from before", "20:00:00", 1, 1, 0, 1, 30, 0, False),
    ("lost", "20:00:00", 1, 1, 1, 0, 10, 0, True),
    ("lost", "20:01:00", 1, 1, 0, 1, 10, 0, True),
    ("no length", "20:00:00", 0, 1, 1, 1, 0, 0, False),
    ("on edges", "20:00:00", 1, 1, 1, 0, 60, 0, False),
    ("on edges", "20:01:00", 1, 1, 0, 0, 60, 0, False),
    ("on edges", "20:02:00", 0, 0, 0, 1, 0, 0, False),
    ("one minute", "20:00:00", 1, 1, 1, 1, 30, 700, False),
    ("one minute", "20:01:00", 0, 0, 0, 0, 0, 50, False),
    ("open", "20:00:00", 1, 1, 1, 0, 30, 0, False),
    ("open", "20:01:00", 1, 1, 0, 0, 60, 0, False),
    ("open", "20:02:00", 1, 1, 0, 0, 60, 0, False),
    ("open", "20:03:00", 1, 1, 0, 0, 30, 0, False),
    ("over midnight", "00:00:00", 1, 1, 0, 1, 30, 0, False),
    ("over midnight", "23:59:00", 1, 1, 1, 0, 30, 0, False),
    ("peak", "20:00:00", 3, 4, 4, 2, 10 + 45 + 30.000001 + 40, 0, False),
    ("peak", "20:01:00", 0, 0, 0, 2, 0, 0, False),
    ("same viewer", "20:00:00", 2, 1, 2, 1, 60, 0, False),
    ("same viewer", "20:01:00", 1, 1, 0, 1, 10, 0, False),
    ("same viewer", "20:03:00", 1, 1, 1, 1, 30, 0, False),
    ("swap", "20:00:00", 1, 2, 2, 2, 59, 3, False),
]
COLUMNS = (
    "stream",
    "minute",
    "viewers_peak",
    "viewers_unique",
    "joins",
    "leaves",
    "watch_seconds",
    "egress_bytes",
    "is_estimated",
)


def test_each_minute_tells_who_was_there_who_came_and_who_went(spark: SparkSession) -> None:
    found = audience(rows(spark, "silver.views", VIEWS), rows(spark, "rollup.view_minutes", MINUTES), HOURS)
    assert_is_table(found, "gold.audience")
    assert told(found, *COLUMNS) == WANTED


def test_the_average_is_the_watch_time_by_the_minute_in_whatever_order_views_come(spark: SparkSession) -> None:
    views, minutes = rows(spark, "silver.views", VIEWS), rows(spark, "rollup.view_minutes", MINUTES)
    found = audience(shuffled(views), shuffled(minutes), HOURS).selectExpr(
        "*", "watched_us / 60e6 = viewers_avg AS fits"
    )
    assert told(found, *COLUMNS, "fits") == [(*row, True) for row in WANTED]
