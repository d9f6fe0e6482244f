"""A data folder whose cycles run in the tests' session, and the landing files of a small platform for it."""

import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.lake.lake import Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE, stored_as, stored_tables
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings
from penstock.pipeline.simulator import Platform, write_landing

PLATFORM = Platform(day=date(2026, 11, 14), viewers=16, first_hour=23, hours=2, servers=2, landing_s=1800)
"""From an hour before midnight to an hour after it."""
MINUTE_US = 60_000_000
SAMPLES_KEPT = 20
"""Of so many samples of a stream one is landed: it is not their number that is tested."""


class DataFolder:
    """Landing, lake and what a pipeline says about them."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.facts = folder / "facts"
        self.spark = spark
        self.said = io.StringIO()
        self.settings = PipelineSettings(
            data=str(folder), lake=str(folder / "lake"), landing=str(self.facts), recordings=str(folder / "recordings")
        )
        self.lake = Lake(Storage(self.settings.lake))

    def cycles(self, now_us: int, failpoint: Callable[[str], None] | None = None) -> Cycles:
        """A pipeline at that time; `failpoint` is told of each point of its commits."""
        progress = LineProgress(self.said, is_json=False)
        cycles = Cycles(self.settings, progress, now_us=lambda: now_us, spark=self.spark)
        cycles.lake = Lake(self.lake.storage, failpoint)
        return cycles

    def land(self, source: Path, files: Iterable[str]) -> None:
        """Land copies of these files of another folder, with their times."""
        for name in files:
            target = self.facts / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target)

    def copy(self, folder: Path) -> "DataFolder":
        """Another folder with the same in it."""
        shutil.copytree(self.folder, folder)
        return DataFolder(folder, self.spark)

    def gold(self) -> Counter[str]:
        """Each day of gold that has rows, and how many live files it has. Spark or Arrow may have written them."""
        tables = [name for name in stored_tables() if name.startswith("gold.")]
        return Counter(path.rpartition("/")[0] for table in tables for path in self.lake.paths(self.lake.pin(table)))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of a table, as its readers find them; of facts all columns, whatever their kind."""
        kinds = [table.removeprefix("bronze.")] if stored_as(table) == BRONZE and table != BRONZE else None
        pinned = self.lake.pin(table)
        return [] if pinned is None else list(self.lake.rows(pinned, Wanted(kinds=kinds)).to_pylist())


@contextmanager
def conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A session with other settings for a while."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))


def land_platform(folder: Path) -> list[str]:
    """Write the landing files of a small platform. Their names, in the order in which they landed.

    One landed two hours late, and one landed again under another name.
    """
    write_landing(PLATFORM, folder)
    found = sorted(folder.rglob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path))
    for path in found:
        landed_at_s = path.stat().st_mtime
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [
            line for number, line in enumerate(lines) if b'"stream_sample"' not in line or number % SAMPLES_KEPT == 0
        ]
        path.write_bytes(b"".join(kept))
        os.utime(path, (landed_at_s, landed_at_s))
    late, again = found[0], found[1].with_name(f"again-{found[1].name}")
    os.utime(late, (late.stat().st_mtime + 7200,) * 2)
    shutil.copy(found[1], again)
    os.utime(again, (found[1].stat().st_mtime + 60,) * 2)
    return [path.relative_to(folder).as_posix() for path in (*found[1:], again, late)]
