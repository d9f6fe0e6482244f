"""The tables in SQL: each view is of one version of its table until it is made again, and never of half of one."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import LakeError
from penstock.pipeline import table
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import named_tables, schema_of
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from penstock.pipeline.queries.views import FRAMES, LakeViews, tables_named
from tests.pipeline.landing_place import LIKE_A_GLOB
from tests.pipeline.reports.rows import commit_files, put_gold
from tests.pipeline.sources.recordings import make_numbered

SAMPLES = "bronze.viewer_sample"
COUNT = "SELECT count(*) AS n, count(DISTINCT hour) AS hours FROM {}"
DAY = "2026-11-15"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "it's a `lake`" / LIKE_A_GLOB))


def add_samples(lake: Lake, hour: str, *seqs: int) -> None:
    """Commit a file with samples of these numbers."""
    ids = {"server_id": ["s"] * len(seqs), "boot_id": ["b"] * len(seqs)}
    commit_files(Path(lake.storage.root), {(SAMPLES, hour): pa.table({"seq": seqs, "at_us": seqs, **ids})})


def put_usage(lake: Lake, egress_bytes: int, day: str = DAY) -> None:
    put_gold(Path(lake.storage.root), "usage", day, {"day": date.fromisoformat(day), "egress_bytes": egress_bytes})


def test_there_is_a_view_of_every_table_before_anything_was_written(spark: SparkSession, lake: Lake) -> None:
    assert set(LakeViews(spark, lake).refresh().values()) == {-1}
    assert not Path(lake.storage.root).exists(), "who only reads leaves nothing behind"
    for name in named_tables():
        columns = spark.table(name).schema.fieldNames()
        known = [column.name for column in TABLES[name].columns] if name in TABLES else schema_of(name).names
        assert columns[: len(known)] == known
    for name in (SAMPLES, "silver.viewer_samples"):
        assert spark.sql(COUNT.format(name)).collect() == [(0, 0)]


def test_a_view_is_of_its_version_until_it_is_made_again(spark: SparkSession, lake: Lake) -> None:
    views = LakeViews(spark, lake)
    add_samples(lake, f"{DAY}T20", 2, 4)
    assert views.refresh_for(SAMPLES) == {SAMPLES: 1}
    add_samples(lake, f"{DAY}T21", 5)
    assert spark.sql(COUNT.format(SAMPLES)).collect() == [(2, 1)]
    assert views.refresh_for(f"{SAMPLES}, silver.viewer_samples") == {SAMPLES: 2, "silver.viewer_samples": 2}
    assert spark.sql(COUNT.format(SAMPLES)).collect() == [(3, 2)]
    rows = spark.sql("SELECT event_id, hour FROM silver.viewer_samples ORDER BY event_id")
    assert [tuple(row) for row in rows.collect()] == [
        ("s-b-2", f"{DAY}T20"),
        ("s-b-4", f"{DAY}T20"),
        ("s-b-5", f"{DAY}T21"),
    ]


def test_a_file_that_no_version_names_is_not_seen(spark: SparkSession, lake: Lake) -> None:
    put_usage(lake, 10)
    (file,) = Path(lake.storage.root).rglob("date=*/*.parquet")
    shutil.copy(file, file.with_name("of-a-killed-run.parquet"))
    LakeViews(spark, lake).refresh_for("gold.usage")
    assert spark.sql("SELECT sum(egress_bytes) FROM gold.usage").collect() == [(10,)]


def test_each_query_sees_the_newest_version(spark: SparkSession, lake: Lake) -> None:
    runner = SparkQueryRunner(spark, lake)
    for day, total in ((DAY, 10), ("2026-11-16", 20), (DAY, 20)):
        put_usage(lake, 10, day)
        assert runner.run("SELECT sum(egress_bytes) FROM gold.usage", 1).rows == ((total,),)


def test_a_dataframe_that_is_held_answers_as_of_its_version_however_many_commits_follow(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(Storage(tmp_path / "lake"))
    put_usage(lake, 1)
    by_version = table(spark, "gold.usage", tmp_path)
    LakeViews(spark, lake).refresh_for("gold.usage")
    by_view = spark.table("gold.usage")
    for egress_bytes in range(2, 12):
        put_usage(lake, egress_bytes)
    assert [row.egress_bytes for row in table(spark, "gold.usage", tmp_path).collect()] == [11]
    for held in (by_version, by_view, spark.table("gold.usage"), table(spark, "gold.usage", tmp_path, version=1)):
        assert [row.egress_bytes for row in held.collect()] == [1]


@pytest.mark.parametrize("since", [datetime(year, 11, 15, tzinfo=UTC) for year in (1, 500, 2026)])
def test_hours_of_a_table_may_begin_at_any_time(spark: SparkSession, tmp_path: Path, since: datetime) -> None:
    put_usage(Lake(Storage(tmp_path / "lake")), 1)
    until = datetime(2026, 11, 16, tzinfo=UTC)
    assert table(spark, "gold.usage", tmp_path, hours=(since, until)).count() == 1


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_past_vacuum_whoever_holds_an_older_version_gets_an_error_and_not_fewer_rows(
    spark: SparkSession, tmp_path: Path, is_asked_before: bool
) -> None:
    lake = Lake(Storage(tmp_path / "lake"))
    for day in (DAY, "2026-11-16"):
        put_usage(lake, 1, day)
    held = [table(spark, "gold.usage", tmp_path)]
    LakeViews(spark, lake).refresh_for("gold.usage")
    if is_asked_before:
        held.append(spark.table("gold.usage"))
        assert [each.count() for each in held] == [2, 2]
    put_usage(lake, 2)
    lake.table("gold.usage").vacuum(kept_h=0)
    for each in (*held, spark.table("gold.usage")):
        with pytest.raises((PySparkException, Py4JError), match="File does not exist"):
            each.collect()


def test_a_version_that_is_gone_or_never_was_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(Storage(tmp_path / "lake"))
    for egress_bytes in (1, 2):
        put_usage(lake, egress_bytes)
    lake.table("gold.usage").vacuum(kept_h=0)
    with pytest.raises(LakeError, match=r"version 1 of gold\.usage was vacuumed: 1 of its files are gone"):
        table(spark, "gold.usage", tmp_path, version=1)
    with pytest.raises(LakeError, match=r"gold\.usage has no version 99"):
        table(spark, "gold.usage", tmp_path, version=99)
    with pytest.raises(LakeError, match=r"version -1 of gold\.usage: versions are counted from 0"):
        table(spark, "gold.usage", tmp_path, version=-1)


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
    runner = SparkQueryRunner(spark, lake, str(recordings))
    count = f"SELECT count(*) AS n, count_if(is_key) AS keys FROM {FRAMES}"
    assert runner.run(count, 1).rows == ((0, 0),), "there is no folder yet"
    recordings.mkdir()
    make_numbered(recordings / "a.flv", gops=2)
    assert runner.run(f"SELECT count(*) FROM {FRAMES} WHERE kind IN ('audio', 'video')", 1).rows == ((20,),)
    make_numbered(recordings / "b.flv", gops=3)
    twice = f"""
        SELECT keys.path, count(*) FROM {FRAMES} AS keys JOIN {FRAMES} AS later
        ON keys.path = later.path AND keys.dts_ms < later.dts_ms
        WHERE keys.is_key AND keys.kind = 'video' AND later.kind = 'audio' GROUP BY keys.path ORDER BY keys.path
    """
    # Of ten sounds nine come after the first key frame and four after the second; of fifteen 14, 9 and 4.
    rows = runner.run(twice, 9).rows
    assert [(Path(path).name, pairs) for path, pairs in rows] == [("a.flv", 13), ("b.flv", 27)]
    assert runner.run(f"{count} WHERE kind = 'video' UNION ALL {count}", 2).rows[0] == (25, 5)
