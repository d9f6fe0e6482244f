"""Rows of a lake on disk, read without Spark."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.errors import MisuseError
from penstock.pipeline.lake.arrow_lake import ArrowLake, Span
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES
from tests.pipeline.lake.lake_rows import put_hours, rows_of
from tests.pipeline.silver_rows import at

STAGE = {"app": "live", "stream": "stage"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path))


def put_day(lake: Lake, name: str, day: str, rows: pa.Table) -> None:
    lake.put_days(name, lake.table(name).pin_or_create(), {day: rows})


def test_an_empty_folder_is_a_lake_of_empty_tables(tmp_path: Path) -> None:
    lake = ArrowLake(Storage(tmp_path / "lake"))
    stored = [name for name in TABLES if name != "silver.viewer_samples"]
    assert {name: lake.read(name).column_names for name in stored} == {
        name: [column.name for column in TABLES[name].columns] for name in stored
    }
    assert lake.find("silver.views", "x", 5) == []
    assert lake.facts("play_started", Span(), ds.field("seq") == 1) == []
    assert not (tmp_path / "lake").exists()


def test_gold_is_cut_to_the_span_by_day_and_by_minute(lake: Lake) -> None:
    put_day(
        lake,
        "gold.audience",
        "2026-11-14",
        rows_of("gold.audience", {**STAGE, "minute": at("00:00", day=14), "joins": 1}),
    )
    minutes = ("00:00", "12:00", "23:59")
    told = [{**STAGE, "minute": at(clock), "joins": joins} for joins, clock in enumerate(minutes, start=2)]
    put_day(lake, "gold.audience", "2026-11-15", rows_of("gold.audience", *told))
    arrow = ArrowLake(lake.storage)

    def joins(span: Span) -> list[int]:
        return sorted(arrow.read("gold.audience", span)["joins"].to_pylist())

    assert joins(Span()) == [1, 2, 3, 4]
    assert joins(Span(since=at("12:00"))) == [3, 4]
    assert joins(Span(until=at("12:00"))) == [1, 2]
    assert joins(Span(until=at("00:00"))) == [1]
    assert joins(Span(at("00:00"), at("23:59"))) == [2, 3]


def test_usage_is_cut_by_days_and_recordings_have_none(lake: Lake) -> None:
    for day in (13, 14, 15):
        put_day(lake, "gold.usage", f"2026-11-{day}", rows_of("gold.usage", {**STAGE, "day": date(2026, 11, day)}))
    put_day(lake, "gold.recordings", "", rows_of("gold.recordings", {"path": "a.flv", "started_at": at("01:00")}))
    arrow = ArrowLake(lake.storage)
    used = arrow.read("gold.usage", Span(at("12:00", day=14), at("00:00")))
    assert used["day"].to_pylist() == [date(2026, 11, 14)]
    assert arrow.read("gold.recordings")["path"].to_pylist() == ["a.flv"]


def test_a_file_of_an_older_version_reads_with_nulls(lake: Lake) -> None:
    rows = rows_of("silver.views", {"view_id": "a"}).drop_columns(["asn"])
    put_hours(lake, "silver.views", {"2026-11-15T20": rows})
    (row,) = ArrowLake(lake.storage).read("silver.views").to_pylist()
    assert (row["view_id"], row["asn"]) == ("a", None)


def test_what_no_version_has_is_not_read(lake: Lake, tmp_path: Path) -> None:
    rows = rows_of("rollup.histogram_hours", {**STAGE, "hour_at": at("20:00"), "count": 3})
    put_hours(lake, "rollup.histogram_hours", {"2026-11-15T20": rows})
    # A leftover of a run that was killed.
    pq.write_table(rows, tmp_path / "rollup/histogram_hours/date=2026-11-15/leftover.parquet")
    arrow = ArrowLake(lake.storage)
    assert arrow.read("rollup.histogram_hours").num_rows == 1
    assert arrow.read("rollup.histogram_hours", Span(since=at("21:00"))).num_rows == 0


def test_a_table_is_read_at_one_version_for_as_long_as_its_reader_lives(lake: Lake) -> None:
    put_day(lake, "gold.usage", "2026-11-15", rows_of("gold.usage", {"egress_bytes": 1}))
    arrow = ArrowLake(lake.storage)
    assert arrow.read("gold.usage")["egress_bytes"].to_pylist() == [1]
    put_day(lake, "gold.usage", "2026-11-15", rows_of("gold.usage", {"egress_bytes": 2}))
    assert arrow.read("gold.usage")["egress_bytes"].to_pylist() == [1]
    assert ArrowLake(lake.storage).read("gold.usage")["egress_bytes"].to_pylist() == [2]


def test_a_key_is_found_by_its_beginning(lake: Lake) -> None:
    views = rows_of("silver.views", *({"view_id": name} for name in ("a-1-1", "a-1-12", "b-1-1")))
    put_hours(lake, "silver.views", {"2026-11-15T00": views})
    arrow = ArrowLake(lake.storage)
    assert [row["view_id"] for row in arrow.find("silver.views", "a-1", 5)] == ["a-1-1", "a-1-12"]
    assert [row["view_id"] for row in arrow.find("silver.views", "a-1", 1)] == ["a-1-1"]
    assert arrow.find("silver.views", "c", 5) == []


def test_facts_come_from_the_hours_of_the_span_also_within_a_file_of_a_day(lake: Lake) -> None:
    facts = rows_of(BRONZE, {"seq": 1}, {"seq": 2})
    hours = {f"2026-11-15T{hour}": facts for hour in (19, 20, 21)}
    pinned = put_hours(lake, BRONZE, hours, kind="play_started")

    def found() -> list[tuple[str, int]]:
        facts = ArrowLake(lake.storage).facts("play_started", Span(at("20:00"), at("21:00")), ds.field("seq") == 2)
        return [(fact["hour"], fact["seq"]) for fact in facts]

    assert found() == [("2026-11-15T20", 2)]
    lake.table(BRONZE).compact(pinned, {"date": "2026-11-15"}, 10**9)
    assert found() == [("2026-11-15T20", 2)]
    with pytest.raises(MisuseError, match="no kind of fact"):
        ArrowLake(lake.storage).facts("nonsense", Span(), ds.field("seq") == 1)
