"""A viewer and an address are forgotten wherever they were, and nothing that was counted changes."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.errors import PipelineError
from penstock.pipeline.erase import Erased, erase
from penstock.pipeline.schemas import table_schema
from penstock.pipeline.tables import TABLES
from tests.pipeline.landing_place import LIKE_A_GLOB, NOON_US, Place, fact

NOON = "2026-11-15T12"
VIEWS = TABLES["silver.views"]


def write_views(place: Place) -> None:
    """A row of silver.views for each play in bronze: what the test needs of it, and zeros."""
    snapshot = place.lake.snapshot()
    plays = place.lake.read(place.spark, snapshot, "bronze.play_started")
    zeros = {"string": F.lit("-"), "boolean": F.lit(False), "timestamp": F.timestamp_micros(F.col("at_us"))}
    known = {"viewer_key", "auth_subject", "client", "app", "stream", "boot_key", "view_seq"}
    columns = [
        F.col(field.name)
        if field.name in known
        else zeros.get(field.dataType.simpleString(), F.lit(0)).cast(field.dataType).alias(field.name)
        for field in table_schema(VIEWS)
    ]
    transaction = place.lake.begin(snapshot, "silver", NOON_US)
    transaction.replace(VIEWS, plays.select(*columns, "hour"), [NOON])
    transaction.commit()


def test_an_address_and_a_viewer_are_forgotten_and_counts_stay(tmp_path: Path, spark: SparkSession) -> None:
    data = tmp_path / LIKE_A_GLOB
    place = Place(data, spark)
    elsewhere: dict[str, Any] = {"peer_addr": "203.0.113.77:1"}
    landed = place.land(
        "edge-1-b1-1.jsonl",
        fact(1, "play_started"),
        fact(2, "play_started", client="obs"),
        fact(3, "play_started", **elsewhere),
        fact(4, "play_started", auth_subject="alice", **elsewhere),
        fact(5, "play_stopped", view_id="edge-1-b1-1"),
        fact(6, "limit_hit"),
        b'{"torn": "203.0.113.7:5',
    )
    place.carry()
    write_views(place)
    columns = ("seq", "viewer_key", "peer_addr", "network", "auth_subject")
    before = {row[0]: row for row in place.rows("play_started", *columns)}

    erased = erase(spark, place.lake, place.landing, NOON_US, ip="::ffff:203.0.113.7")
    assert erased == Erased(facts=4, views=2, landed_lines=5, quarantined_lines=1, hours=(NOON,))
    after = {row[0]: row for row in place.rows("play_started", *columns)}
    assert (after[3], after[4]) == (before[3], before[4])
    assert [after[1][2:4], after[2][2:4]] == [(None, "203.0.113.0/24")] * 2
    assert len({row[1] for row in after.values()}) == 4, "as many different viewers as before"
    assert after[1][1].startswith("erased:")
    assert place.rows("play_stopped", "viewer_key") == [(after[1][1],)]
    assert place.rows("limit_hit", "detail") == [("somebody has 5",)]
    views = place.lake.read(spark, place.lake.snapshot(), "silver.views").orderBy("view_seq")
    assert [row.viewer_key for row in views.select("viewer_key").collect()] == [after[seq][1] for seq in (1, 2, 3, 4)]

    erased = erase(spark, place.lake, place.landing, NOON_US, viewer="alice")
    assert erased == Erased(facts=1, views=1, landed_lines=1, quarantined_lines=0, hours=(NOON,))
    assert [row[4] for row in place.rows("play_started", *columns)] == [None] * 4
    text = landed.read_bytes() + b"".join(file.read_bytes() for file in tmp_path.rglob("erasures.jsonl"))
    assert not any(name in text for name in (b"203.0.113.7:", b"203.0.113.7 ", b"alice"))
    assert b'"203.0.113.77:1"' in text
    lines = [json.loads(line) for line in (data / "lake/_notes/erasures.jsonl").read_text().splitlines()]
    assert [(line["what"], line["facts"]) for line in lines] == [("address", 4), ("viewer", 1)]

    number = place.lake.snapshot().number
    assert erase(spark, place.lake, place.landing, NOON_US, viewer="nobody").facts == 0
    assert place.lake.snapshot().number == number


@pytest.mark.parametrize(
    ("viewer", "ip", "complaint"),
    [
        (None, None, "name either"),
        ("a:alice", "203.0.113.7", "name either"),
        ("v:", None, "no name"),
        (None, "203.0.113", "is no address"),
    ],
)
def test_whom_to_erase_has_to_be_clear(
    tmp_path: Path, spark: SparkSession, viewer: str | None, ip: str | None, complaint: str
) -> None:
    place = Place(tmp_path, spark)
    with pytest.raises(PipelineError, match=complaint):
        erase(spark, place.lake, place.landing, NOON_US, viewer=viewer, ip=ip)
