"""The tables in SQL: there from the start, and with every commit without being made again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.commits import Snapshot
from penstock.pipeline.lake import Lake
from penstock.pipeline.layout import stored_tables
from penstock.pipeline.registry import FRAMES, LakeTables, register_tables, tables_named
from penstock.pipeline.reports.spark_asker import SparkAsker
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES
from tests.pipeline.landing_place import LIKE_A_GLOB
from tests.pipeline.sources.recordings import make_numbered
from tests.pipeline.test_lake import NOW_US, USAGE, facts, sample, usage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "it's a `lake`" / LIKE_A_GLOB))


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
    LakeTables(spark, lake).make_for("gold.usage")
    state = lake.snapshot()
    for day, total in (("2026-11-15", 10), ("2026-11-16", 20)):
        transaction = lake.begin(state, "gold", NOW_US)
        transaction.replace_gold(USAGE, usage(spark, day, 10), [day])
        transaction.publish_gold()
        state = transaction.commit()
        assert spark.sql("SELECT sum(egress_bytes) FROM gold.usage").collect() == [(total,)]


SOME = ["bronze.play_started", "silver.views", "silver.frames", "gold.usage", "gold.audience"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("select 1", []),
        ("select * from silver.views", ["silver.views"]),
        ("SELECT * FROM Gold.Usage u JOIN `silver` . `views` v ON u.app = v.app", ["silver.views", "gold.usage"]),
        ("select * from spark_catalog.gold.usage where app in (select app from gold.audience)", SOME[3:]),
        ("select * from identifier('silver' || '.views')", ["silver.views", "silver.frames"]),
        ("select * from gold /* which? */ .usage", ["gold.usage", "gold.audience"]),
        ("describe gold.nope", ["gold.usage", "gold.audience"]),
        ("select * from golden.usage", []),
        (" show schemas", SOME),
        ("explain select * from bronze.play_started", ["bronze.play_started"]),
    ],
)
def test_of_many_tables_those_are_made_that_a_query_names(query: str, named: list[str]) -> None:
    assert tables_named(query, SOME) == named


def test_frames_are_those_of_the_recordings_at_the_moment_of_the_question(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    recordings = tmp_path / "recordings"
    # The reader has a session of its own, and sources belong to sessions.
    asker = SparkAsker(spark, lake, str(recordings))
    count = f"SELECT count(*) AS n, count_if(is_key) AS keys FROM {FRAMES}"
    assert asker.ask(count, 1).rows == ((0, 0),), "there is no folder yet"
    recordings.mkdir()
    make_numbered(recordings / "a.flv", gops=2)
    assert asker.ask(f"SELECT count(*) FROM {FRAMES} WHERE kind IN ('audio', 'video')", 1).rows == ((20,),)
    make_numbered(recordings / "b.flv", gops=3)
    twice = f"""
        SELECT keys.path, count(*) FROM {FRAMES} AS keys JOIN {FRAMES} AS later
        ON keys.path = later.path AND keys.dts_ms < later.dts_ms
        WHERE keys.is_key AND keys.kind = 'video' AND later.kind = 'audio' GROUP BY keys.path ORDER BY keys.path
    """
    # Of ten sounds nine come after the first key frame and four after the second; of fifteen 14, 9 and 4.
    rows = asker.ask(twice, 9).rows
    assert [(Path(path).name, pairs) for path, pairs in rows] == [("a.flv", 13), ("b.flv", 27)]
    assert asker.ask(f"{count} WHERE kind = 'video' UNION ALL {count}", 2).rows[0] == (25, 5)
