"""From bronze to silver: the partitions of a plan, computed by the transforms and committed.

Owns the order, and which rows each transform is given; knows no arithmetic of its own. The increment of a cycle and a
rebuild go the same way, with different plans. What rests on silver is made by `derive_gold`. Until its last commit the
plan stays pending, so that a run that is killed is done again.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.commits import DataFile, Snapshot
from penstock.pipeline.frames import Frames
from penstock.pipeline.gathered import gather, hours_since_1970
from penstock.pipeline.hours import runs_of, shifted
from penstock.pipeline.lake import PART, Lake, Transaction
from penstock.pipeline.plan import (
    CONNECTION_KINDS,
    RECORDING_KINDS,
    STREAM_KINDS,
    VIEW_KINDS,
    Plan,
    hours_with_views_of,
    is_small,
    lost_boots,
    starts_in,
)
from penstock.pipeline.progress import Progress
from penstock.pipeline.schemas import bronze_columns
from penstock.pipeline.side_by_side import Step
from penstock.pipeline.tables import TABLES
from penstock.pipeline.transforms.common import VIEW_KEYS, hour_number, micros_of
from penstock.pipeline.transforms.connections import connections
from penstock.pipeline.transforms.histogram_hours import STARTUP_COLUMNS
from penstock.pipeline.transforms.incidents import stream_spells
from penstock.pipeline.transforms.publications import publications
from penstock.pipeline.transforms.stream_seconds import stream_carry_of, stream_seconds
from penstock.pipeline.transforms.times import within_hours
from penstock.pipeline.transforms.view_lags import view_lags
from penstock.pipeline.transforms.view_minutes import carry_of, view_minutes
from penstock.pipeline.transforms.views import PLAY_KINDS, views
from penstock.pipeline.untouched import (
    CONNECTION,
    changed_hours,
    distinct,
    touched_connections,
    touched_views,
    untouched_connections,
    untouched_views,
)

_LONGEST_RUN_HOURS: Final = 24
"""So much is computed in one job: a rebuild of a month goes day by day."""
_CARRY_HOURS: Final = 2
"""How far back the last sample of a publication is looked for, in hours in which its server told any: one a second."""
_PUT_TOGETHER: Final = (VIEW_KINDS, ("publish_started", *STREAM_KINDS), CONNECTION_KINDS, RECORDING_KINDS)
"""Kinds of facts that are asked for what any of them tells."""
_OF_ANY_SIZE: Final = ("silver.gops",)
"""Made of recordings, and not of the facts of a plan."""


@dataclass(slots=True)
class Derivation:
    """One run over one plan."""

    spark: SparkSession
    lake: Lake
    plan: Plan
    state: Snapshot
    """After the last commit of this run, and before it the state that the plan was made for."""
    as_of_us: int
    silent_us: int
    progress: Progress
    recordings: str | None = None
    """Where the recorded files are; None: not where this pipeline runs."""
    is_small: bool = field(init=False)
    """Whether rows of sessions are carried over, and whatever is made is gathered and written by this process."""
    is_resumed: bool = field(init=False)
    """Whether a run that was killed may have made a part of it already."""
    changed_startups: frozenset[str] | None = None
    """The hours in which views began whose startup, or who they are, is not what it was; None: not known."""
    frames: Frames = field(init=False)
    _boots: DataFrame | None = None
    _committing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.is_small = is_small(self.state, self.plan)
        self.is_resumed = bool(self.state.planned)
        self.frames = Frames(self.spark, self.lake, is_one_task=self.is_small)

    def steps(self) -> list[Step]:
        """Silver but for recordings, and the rollups of minutes, lags and spells. The chain of views is the longest."""
        return [
            Step("minutes", self._write_all_minutes),
            Step("lags", self._write_all_lags),
            Step("views", self._write_views, after=("minutes", "lags")),
            Step("publications", self._write_publications),
            # What a connection is for is told by its views and publications.
            Step("connections", self._write_connections, after=("views", "publications")),
            Step("seconds", self._write_all_seconds),
            Step("spells", self._write_all_spells, after=("publications", "seconds")),
        ]

    def boots(self, snapshot: Snapshot) -> DataFrame:
        """Every boot, and whether it is lost. A run adds none."""
        if self._boots is None:
            self._boots = self._boots_of(snapshot)
        return self._boots

    def _boots_of(self, snapshot: Snapshot) -> DataFrame:
        known = snapshot.boots.values()
        lost = {boot.boot_key for boot in lost_boots(known, self.as_of_us, self.silent_us)}
        columns = {
            "boot_key": pa.array([boot.boot_key for boot in known], pa.int64()),
            "server_id": pa.array([boot.server_id for boot in known], pa.string()),
            "boot_id": pa.array([boot.boot_id for boot in known], pa.string()),
            "is_lost": pa.array([boot.boot_key in lost for boot in known], pa.bool_()),
        }
        return self.frames.of_rows(pa.table(columns))

    def facts(self, snapshot: Snapshot, kind: str, hours: Collection[str]) -> DataFrame:
        """Bronze of a kind in these hours."""
        return self.frames.read_facts(snapshot, [kind], hours, _columns_put_together(kind))

    def replace(
        self,
        table: str,
        rows: DataFrame,
        hours: Collection[str],
        stats: Mapping[str, Mapping[str, Any]] | None = None,
        kept: Mapping[str, Sequence[DataFile]] | None = None,
    ) -> None:
        """Write these hours of a table and commit them."""
        if self.is_small and table not in _OF_ANY_SIZE:
            places = ["hour", PART] if PART in rows.columns else ["hour"]
            gathered = gather(rows, table, places)
            self._commit(lambda transaction: transaction.replace_by_rows(TABLES[table], gathered, hours, stats, kept))
        else:
            self._commit(lambda transaction: transaction.replace(TABLES[table], rows, hours, stats, kept))

    def _commit(self, write: Callable[[Transaction], None]) -> None:
        """Write something and commit it, after what other steps have committed meanwhile."""
        transaction = self.lake.begin(self.state, "silver", self.as_of_us)
        write(transaction)
        with self._committing:
            transaction.follow(self.state)
            self.state = transaction.commit(planned=self.plan.as_hours())

    # The steps. What follows in one of them rests on what was committed before.

    def _write_all_minutes(self) -> None:
        for run in runs_of(self.plan.view_hours, self.state.view_starts, _LONGEST_RUN_HOURS):
            self._write_view_minutes(self.state, run)

    def _write_all_lags(self) -> None:
        for run in runs_of(self.plan.view_hours, self.state.view_starts, _LONGEST_RUN_HOURS):
            self._write_lags(self.state, run)

    def _write_all_seconds(self) -> None:
        for run in self._runs_of_streams():
            self._write_stream_seconds(self.state, run)

    def _write_all_spells(self) -> None:
        for run in self._runs_of_streams():
            self._write_spells(self.state, run)

    def _runs_of_streams(self) -> Iterator[list[str]]:
        return runs_of(self.plan.stream_hours, self.state.partitions("bronze.stream_sample"), _LONGEST_RUN_HOURS)

    def _write_view_minutes(self, snapshot: Snapshot, hours: list[str]) -> None:
        self.progress.step(f"views of {hours[0]} to {hours[-1]}, minute by minute")
        oldest = min((start for hour in hours for start in snapshot.view_starts.get(hour, ())), default=hours[0])
        earlier = [hour for hour in snapshot.partitions("rollup.view_minutes") if oldest <= hour < hours[0]]
        before = self.frames.read(snapshot, "rollup.view_minutes", earlier)
        if self.is_small:
            # Those who have left since are many, and nothing is carried on for them.
            before = before.join(
                F.broadcast(self.frames.of_rows(self._views_told_of(snapshot, hours))), VIEW_KEYS, "left_semi"
            )
        carry = carry_of(before)
        plays = self._plays(snapshot, hours)
        rows = view_minutes(self.facts(snapshot, "viewer_sample", hours), plays, carry)
        self.replace("rollup.view_minutes", rows.withColumn("hour", hour_number("minute")), hours)

    def _plays(self, snapshot: Snapshot, hours: Collection[str]) -> DataFrame:
        return self.frames.read_facts(snapshot, PLAY_KINDS, hours, _columns_put_together(PLAY_KINDS[0]))

    def _views_told_of(self, snapshot: Snapshot, hours: Collection[str]) -> pa.Table:
        """The keys of views that facts of these hours are about."""
        return distinct(
            VIEW_KEYS, *(self.lake.rows(snapshot, f"bronze.{kind}", hours, VIEW_KEYS) for kind in VIEW_KINDS)
        )

    def _write_lags(self, snapshot: Snapshot, hours: list[str]) -> None:
        rows = view_lags(self.facts(snapshot, "viewer_sample", hours))
        self.replace("rollup.view_lags", rows.withColumn("hour", hour_number("hour_at")), hours)

    def _write_views(self) -> None:
        snapshot, starts = self.state, self.plan.view_starts
        if not starts:
            return
        self.progress.step(f"views that began in {len(starts)} hours")
        told_in, table = hours_with_views_of(snapshot, starts), "silver.views"
        plays = self._plays(snapshot, told_in)
        minutes = self.frames.read(snapshot, "rollup.view_minutes", told_in)
        minutes = minutes.where(within_hours(micros_of("started_at"), starts))
        lags = self.frames.read(snapshot, "rollup.view_lags", told_in)
        carried = None
        if self.is_small:
            told = self.lake.rows(snapshot, "rollup.view_minutes", self.plan.view_hours, VIEW_KEYS)
            known = self.lake.rows(snapshot, table, starts)
            keys = touched_views(told, known)
            carried = untouched_views(known, keys)
            touched = F.broadcast(self.frames.of_rows(keys))
            minutes, lags = (rows.join(touched, VIEW_KEYS, "left_semi") for rows in (minutes, lags))
            failed = plays.where("kind = 'play_stopped' AND view_seq IS NULL")
            plays = failed.unionByName(plays.join(touched, VIEW_KEYS, "left_semi"))
        rows = views(plays, minutes, lags, self.boots(snapshot))
        made = self.replace_by_start(table, rows, "started_at", starts, carried)
        if self.is_small and made is not None and not self.is_resumed:
            self.changed_startups = changed_hours(known, made, "started_at", STARTUP_COLUMNS)

    def replace_by_start(
        self, table: str, rows: DataFrame, time: str, starts: frozenset[str], carried: pa.Table | None = None
    ) -> pa.Table | None:
        """Give the hours in which sessions began those of the rows that did, and those that are carried over.

        All rows if they are here.
        """
        begun = rows.where(within_hours(micros_of(time), starts)).withColumn("hour", hour_number(time))
        if carried is None:
            self.replace(table, begun, starts)
            return None
        fresh = gather(begun, table, ["hour"])
        placed = carried.append_column("hour", hours_since_1970(carried[time]))
        made = pa.concat_tables([fresh, placed.select(fresh.column_names).cast(fresh.schema)])
        self._commit(lambda transaction: transaction.replace_by_rows(TABLES[table], made, starts))
        return made

    def _write_publications(self) -> None:
        snapshot, starts = self.state, self.plan.publication_starts
        if not starts:
            return
        self.progress.step("publications")
        rows = publications(
            self.facts(snapshot, "publish_started", _with_neighbours(starts)),
            self.since(snapshot, "publish_stopped", min(starts)),
            self._publication_samples(snapshot),
            self.boots(snapshot),
        )
        self.replace_by_start("silver.publications", rows, "started_at", starts)

    def _publication_samples(self, snapshot: Snapshot) -> DataFrame:
        """New samples, and what earlier ones said of the same publications, in the same shape: counters only grow."""
        starts, columns = self.plan.publication_starts, _SAMPLE_COLUMNS
        sampled = self.facts(snapshot, "stream_sample", self.plan.stream_hours).select(*columns)
        if self.plan.stream_hours.issuperset(_from(snapshot, "bronze.stream_sample", min(starts))):
            return sampled
        known = self.frames.read(snapshot, "silver.publications", starts).select(
            F.xxhash64("server_id", "boot_id").alias("boot_key"),
            "publication_id",
            "app",
            "stream",
            micros_of("last_seen_at").alias("at_us"),
            (micros_of("last_seen_at") - micros_of("started_at")).alias("interval_us"),
            *columns[6:],
        )
        return sampled.unionByName(known)

    def _write_connections(self) -> None:
        starts = self.plan.connection_starts
        if not starts:
            return
        self.progress.step("connections")
        snapshot, table = self.state, "silver.connections"
        opened = self.facts(snapshot, "connection_opened", _with_neighbours(starts))
        closed = self.since(snapshot, "connection_closed", min(starts))
        viewed = self._rows_since(snapshot, "silver.views", min(starts))
        published = self._rows_since(snapshot, "silver.publications", min(starts))
        carried = None
        if self.is_small:
            told = (
                self.lake.rows(snapshot, f"bronze.{kind}", self.plan.fact_hours, CONNECTION)
                for kind in CONNECTION_KINDS
            )
            known = self.lake.rows(snapshot, table, starts)
            keys = touched_connections(pa.concat_tables(told), known)
            carried = untouched_connections(known, keys)
            touched = F.broadcast(self.frames.of_rows(keys))
            opened, closed, viewed = (rows.join(touched, CONNECTION, "left_semi") for rows in (opened, closed, viewed))
        rows = connections(opened, closed, viewed, published, self.boots(snapshot))
        self.replace_by_start(table, rows, "opened_at", starts, carried)

    def _write_stream_seconds(self, snapshot: Snapshot, hours: list[str]) -> None:
        self.progress.step(f"streams of {hours[0]} to {hours[-1]}, second by second")
        earlier = _sampled_before(snapshot, hours)
        rows = stream_seconds(
            self.facts(snapshot, "stream_sample", hours),
            self.facts(snapshot, "publish_stopped", hours),
            stream_carry_of(self.facts(snapshot, "stream_sample", earlier)),
        )
        self.replace("silver.stream_seconds", rows.withColumn("hour", hour_number("at")), hours)

    def _write_spells(self, snapshot: Snapshot, hours: list[str]) -> None:
        published = starts_in(snapshot, "silver.publications", hours)
        spells = stream_spells(
            self.frames.read(snapshot, "silver.stream_seconds", hours),
            self.frames.read(snapshot, "silver.publications", published),
        )
        self.replace("rollup.stream_spells", spells.withColumn("hour", hour_number("started_at")), hours)

    def _rows_since(self, snapshot: Snapshot, table: str, hour: str) -> DataFrame:
        return self.frames.read(snapshot, table, _from(snapshot, table, hour))

    def since(self, snapshot: Snapshot, kind: str, hour: str) -> DataFrame:
        return self.facts(snapshot, kind, _from(snapshot, f"bronze.{kind}", hour))


_SAMPLE_COLUMNS: Final = (
    "boot_key",
    "publication_id",
    "app",
    "stream",
    "at_us",
    "interval_us",
    "received_bytes",
    "messages",
    "video_frames",
    "audio_frames",
    "keyframes",
    "timestamp_jumps",
    "viewers_sent_bytes",
    "viewers_watched_us",
)


@cache
def _columns_put_together(kind: str) -> frozenset[str]:
    """The columns of bronze that facts of this kind fill, or of those that they are put together with."""
    (kinds,) = (kinds for kinds in _PUT_TOGETHER if kind in kinds)
    return frozenset(name for each in kinds for name in bronze_columns(each))


def _sampled_before(snapshot: Snapshot, hours: list[str]) -> set[str]:
    """Of each boot with samples of streams in these hours, the last hours before in which it had some."""
    table = "bronze.stream_sample"
    files = {hour: snapshot.files(table, [hour]) for hour in snapshot.partitions(table) if hour <= hours[-1]}
    found: set[str] = set()
    for boot_key in snapshot.boots:
        told = [hour for hour in sorted(files) if any(file.may_tell_of(boot_key) for file in files[hour])]
        if not set(hours).isdisjoint(told):
            found.update([hour for hour in told if hour < hours[0]][-_CARRY_HOURS:])
    return found


def _with_neighbours(hours: Collection[str]) -> set[str]:
    """Hours with those beside them: a start that is reckoned back from an end may be a little off the true one."""
    return {shifted(hour, by) for hour in hours for by in (-1, 0, 1)}


def _from(snapshot: Snapshot, table: str, hour: str) -> list[str]:
    return [each for each in snapshot.partitions(table) if each >= hour]
