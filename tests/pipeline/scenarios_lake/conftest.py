"""One small platform for all tests here: carried by one run, and by several of which some are killed.

What costs is a run of the pipeline, so tests share them.
"""

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.plan import Plan
from tests.pipeline.scenarios_lake.gold_reader import Content, GoldReader
from tests.pipeline.scenarios_lake.runs import MINUTE_US, PLATFORM, DataFolder, conf, land_platform
from tests.pipeline.scenarios_lake.witness import read_notes

FIRST_RUN_US = PLATFORM.ends_us + 10 * MINUTE_US
LAST_RUN_US = PLATFORM.ends_us + 70 * MINUTE_US
"""Late enough that the platform's first hour is made one file."""
SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "65536", "spark.sql.shuffle.partitions": "3"}
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Landed:
    """The landing files of the platform."""

    folder: Path
    names: list[str]

    @property
    def first(self) -> list[str]:
        """What is carried first where not all comes at once: every other file, and of two that are the same one."""
        return self.names[1::2]


@dataclass(frozen=True, slots=True)
class Killed:
    """A data folder of whose runs some were killed, and what its reader saw meanwhile."""

    data: DataFolder
    reader: GoldReader
    before: dict[str, Content]
    after: dict[str, Content]
    notes: list[tuple[str, int, Plan]]


class PowerFailure(Exception):
    """The end of a run that is not a process of its own."""


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Landed:
    folder = tmp_path_factory.mktemp("landed")
    return Landed(folder, land_platform(folder))


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, landed: Landed, tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """All files carried by one run."""
    data = DataFolder(tmp_path_factory.mktemp("undisturbed"), spark)
    data.land(landed.folder, landed.names)
    data.cycles(LAST_RUN_US).run_cycle()
    return data


@pytest.fixture(scope="module")
def killed(spark: SparkSession, landed: Landed, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """Some files carried by one run, and an hour later the others: late ones, and the other one of two.

    It takes four runs: one dies between files and commit of bronze, one in the middle of gold, one at any time.
    """
    data = DataFolder(tmp_path_factory.mktemp("killed"), spark)
    data.land(landed.folder, landed.first)
    data.cycles(FIRST_RUN_US).run_cycle()
    data.land(landed.folder, landed.names)
    with GoldReader(data.folder / "lake") as reader:
        before = reader.look()
        die_before_the_commit_of_bronze(data)
        assert killed_run(data, "gold-replaced", 4) == -signal.SIGKILL
        notes = read_notes(data.folder)
        assert killed_run(data, "never", 1, after_s=random.uniform(0, 6)) == -signal.SIGKILL
        with conf(spark, SMALL_SPLITS):
            data.cycles(LAST_RUN_US).run_cycle()
        after = reader.look()
    return Killed(data, reader, before, after, notes)


def die_before_the_commit_of_bronze(data: DataFolder) -> None:
    def reached(point: str) -> None:
        if point == "bronze-written":
            raise PowerFailure

    with pytest.raises(PowerFailure):
        data.cycles(LAST_RUN_US, reached).run_cycle()


def killed_run(data: DataFolder, point: str, nth: int, after_s: float | None = None) -> int:
    """The status of a run that kills itself at that point, or is killed after that time."""
    words = ["-m", "tests.pipeline.scenarios_lake.doomed", str(data.folder), str(LAST_RUN_US), point, str(nth)]
    command = [sys.executable, *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        if after_s is not None:
            time.sleep(after_s)
            process.kill()
        return process.wait()
