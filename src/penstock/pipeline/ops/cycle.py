"""One cycle: what landed into bronze, what it touches into silver and gold, then compaction and retention.

Owns the order of the steps, the session they run in, and the lock around them. A change of the transforms is found
here: the tables are then made anew as far as bronze reaches back.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import LakeBusy, PipelineError
from penstock.pipeline.build.gold import build
from penstock.pipeline.build.lineage import steps_of
from penstock.pipeline.build.plan import Plan, plan_increment, plan_rebuild
from penstock.pipeline.build.plan_reasons import NEW_TRANSFORMS, plans_by_reason, work_of, work_text
from penstock.pipeline.build.run import Run
from penstock.pipeline.engine.packaging import ship_package
from penstock.pipeline.engine.session import close_session, ensure_needed, has_ended, open_session
from penstock.pipeline.ingest.bronze import IngestResult
from penstock.pipeline.ingest.horizon import read_horizon_us
from penstock.pipeline.ingest.landing import ingest_landed, replay_quarantined, waiting_files
from penstock.pipeline.lake.hours import days_of, hour_of_us, hours_of_day, utc_of_us
from penstock.pipeline.lake.lake import OLDER_LOG, Lake, is_unmigrated
from penstock.pipeline.lake.lock import lake_lock
from penstock.pipeline.lake.state import State
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TRANSFORMS_VERSION
from penstock.pipeline.ops.compaction import compact
from penstock.pipeline.ops.erase import erase
from penstock.pipeline.ops.figures_file import FiguresFile
from penstock.pipeline.ops.migrate import carry_over
from penstock.pipeline.ops.older import read_older, remove_older
from penstock.pipeline.ops.retention import apply_retention, is_overdue
from penstock.pipeline.progress import Progress, RunFigures
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from penstock.pipeline.queries.sql_service import QUERY_TIMEOUT_S
from penstock.pipeline.queries.statements import one_line
from penstock.pipeline.reports.serving import MAX_ROWS, MAX_STREAMS, write_serving
from penstock.pipeline.settings import PipelineSettings

LITTLE_BYTES: Final = 4_000_000
"""Some 10,000 facts, an hour of a stream with a dozen viewers: less is not worth the 15 CPU-s of a cycle by itself."""


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
        is_migrating: bool = False,
    ) -> None:
        """`wait_s` is how long another writer is waited for; `now_us` is the clock.

        A session that is given is used and left open; else one is opened when it is needed. Who migrates says so.
        """
        self._settings = settings
        self._progress = progress
        self._wait_s = wait_s
        self._now_us = now_us
        self._landing = Storage(settings.landing)
        self._given_spark = spark
        self._spark: SparkSession | None = None
        self._runner: SparkQueryRunner | None = None
        self._figures = FiguresFile(Storage(settings.data))
        self.lake = Lake(Storage(settings.lake), is_migrating=is_migrating)

    def spark(self) -> SparkSession:
        """The session, opened when it is first asked for.

        PipelineError if its Java has ended: PySpark opens no other one in the same process.
        """
        if self._spark is not None and has_ended():
            raise PipelineError(f"Spark has ended, as it does where {self._heap()} is too small for a query")
        if self._spark is None:
            self._progress.step("starting Spark")
            self._spark = self._given_spark or open_session(self._settings.spark)
            ensure_needed(self._spark)
            ship_package(self._spark)
            self._runner = SparkQueryRunner(
                self._spark, self.lake, self._settings.recordings, timeout_s=QUERY_TIMEOUT_S
            )
        return self._spark

    def open(self) -> None:
        """Have a session, for somebody who asks."""
        self.spark()

    def query_runner(self) -> SparkQueryRunner | None:
        """Who runs queries in the session; None: there is no session. For any thread."""
        return None if has_ended() else self._runner

    def close(self) -> None:
        """End the session and its Java, unless somebody else's is used."""
        self._runner = None
        if self._spark is not None and self._given_spark is None:
            close_session(self._spark)
        self._spark = None

    @contextlib.contextmanager
    def lock(self, holder: str) -> Iterator[None]:
        """Be the only writer meanwhile."""
        with lake_lock(self.lake.storage, holder, self._wait_s):
            self.lake.recover()
            yield

    def has_work(self, patience_s: float = 0.0) -> bool:
        """Whether files have landed that are not in bronze, or tables wait for something else. Asks no Spark.

        Little that has landed within `patience_s` is no work yet, and no server whose facts wait is lost.
        """
        state, now_us = self.lake.read_state(), self._now_us()
        if waiting := waiting_files(self._landing, state):
            waited_s = (now_us - waiting[0].modified_at_us) / 1_000_000
            return waited_s >= patience_s or sum(file.size for file in waiting) >= LITTLE_BYTES
        if self._increment(state, now_us):
            return True
        return state.version >= 0 and is_overdue(self.lake, now_us)

    def waiting_since_us(self) -> int | None:
        """When the oldest facts landed that the tables do not show; None: they show all. For any thread."""
        state = self.lake.read_state()
        landed_us = [file.modified_at_us for file in waiting_files(self._landing, state)]
        # Facts that are in bronze and in no other table yet landed when they were new, more or less.
        told_us = [state.boots[key].last_at_us for key in state.spoken]
        return min([*landed_us, *told_us], default=None)

    def dry_run(self) -> str:
        """What a run would do now, and why, in words. Takes no lock and asks no Spark."""
        state, as_of_us = self.lake.read_state(), self._now_us()
        waiting = waiting_files(self._landing, state)
        plan = self._increment(state, as_of_us)
        by_reason = plans_by_reason(state, as_of_us, self._settings.silent_us, self._horizon())
        if self._has_new_transforms(state):
            by_reason[NEW_TRANSFORMS] = plan_rebuild(state, self._whole_days(state))
            plan = plan.joined(by_reason[NEW_TRANSFORMS].as_hours())
        lines = work_text(work_of(plan, by_reason)) or "no partition of a table would be computed for facts in bronze\n"
        if waiting:
            hours = sorted({file.path.rpartition("/")[0] for file in waiting})
            lines += (
                f"{len(waiting):,} landed files would be ingested first, of {hours[0]} to {hours[-1]},"
                " and what their facts touch would be computed too\n"
            )
        return lines

    def run_cycle(self) -> None:
        """Everything once. What came of it is told in the file of figures, whether it went well or not."""
        try:
            done = self._run_cycle()
        except LakeBusy:
            raise
        except Exception:
            self._figures.failed()
            raise
        self._figures.succeeded(done, self._now_us() / 1_000_000)
        self._progress.done(done)

    def _run_cycle(self) -> RunFigures:
        began_at = time.monotonic()
        with self.lock("pipeline run"):
            spark = self.spark()
            ingested = replay_quarantined(self.lake, self._now_us(), self._settings.dimensions)
            ingested = ingested.plus(self._ingest())
            state, as_of_us = self.lake.read_state(), self._now_us()
            plan = self._plan(state, as_of_us)
            state = self._build(spark, state, plan, as_of_us)
            self._progress.step("compaction and retention")
            compact(self.lake, self._now_us())
            apply_retention(spark, self.lake, self._landing, self._settings.retention, self._now_us())
        return self._done(ingested, plan, state, began_at)

    def rebuild(self, first_day: str | None = None, last_day: str | None = None, table: str | None = None) -> None:
        """Compute silver and gold again for these days, all that bronze has if none are named.

        One table by itself is computed from the others as they are, and none of those that are made from it.
        """
        began_at, steps = time.monotonic(), None if table is None else steps_of(table)
        with self.lock("pipeline rebuild"):
            state = self.lake.read_state()
            days = self._days(state, first_day, last_day)
            # What settles a rebuild says that nothing is pending.
            as_of_us = self._now_us()
            state = self._build(self.spark(), state, self._increment(state, as_of_us), as_of_us)
            plan = plan_rebuild(state, days)
            state = self._build(self.spark(), state, plan, as_of_us, steps)
        self._progress.done(self._done(IngestResult(), plan, state, began_at))

    def migrate(self) -> None:
        """Make Delta tables of a lake from before it had any, and remove the older files when all is committed.

        Done from the start again if it was killed before that; after it, only the removal is.
        """
        storage = self.lake.storage
        with self.lock("pipeline migrate"):
            if not storage.exists(OLDER_LOG):
                self._progress.say(f"nothing to migrate: the tables in {storage.root} are Delta tables")
                return
            if is_unmigrated(storage):
                older, as_of_us = read_older(storage), self._now_us()
                days = self._whole_days(older.state)
                self._progress.step("facts and what bronze cannot tell any more, into Delta tables")
                state = carry_over(self.spark(), self.lake, older, first_day=days[0] if days else None)
                plan = plan_rebuild(state, days).joined(self._increment(state, as_of_us).as_hours())
                self._build(self.spark(), state, plan, as_of_us)
            self._progress.step("removing the older files")
            remove_older(storage)
            write_serving(storage, utc_of_us(self._now_us()))
        self._progress.say(f"migrated: the tables in {storage.root} are Delta tables; the older files are removed")

    def erase(self, *, viewer: str | None = None, ip: str | None = None) -> None:
        """Forget a viewer or an address, wherever it is kept."""
        with self.lock("pipeline erase"):
            erased = erase(self.spark(), self.lake, self._landing, self._now_us(), viewer=viewer, ip=ip)
        self._progress.say(
            f"erased: {erased.facts:,} facts, {erased.views:,} views, {erased.publications:,} publications,"
            f" {erased.gold_rows:,} rows of gold, {erased.landed_lines:,} landed lines and"
            f" {erased.quarantined_lines:,} in quarantine"
        )

    # The steps.

    def _ingest(self) -> IngestResult:
        def tell(so_far: IngestResult) -> None:
            self._progress.step(f"bronze: {so_far.files:,} files, {so_far.facts:,} facts")

        self._progress.step("bronze")
        return ingest_landed(
            self.lake, self._landing, self._now_us(), on_batch=tell, dimensions=self._settings.dimensions
        )

    def _plan(self, state: State, as_of_us: int) -> Plan:
        increment = self._increment(state, as_of_us)
        if self._has_new_transforms(state):
            days = self._whole_days(state)
            self._progress.say(
                f"the tables were made by transforms of version {state.transforms_version}, and this is"
                f" {TRANSFORMS_VERSION}: {len(days)} days are made anew, as far as bronze reaches back"
            )
            return plan_rebuild(state, days).joined(increment.as_hours())
        return increment

    def _has_new_transforms(self, state: State) -> bool:
        return state.transforms_version not in (None, TRANSFORMS_VERSION)

    def _increment(self, state: State, as_of_us: int) -> Plan:
        return plan_increment(state, as_of_us, self._settings.silent_us, self._horizon())

    def _horizon(self) -> str:
        """The first hour that bronze still has whole."""
        return hour_of_us(read_horizon_us(self.lake.storage))

    def _build(
        self, spark: SparkSession, state: State, plan: Plan, as_of_us: int, steps: frozenset[str] | None = None
    ) -> State:
        """Compute a plan as of the time at which it was made: what has ended by then is what it was made for."""
        if not plan:
            return state
        # In the state first: silver that a killed run has changed would not ask for the rest any more.
        begun = self.lake.state.commit(replace(state, planned=plan.as_hours()))
        self.lake.failpoint("planned")
        run = Run(
            spark,
            self.lake,
            plan,
            begun,
            as_of_us,
            self._settings.silent_us,
            self._progress,
            Storage(self._settings.recordings).address(),
            self._settings.dimensions,
            steps,
        )
        try:
            return build(run)
        except (Py4JError, PySparkException, ConnectionError) as error:
            raise PipelineError(f"Spark failed with {self._heap()}: {_reason(error)}") from error

    def _heap(self) -> str:
        return f"a heap of {self._settings.spark.heap} (pipeline.heap_bytes)"

    def _days(self, state: State, first_day: str | None, last_day: str | None) -> list[str]:
        known = self._whole_days(state)
        if not known:
            raise PipelineError("rebuild: there are no facts in bronze")
        if first_day is not None and first_day < known[0]:
            raise PipelineError(f"rebuild: {first_day} is past retention; bronze begins with {known[0]}")
        days = [day for day in known if (first_day or "") <= day <= (last_day or "9")]
        if not days:
            raise PipelineError(f"rebuild: bronze has no facts of those days; it has {known[0]} to {known[-1]}")
        return days

    def _whole_days(self, state: State) -> list[str]:
        """The days of which bronze has facts, and has given up none."""
        return [day for day in days_with_facts(state) if hours_of_day(day)[0] >= self._horizon()]

    def _done(self, ingested: IngestResult, plan: Plan, state: State, began_at: float) -> RunFigures:
        newest_us = max((boot.last_at_us for boot in state.boots.values()), default=None)
        if not write_serving(self.lake.storage, utc_of_us(self._now_us())):
            most = f"{MAX_STREAMS:,} streams or {MAX_ROWS:,} rows of gold"
            self._progress.say(f"serving files stay as they are: the last day has more than {most}")
        return RunFigures(
            files=ingested.files,
            facts=ingested.facts,
            quarantined=ingested.quarantined,
            partitions=plan.partitions,
            seconds=time.monotonic() - began_at,
            behind_s=None if newest_us is None else (self._now_us() - newest_us) / 1_000_000,
        )


def _reason(error: Exception) -> str:
    try:
        return one_line(error)
    except Py4JError:
        return "Java gave no reason, as it does when its memory is full"


def days_with_facts(state: State) -> list[str]:
    """The days of which bronze has facts, in order."""
    return sorted(days_of(hour for hours in state.fact_hours.values() for hour in hours))
