"""One run over one plan: the versions that it reads, and the commits that it makes.

Owns which version of each table a run sees: all are pinned when it begins, after its plan is in the state, and each is
followed by the run's own commits alone. Another writer in between is noticed by whoever commits second.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.build.open_sessions import open_sessions
from penstock.pipeline.build.plan import Plan, lost_boots
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.dimensions import NO_DIMENSIONS, Dimensions
from penstock.pipeline.lake.fact_kinds import CONNECTION_KINDS, RECORDING_KINDS, STREAM_KINDS, VIEW_KINDS
from penstock.pipeline.lake.lake import Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE, has_hours, stored_as, stored_tables
from penstock.pipeline.lake.schemas import bronze_columns
from penstock.pipeline.lake.state import OpenSessions, State
from penstock.pipeline.progress import Progress

SESSIONS: Final = ("silver.views", "silver.publications", "silver.connections")
_READ_TOGETHER: Final = (VIEW_KINDS, ("publish_started", *STREAM_KINDS), CONNECTION_KINDS, RECORDING_KINDS)
"""Kinds of facts that are asked for the columns that any of them fills."""


@dataclass(slots=True)
class Run:
    """A plan on its way into the tables."""

    spark: SparkSession
    lake: Lake
    plan: Plan
    state: State
    """With the plan in it."""
    as_of_us: int
    silent_us: int
    progress: Progress
    recordings: str | None = None
    """Where the recorded files are; None: not where this pipeline runs."""
    dimensions: Dimensions = NO_DIMENSIONS
    only: frozenset[str] | None = None
    """The steps to take, by their names; None: all."""
    sessions: dict[str, dict[str, OpenSessions]] = field(default_factory=dict)
    """What was written of sessions so far, for the state."""
    analysed: Mapping[str, str] = field(init=False)
    """Recorded files whose GOPs are in silver, and the hour in which each began, for the state."""
    boots: DataFrame = field(init=False)
    """Every boot, and whether it is lost."""
    _pins: dict[str, Pinned] = field(default_factory=dict)
    _pinning: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._pins = {name: self.lake.table(name).pin_or_create() for name in stored_tables()}
        self.analysed = self.state.recordings
        self.boots = self._boots()

    def pin(self, table: str) -> Pinned:
        """The version of a table that this run sees now."""
        return self._pins[stored_as(table)]

    def read(self, table: str, hours: Collection[str]) -> DataFrame:
        """Rows of these hours; of a table without hours, of their days."""
        return self.lake.read(self.spark, self.pin(table), table, Wanted(hours=hours))

    def read_since(self, table: str, hour: str, until: str | None = None) -> DataFrame:
        """Rows of this hour and later ones."""
        return self.lake.read(self.spark, self.pin(table), table, Wanted(since=hour, until=until))

    def read_present(self, table: str, hours: Collection[str]) -> DataFrame:
        """Sessions that may have been there in one of these hours, whenever they began."""
        last = f"{max(hours)}~" if hours else ""
        wanted = Wanted(until=last, reaching=min(hours, default=""))
        return self.lake.read(self.spark, self.pin(table), table, wanted)

    def facts(self, kinds: Collection[str], hours: Collection[str]) -> DataFrame:
        """Facts of kinds that are read together, in these hours, with their `kind`."""
        return self._facts(kinds, Wanted(hours=hours, kinds=kinds))

    def facts_since(self, kind: str, hour: str) -> DataFrame:
        """Facts of this hour and later ones."""
        return self._facts([kind], Wanted(since=hour, kinds=[kind]))

    def _facts(self, kinds: Collection[str], wanted: Wanted) -> DataFrame:
        columns = _columns_read_together(next(iter(kinds)))
        return self.lake.read(self.spark, self.pin(BRONZE), BRONZE, wanted, columns)

    def rows(self, table: str, hours: Collection[str], columns: list[str] | None = None) -> pa.Table:
        """The same rows, or some of their columns, read by this process."""
        return self.lake.rows(self.pin(table), Wanted(hours=hours), columns)

    def replace(self, table: str, rows: DataFrame, hours: Collection[str]) -> None:
        """Give these hours of a silver table or rollup new rows, with their `hour` as a number, by one commit."""
        if not has_hours(table):
            raise ValueError(f"{table} has no hours")
        after, added = self.lake.replace_hours(table, self.pin(table), rows, hours)
        self._follow(table, after)
        if table in SESSIONS:
            held = self.sessions.setdefault(table, {})
            held.update(dict.fromkeys(hours, OpenSessions()))
            held.update(open_sessions(self.lake.storage, table, added))

    def replace_days(
        self, table: str, rows: DataFrame, days: Collection[str], kept: pc.Expression | None = None
    ) -> None:
        """Give these days of a gold table new rows, with their `date`, by one commit; rows that are `kept` stay."""
        self._follow(table, self.lake.replace_days(table, self.pin(table), rows, days, kept))

    def of_rows(self, rows: pa.Table) -> DataFrame:
        """Rows that are here, for Spark."""
        return self.spark.createDataFrame(rows)

    def _follow(self, table: str, pinned: Pinned) -> None:
        with self._pinning:
            self._pins[table] = pinned

    def _boots(self) -> DataFrame:
        known = self.state.boots.values()
        lost = {boot.boot_key for boot in lost_boots(known, self.as_of_us, self.silent_us)}
        columns = {
            "boot_key": pa.array([boot.boot_key for boot in known], pa.int64()),
            "server_id": pa.array([boot.server_id for boot in known], pa.string()),
            "boot_id": pa.array([boot.boot_id for boot in known], pa.string()),
            "is_lost": pa.array([boot.boot_key in lost for boot in known], pa.bool_()),
        }
        return self.of_rows(pa.table(columns))


@cache
def _columns_read_together(kind: str) -> frozenset[str]:
    """The columns of bronze that facts of this kind fill, or of those that they are read together with."""
    kinds = next((kinds for kinds in _READ_TOGETHER if kind in kinds), (kind,))
    return frozenset(name for each in kinds for name in bronze_columns(each))
