"""How a small run reads: in one piece, in a session beside the one that it was given."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.commits import Snapshot
from penstock.pipeline.frames import Frames, session_for_one_task
from penstock.pipeline.lake import Lake
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES
from tests.pipeline.silver_rows import at, gathered_rows

HOURS = ["2026-11-15T20", "2026-11-15T21"]
TABLE = "rollup.view_lags"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "lake"))


@pytest.fixture
def state(lake: Lake) -> Snapshot:
    """Two hours with a file each."""
    told = [{"boot_key": 1, "view_seq": seq, "hour_at": at(f"{hour}:00:00")} for seq in (1, 2) for hour in (20, 21)]
    rows = gathered_rows(TABLE, told)
    transaction = lake.begin(lake.snapshot(), "silver", 0)
    transaction.replace_by_rows(TABLES[TABLE], rows.append_column("hour", pa.array([HOURS[0], HOURS[1]] * 2)), HOURS)
    return transaction.commit()


@pytest.fixture
def given(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that no run was given yet; afterwards the one of all tests is the active one again."""
    yield spark.newSession()
    Frames(spark, Lake(Storage(".")), is_one_task=True).leave()


def counted(frames: Frames, state: Snapshot) -> DataFrame:
    """A query that groups, joins and sorts, and so would exchange rows between tasks."""
    lags = frames.read(state, TABLE, HOURS)
    named = frames.of_rows(pa.table({"view_seq": pa.array([1, 2], pa.int64()), "name": ["one", "two"]}))
    both = lags.unionByName(lags).groupBy("view_seq").agg(F.count("*").alias("rows"))
    return both.join(named, "view_seq").orderBy("name").select("name", "rows")


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_a_small_run_exchanges_no_rows_and_finds_the_same(given: SparkSession, lake: Lake, state: Snapshot) -> None:
    small, large = (counted(Frames(given, lake, is_one_task=small), state) for small in (True, False))
    assert (
        [tuple(row) for row in small.collect()] == [tuple(row) for row in large.collect()] == [("one", 4), ("two", 4)]
    )
    assert small.rdd.getNumPartitions() == 1
    assert " Exchange " not in plan_of(small)
    assert " Exchange " in plan_of(large)


def test_a_session_for_single_tasks_has_the_settings_of_the_one_it_is_beside(given: SparkSession) -> None:
    given.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    given.conf.set("fs.s3a.endpoint", "127.0.0.1:9000")
    beside = session_for_one_task(given)
    assert beside.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert beside.conf.get("fs.s3a.endpoint") == "127.0.0.1:9000"
    assert beside.conf.get("spark.sql.shuffle.partitions") == "1"
    assert given.conf.get("spark.sql.shuffle.partitions") != "1"
    assert session_for_one_task(given) is beside


def test_a_run_leaves_the_active_session_as_it_was(given: SparkSession, lake: Lake) -> None:
    frames = Frames(given, lake, is_one_task=True)
    frames.of_rows(pa.table({"number": [1]}))
    frames.leave()
    assert SparkSession.getActiveSession() is given
