"""The lake: what a commit makes true, and what readers see before and after."""

import datetime
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import LakeError
from penstock.pipeline.commits import BootSpan, Snapshot, Touched
from penstock.pipeline.lake import Lake
from penstock.pipeline.schemas import bronze_columns, bronze_schema, table_schema
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES

NOW_US = 1_700_000_000_000_000
USAGE = TABLES["gold.usage"]
SEGMENTS = TABLES["silver.recording_segments"]
HISTOGRAMS = TABLES["rollup.histogram_hours"]
HOUR_NUMBER = 498_548
"""2026-11-15T20, in hours since 1970."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "lake"))


def facts(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Bronze rows with the columns of their partition; what is not given is null."""
    schema = bronze_schema().add("kind", "string").add("hour", "string")
    full = [{name: row.get(name) for name in schema.fieldNames()} for row in rows]
    for row in full:
        row |= {"boot_key": row["boot_key"] or 1, "landed_at_us": 0}
    return spark.createDataFrame([tuple(row.values()) for row in full], schema)


def sample(seq: int, hour: str) -> dict[str, Any]:
    return {"kind": "viewer_sample", "hour": hour, "server_id": "s", "boot_id": "b", "seq": seq}


def usage(spark: SparkSession, day: str, egress: int) -> DataFrame:
    date = datetime.date.fromisoformat(day)
    row = ("live", "cup", date, 0, egress, 0.0, 0, 0, 0, False, day)
    return spark.createDataFrame([row], table_schema(USAGE).add("date", "string"))


def test_facts_are_seen_once_they_are_committed_and_by_their_hours(spark: SparkSession, lake: Lake) -> None:
    before = lake.snapshot()
    transaction = lake.begin(before, "bronze", NOW_US)
    transaction.append_bronze(facts(spark, sample(1, "2026-11-15T20"), sample(2, "2026-11-15T21")))
    assert lake.read(spark, lake.snapshot(), "bronze.viewer_sample").count() == 0
    after = transaction.commit(
        batch=0, landed=["a.jsonl"], touched=Touched({"viewer_sample": frozenset(["2026-11-15T20"])})
    )
    assert lake.snapshot() == after
    assert after.partitions("bronze.viewer_sample") == ["2026-11-15T20", "2026-11-15T21"]
    rows = lake.read(spark, after, "bronze.viewer_sample", ["2026-11-15T21"]).select("seq", "hour").collect()
    assert [tuple(row) for row in rows] == [(2, "2026-11-15T21")]
    assert (after.last_batch, dict(after.landed_at_us)) == (0, {"a.jsonl": NOW_US})
    assert after.pending.hours == {"viewer_sample": {"2026-11-15T20"}}


def test_many_facts_of_a_kind_are_stored_without_the_columns_of_other_kinds(spark: SparkSession, lake: Lake) -> None:
    hour = "2026-11-15T20"
    told = facts(spark, sample(1, hour), {**sample(2, hour), "kind": "play_started"}, sample(3, hour))
    transaction = lake.begin(lake.snapshot(), "bronze", NOW_US)
    transaction.append_bronze(told.coalesce(1), counts={"viewer_sample": 1_000_000, "play_started": 1})
    after = transaction.commit()
    columns = {}
    for kind in ("viewer_sample", "play_started"):
        (file,) = after.files(f"bronze.{kind}")
        columns[kind] = pq.read_schema(lake.storage.path_for_arrow(file.path)).names
    assert columns["play_started"] == bronze_schema().names
    assert columns["viewer_sample"] == [name for name in bronze_columns("viewer_sample") if name != "hour"]
    together = lake.read_parts(spark, after, [("viewer_sample", hour), ("play_started", hour)])
    rows = sorted(tuple(row) for row in together.select("seq", "kind", "size_bytes").collect())
    assert rows == [(1, "viewer_sample", None), (2, "play_started", None), (3, "viewer_sample", None)]


def test_a_hundred_commits_read_the_same_from_checkpoints(lake: Lake) -> None:
    state = lake.snapshot()
    for number in range(1, 101):
        boot = BootSpan(7, "s", "b", number, number, number, number, 1, is_stopped=number == 100)
        state = lake.begin(state, "bronze", NOW_US).commit(boots=[boot], counts={"facts": 2})
    read = Lake(lake.storage).snapshot()
    assert read == state
    assert read.boots[7] == BootSpan(7, "s", "b", 1, 100, 1, 100, 100, is_stopped=True)
    assert read.counts == {"facts": 200}
    assert len(lake.storage.find("_commits")) < 50


def test_what_settles_leaves_nothing_pending(lake: Lake) -> None:
    touched = Touched({"viewer_sample": frozenset(["2026-11-15T20"])})
    boot = BootSpan(7, "s", "b", 1, 1, 1, 1, 1, is_stopped=False)
    state = lake.begin(lake.snapshot(), "bronze", NOW_US).commit(touched=touched, boots=[boot])
    assert (bool(state.pending), state.spoken) == (True, frozenset([7]))
    settled = lake.begin(state, "gold", NOW_US).commit(is_settling=True)
    assert (bool(settled.pending), settled.spoken, settled.boots) == (False, frozenset(), {7: boot})


def test_pending_facts_of_a_checkpoint_that_does_not_say_whose_they_are_may_be_of_any_boot() -> None:
    boot = BootSpan(7, "s", "b", 1, 1, 1, 1, 1, is_stopped=False)
    pending = Touched({"viewer_sample": frozenset(["2026-11-15T20"])})
    for held, spoken in ((pending, frozenset([7])), (Touched(), frozenset())):
        value = json.loads(Snapshot(1, boots={7: boot}, pending=held).to_json())
        del value["spoken"]
        assert Snapshot.of_json(json.dumps(value).encode()).spoken == spoken


def test_a_file_tells_whose_sessions_are_open_and_whose_ended_unheard(spark: SparkSession, lake: Lake) -> None:
    table = TABLES["silver.connections"]
    eight, nine, ten = (datetime.datetime(2026, 11, 15, hour, tzinfo=datetime.UTC) for hour in (20, 21, 22))

    def connection(boot: str, closed_at: datetime.datetime | None, reason: str | None) -> tuple[object, ...]:
        names = ("s", boot, "c", "live", "vlc", "rtmp", None)
        return (*names, eight, closed_at, closed_at is None, reason, None, None, None, "2026-11-15T20")

    rows = [connection("a", None, None), connection("b", nine, "server_lost"), connection("c", ten, "left")]
    frame = spark.createDataFrame(rows, table_schema(table).add("hour", "string"))
    transaction = lake.begin(lake.snapshot(), "silver", NOW_US)
    transaction.replace(table, frame, ["2026-11-15T20"])
    (file,) = transaction.commit().files("silver.connections")
    assert file.stats == {"open_boots": ["a"], "lost_boots": ["b"], "last_hour": "2026-11-15T22"}


def test_a_second_writer_is_found(lake: Lake) -> None:
    before = lake.snapshot()
    lake.begin(before, "bronze", NOW_US).commit()
    with pytest.raises(LakeError, match="second writer"):
        lake.begin(before, "bronze", NOW_US).commit()


def test_a_missing_commit_is_told(lake: Lake) -> None:
    state = lake.snapshot()
    for _ in range(3):
        state = lake.begin(state, "bronze", NOW_US).commit()
    lake.storage.delete("_commits/00000000000000000002.json")
    with pytest.raises(LakeError, match="commit 2 is missing, though 3 is there"):
        lake.snapshot()


def test_a_replaced_partition_has_the_new_rows_and_others_stay(spark: SparkSession, lake: Lake) -> None:
    def segment(number: int, hour: str) -> tuple[object, ...]:
        at = datetime.datetime(2026, 11, 15, 20, tzinfo=datetime.UTC)
        return (
            "s",
            "b",
            "r",
            number,
            "live",
            "cup",
            f"{number}.flv",
            "closed",
            None,
            at,
            at,
            1,
            1,
            None,
            None,
            1,
            0,
            0,
            hour,
        )

    schema = table_schema(SEGMENTS).add("hour", "string")
    first = spark.createDataFrame(
        [segment(2, "2026-11-15T20"), segment(1, "2026-11-15T20"), segment(3, "2026-11-15T21")], schema
    )
    transaction = lake.begin(lake.snapshot(), "silver", NOW_US)
    transaction.replace(SEGMENTS, first, ["2026-11-15T20", "2026-11-15T21"])
    state = transaction.commit()
    assert len(state.files("silver.recording_segments")) == 2
    transaction = lake.begin(state, "silver", NOW_US)
    transaction.replace(
        SEGMENTS, spark.createDataFrame([segment(9, "2026-11-15T20")], schema), ["2026-11-15T20", "2026-11-15T22"]
    )
    state = transaction.commit()
    rows = lake.read(spark, state, "silver.recording_segments").orderBy("segment").select("segment", "hour").collect()
    assert [tuple(row) for row in rows] == [(3, "2026-11-15T21"), (9, "2026-11-15T20")]


def test_a_part_of_a_partition_is_a_file_of_its_own_and_files_that_are_kept_stay(
    spark: SparkSession, lake: Lake
) -> None:
    def counts(*buckets: tuple[str, int]) -> DataFrame:
        """Of 2026-11-15T20 by number, in the parts that are named."""
        schema = table_schema(HISTOGRAMS).add("hour", "long").add("part", "string")
        at = datetime.datetime(2026, 11, 15, 20, tzinfo=datetime.UTC)
        named = ("live", "cup", at, "all", "all", "lag_ms")
        return spark.createDataFrame([(*named, bucket, 1, HOUR_NUMBER, part) for part, bucket in buckets], schema)

    hour, table = "2026-11-15T20", HISTOGRAMS.full_name
    transaction = lake.begin(lake.snapshot(), "silver", NOW_US)
    transaction.replace(HISTOGRAMS, counts(("a", 2), ("b", 1), ("a", 1)), [hour])
    state = transaction.commit()
    first, second = state.files(table, [hour])
    assert [(file.stats["part"], file.rows) for file in (first, second)] == [("a", 2), ("b", 1)]

    transaction = lake.begin(state, "silver", NOW_US)
    transaction.replace(HISTOGRAMS, counts(("b", 7)), [hour], kept={hour: [first]})
    state = transaction.commit()
    assert state.files(table)[0] == first
    assert sorted(row.bucket for row in lake.read(spark, state, table).collect()) == [1, 2, 7]


def test_gold_is_one_file_that_anybody_can_read(spark: SparkSession, lake: Lake) -> None:
    state = lake.snapshot()
    path = "gold/usage/date=2026-11-15/part.parquet"
    numbers = []
    for egress in (10, 20, 20):
        transaction = lake.begin(state, "gold", NOW_US)
        transaction.replace_gold(USAGE, usage(spark, "2026-11-15", egress), ["2026-11-15", "2026-11-16"])
        assert transaction.publish_gold() == 2
        state = transaction.commit()
        numbers.append(Path(lake.storage.address(path)).stat().st_ino)
    assert numbers[0] != numbers[1] == numbers[2], "a file that stays the same is not replaced"
    assert lake.gold_paths("gold.usage") == [path]
    glob = lake.storage.address("gold/usage/*/*.parquet")
    assert duckdb.execute(f"select egress_bytes, day from '{glob}'").fetchall() == [(20, datetime.date(2026, 11, 15))]
    assert lake.read(spark, state, "gold.usage").select("egress_bytes", "date").collect() == [(20, "2026-11-15")]
    assert lake.storage.find("_staging") == []


def test_unknown_tables_are_told(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(LakeError, match=r"no table called gold\.nothing"):
        lake.read(spark, lake.snapshot(), "gold.nothing")
    with pytest.raises(LakeError, match="no kind of fact called nothing"):
        lake.read(spark, lake.snapshot(), "bronze.nothing")
