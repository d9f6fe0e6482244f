"""Which sessions a run makes anew and which rows it carries over: literal rows in, names out."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.tables import SERVER_LOST
from penstock.pipeline.untouched import (
    touched_connections,
    touched_views,
    untouched_connections,
    untouched_views,
    with_boot_key,
)
from tests.pipeline.bronze_rows import boot_key_of
from tests.pipeline.silver_rows import at, rows

BOOT, OTHER_BOOT = boot_key_of("a", "b1"), boot_key_of("a", "b2")
FEW, MANY = 1, 1_000_000_000


def view(seq: int, **fields: Any) -> dict[str, Any]:
    return {"view_id": f"a-b1-{seq}", "boot_key": BOOT, "view_seq": seq, **fields}


def names(frame: DataFrame, column: str) -> set[Any]:
    return {row[0] for row in frame.select(column).collect()}


def test_a_view_is_made_anew_if_it_has_a_new_minute_or_nobody_told_its_end(spark: SparkSession) -> None:
    told = [
        {"boot_key": BOOT, "view_seq": 1},
        {"boot_key": BOOT, "view_seq": 1},
        {"boot_key": OTHER_BOOT, "view_seq": 2},
    ]
    minutes = rows(spark, "rollup.view_minutes", told)
    known = rows(
        spark,
        "silver.views",
        [
            view(1, end_reason="left"),
            view(2, end_reason="left"),
            view(3, is_open=True, is_estimated=True),
            view(4, end_reason=SERVER_LOST, is_estimated=True),
            view(5, end_reason="no stream", is_failed_start=True),
        ],
    )
    for about in (FEW, MANY):
        touched = touched_views(minutes, known, about)
        assert sorted((row.boot_key, row.view_seq) for row in touched.collect()) == sorted(
            [(BOOT, 1), (OTHER_BOOT, 2), (BOOT, 3), (BOOT, 4)]
        )
    # The second has a namesake in another boot; plays in vain are told by one fact, and found again from it.
    assert names(untouched_views(known, touched), "view_id") == {"a-b1-2"}


def test_a_connection_is_made_anew_if_a_fact_tells_of_it_or_none_told_its_end(spark: SparkSession) -> None:
    known = rows(
        spark,
        "silver.connections",
        [
            {"server_id": "a", "boot_id": boot, "conn_id": conn_id, **fields}
            for boot, conn_id, fields in (
                ("b1", "told of", {"closed_at": at("20:01:00"), "close_reason": "left"}),
                ("b2", "told of", {"closed_at": at("20:01:00"), "close_reason": None}),
                ("b1", "open", {"is_open": True}),
                ("b1", "lost", {"closed_at": at("20:01:00"), "close_reason": SERVER_LOST}),
                ("b1", "closed", {"closed_at": at("20:01:00"), "close_reason": "left"}),
            )
        ],
    )
    keyed = with_boot_key(known)
    told = spark.createDataFrame(
        [("a", "b1", name) for name in ("told of", "new")], "server_id string, boot_id string, conn_id string"
    )
    touched = touched_connections(with_boot_key(told), keyed, FEW)
    assert names(touched, "conn_id") == {"told of", "new", "open", "lost"}
    kept = untouched_connections(keyed, touched)
    assert sorted(kept.columns) == sorted(known.columns)
    assert {(row.boot_id, row.conn_id) for row in kept.collect()} == {("b2", "told of"), ("b1", "closed")}
