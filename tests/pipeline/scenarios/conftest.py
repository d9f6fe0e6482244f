"""Two stories of one data folder, told by two servers, and one cycle for both, since a cycle is what costs."""

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.landing_place import LIKE_A_GLOB
from tests.pipeline.scenarios.day import Day, live_through_day
from tests.pipeline.scenarios.night import Night, live_through_night
from tests.pipeline.scenarios.stage import run_cycle


@dataclass(frozen=True, slots=True)
class Stories:
    day: Day
    night: Night


@pytest.fixture(scope="package")
def stories(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stories:
    folder = tmp_path_factory.mktemp("stories")
    # Whatever the folder is called: server, recorder, cycle and reports have to do with the name that it has.
    data = folder / LIKE_A_GLOB
    told = Stories(live_through_day(folder / "day", data), live_through_night(folder / "night", data))
    run_cycle(spark, data)
    return told


@pytest.fixture
def day(stories: Stories) -> Day:
    """A real server, FFmpeg and viewers, all of whom went home in order."""
    return stories.day


@pytest.fixture
def night(stories: Stories) -> Night:
    """A server that was killed under load, and started again."""
    return stories.night
