"""Publications: literal facts in, literal rows out."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.transforms.silver.publications import publications
from tests.pipeline.bronze_rows import MINUTE, SECOND, assert_is_table, boot_key_of, bronze, clock, fact, of_kind

BOOTS = [(boot_key_of("a", "b2"), "a", "b2", False), (boot_key_of("a", "b1"), "a", "b1", True)]
FACTS = [
    # 1 has all its facts; the same number in a boot that is lost has no stop.
    fact(
        *("publish_started", 1, 0),
        boot_id="b2",
        conn_id="c5",
        country="DE",
        asn=64_500,
        dimensions='{"campaign":"spring"}',
        auth_subject="studio",
    ),
    fact("stream_sample", 2, SECOND, boot_id="b2", publication_seq=1, received_bytes=100, viewers_sent_bytes=9),
    fact(
        *("publish_stopped", 3, MINUTE),
        boot_id="b2",
        publication_seq=1,
        duration_us=59 * SECOND,
        received_bytes=500,
        messages=40,
        video_frames=20,
        audio_frames=18,
        keyframes=2,
        timestamp_jumps=1,
    ),
    fact("publish_started", 1, -MINUTE, boot_id="b1"),
    fact(
        *("stream_sample", 2, -50 * SECOND),
        boot_id="b1",
        publication_seq=1,
        received_bytes=10,
        video_frames=4,
        viewers_sent_bytes=90,
        viewers_watched_us=SECOND,
    ),
    # One of two viewers has gone.
    fact(
        *("stream_sample", 3, -40 * SECOND),
        boot_id="b1",
        publication_seq=1,
        received_bytes=20,
        video_frames=8,
        viewers_sent_bytes=60,
        viewers_watched_us=2 * SECOND,
    ),
    # 10 goes on; 20 has just begun.
    fact("publish_started", 10, MINUTE, boot_id="b2"),
    fact("stream_sample", 11, MINUTE + SECOND, boot_id="b2", publication_seq=10, received_bytes=7),
    fact("publish_started", 20, MINUTE, boot_id="b2"),
    # The starts of 30 and 40 were lost.
    fact("publish_stopped", 31, 2 * MINUTE, boot_id="b2", publication_seq=30, duration_us=MINUTE, stream="y"),
    fact("stream_sample", 41, 2 * MINUTE, boot_id="b2", publication_seq=40, stream="z"),
]


def test_a_publication_is_one_row_whatever_facts_are_left_of_it(spark: SparkSession) -> None:
    kinds = ("publish_started", "publish_stopped", "stream_sample")
    started, stopped, samples = (bronze(spark, of_kind(FACTS, kind)) for kind in kinds)
    boots = spark.createDataFrame(BOOTS, "boot_key bigint, server_id string, boot_id string, is_lost boolean")
    frame = publications(started, stopped, samples, boots)
    assert_is_table(frame, "silver.publications")
    rows = {row.publication_id: row.asDict() for row in frame.collect()}

    def of(name: str, *columns: str) -> tuple[Any, ...]:
        return tuple(rows[name][column] for column in columns)

    assert set(rows) == {"a-b2-1", "a-b1-1", "a-b2-10", "a-b2-20", "a-b2-30", "a-b2-40"}
    assert rows["a-b2-1"] == {
        "publication_id": "a-b2-1",
        "server_id": "a",
        "boot_id": "b2",
        "conn_id": "c5",
        "app": "live",
        "stream": "x",
        "client": "OBS",
        "protocol": "rtmp",
        "network": "private",
        "country": "DE",
        "asn": 64_500,
        "dimensions": '{"campaign":"spring"}',
        "auth_subject": "studio",
        "publishing_type": "live",
        "started_at": clock("20:00:00"),
        "last_seen_at": clock("20:01:00"),
        "ended_at": clock("20:01:00"),
        "is_open": False,
        "end_reason": "unpublished",
        "duration_us": 59 * SECOND,
        "received_bytes": 500,
        "messages": 40,
        "video_frames": 20,
        "audio_frames": 18,
        "keyframes": 2,
        "timestamp_jumps": 1,
        "viewers_sent_bytes": None,
        "viewers_watched_us": None,
        "is_estimated": False,
    }
    end = ("is_open", "ended_at", "end_reason", "duration_us", "received_bytes", "video_frames", "is_estimated")
    assert of("a-b1-1", *end) == (False, clock("19:59:20"), "server_lost", 20 * SECOND, 20, 8, True)
    assert of("a-b1-1", "viewers_sent_bytes", "viewers_watched_us") == (60, 2 * SECOND)
    assert of("a-b2-10", *end) == (True, None, None, SECOND, 7, 0, True)
    assert of("a-b2-20", *end) == (True, None, None, 0, 0, 0, True)
    assert of("a-b2-30", "started_at", "stream", "conn_id", "client") == (clock("20:01:00"), "y", "c1", None)
    assert of("a-b2-40", "started_at", "stream", "conn_id", "is_open") == (clock("20:01:59"), "z", None, True)
