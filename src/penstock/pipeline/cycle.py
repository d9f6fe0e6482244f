"""One cycle: what landed into bronze, what it touches into silver and gold, and the house kept in order.

Owns the order of the steps, the session they run in, and the lock around them. A change of the transforms is found
here: the tables are then made anew as far as bronze reaches back.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.bronze import Carried
from penstock.pipeline.commits import Snapshot
from penstock.pipeline.compaction import compact
from penstock.pipeline.derive import Derivation
from penstock.pipeline.derive_gold import derive
from penstock.pipeline.erase import erase
from penstock.pipeline.horizon import read_horizon_us
from penstock.pipeline.hours import days_of, hour_of_us, hours_of_day
from penstock.pipeline.lake import Lake
from penstock.pipeline.landing import carry_facts, replay_quarantined
from penstock.pipeline.lock import lake_lock
from penstock.pipeline.packaging import ship_package
from penstock.pipeline.plan import Plan, plan_increment, plan_rebuild
from penstock.pipeline.progress import Progress, RunFigures
from penstock.pipeline.reports.serving import write_serving
from penstock.pipeline.reports.spark_asker import SparkAsker
from penstock.pipeline.reports.sql_service import QUERY_TIMEOUT_S, SqlService
from penstock.pipeline.retention import apply_retention
from penstock.pipeline.session import close_session, ensure_needed, open_session
from penstock.pipeline.settings import PipelineSettings
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TRANSFORMS_VERSION

_CHECKPOINT: Final = "checkpoints/landing"


def now_us() -> int:
    """The wall clock."""
    return time.time_ns() // 1000


class Cycles:
    """A pipeline at work: one session, as many cycles as asked for."""

    def __init__(
        self,
        settings: PipelineSettings,
        progress: Progress,
        wait_s: float | None = None,
        *,
        now_us: Callable[[], int] = now_us,
        spark: SparkSession | None = None,
    ) -> None:
        """`wait_s` is how long another writer is waited for; `now_us` is the clock.

        A session that is given is used and left open; else one is opened when it is needed.
        """
        self._settings = settings
        self._progress = progress
        self._wait_s = wait_s
        self._now_us = now_us
        self._landing = Storage(settings.landing)
        self._given_spark = spark
        self._spark: SparkSession | None = None
        self._service: SqlService | None = None
        self.lake = Lake(Storage(settings.lake))

    def spark(self) -> SparkSession:
        """The session, opened when it is first asked for."""
        if self._spark is None:
            self._progress.step("starting Spark")
            self._spark = self._given_spark or open_session(self._settings.spark)
            ensure_needed(self._spark)
            ship_package(self._spark)
            self.lake.create()
            folder = Path(self._settings.data)
            folder.mkdir(parents=True, exist_ok=True)
            asker = SparkAsker(self._spark, self.lake, self._settings.recordings, timeout_s=QUERY_TIMEOUT_S)
            self._service = SqlService(asker, folder)
        return self._spark

    def close(self) -> None:
        """End the session and its Java, unless somebody else's is used."""
        if self._service is not None:
            self._service.close()
            self._service = None
        if self._spark is not None and self._given_spark is None:
            close_session(self._spark)
        self._spark = None

    @contextlib.contextmanager
    def lock(self, holder: str) -> Iterator[None]:
        """Be the only writer meanwhile."""
        with lake_lock(self.lake.storage, holder, self._wait_s):
            self.lake.mend()
            yield

    def has_work(self) -> bool:
        """Whether files have landed that are not in bronze, or tables wait for something else. Asks no Spark."""
        snapshot = self.lake.snapshot()
        landed = (file.path for file in self._landing.find("") if _is_landed(file.path))
        return any(path not in snapshot.landed_at_us for path in landed) or bool(
            self._increment(snapshot, self._now_us())
        )

    def run_cycle(self) -> None:
        """Everything once."""
        began_at = time.monotonic()
        with self.lock("pipeline run"):
            spark = self.spark()
            carried = replay_quarantined(spark, self.lake, self._now_us()).plus(self._carry(spark))
            snapshot, as_of_us = self.lake.snapshot(), self._now_us()
            plan = self._plan(snapshot, as_of_us)
            snapshot = self._derive(spark, snapshot, plan, as_of_us)
            self._progress.step("keeping house")
            snapshot = compact(spark, self.lake, snapshot, self._now_us())
            apply_retention(spark, self.lake, self._landing, self._settings.retention, self._now_us())
        self._tell(carried, plan, snapshot, began_at)

    def rebuild(self, first_day: str | None = None, last_day: str | None = None) -> None:
        """Make silver and gold anew for these days; all that bronze has if none are named."""
        began_at = time.monotonic()
        with self.lock("pipeline rebuild"):
            snapshot = self.lake.snapshot()
            days = self._days(snapshot, first_day, last_day)
            # The commit at the end of a rebuild says that nothing is pending.
            as_of_us = self._now_us()
            snapshot = self._derive(self.spark(), snapshot, self._increment(snapshot, as_of_us), as_of_us)
            plan = plan_rebuild(snapshot, days)
            snapshot = self._derive(self.spark(), snapshot, plan, as_of_us)
        self._tell(Carried(), plan, snapshot, began_at)

    def erase(self, *, viewer: str | None = None, ip: str | None = None) -> None:
        """Forget a viewer or an address, wherever it is kept."""
        with self.lock("pipeline erase"):
            erased = erase(self.spark(), self.lake, self._landing, self._now_us(), viewer=viewer, ip=ip)
        self._progress.say(
            f"erased: {erased.facts:,} facts, {erased.views:,} views, {erased.landed_lines:,} landed lines and"
            f" {erased.quarantined_lines:,} in quarantine"
        )

    # The steps.

    def _carry(self, spark: SparkSession) -> Carried:
        def tell(so_far: Carried) -> None:
            self._progress.step(f"bronze: {so_far.files:,} files, {so_far.facts:,} facts")

        self._progress.step("bronze")
        checkpoint = Storage(self._settings.data).below(_CHECKPOINT)
        return carry_facts(spark, self.lake, self._landing, checkpoint, self._now_us(), on_batch=tell)

    def _plan(self, snapshot: Snapshot, as_of_us: int) -> Plan:
        increment = self._increment(snapshot, as_of_us)
        if snapshot.transforms_version not in (None, TRANSFORMS_VERSION):
            days = self._whole_days(snapshot)
            self._progress.say(
                f"the tables were made by transforms of version {snapshot.transforms_version}, and this is"
                f" {TRANSFORMS_VERSION}: {len(days)} days are made anew, as far as bronze reaches back"
            )
            return plan_rebuild(snapshot, days).joined(increment.as_hours())
        return increment

    def _increment(self, snapshot: Snapshot, as_of_us: int) -> Plan:
        return plan_increment(snapshot, as_of_us, self._settings.silent_us, self._horizon())

    def _horizon(self) -> str:
        """The first hour that bronze still has whole."""
        return hour_of_us(read_horizon_us(self.lake.storage))

    def _derive(self, spark: SparkSession, snapshot: Snapshot, plan: Plan, as_of_us: int) -> Snapshot:
        """Compute a plan as of the time at which it was made: what has ended by then is what it was made for."""
        if not plan:
            return snapshot
        silver = Derivation(
            spark,
            self.lake,
            plan,
            snapshot,
            as_of_us,
            self._settings.silent_us,
            self._progress,
            Storage(self._settings.recordings).address(),
        )
        return derive(silver)

    def _days(self, snapshot: Snapshot, first_day: str | None, last_day: str | None) -> list[str]:
        known = self._whole_days(snapshot)
        if not known:
            raise PipelineError("rebuild: there are no facts in bronze")
        if first_day is not None and first_day < known[0]:
            raise PipelineError(f"rebuild: {first_day} is past retention; bronze begins with {known[0]}")
        days = [day for day in known if (first_day or "") <= day <= (last_day or "9")]
        if not days:
            raise PipelineError(f"rebuild: bronze has no facts of those days; it has {known[0]} to {known[-1]}")
        return days

    def _whole_days(self, snapshot: Snapshot) -> list[str]:
        """The days of which bronze has facts, and has given up none."""
        return [day for day in days_with_facts(snapshot) if hours_of_day(day)[0] >= self._horizon()]

    def _tell(self, carried: Carried, plan: Plan, snapshot: Snapshot, began_at: float) -> None:
        newest_us = max((boot.last_at_us for boot in snapshot.boots.values()), default=None)
        write_serving(self.lake.storage, utc(self._now_us()))
        self._progress.done(
            RunFigures(
                files=carried.files,
                facts=carried.facts,
                quarantined=carried.quarantined,
                partitions=plan.partitions,
                seconds=time.monotonic() - began_at,
                behind_s=None if newest_us is None else (self._now_us() - newest_us) / 1_000_000,
            )
        )


def days_with_facts(snapshot: Snapshot) -> list[str]:
    """The days of which bronze has facts, in order."""
    hours = (hour for table in snapshot.tables if table.startswith("bronze.") for hour in snapshot.partitions(table))
    return sorted(days_of(hours))


def _is_landed(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".jsonl") and not name.startswith(".")


def utc(at_us: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return datetime.fromtimestamp(at_us / 1_000_000, UTC)
