"""The rows that transforms are given, as frames: in one piece for a small run, so that each of its queries is one task.

Owns how Spark goes about few rows. An exchange between tasks, and planning the rest anew after each, costs more than
all that is done with a few hundred thousand rows. Frames of one partition need no exchange, whatever is grouped, sorted
or joined; several queries side by side keep the cores busy. Rows do not depend on it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.commits import Snapshot
from penstock.pipeline.lake import Lake

IN_ONE_TASK: Final[Mapping[str, str]] = {
    # There is nothing to adapt where there are no exchanges.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Looked for in every plan, and worth it where files or rows are many.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    # Spark describes every plan, for a page that nobody sees.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "200",
    "spark.sql.debug.maxToStringFields": "3",
}

_sessions: "Final[WeakKeyDictionary[SparkSession, SparkSession]]" = WeakKeyDictionary()


@dataclass(slots=True)
class Frames:
    """Frames for one run."""

    spark: SparkSession
    lake: Lake
    is_one_task: bool
    session: SparkSession = field(init=False)
    """Where the frames live: for one task a session of its own, so that whoever asks meanwhile is not slowed down."""

    def __post_init__(self) -> None:
        self.session = session_for_one_task(self.spark) if self.is_one_task else self.spark

    def read(self, snapshot: Snapshot, table: str, partitions: Collection[str] | None = None) -> DataFrame:
        """Rows of a table in these partitions, or all."""
        return self.whole(self.lake.read(self.session, snapshot, table, partitions))

    def read_facts(
        self, snapshot: Snapshot, kinds: Collection[str], hours: Collection[str], columns: frozenset[str]
    ) -> DataFrame:
        """These columns of bronze of several kinds in these hours, `kind` and `hour`."""
        parts = [(kind, hour) for kind in sorted(kinds) for hour in hours]
        return self.whole(self.lake.read_parts(self.session, snapshot, parts, columns))

    def of_rows(self, rows: pa.Table) -> DataFrame:
        """Rows that are here."""
        return self.whole(self.session.createDataFrame(rows))

    def leave(self) -> None:
        """Give back what PySpark takes for the session of everybody: the one in which rows last became a frame."""
        if self.session is not self.spark:
            self.spark.createDataFrame(pa.table({"nothing": pa.nulls(0, pa.int8())}))

    def whole(self, rows: DataFrame) -> DataFrame:
        """The same rows, in one piece if the run is one of single tasks."""
        return rows.coalesce(1) if self.is_one_task else rows


def session_for_one_task(spark: SparkSession) -> SparkSession:
    """A session beside this one with the same settings but for those; the same one each time."""
    found = _sessions.get(spark)
    if found is None:
        found = spark.newSession()
        # A new session has the settings that Spark was started with, and none that were made since.
        given = found.conf.getAll
        changed = {name: value for name, value in spark.conf.getAll.items() if given.get(name) != value}
        for name, value in {**changed, **IN_ONE_TASK}.items():
            found.conf.set(name, value)
        _sessions[spark] = found
    return found
