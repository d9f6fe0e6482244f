"""Rows that this process writes itself: files, what is noted of them, and what readers get."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.commits import DataFile, Snapshot
from penstock.pipeline.derive_checks import has_one_row_each
from penstock.pipeline.gathered import file_of, gather, hours_since_1970, lies_in, sorted_by
from penstock.pipeline.lake import Lake
from penstock.pipeline.plan import FEW_ROWS, Plan, is_small
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import SERVER_LOST, TABLES
from tests.pipeline.silver_rows import at, gathered_rows, rows, shuffled

NOW_US = 1_700_000_000_000_000
HOUR, NEXT_HOUR = "2026-11-15T20", "2026-11-15T21"
AUDIENCE, CONNECTIONS, HISTOGRAMS = (
    TABLES[name] for name in ("gold.audience", "silver.connections", "rollup.histogram_hours")
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "lake"))


def placed(table: str, each: list[dict[str, Any]], time: str, parts: list[str] | None = None) -> pa.Table:
    """Rows with the number of their hour, and their parts if they have some."""
    found = gathered_rows(table, each)
    found = found.append_column("hour", hours_since_1970(found[time]))
    return found if parts is None else found.append_column("part", pa.array(parts))


def committed(lake: Lake, state: Snapshot, table: str, found: pa.Table, **more: Any) -> Snapshot:
    transaction = lake.begin(state, "silver", NOW_US)
    transaction.replace_by_rows(TABLES[table], found, [HOUR, NEXT_HOUR], **more)
    return transaction.commit()


def test_a_file_is_the_same_however_its_rows_came_about(spark: SparkSession) -> None:
    told = [
        {"stream": stream, "minute": at(minute), "viewers_peak": peak, "is_estimated": peak > 2}
        for stream, minute, peak in (("x", "20:01:00", 3), ("x", "20:00:00", 2), ("b", "20:05:00", 1))
    ]
    frame = rows(spark, "gold.audience", told)
    here = gathered_rows("gold.audience", told)
    ways = [gather(frame, "gold.audience"), gather(shuffled(frame), "gold.audience"), here]
    ways.append(pa.concat_tables([here.slice(2), here.slice(0, 2)]))
    files = {file_of(sorted_by(each, AUDIENCE.order)) for each in ways}
    assert len(files) == 1
    (data,) = files
    stored = pq.read_table(pa.BufferReader(data))
    assert stored["stream"].to_pylist() == ["b", "x", "x"]
    assert stored["viewers_peak"].to_pylist() == [1, 2, 3]


def test_rows_are_sorted_as_spark_sorts_them_nulls_first_and_text_by_its_bytes(spark: SparkSession) -> None:
    names = ["b", None, "Z", "\U0001f600", "\uffee", "a"]
    ours = sorted_by(pa.table({"name": names}), ["name"])["name"].to_pylist()
    frame = spark.createDataFrame([(name,) for name in names], "name string")
    assert ours == [row.name for row in frame.coalesce(1).sortWithinPartitions("name").collect()]


def test_each_hour_is_a_file_that_tells_whose_sessions_are_open_and_others_are_emptied(
    spark: SparkSession, lake: Lake
) -> None:
    told = [
        {"boot_id": "a", "conn_id": "2", "opened_at": at("20:50:00"), "is_open": True},
        {"boot_id": "b", "conn_id": "1", "opened_at": at("20:10:00"), "closed_at": at("22:00:00")},
        {"boot_id": "c", "conn_id": "3", "opened_at": at("21:10:00"), "closed_at": at("21:20:00")},
    ]
    told[1]["close_reason"] = SERVER_LOST
    state = committed(lake, lake.snapshot(), "silver.connections", placed("silver.connections", told, "opened_at"))
    first, second = state.files("silver.connections")
    assert first.stats == {"open_boots": ["a"], "lost_boots": ["b"], "last_hour": "2026-11-15T22"}
    assert (first.rows, second.rows) == (2, 1)
    assert lake.rows(state, "silver.connections", [HOUR])["conn_id"].to_pylist() == ["1", "2"]
    frame = lake.read(spark, state, "silver.connections").orderBy("conn_id").select("conn_id", "hour")
    assert [tuple(row) for row in frame.collect()] == [("1", HOUR), ("2", HOUR), ("3", NEXT_HOUR)]

    state = committed(lake, state, "silver.connections", placed("silver.connections", told[2:], "opened_at"))
    assert state.partitions("silver.connections") == [NEXT_HOUR]


def test_parts_are_files_of_their_own_and_files_that_are_kept_stay(lake: Lake) -> None:
    def counts(*buckets: int, parts: list[str]) -> pa.Table:
        told = [{"hour_at": at("20:00:00"), "bucket": bucket} for bucket in buckets]
        return placed("rollup.histogram_hours", told, "hour_at", parts)

    table = HISTOGRAMS.full_name
    state = committed(lake, lake.snapshot(), table, counts(2, 1, 3, parts=["a", "b", "a"]))
    first, second = state.files(table, [HOUR])
    assert [(file.stats["part"], file.rows) for file in (first, second)] == [("a", 2), ("b", 1)]
    state = committed(lake, state, table, counts(7, parts=["b"]), kept={HOUR: [first]})
    assert state.files(table)[0] == first
    assert sorted(lake.rows(state, table, [HOUR])["bucket"].to_pylist()) == [2, 3, 7]


def test_a_day_of_gold_has_the_new_rows_and_those_that_are_kept(spark: SparkSession, lake: Lake) -> None:
    known = gathered_rows("gold.audience", [{"minute": at("19:00:00")}, {"minute": at("20:00:00"), "joins": 9}])
    kept = known.filter(lies_in(known["minute"], ["2026-11-15T19", "2026-11-15T23"]))
    fresh = rows(spark, "gold.audience", [{"minute": at("20:01:00")}]).selectExpr("*", "'2026-11-15' AS date")
    transaction = lake.begin(lake.snapshot(), "gold", NOW_US)
    transaction.replace_gold(AUDIENCE, fresh, ["2026-11-15", "2026-11-16"], {"2026-11-15": kept})
    assert transaction.publish_gold() == 2
    state = transaction.commit()
    found = lake.rows(state, "gold.audience", ["2026-11-15", "2026-11-16"])["minute"].to_pylist()
    assert found == [at("19:00:00"), at("20:01:00")]
    assert lake.storage.find("_staging") == []


def test_a_column_that_a_file_does_not_have_is_null(lake: Lake) -> None:
    path = "gold/audience/date=2026-11-15/part.parquet"
    older = gathered_rows("gold.audience", [{"minute": at("19:00:00"), "joins": 3}]).drop_columns(["leaves"])
    lake.storage.put(path, file_of(older))
    (row,) = lake.rows(Snapshot(), "gold.audience", ["2026-11-15"]).to_pylist()
    assert (row["joins"], row["leaves"]) == (3, None)


def test_two_rows_of_one_key_are_found_in_the_partition_that_has_them(lake: Lake) -> None:
    told = [{"conn_id": name, "opened_at": at(time)} for name, time in (("1", "20:10:00"), ("1", "21:10:00"))]
    state = committed(lake, lake.snapshot(), "silver.connections", placed("silver.connections", told, "opened_at"))
    assert has_one_row_each(lake, state, "silver.connections", [HOUR, NEXT_HOUR])
    told.append({"conn_id": "1", "opened_at": at("21:50:00")})
    state = committed(lake, state, "silver.connections", placed("silver.connections", told, "opened_at"))
    assert has_one_row_each(lake, state, "silver.connections", [HOUR])
    assert not has_one_row_each(lake, state, "silver.connections", [HOUR, NEXT_HOUR])


def test_a_run_is_small_by_the_rows_of_all_hours_that_it_looks_at() -> None:
    def held(rows: int) -> dict[str, tuple[DataFile, ...]]:
        return {HOUR: (DataFile("a", rows, 1),), NEXT_HOUR: (DataFile("b", FEW_ROWS, 1),)}

    facts, views = Snapshot(tables={"bronze.viewer_sample": held(1)}), Snapshot(tables={"silver.views": held(1)})
    first, both = frozenset([HOUR]), frozenset([HOUR, NEXT_HOUR])
    assert is_small(facts, Plan(fact_hours=first, view_hours=first))
    # A late fact bears on the hours after it too.
    assert not is_small(facts, Plan(fact_hours=first, view_hours=both))
    assert not is_small(facts, Plan(fact_hours=first, stream_hours=both))
    assert is_small(views, Plan(view_starts=first))
    assert not is_small(views, Plan(view_starts=both))
    # A rebuild carries nothing over, however little there is.
    assert not is_small(facts, Plan(fact_hours=first, whole_starts=first))
