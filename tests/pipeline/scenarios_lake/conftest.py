"""One small platform for all tests here: ingested by one run, and by a dozen of which some are killed.

What costs is a run of the pipeline, so tests share them.
"""

import logging
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.build.plan import Plan
from penstock.pipeline.ingest.salts import salts_for
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.scenarios_lake.runs import MINUTE_US, PLATFORM, DataFolder, conf, land_platform
from tests.pipeline.scenarios_lake.witness import read_notes

FIRST_RUN_US = PLATFORM.ends_us + 10 * MINUTE_US
LAST_RUN_US = PLATFORM.ends_us + 70 * MINUTE_US
SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "65536", "spark.sql.shuffle.partitions": "3"}
ROOT = Path(__file__).parents[3]
INGESTING = ("ingest-written", "ingest-under-way", "bronze.facts-written", "bronze.facts-committed")
BUILDING = (
    "planned",
    "rollup.view_minutes-committed",
    "silver.views-written",
    "silver.views-committed",
    "silver.stream_seconds-committed",
    "gold.audience-committed",
    "gold.usage-written",
)
LATE = ("gold.usage-written", "gold.usage-committed", "built")
"""Points that a run comes to whatever its facts are about."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The landing files of the platform."""

    folder: Path
    names: list[str]


@dataclass(frozen=True, slots=True)
class Killed:
    """A data folder of whose runs some were killed, and what one of those would have left at each point."""

    data: DataFolder
    notes: list[tuple[str, int, Plan]]


class PowerFailure(Exception):
    """The end of a run that is not a process of its own."""


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Landed:
    folder = tmp_path_factory.mktemp("landed")
    return Landed(folder, land_platform(folder))


@pytest.fixture(scope="module")
def new_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DataFolder]:
    """Makes data folders with the same secrets, so that viewers have the same keys in all of them."""
    secrets = Storage(tmp_path_factory.mktemp("secrets"))
    salts_for(secrets, [f"{PLATFORM.day:%Y-%m}"])

    def make(name: str) -> DataFolder:
        data = DataFolder(tmp_path_factory.mktemp(name), spark)
        data.lake.storage.put("_private/salts.json", secrets.read("_private/salts.json"))
        return data

    return make


@pytest.fixture(scope="module")
def undisturbed(landed: Landed, new_folder: Callable[[str], DataFolder]) -> DataFolder:
    """All files ingested by one run."""
    data = new_folder("undisturbed")
    data.land(landed.folder, landed.names)
    data.cycles(LAST_RUN_US).run_cycle()
    return data


@pytest.fixture(scope="module")
def killed(spark: SparkSession, landed: Landed, new_folder: Callable[[str], DataFolder]) -> Killed:
    """One file after the other in any order, each with a run of its own, of which half do not come to their end.

    Three are processes that are killed by the system: while facts are on their way, while tables are, and at any time.
    """
    seed = random.randrange(1 << 32)
    logging.getLogger(__name__).warning("the seed of the killed runs is %d", seed)
    chance = random.Random(seed)
    data = new_folder("killed")
    names = chance.sample(landed.names, len(landed.names))
    # One that landed twice brings no new facts the second time, whichever of the two that is.
    twice = {name.replace("again-", "") for name in names if "again-" in name}
    fresh = [name for name in names if name.replace("again-", "") not in twice]
    ends: dict[str, Callable[[int], object]] = dict(
        zip(
            chance.sample(fresh, 6),
            [
                lambda now_us: killed_run(data, now_us, chance.choice(INGESTING)),
                lambda now_us: killed_run(data, now_us, chance.choice(LATE), is_watched=True),
                lambda now_us: killed_run(data, now_us, "never", after_s=chance.uniform(0, 6)),
                lambda now_us: fail_at(data, now_us, chance.choice(INGESTING)),
                *[lambda now_us: fail_at(data, now_us, chance.choice(BUILDING))] * 2,
            ],
            strict=True,
        )
    )
    for number, name in enumerate(names):
        data.land(landed.folder, [name])
        now_us = FIRST_RUN_US + number * MINUTE_US
        if end := ends.get(name):
            end(now_us)
        else:
            data.cycles(now_us).run_cycle()
    with conf(spark, SMALL_SPLITS):
        data.cycles(LAST_RUN_US).run_cycle()
    return Killed(data, read_notes(data.folder))


def fail_at(data: DataFolder, now_us: int, point: str) -> None:
    """A run that ends at that point, or as it should if it does not come to it."""

    def failpoint(name: str) -> None:
        if name == point:
            raise PowerFailure

    try:
        data.cycles(now_us, failpoint).run_cycle()
    except PowerFailure:
        return


def killed_run(
    data: DataFolder, now_us: int, point: str, after_s: float | None = None, *, is_watched: bool = False
) -> None:
    """A run that kills itself when it comes to that point, or is killed after that time."""
    words = [str(data.folder), str(now_us), point, *(["watched"] if is_watched else [])]
    command = [sys.executable, "-m", "tests.pipeline.scenarios_lake.doomed", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        if after_s is not None:
            time.sleep(after_s)
            process.kill()
        assert process.wait() == -signal.SIGKILL or after_s is not None, point
