"""Connections: literal facts and sessions in, literal rows out."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.silver.connections import connections
from tests.pipeline.bronze_rows import MINUTE, SECOND, assert_is_table, boot_key_of, bronze, clock, fact, of_kind

BOOTS = [(boot_key_of("a", "b2"), "a", "b2", False), (boot_key_of("a", "b1"), "a", "b1", True)]
FACTS = [
    fact("connection_opened", 1, 0, boot_id="b2", conn_id="c1"),
    fact(
        *("connection_closed", 9, MINUTE),
        boot_id="b2",
        conn_id="c1",
        duration_us=MINUTE - 5,
        received_bytes=10,
        sent_bytes=20,
    ),
    # The same name in a boot that is lost; open ones with and without a view; a close without its opening.
    fact("connection_opened", 1, -MINUTE, boot_id="b1", conn_id="c1"),
    fact("connection_opened", 2, -MINUTE, boot_id="b1", conn_id="c2"),
    fact("connection_opened", 10, SECOND, boot_id="b2", conn_id="c3"),
    fact("connection_opened", 11, SECOND, boot_id="b2", conn_id="c4", protocol="rtmps"),
    fact("connection_closed", 12, MINUTE, boot_id="b2", conn_id="c5", app=None, client=None, duration_us=2 * SECOND),
]
SESSION = "server_id string, boot_id string, conn_id string, app string, client string, last_seen_at timestamp"
VIEWS = [
    ("a", "b1", "c1", "live", "VLC", clock("19:59:30")),
    ("a", "b1", "c1", "live", "VLC", clock("19:59:20")),
    ("a", "b2", "c1", "other", "other", clock("20:00:30")),
]
PUBLICATIONS = [("a", "b2", "c3", "studio", "OBS", clock("20:00:30"))]


def test_a_connection_is_one_row_whatever_facts_are_left_of_it(spark: SparkSession) -> None:
    opened, closed = (bronze(spark, of_kind(FACTS, kind)) for kind in ("connection_opened", "connection_closed"))
    views, publications = (spark.createDataFrame(rows, SESSION) for rows in (VIEWS, PUBLICATIONS))
    boots = spark.createDataFrame(BOOTS, "boot_key bigint, server_id string, boot_id string, is_lost boolean")
    frame = connections(opened, closed, views, publications, boots)
    assert_is_table(frame, "silver.connections")
    found: list[tuple[Any, ...]] = sorted(tuple(row) for row in frame.drop("server_id", "network").collect())

    untold, counted = (None, None, None), (MINUTE - 5, 10, 20)
    assert found == [
        ("b1", "c1", "live", "VLC", "rtmp", clock("19:59:00"), clock("19:59:30"), False, "server_lost", *untold),
        ("b1", "c2", None, None, "rtmp", clock("19:59:00"), clock("19:59:00"), False, "server_lost", *untold),
        ("b2", "c1", "live", "OBS", "rtmp", clock("20:00:00"), clock("20:01:00"), False, "bye", *counted),
        ("b2", "c3", "studio", "OBS", "rtmp", clock("20:00:01"), None, True, None, *untold),
        ("b2", "c4", None, None, "rtmps", clock("20:00:01"), None, True, None, *untold),
        ("b2", "c5", None, None, "rtmp", clock("20:00:58"), clock("20:01:00"), False, "bye", 2 * SECOND, 0, 0),
    ]
