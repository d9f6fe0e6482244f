"""The tables in SQL: there from the start, and with every commit without being made again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.commits import Snapshot
from penstock.pipeline.lake import Lake, stored_tables
from penstock.pipeline.registry import register_tables
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES
from tests.pipeline.test_lake import NOW_US, USAGE, facts, sample, usage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "it's a `lake`"))


def add_samples(spark: SparkSession, lake: Lake, state: Snapshot, *seqs: int) -> Snapshot:
    transaction = lake.begin(state, "bronze", NOW_US)
    transaction.append_bronze(facts(spark, *(sample(seq, f"2026-11-15T2{seq % 2}") for seq in seqs)))
    return transaction.commit()


def test_a_view_shows_each_commit_and_nothing_else(spark: SparkSession, lake: Lake) -> None:
    register_tables(spark, lake)
    for table in (*stored_tables(), "silver.viewer_samples"):
        assert spark.table(table).schema.fieldNames()[: len(TABLES[table].columns) if table in TABLES else 0] == (
            [column.name for column in TABLES[table].columns] if table in TABLES else []
        )
    count = "SELECT count(*) AS n, count(DISTINCT hour) AS hours FROM {}"
    for table in ("bronze.viewer_sample", "silver.viewer_samples"):
        assert spark.sql(count.format(table)).collect() == [(0, 0)]
    state = add_samples(spark, lake, lake.snapshot(), 2, 4)
    assert spark.sql(count.format("bronze.viewer_sample")).collect() == [(2, 1)]
    lake.begin(state, "bronze", NOW_US).append_bronze(facts(spark, sample(6, "2026-11-15T20")))
    assert spark.sql(count.format("bronze.viewer_sample")).collect() == [(2, 1)], "it was not committed"
    add_samples(spark, lake, state, 5)
    assert spark.sql(count.format("bronze.viewer_sample")).collect() == [(3, 2)]
    rows = spark.sql("SELECT event_id, hour FROM silver.viewer_samples ORDER BY event_id")
    assert [tuple(row) for row in rows.collect()] == [
        ("s-b-2", "2026-11-15T20"),
        ("s-b-4", "2026-11-15T20"),
        ("s-b-5", "2026-11-15T21"),
    ]


def test_a_day_that_is_added_to_gold_is_counted_at_once(spark: SparkSession, lake: Lake) -> None:
    register_tables(spark, lake)
    state = lake.snapshot()
    for day, total in (("2026-11-15", 10), ("2026-11-16", 20)):
        transaction = lake.begin(state, "gold", NOW_US)
        transaction.replace_gold(USAGE, usage(spark, day, 10), [day])
        transaction.publish_gold()
        state = transaction.commit()
        assert spark.sql("SELECT sum(egress_bytes) FROM gold.usage").collect() == [(total,)]
