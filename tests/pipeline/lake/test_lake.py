"""The lake: how rows become files and files become versions, and which files a reader opens."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake.arrow_rows import lies_in
from penstock.pipeline.lake.delta import Change, Pinned
from penstock.pipeline.lake.lake import EVERYTHING, STAGING, Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE, folder_of
from penstock.pipeline.lake.schemas import bronze_columns
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.lake_rows import put_hours, rows_of
from tests.pipeline.silver_rows import at

VIEWS = "silver.views"
DAY, NEXT_DAY = "2026-11-15", "2026-11-16"
HOURS = [f"{DAY}T19", f"{DAY}T20", f"{DAY}T21", f"{NEXT_DAY}T00"]
HOUR_NUMBER = 498_548
"""2026-11-15T20, in hours since 1970."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "lake"))


def views_of(*view_ids: str, started_at: datetime.datetime | None = None, **more: object) -> pa.Table:
    at_hour = started_at or at("20:00")
    return rows_of(VIEWS, *({"view_id": view_id, "started_at": at_hour, **more} for view_id in view_ids))


def four_hours(lake: Lake) -> Pinned:
    """A view in each hour, called by it."""
    return put_hours(lake, VIEWS, {hour: views_of(hour) for hour in HOURS})


def compacted(lake: Lake, pinned: Pinned) -> Pinned:
    return lake.table(VIEWS).compact(pinned, {"date": DAY}, 10**9)


def ids(lake: Lake, pinned: Pinned | None, wanted: Wanted = EVERYTHING) -> list[str]:
    return sorted(lake.rows(pinned, wanted, ["view_id"])["view_id"].to_pylist())


def spark_ids(spark: SparkSession, lake: Lake, pinned: Pinned | None, wanted: Wanted = EVERYTHING) -> list[str]:
    return sorted(row.view_id for row in lake.read(spark, pinned, VIEWS, wanted).select("view_id").collect())


def placed(spark: SparkSession, rows: pa.Table, number: int = HOUR_NUMBER) -> DataFrame:
    """Rows for Spark, with their hour as a number."""
    return spark.createDataFrame(rows.drop_columns(["hour"])).withColumn("hour", F.lit(number))


# Which files are opened.


def test_files_of_other_hours_are_not_opened(lake: Lake) -> None:
    pinned = four_hours(lake)
    assert len(lake.paths(pinned, Wanted(hours=HOURS[:1]))) == 1
    assert len(lake.paths(pinned, Wanted(since=HOURS[1]))) == 3
    assert len(lake.paths(pinned, Wanted(since=HOURS[1], until=HOURS[2]))) == 1
    assert len(lake.paths(pinned, Wanted(until=f"{DAY}~"))) == 3
    assert lake.paths(pinned, Wanted(hours=())) == []
    assert lake.paths(None) == []


def test_of_a_compacted_day_just_the_wanted_hours_are_read(spark: SparkSession, lake: Lake) -> None:
    pinned = compacted(lake, four_hours(lake))
    assert len(pinned.files) == 2
    for wanted, expected in (
        (Wanted(hours=[HOURS[1]]), [HOURS[1]]),
        (Wanted(since=HOURS[1]), HOURS[1:]),
        (Wanted(since=HOURS[1], until=HOURS[2]), [HOURS[1]]),
        (EVERYTHING, HOURS),
    ):
        assert spark_ids(spark, lake, pinned, wanted) == expected
    assert ids(lake, pinned, Wanted(hours=[HOURS[1]])) == [HOURS[1]]


def test_sessions_are_found_by_how_far_they_reach(lake: Lake) -> None:
    pinned = put_hours(
        lake,
        VIEWS,
        {
            HOURS[0]: views_of("long", last_seen_at=at("21:30"), ended_at=at("21:30")),
            HOURS[1]: views_of("short", last_seen_at=at("20:10"), ended_at=at("20:10")),
        },
    )
    assert ids(lake, pinned, Wanted(reaching=HOURS[2])) == ["long"]
    assert ids(lake, pinned, Wanted(reaching=HOURS[1])) == ["long", "short"]
    assert ids(lake, pinned, Wanted(reaching=HOURS[0], until=HOURS[1])) == ["long"]


def test_facts_are_found_by_kind_and_number(lake: Lake) -> None:
    for kind, seqs in (("play_started", (1, 5)), ("play_stopped", (6, 9))):
        facts = rows_of(BRONZE, *({"seq": seq, "boot_key": 7} for seq in seqs))
        pinned = put_hours(lake, BRONZE, {HOURS[1]: facts}, kind=kind)
    assert lake.rows(pinned, Wanted(kinds=["play_stopped"]), ["seq"])["seq"].to_pylist() == [6, 9]
    assert lake.rows(pinned, Wanted(seqs=(2, 3)), ["seq"])["seq"].to_pylist() == [1, 5]
    assert lake.paths(pinned, Wanted(seqs=(10, 20))) == []


def test_a_table_that_nobody_has_written_has_its_columns_and_no_rows(spark: SparkSession, lake: Lake) -> None:
    assert lake.pin(VIEWS) is None
    frame = lake.read(spark, None, VIEWS)
    assert (frame.count(), frame.columns[-2:]) == (0, ["hour", "date"])
    with pytest.raises(LakeError, match="never written"):
        lake.rows(None)


def test_unknown_tables_are_told(lake: Lake) -> None:
    with pytest.raises(LakeError, match=r"no table called gold\.nothing"):
        lake.pin("gold.nothing")


# Writing.


def test_spark_writes_aside_and_a_commit_replaces_just_these_hours(spark: SparkSession, lake: Lake) -> None:
    pinned = four_hours(lake)
    after, added = lake.replace_hours(VIEWS, pinned, placed(spark, views_of("new", "newer")), [HOURS[1]])
    assert spark_ids(spark, lake, after) == [HOURS[0], HOURS[2], HOURS[3], "new", "newer"]
    assert ids(lake, pinned) == HOURS, "who has pinned the version before sees that one"
    (path,) = added
    stored = pq.read_table(lake.storage.address(f"{folder_of(VIEWS)}/{path}"), partitioning=None)
    assert (stored["hour"].to_pylist(), path.rpartition("/")[0]) == ([HOURS[1]] * 2, f"date={DAY}")
    assert lake.storage.find(STAGING) == []


def test_a_late_hour_of_a_compacted_day_leaves_the_other_hours_as_they_were(spark: SparkSession, lake: Lake) -> None:
    pinned = compacted(lake, four_hours(lake))
    after, _ = lake.replace_hours(VIEWS, pinned, placed(spark, views_of("late")), [HOURS[1]])
    assert ids(lake, after) == sorted([HOURS[0], HOURS[2], HOURS[3], "late"])
    assert sorted(file.rows for file in after.files) == [1, 1, 2]


def test_hours_without_rows_are_emptied(spark: SparkSession, lake: Lake) -> None:
    pinned = four_hours(lake)
    after, added = lake.replace_hours(VIEWS, pinned, placed(spark, views_of("x")).limit(0), HOURS[:2])
    assert (ids(lake, after), added) == (HOURS[2:], [])


def test_days_are_replaced_by_one_file_each_sorted_by_the_key(lake: Lake) -> None:
    first = rows_of("gold.usage", {"stream": "b", "egress_bytes": 2}, {"stream": "a", "egress_bytes": 1})
    pinned = lake.put_days("gold.usage", lake.table("gold.usage").pin_or_create(), {DAY: first, NEXT_DAY: first})
    assert lake.rows(pinned, columns=["stream"])["stream"].to_pylist() == ["a", "b", "a", "b"]
    after = lake.put_days("gold.usage", pinned, {DAY: first.slice(0, 0)})
    assert [dict(file.partition) for file in after.files] == [{"date": NEXT_DAY}]


def test_days_that_spark_writes_keep_the_rows_that_they_are_told_to_keep(spark: SparkSession, lake: Lake) -> None:
    table, times = "gold.audience", [at("19:01"), at("20:01")]
    before = rows_of(table, *({"stream": "before", "minute": time} for time in times))
    pinned = lake.put_days(table, lake.table(table).pin_or_create(), {DAY: before, NEXT_DAY: before})
    fresh = spark.createDataFrame(rows_of(table, {"stream": "after", "minute": times[1]}))
    dated = fresh.withColumn("date", F.to_date("minute"))
    after = lake.replace_days(table, pinned, dated, [DAY], lies_in("minute", [f"{DAY}T19"]))
    told = lake.rows(after, Wanted(hours=[f"{DAY}T00"]), ["stream", "minute"]).sort_by("minute").to_pylist()
    assert [(row["stream"], row["minute"].hour) for row in told] == [("before", 19), ("after", 20)]
    assert lake.rows(after, Wanted(hours=[f"{NEXT_DAY}T00"])).num_rows == 2


def test_a_table_without_days_is_replaced_as_a_whole(lake: Lake) -> None:
    table = lake.table("gold.recordings")
    for path in ("a.flv", "b.flv"):
        rows = rows_of("gold.recordings", {"path": path})
        pinned = lake.put_days("gold.recordings", table.pin_or_create(), {"": rows})
    assert lake.rows(pinned, columns=["path"])["path"].to_pylist() == ["b.flv"]


def test_facts_are_written_by_kind_and_day_and_read_back_as_their_kind(spark: SparkSession, lake: Lake) -> None:
    kind, added = "server_started", []
    facts = rows_of(BRONZE, {"seq": 1, "hour": HOURS[1]}, {"seq": 2, "hour": HOURS[3]}).select(bronze_columns(kind))
    for place, day in enumerate((DAY, NEXT_DAY)):
        path, writer = lake.new_facts(kind, day, facts.schema)
        with writer:
            writer.write_table(facts.slice(place, 1))
        added.append(path)
    assert {path.rpartition("/")[0] for path in added} == {f"kind={kind}/date={day}" for day in (DAY, NEXT_DAY)}
    pinned = lake.commit(BRONZE, lake.table(BRONZE).pin_or_create(), Change(added))
    rows = lake.read(spark, pinned, f"bronze.{kind}").select("seq", "hour", "date").orderBy("seq").collect()
    assert [tuple(row) for row in rows] == [
        (1, HOURS[1], datetime.date(2026, 11, 15)),
        (2, HOURS[3], datetime.date(2026, 11, 16)),
    ]
    assert lake.read(spark, pinned, "bronze.server_stopped").count() == 0
    assert lake.read(spark, pinned, BRONZE).select("kind").distinct().collect() == [(kind,)]


def test_rows_that_were_rewritten_take_the_place_of_their_files(spark: SparkSession, lake: Lake) -> None:
    pinned = four_hours(lake)
    removed = [file for file in pinned.files if file.partition["date"] == DAY]
    rows = lake.read(spark, pinned, VIEWS, Wanted(until=f"{DAY}~")).withColumn("client", F.lit("somebody"))
    after = lake.rewrite(VIEWS, pinned, rows.coalesce(1), removed)
    assert ids(lake, after) == HOURS
    assert sorted(map(str, lake.rows(after, columns=["client"])["client"].to_pylist())) == ["None", *["somebody"] * 3]


def test_days_before_one_are_dropped(lake: Lake) -> None:
    pinned = four_hours(lake)
    assert ids(lake, lake.drop_days(VIEWS, pinned, NEXT_DAY)) == HOURS[3:]
    assert lake.drop_days(VIEWS, lake.table(VIEWS).pin_or_create(), DAY).version == pinned.version + 1, "nothing to do"


def test_a_writer_whose_rows_are_of_an_older_version_is_refused(spark: SparkSession, lake: Lake) -> None:
    pinned = four_hours(lake)
    lake.drop_days(VIEWS, pinned, NEXT_DAY)
    with pytest.raises(LakeBusy, match=r"silver\.views: another writer"):
        lake.replace_hours(VIEWS, pinned, placed(spark, views_of("late")), [HOURS[1]])
    assert ids(lake, lake.pin(VIEWS)) == HOURS[3:]


def test_every_point_of_a_commit_can_be_a_failpoint(tmp_path: Path) -> None:
    points: list[str] = []
    lake = Lake(Storage(tmp_path), points.append)
    four_hours(lake)
    assert points == [f"{VIEWS}-written", f"{VIEWS}-committed"]


def test_recovery_empties_staging_and_repairs_every_log(lake: Lake) -> None:
    pinned = four_hours(lake)
    lake.storage.put(f"{STAGING}/x/a.parquet", b"")
    entry = Path(lake.storage.address(f"{folder_of(VIEWS)}/_delta_log/{pinned.version:020d}.json"))
    entry.write_bytes(b"")
    Lake(lake.storage).recover()
    assert (lake.storage.find(STAGING), entry.exists()) == ([], False)


# Readers that stay.


def test_a_frame_that_is_held_over_commits_answers_as_of_its_version(spark: SparkSession, lake: Lake) -> None:
    pinned = four_hours(lake)
    held = lake.read(spark, pinned, VIEWS).select("view_id")
    for number in range(5):
        pinned, _ = lake.replace_hours(VIEWS, pinned, placed(spark, views_of(f"{number}")), [HOURS[1]])
    lake.table(VIEWS).vacuum()
    assert sorted(row.view_id for row in held.collect()) == HOURS


def test_a_version_that_was_vacuumed_is_told_as_such_and_never_read_in_part(spark: SparkSession, lake: Lake) -> None:
    pinned = four_hours(lake)
    held = lake.read(spark, pinned, VIEWS).select("view_id")
    lake.drop_days(VIEWS, pinned, NEXT_DAY)
    lake.table(VIEWS).vacuum(kept_h=0)
    with pytest.raises(LakeError, match=r"version 1 of silver\.views was vacuumed"):
        lake.rows(pinned)
    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        held.collect()
