"""A lake of an older layout becomes one of Delta tables: `tests/golden/older_lake` says what is in it."""

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from penstock.cli import main
from penstock.errors import LakeError
from penstock.pipeline.lake.arrow_lake import ArrowLake, Span
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, DATE, stored_tables
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.ops.older import read_older
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings

GOLDEN = Path(__file__).parents[2] / "golden" / "older_lake" / "data.tar.xz"
NOW_US = int(datetime(2026, 10, 1, 23, 30, tzinfo=UTC).timestamp()) * 1_000_000
GIVEN_UP_DAY, WHOLE_DAY = "2026-09-01", "2026-10-01"
COMPUTED = [name for name in stored_tables() if name != BRONZE]
_ALL = Span()
Rows = Counter[tuple[Any, ...]]


class Killed(Exception):
    """Stands for the end of a process."""


class Migrated:
    """A copy of the older data folder, and what was in it."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        with tarfile.open(GOLDEN) as archive:
            archive.extractall(folder)
        self.data, self.spark, self.said = folder / "data", spark, io.StringIO()
        self.storage = Storage(self.data / "lake")
        self.older = read_older(self.storage)

    def cycles(self, failpoint: Callable[[str], None] | None = None, *, is_migrating: bool = False) -> Cycles:
        settings = PipelineSettings(
            data=str(self.data),
            lake=str(self.data / "lake"),
            landing=str(self.data / "facts"),
            recordings=str(self.data / "recordings"),
        )
        progress = LineProgress(self.said, is_json=False)
        cycles = Cycles(settings, progress, now_us=lambda: NOW_US, spark=self.spark, is_migrating=is_migrating)
        if failpoint is not None:
            cycles.lake.failpoint = failpoint
        return cycles

    def migrate(self, failpoint: Callable[[str], None] | None = None) -> None:
        self.cycles(failpoint, is_migrating=True).migrate()

    def older_rows(self, table: str, day: str) -> Rows:
        """Rows of a day, or of a table without days, read from the files of the older lake."""
        paths = self.older.files(self.storage, table)
        if TABLES[table].partition is not None:
            paths = [path for path in paths if f"={day}" in path]
        if not paths:
            return Counter()
        places = [self.storage.path_for_arrow(path) for path in paths]
        found = ds.dataset(places, format="parquet", filesystem=self.storage.fs)
        return counted(found.to_table(columns=_shared(table, found.schema.names)).to_pylist())

    def rows(self, table: str, day: str | None = None, names: Collection[str] | None = None) -> Rows:
        """The same of the Delta tables."""
        lake = Lake(self.storage)
        pinned = lake.pin(table)
        assert pinned is not None
        files = [file for file in pinned.files if day is None or file.partition.get(DATE, day) == day]
        places = [self.storage.path_for_arrow(f"{table.replace('.', '/')}/{file.path}") for file in files]
        if not places:
            return Counter()
        found = ds.dataset(places, format="parquet", filesystem=self.storage.fs)
        return counted(found.to_table(columns=_shared(table, names or found.schema.names)).to_pylist())


def _shared(table: str, names: Collection[str]) -> list[str]:
    return [column.name for column in TABLES[table].columns if column.name in names]


def counted(rows: list[dict[str, Any]]) -> Rows:
    return Counter(tuple(sorted(row.items())) for row in rows)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Migrated:
    """The same lake, not migrated."""
    return Migrated(tmp_path_factory.mktemp("before"), spark)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Migrated:
    lake = Migrated(tmp_path_factory.mktemp("migrated"), spark)
    lake.migrate()
    return lake


def _event_ids(storage: Storage, prefix: str) -> Iterator[str]:
    """Of bronze as it is stored after migration, in partitions that begin so."""
    lake = Lake(storage)
    pinned = lake.pin(BRONZE)
    assert pinned is not None
    rows = lake.rows(pinned, columns=["server_id", "boot_id", "seq", "hour"]).to_pylist()
    return (f"{row['server_id']}-{row['boot_id']}-{row['seq']}" for row in rows if row["hour"].startswith(prefix))


def test_each_fact_that_landed_is_in_bronze_once(migrated: Migrated) -> None:
    lines = [line for path in (migrated.data / "facts").rglob("*.jsonl") for line in path.read_text().splitlines()]
    landed = [json.loads(line)["event_id"] for line in lines if line.endswith("}")]
    assert len(landed) > 1000
    assert Counter(_event_ids(migrated.storage, WHOLE_DAY)) == Counter(landed)


def test_facts_of_an_hour_that_retention_has_left_are_in_bronze(migrated: Migrated, before: Migrated) -> None:
    paths = [path for hours in before.older.tables.values() for path in hours.get(f"{GIVEN_UP_DAY}T23", ())]
    places = [before.storage.path_for_arrow(path) for path in paths if path.startswith("bronze/")]
    older = ds.dataset(places, format="parquet", filesystem=before.storage.fs).count_rows()
    assert older > 100
    assert len(list(_event_ids(migrated.storage, GIVEN_UP_DAY))) == older


@pytest.mark.parametrize("table", COMPUTED)
def test_rows_whose_facts_are_given_up_stay_as_they_were(table: str, migrated: Migrated, before: Migrated) -> None:
    older = before.older_rows(table, GIVEN_UP_DAY)
    names = {name for row in older for name, _ in row}
    assert older - migrated.rows(table, GIVEN_UP_DAY, names or None) == Counter()


def test_tables_are_those_of_a_rebuild(migrated: Migrated) -> None:
    found = {table: migrated.rows(table) for table in COMPUTED}
    assert sum(found["silver.views"].values()) > 50
    migrated.cycles().rebuild()
    assert {table: migrated.rows(table) for table in COMPUTED} == found


def test_nothing_waits_after_it_and_no_landed_file_is_taken_again(migrated: Migrated) -> None:
    cycles = migrated.cycles()
    assert "no partition" in cycles.dry_run()
    assert "landed files" not in cycles.dry_run()
    facts = ArrowLake(migrated.storage).facts("play_started", _ALL, ds.field("version") > 0)
    cycles.run_cycle()
    assert ArrowLake(migrated.storage).facts("play_started", _ALL, ds.field("version") > 0) == facts


def test_nothing_of_the_older_lake_is_left(migrated: Migrated) -> None:
    paths = [file.path for file in migrated.storage.find("")]
    assert not [path for path in paths if "hour=" in path and not path.startswith("quarantine/")]
    assert not [path for path in paths if path.startswith(("_commits", "_live", "bronze/kind=", "_notes/migrated"))]
    assert not [path for path in paths if path.endswith("/part.parquet")]


def test_a_second_call_says_that_there_is_nothing_to_do(migrated: Migrated) -> None:
    migrated.said.truncate(0)
    migrated.migrate()
    assert "nothing to migrate" in migrated.said.getvalue()


def test_a_migration_that_is_killed_is_done_by_the_next_call(
    tmp_path: Path, migrated: Migrated, spark: SparkSession
) -> None:
    lake = Migrated(tmp_path, spark)
    for place in ("silver.views-committed", "built"):

        def die(point: str, place: str = place) -> None:
            if point == place:
                raise Killed(place)

        with pytest.raises(Killed):
            lake.migrate(die)
        with pytest.raises(LakeError, match="penstock pipeline migrate"):
            lake.cycles()
    lake.migrate()
    for table in COMPUTED:
        assert lake.rows(table) == migrated.rows(table), table
    assert Counter(_event_ids(lake.storage, "")) == Counter(_event_ids(migrated.storage, ""))


def test_a_removal_that_was_killed_is_finished_without_another_look_at_the_older_files(
    tmp_path: Path, spark: SparkSession
) -> None:
    lake = Migrated(tmp_path, spark)
    lake.storage.put("_notes/migrated", b"")
    for path in lake.older.files(lake.storage, "silver.views"):
        lake.storage.delete(path)
    lake.migrate()
    assert not lake.storage.exists("_commits")
    assert not lake.older.files(lake.storage, "gold.usage")
    lake.cycles()


@pytest.mark.parametrize(
    "action", [["run"], ["run", "--dry-run"], ["sql", "select 1"], ["report"], ["status"], ["check"], ["rebuild"]]
)
def test_other_commands_stop_with_one_line_that_names_the_command(
    action: list[str], before: Migrated, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", *action, "--data", str(before.data)]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "penstock pipeline migrate" in line
