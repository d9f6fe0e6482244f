"""What lost servers had sent beyond the samples of their viewers: literal views and publications in, minutes out."""

from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.lake.tables import SERVER_LOST
from penstock.pipeline.transforms.gold.unreported_usage import unreported_usage
from tests.pipeline.silver_rows import at, rows, shuffled, told

SECOND = 1_000_000


def view(stream: str, started_at: datetime, left_at: datetime, sent: int, **fields: Any) -> dict[str, Any]:
    ended = {"ended_at": left_at, "end_reason": SERVER_LOST}
    return {"stream": stream, "started_at": started_at, "last_seen_at": left_at, "bytes_sent": sent, **ended, **fields}


def publication(stream: str, last_seen_at: datetime, sent: int | None, watched_s: int, **fields: Any) -> dict[str, Any]:
    return {
        "stream": stream,
        "last_seen_at": last_seen_at,
        "end_reason": SERVER_LOST,
        "viewers_sent_bytes": sent,
        "viewers_watched_us": watched_s * SECOND,
        **fields,
    }


VIEWS = [
    view("two", at("20:00:00"), at("20:00:58"), 500),
    view("two", at("20:00:10"), at("20:01:01"), 400),
    # Gone before the stream was sampled last, so no part of its sums; gone just after; come after.
    view("leavers", at("20:00:00"), at("20:00:40"), 1000, end_reason="deleteStream"),
    view("leavers", at("20:00:00"), at("20:01:00.5"), 300, end_reason="deleteStream"),
    view("leavers", at("20:00:50"), at("20:00:55"), 20),
    view("leavers", at("20:01:00.1"), at("20:01:00.1"), 0),
    # A viewer was sampled after its stream.
    view("ahead", at("20:00:00"), at("20:01:00.5"), 700),
    view("no sums", at("20:00:00"), at("20:00:58"), 500),
    view("all left", at("20:00:00"), at("20:01:00.5"), 500, end_reason="deleteStream"),
    view("goes on", at("20:00:00"), at("20:01:00"), 500, ended_at=None, end_reason=None, is_open=True),
    view("in vain", at("20:00:59"), at("20:00:59"), 0, is_failed_start=True),
    # The same stream on two servers, and twice on one.
    view("both", at("20:00:00"), at("20:00:58"), 10, server_id="a"),
    view("both", at("20:00:00"), at("20:00:57"), 20, server_id="b"),
]
PUBLICATIONS = [
    publication("two", at("20:01:02"), 1000, 62 + 52),
    publication("leavers", at("20:01:00"), 350, 60 + 10),
    publication("ahead", at("20:01:00"), 690, 60),
    publication("no sums", at("20:01:00"), None, 0, viewers_watched_us=None),
    publication("all left", at("20:01:00"), 600, 60),
    publication("goes on", at("20:01:00"), 900, 60, end_reason=None, is_open=True),
    publication("in vain", at("20:01:00"), 900, 60),
    publication("both", at("20:01:00"), 13, 60, server_id="a"),
    publication("both", at("20:01:00"), 24, 60, server_id="b"),
    publication("both", at("20:00:30"), 9999, 9999, server_id="b"),
]
# stream, minute in which its views were last seen, bytes, watch time
WANTED = [
    ("both", "20:00:00", 3 + 4, (2 + 3) * SECOND),
    # Sent 300 and 20 by 60.5 and 5 seconds.
    ("leavers", "20:00:00", 30, 4_500_000),
    ("two", "20:01:00", 100, (4 + 1) * SECOND),
]


def test_what_the_last_sample_of_a_stream_tells_beyond_its_views_is_known(spark: SparkSession) -> None:
    views, published = rows(spark, "silver.views", VIEWS), rows(spark, "silver.publications", PUBLICATIONS)
    found = unreported_usage(shuffled(views), shuffled(published))
    assert told(found, "stream", "minute", "unreported_bytes", "unreported_us") == WANTED
