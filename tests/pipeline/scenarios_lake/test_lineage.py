"""The lineage against a run: which tables each step reads and writes, of all days of a small platform."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.build.gold import steps_of_run
from penstock.pipeline.build.lineage import FILES, LINEAGE
from penstock.pipeline.build.plan import plan_rebuild
from penstock.pipeline.build.run import Run
from penstock.pipeline.build.side_by_side import Step
from penstock.pipeline.ingest.landing import ingest_landed
from penstock.pipeline.lake.arrow_lake import ArrowLake
from penstock.pipeline.lake.dimensions import Dimensions
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TRANSFORMS_VERSION
from penstock.pipeline.ops.cycle import days_with_facts
from penstock.pipeline.progress import LineProgress
from tests.pipeline.scenarios_lake.conftest import FIRST_RUN_US, Landed
from tests.pipeline.scenarios_lake.runs import DataFolder
from tests.pipeline.scenarios_lake.watched_lake import WatchedLake

NOT_ON_THIS_PLATFORM = {"silver.gops"}
"""Facts tell of recordings, whose files are not there."""


@dataclass(slots=True)
class StepUses:
    """The tables that each step reads and replaces."""

    step: str = ""
    reads: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    writes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def read(self, table: str) -> None:
        self.reads[self.step].add(table)

    def replace(self, table: str) -> None:
        self.writes[self.step].add(table)


@dataclass(frozen=True, slots=True)
class WatchedRun:
    data: DataFolder
    uses: StepUses
    steps: list[Step]


@pytest.fixture(scope="module")
def run(spark: SparkSession, landed: Landed, tmp_path_factory: pytest.TempPathFactory) -> WatchedRun:
    data = DataFolder(Path(tmp_path_factory.mktemp("lineage")), spark)
    data.land(landed.folder, landed.names)
    ingest_landed(data.lake, Storage(data.facts), FIRST_RUN_US)
    uses = StepUses()
    lake = WatchedLake(data.lake.storage, uses)
    state = lake.read_state()
    plan = plan_rebuild(state, days_with_facts(state))
    run = Run(
        spark,
        lake,
        plan,
        lake.state.commit(replace(state, planned=plan.as_hours())),
        FIRST_RUN_US,
        90_000_000,
        LineProgress(data.said, is_json=False),
        dimensions=Dimensions(("campaign",)),
    )
    steps = steps_of_run(run)
    # One after the other, each as soon as what it rests on is done, so that each use is the current step's.
    waiting, done = list(steps), set[str]()
    while waiting:
        ready = next(step for step in waiting if done.issuperset(step.after))
        uses.step = ready.name
        ready.take()
        done.add(ready.name)
        waiting.remove(ready)
    lake.state.commit(run.state.settled(run.sessions, TRANSFORMS_VERSION))
    return WatchedRun(data, uses, steps)


def test_every_table_is_written_by_the_steps_that_the_lineage_names(run: WatchedRun) -> None:
    written = {(table, step) for step, tables in run.uses.writes.items() for table in tables}
    told = {(table, made.steps[-1]) for table, made in LINEAGE.items() if made.steps}
    assert written == {(table, step) for table, step in told if table not in NOT_ON_THIS_PLATFORM}


def test_every_table_is_made_from_the_tables_that_the_lineage_names(run: WatchedRun) -> None:
    told, found = {}, {}
    for table, made in LINEAGE.items():
        if made.steps and table not in NOT_ON_THIS_PLATFORM:
            told[table] = set(made.made_from) - set(FILES)
            found[table] = {source for step in made.steps for source in run.uses.reads[step]} - {table}
    assert found == told


def test_a_step_waits_for_those_that_write_what_it_reads(run: WatchedRun) -> None:
    after = {step.name: set(step.after) for step in run.steps}

    def before(step: str) -> set[str]:
        return after[step].union(*(before(each) for each in after[step]))

    late = [
        (table, source)
        for table, made in LINEAGE.items()
        for source in made.made_from
        if source in LINEAGE and made.steps and not set(LINEAGE[source].steps) <= before(made.steps[-1])
    ]
    assert late == []


def test_a_table_that_is_rebuilt_alone_is_the_only_one_that_is_written_and_has_the_same_rows(run: WatchedRun) -> None:
    data, uses, table = run.data, StepUses("rebuild"), "gold.audience"
    before = ArrowLake(data.lake.storage).read(table)
    cycles = data.cycles(FIRST_RUN_US)
    cycles.lake = WatchedLake(data.lake.storage, uses)
    cycles.rebuild(table=table)
    assert uses.writes == {"rebuild": {table}}
    assert ArrowLake(data.lake.storage).read(table).equals(before)


def test_a_backfill_gives_days_of_a_table_their_rows_and_leaves_the_others_alone(run: WatchedRun) -> None:
    lake, table, lost, kept = run.data.lake, "gold.audience", "2026-11-15", "2026-11-14"
    before = ArrowLake(lake.storage).read(table)
    pinned = lake.pin(table)
    assert pinned is not None
    lake.put_days(table, pinned, dict.fromkeys((lost, kept), before.slice(0, 0)))
    run.data.cycles(FIRST_RUN_US).rebuild(lost, lost, table)
    after = ArrowLake(lake.storage).read(table)
    assert after.num_rows
    assert after.equals(before.filter(pc.field("minute").cast(pa.date32()) == date.fromisoformat(lost)))
