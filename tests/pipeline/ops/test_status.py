"""What `penstock pipeline status` tells of a lake, and of what is not in it yet."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import cli
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.state import StateTable
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.status import LakeStatus, TableStatus, status_json, status_of, status_text
from tests.pipeline.landing_place import FOLDER, Place, fact

NOW = datetime(2026, 11, 15, 20, tzinfo=UTC)
NOW_US = int(NOW.timestamp()) * 1_000_000
STATUS = LakeStatus(
    tables=(
        TableStatus("bronze.facts", 12, 1_234_567, 40, 98_765_432, datetime(2026, 11, 15, 19, 59, 52, tzinfo=UTC)),
        TableStatus("gold.recordings", 3, 0, 0, 0, None),
    ),
    waiting_files=2,
    waiting_bytes=2048,
    oldest_waiting_at=datetime(2026, 11, 15, 19, 50, tzinfo=UTC),
    pending_hours=("2026-11-15T18", "2026-11-15T19"),
)


def test_a_status_is_a_line_for_each_table_and_one_for_each_thing_that_waits() -> None:
    assert status_text(STATUS, NOW).splitlines() == [
        "table            version       rows  files     size  newest row           lag",
        "bronze.facts          12  1,234,567     40  98.8 MB  2026-11-15 19:59:52  8 s",
        "gold.recordings        3          0      0      0 B",
        "",
        "2 landed files wait to be ingested, 2.0 kB, the oldest for 10 min",
        "2 hours of facts in bronze wait for the other tables: 2026-11-15T18 to 2026-11-15T19",
    ]


def test_nothing_that_waits_is_said() -> None:
    assert status_text(LakeStatus((), 0, 0, None, ()), NOW).endswith("\nnothing waits\n")


def test_programs_get_seconds_and_times() -> None:
    told = json.loads(status_json(STATUS, NOW))
    assert [table["lag_s"] for table in told["tables"]] == [8.0, None]
    assert told["tables"][0]["newest_at"] == "2026-11-15T19:59:52+00:00"
    assert (told["waiting_files"], told["oldest_waiting_at"]) == (2, "2026-11-15T19:50:00+00:00")


@pytest.fixture
def data(tmp_path: Path, spark: SparkSession) -> Path:
    """A lake of one fact, its landing file, one that waits, and one that a server writes."""
    place = Place(tmp_path, spark)
    place.land("a.jsonl", fact(1, "play_started", NOW_US), at_us=NOW_US)
    place.ingest(NOW_US)
    for name in ("b.jsonl", ".c.jsonl"):
        os.utime(place.land_bytes(name, b"0123456789"), (NOW.timestamp(), NOW.timestamp()))
    return tmp_path


def test_a_lake_tells_what_its_log_says_and_what_has_landed_since(data: Path) -> None:
    found = status_of(Lake(Storage(data / "lake")), Storage(data / "facts"))
    (facts,) = found.tables
    assert (facts.name, facts.version, facts.rows, facts.files) == ("bronze.facts", 1, 1, 1)
    (file,) = (data / "lake/bronze").rglob("*/*/*.parquet")
    assert facts.bytes == file.stat().st_size
    assert facts.newest_at == NOW
    assert replace(found, tables=()) == LakeStatus((), 1, 10, NOW, ("2026-11-15T20",))


def content(folder: Path) -> dict[Path, bytes | None]:
    """Every folder and file, and what is in it."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_commands_tell_status_and_what_a_run_would_do(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pipeline", "status", "--data", str(data), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["waiting_files"] == 1
    before = content(data)
    assert cli.main(["pipeline", "run", "--dry-run", "--data", str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "gold.usage              2026-11-15  (new facts)" in lines
    assert lines[-1] == (
        f"1 landed files would be ingested first, of {FOLDER} to {FOLDER},"
        " and what their facts touch would be computed too"
    )
    assert content(data) == before


def test_a_dry_run_tells_of_new_transforms(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = StateTable(Storage(data / "lake"))
    state.commit(Lake(Storage(data / "lake")).read_state().settled({}, transforms_version=1))
    assert cli.main(["pipeline", "run", "--dry-run", "--data", str(data)]) == 0
    assert "silver.views" in (text := capsys.readouterr().out)
    assert "(new transforms)" in text
