"""Rows of a lake on disk, read without Spark."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.errors import MisuseError
from penstock.pipeline.reports.arrow_lake import ArrowLake, Span, arrow_schema
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES
from tests.pipeline.reports.rows import at, commit_files, put_gold, table_of

STAGE = {"app": "live", "stream": "stage"}


def test_an_empty_folder_is_a_lake_of_empty_tables(tmp_path: Path) -> None:
    lake = ArrowLake(Storage(tmp_path / "lake"))
    for name, table in TABLES.items():
        assert lake.read(name).schema == arrow_schema(table)
        assert lake.read(name).num_rows == 0
    assert lake.find("silver.views", "x", 5) == []
    assert lake.facts("play_started", Span(), ds.field("seq") == 1) == []


def test_gold_is_cut_to_the_span_by_day_and_by_minute(tmp_path: Path) -> None:
    put_gold(tmp_path, "audience", "2026-11-14", {**STAGE, "minute": at("00:00").replace(day=14), "joins": 1})
    put_gold(
        tmp_path,
        "audience",
        "2026-11-15",
        {**STAGE, "minute": at("00:00"), "joins": 2},
        {**STAGE, "minute": at("12:00"), "joins": 3},
        {**STAGE, "minute": at("23:59"), "joins": 4},
    )
    lake = ArrowLake(Storage(tmp_path))

    def joins(span: Span) -> list[int]:
        return list(lake.read("gold.audience", span)["joins"].to_pylist())

    assert joins(Span()) == [1, 2, 3, 4]
    assert joins(Span(since=at("12:00"))) == [3, 4]
    assert joins(Span(until=at("12:00"))) == [1, 2]
    assert joins(Span(until=at("00:00"))) == [1]
    assert joins(Span(at("00:00"), at("23:59"))) == [2, 3]


def test_usage_is_cut_by_days_and_recordings_lie_in_one_file(tmp_path: Path) -> None:
    for day in (13, 14, 15):
        put_gold(tmp_path, "usage", f"2026-11-{day}", {**STAGE, "day": date(2026, 11, day)})
    put_gold(tmp_path, "recordings", None, {"path": "a.flv", "started_at": at("01:00")})
    lake = ArrowLake(Storage(tmp_path))
    used = lake.read("gold.usage", Span(at("12:00").replace(day=14), at("00:00")))
    assert used["day"].to_pylist() == [date(2026, 11, 14)]
    assert lake.read("gold.recordings")["path"].to_pylist() == ["a.flv"]


def test_a_file_of_an_older_version_reads_with_nulls(tmp_path: Path) -> None:
    put_gold(tmp_path, "usage", "2026-11-15", {**STAGE, "egress_bytes": 7})
    path = tmp_path / "gold/usage/date=2026-11-15/part.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["egress_bps_p95"]), path)
    row = ArrowLake(Storage(tmp_path)).read("gold.usage").to_pylist()[0]
    assert (row["egress_bytes"], row["egress_bps_p95"]) == (7, None)


def test_other_layers_are_what_the_commits_list(tmp_path: Path) -> None:
    rows = table_of("rollup.histogram_hours", {**STAGE, "hour_at": at("20:00"), "count": 3})
    commit_files(tmp_path, {("rollup.histogram_hours", "2026-11-15T20"): rows})
    # A leftover of a run that was killed.
    pq.write_table(rows, tmp_path / "rollup/histogram_hours/hour=2026-11-15T20/leftover.parquet")
    lake = ArrowLake(Storage(tmp_path))
    assert lake.read("rollup.histogram_hours").num_rows == 1
    assert lake.read("rollup.histogram_hours", Span(since=at("21:00"))).num_rows == 0


def test_a_key_is_found_by_its_beginning(tmp_path: Path) -> None:
    views = table_of("silver.views", *({"view_id": name} for name in ("a-1-1", "a-1-12", "b-1-1")))
    commit_files(tmp_path, {("silver.views", "2026-11-15T00"): views})
    lake = ArrowLake(Storage(tmp_path))
    assert [row["view_id"] for row in lake.find("silver.views", "a-1", 5)] == ["a-1-1", "a-1-12"]
    assert [row["view_id"] for row in lake.find("silver.views", "a-1", 1)] == ["a-1-1"]
    assert lake.find("silver.views", "c", 5) == []


def test_facts_come_from_the_hours_of_the_span(tmp_path: Path) -> None:
    facts = pa.table({"seq": [1, 2], "boot_key": [9, 9]})
    commit_files(tmp_path, {("bronze.play_started", hour): facts for hour in ("2026-11-15T19", "2026-11-15T20")})
    lake = ArrowLake(Storage(tmp_path))
    assert lake.facts("play_started", Span(at("20:00"), at("21:00")), ds.field("seq") == 2) == [
        {"seq": 2, "boot_key": 9}
    ]
    with pytest.raises(MisuseError, match="no kind of fact"):
        lake.facts("nonsense", Span(), ds.field("seq") == 1)
