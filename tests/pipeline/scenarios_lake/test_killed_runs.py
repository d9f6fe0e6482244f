"""A dozen runs in any order, half of them killed: every door shows the rows of the log, each once, and of every fact.

All who look at the killed runs are in this module, since modules may run in processes of their own.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.pipeline import register
from penstock.pipeline.lake.layout import BRONZE, named_tables, schema_of, stored_tables
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from penstock.pipeline.queries.sql_service import SqlService
from tests.pipeline.queries.ready_backend import ReadyBackend
from tests.pipeline.scenarios_lake.conftest import LAST_RUN_US, SMALL_SPLITS, Killed, Landed
from tests.pipeline.scenarios_lake.doors import BY_SPARK, Door, as_printed, doors, log_rows, part_of, rows_of, sql_rows
from tests.pipeline.scenarios_lake.runs import DataFolder, conf
from tests.pipeline.scenarios_lake.told import facts_in, keys_by_table
from tests.pipeline.scenarios_lake.witness import bronze_rows

OTHERWISE = {"spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.enabled": "true"}
OF_GOLD = {
    "audience",
    "audience_dimensions",
    "data_quality",
    "incidents",
    "recordings",
    "stream_health",
    "usage",
    "usage_dimensions",
    "view_quality",
}
FACT_KEY = ("server_id", "boot_id", "seq")
DERIVED = [name for name in stored_tables() if name != BRONZE]


@pytest.fixture(scope="module")
def log(killed: Killed) -> dict[str, pa.Table]:
    """Every stored table as its log has it."""
    return {name: log_rows(killed.data.folder, name) for name in stored_tables()}


@pytest.fixture(scope="module")
def every_door(killed: Killed, spark: SparkSession) -> dict[str, Door]:
    register(spark, killed.data.folder)
    return doors(spark, killed.data.folder)


@pytest.fixture(scope="module")
def service(killed: Killed, spark: SparkSession) -> Iterator[None]:
    with SqlService(ReadyBackend(SparkQueryRunner(spark, killed.data.lake)), killed.data.folder):
        yield


def test_whatever_point_a_run_dies_at_the_next_one_has_all_of_it_to_do(killed: Killed) -> None:
    points = [point for point, _, _ in killed.notes]
    assert points[:4] == ["ingest-written", "ingest-under-way", "bronze.facts-written", "bronze.facts-committed"]
    (_, before, _), *_ = killed.notes
    assert {held for _, held, _ in killed.notes[:3]} == {before}
    # Files that a run before has not ingested are a batch of their own.
    ingested = len(points) - points[::-1].index("bronze.facts-committed")
    _, facts, planned = killed.notes[ingested - 1]
    assert before < facts
    assert planned
    for point, held, plan in killed.notes[ingested:]:
        assert (point, held, plan.joined(planned.as_hours())) == (point, facts, plan)


def test_every_fact_that_landed_is_in_the_tables_once(log: dict[str, pa.Table], landed: Landed) -> None:
    told = keys_by_table(facts_in(landed.folder, landed.names))
    by_minute = log["rollup.view_minutes"]
    minutes = pc.divide(by_minute["minute"].cast(pa.int64()), 60_000_000)
    found = {name: keys_of(log[name], TABLES[name].key) for name in told if name in TABLES} | {
        BRONZE: keys_of(log[BRONZE], (*FACT_KEY, "kind")),
        "rollup.view_minutes": list(zip(by_minute["view_seq"].to_pylist(), minutes.to_pylist(), strict=True)),
    }
    assert {name: set(keys) for name, keys in found.items()} == told


@pytest.mark.parametrize("name", stored_tables())
def test_each_row_is_there_once(log: dict[str, pa.Table], name: str) -> None:
    hour = ("hour",) if name.startswith("rollup.") else ()
    keys = keys_of(log[name], (*TABLES[name].key, *hour) if name in TABLES else FACT_KEY)
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", named_tables())
def test_every_door_shows_the_rows_of_the_log(every_door: dict[str, Door], log: dict[str, pa.Table], name: str) -> None:
    is_stored = name in log
    wanted = rows_of(log[name] if is_stored else part_of(log[BRONZE], name), name)
    shown = {door: rows_of(ask(name), name) for door, ask in every_door.items() if is_stored or door in BY_SPARK}
    assert {door: rows == wanted for door, rows in shown.items()} == dict.fromkeys(shown, True)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("name", stored_tables())
def test_the_sql_command_shows_the_rows_of_the_log(killed: Killed, log: dict[str, pa.Table], name: str) -> None:
    columns = [*FACT_KEY, "kind", "at_us", "viewer_key", "hour", "date"] if name == BRONZE else schema_of(name).names
    query = f"SELECT {', '.join(f'`{column}`' for column in columns)} FROM {name}"
    assert sql_rows(killed.data.folder, query) == as_printed(log[name].select(columns))


def test_the_run_after_loses_nothing_and_doubles_nothing(
    killed: Killed, undisturbed: DataFolder, landed: Landed
) -> None:
    assert set(killed.data.lake.read_state().landed_at_us) == set(landed.names)
    assert bronze_rows(killed.data.lake) == bronze_rows(undisturbed.lake)
    assert not killed.data.cycles(LAST_RUN_US).has_work()
    assert not [path for path in (killed.data.folder / "lake/_staging").rglob("*") if path.is_file()]


def test_a_dozen_runs_and_one_and_a_rebuild_make_the_same_rows(
    spark: SparkSession, undisturbed: DataFolder, killed: Killed, log: dict[str, pa.Table]
) -> None:
    at_once = {name: log_rows(undisturbed.folder, name) for name in DERIVED}
    assert different(at_once, log) == []
    assert all(spark.conf.get(name) != value for name, value in {**SMALL_SPLITS, **OTHERWISE}.items())
    days_of_gold = dict.fromkeys(undisturbed.gold(), 1)
    assert {day.split("/")[1] for day in days_of_gold} == OF_GOLD
    assert killed.data.gold() == undisturbed.gold() == days_of_gold, "one file each"
    with conf(spark, OTHERWISE):
        killed.data.cycles(LAST_RUN_US).rebuild()
    assert different({name: log_rows(killed.data.folder, name) for name in DERIVED}, log) == []
    assert killed.data.gold() == days_of_gold


def test_a_client_that_is_erased_is_in_no_byte_below_the_data_folder(killed: Killed) -> None:
    """Last, since it changes the tables."""
    plays = killed.data.rows("bronze.play_started")
    by_address = next(row for row in plays if row["viewer_key"].startswith("h:") and row["peer_addr"])
    address = by_address["peer_addr"].rpartition(":")[0]
    keys = {row["viewer_key"] for row in plays if (row["peer_addr"] or "").startswith(f"{address}:")}
    names = re.compile("|".join([rf"(?<![\d.]){re.escape(address)}(?![\d.])", *map(re.escape, keys)]))
    known = "".join(text.partition("\n")[0] for text in texts_below(killed.data.folder) if names.search(text))
    assert all(f"/{folder}/" in known for folder in ("facts/date=2026-11-14", "lake/bronze/facts", "lake/silver/views"))
    killed.data.cycles(LAST_RUN_US).erase(ip=address)
    assert [text.partition("\n")[0] for text in texts_below(killed.data.folder) if names.search(text)] == []


def different(ones: dict[str, pa.Table], others: dict[str, pa.Table]) -> list[str]:
    return [name for name, rows in ones.items() if rows_of(rows, name) != rows_of(others[name], name)]


def keys_of(rows: pa.Table, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[column].to_pylist() for column in columns), strict=True))


def texts_below(folder: Path) -> Iterator[str]:
    """What each file holds, as text: its bytes, and its values where those may be compressed."""
    for path in (each for each in folder.rglob("*") if each.is_file()):
        yield f"{path}\n{path.read_bytes().decode(errors='replace')}"
        if path.suffix == ".parquet":
            yield f"{path}\n{pq.ParquetFile(path).read().to_pylist()!r}"
