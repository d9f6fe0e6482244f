"""What is known for later runs does not grow for ever, and retention is applied where nothing lands any more."""

import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.lake.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.state import BootSpan, State
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.ops.retention import RetentionSettings, apply_retention
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings

NOW_US = us_of_hour("2026-11-15T12")
DAY_US = 24 * HOUR_US


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / "lake"))


def retained(lake: Lake, spark: SparkSession, now_us: int = NOW_US) -> State:
    landing = Storage(Path(lake.storage.root).parent / "facts")
    apply_retention(spark, lake, landing, RetentionSettings(), now_us)
    return lake.read_state()


def boot(key: int, last_at_us: int) -> BootSpan:
    return BootSpan(key, "edge-1", f"b{key}", last_at_us - HOUR_US, last_at_us, 1, 9, 9, is_stopped=False)


def test_boots_go_with_the_last_of_their_facts_but_for_those_that_wait(lake: Lake, spark: SparkSession) -> None:
    ages_days = {1: 31, 2: 29, 3: 31}
    boots = {key: boot(key, NOW_US - days * DAY_US) for key, days in ages_days.items()}
    lake.state.commit(State(boots=boots, spoken=frozenset([3])))
    assert retained(lake, spark).boots.keys() == {2, 3}


def test_a_landed_file_that_somebody_else_removed_is_forgotten_at_its_age(lake: Lake, spark: SparkSession) -> None:
    ages_us = {"long gone": 2 * DAY_US, "gone": 2 * DAY_US - 1}
    lake.state.commit(State(landed_at_us={path: NOW_US - age_us for path, age_us in ages_us.items()}))
    assert retained(lake, spark).landed_at_us.keys() == {"gone"}


def test_a_clock_that_was_put_back_does_not_put_off_the_vacuum(lake: Lake, spark: SparkSession) -> None:
    lake.state.commit(State())
    retained(lake, spark, NOW_US + 365 * DAY_US)
    retained(lake, spark, NOW_US)
    assert int(lake.storage.read("_notes/vacuumed_at_us")) == NOW_US


def test_a_lake_in_which_nothing_lands_has_work_once_a_day(tmp_path: Path, lake: Lake, spark: SparkSession) -> None:
    data, lake_, landing, recordings = (str(tmp_path / name) for name in ("data", "lake", "facts", "recordings"))
    settings = PipelineSettings(data=data, lake=lake_, landing=landing, recordings=recordings)

    def has_work(now_us: int) -> bool:
        progress = LineProgress(io.StringIO(), is_json=False)
        return Cycles(settings, progress, now_us=lambda: now_us, spark=spark).has_work()

    assert not has_work(NOW_US)
    lake.state.commit(State())
    retained(lake, spark)
    assert not has_work(NOW_US + DAY_US - 1)
    assert has_work(NOW_US + DAY_US)
