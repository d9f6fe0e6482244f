"""The checks on what a run has computed: rows of gold.data_quality for its hours.

Owns which rows each check is given. A row of an earlier run stays unless the run has looked at the same table and hour.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.facts import FACTS as KINDS
from penstock.pipeline.build.checks import BOOTS, CHECKED, FACTS, QUARANTINE, broken_rules, has_rules, summed_up
from penstock.pipeline.build.plan import Plan, last_numbers_before
from penstock.pipeline.build.run import Run
from penstock.pipeline.ingest.quarantine import quarantined_files, read_quarantine
from penstock.pipeline.lake.arrow_rows import by_day, collected, lies_in
from penstock.pipeline.lake.hours import days_of, hours_of_day, shifted
from penstock.pipeline.lake.lake import Wanted
from penstock.pipeline.lake.layout import BRONZE, DATE, file_schema_of
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.transforms.common import micros_of
from penstock.pipeline.transforms.times import within_hours

_TABLE: Final = "gold.data_quality"
_MEASURED: Final = ("boot_key", "at_us", "seq", "landed_at_us", "step_us")
"""Of a fact, what the checks look at."""


@dataclass(slots=True)
class Checks:
    """The checks of one run. Facts are there from its beginning, tables at its end."""

    run: Run
    _found: list[pa.Table] = field(default_factory=list)
    """Rows that were found so far, with their `date`."""

    def look_at_facts(self) -> None:
        """What is wrong with facts and refused lines, for `write`."""
        self._look_at((FACTS, QUARANTINE))

    def write(self) -> None:
        """Give the days of the run their rows of gold.data_quality."""
        run = self.run
        run.progress.step("checks")
        self._look_at([table for table in CHECKED if table not in (FACTS, QUARANTINE)])
        looked_at = _hours_looked_at(run.plan)
        found = by_day(pa.concat_tables(self._found)) if self._found else {}
        nothing = file_schema_of(_TABLE).empty_table()
        run.replace_days(
            _TABLE,
            {
                day: pa.concat_tables([_rows_before(run, day, looked_at), found.get(day, nothing)])
                for day in run.plan.gold_days
            },
        )

    def _look_at(self, tables: Collection[str]) -> None:
        """Note what is wrong with some of what is checked."""
        run = self.run
        looked_at, broken = _hours_looked_at(run.plan), []
        for table in tables:
            hours = looked_at[table]
            if not hours or (table == QUARANTINE and not quarantined_files(run.lake.storage)):
                continue
            is_unique = has_one_row_each(run, table, hours)
            if has_rules(table) or not is_unique:
                frames = _frames(run, table, hours)
                broken.append(broken_rules(table, frames, is_unique=is_unique).where(_lies_in("at", hours)))
        if broken:
            rows = summed_up(reduce(DataFrame.unionByName, broken)).withColumn(DATE, F.to_date("at"))
            self._found.append(collected(rows, _TABLE))


def has_one_row_each(run: Run, table: str, hours: Collection[str]) -> bool:
    """Whether no day of a table has two rows of one key. Found out here: to group by keys is dear in Spark."""
    if table not in TABLES:
        return False
    names = list(TABLES[table].key)
    for day in days_of(hours):
        keys = run.rows(table, set(hours_of_day(day)).intersection(hours), names)
        if keys.group_by(names).aggregate([]).num_rows < keys.num_rows:
            return False
    return True


def _rows_before(run: Run, day: str, looked_at: Mapping[str, frozenset[str]]) -> pa.Table:
    """What earlier runs have found on a day, but for what this one has looked at again."""
    known = run.rows(_TABLE, [f"{day}T00"])
    for table, hours in looked_at.items():
        is_again = pc.and_(pc.equal(known["table"], table), lies_in(known["at"], hours))
        known = known.filter(pc.invert(is_again))
    return known


def _hours_looked_at(plan: Plan) -> Mapping[str, frozenset[str]]:
    """Of each table the hours whose rows a run has made anew."""
    whole_days = frozenset(hour for day in plan.gold_days for hour in hours_of_day(day))
    # What is missing between two hours counts to the later one.
    facts = plan.fact_hours | {shifted(hour, 1) for hour in plan.fact_hours}
    return {
        "silver.views": plan.view_starts,
        "silver.publications": plan.publication_starts,
        "silver.connections": plan.connection_starts,
        "gold.audience": plan.audience_hours,
        "gold.stream_health": plan.stream_hours,
        "gold.usage": frozenset(f"{day}T00" for day in plan.gold_days),
        FACTS: frozenset(hour for hour in facts if hour in whole_days),
        QUARANTINE: whole_days,
    }


def _frames(run: Run, table: str, hours: Collection[str]) -> dict[str, DataFrame]:
    if table == QUARANTINE:
        return {QUARANTINE: read_quarantine(run.spark, run.lake.storage)}
    if table == FACTS:
        wanted = Wanted(hours=hours, kinds=KINDS)
        told = run.lake.read(run.spark, run.pin(BRONZE), BRONZE, wanted, _MEASURED).select(*_MEASURED)
        return {FACTS: told.unionByName(_last_before(run, hours)), BOOTS: run.boots}
    frames = {table: run.read(table, hours)}
    if table == "gold.usage":
        of_days = [hour for day in days_of(hours) for hour in hours_of_day(day)]
        frames["silver.views"] = run.read_present("silver.views", of_days)
    return frames


def _last_before(run: Run, hours: Collection[str]) -> DataFrame:
    """The last facts before the hours, as far as their numbers go: a gap is seen, and no file is opened."""
    found = last_numbers_before(run.state, hours)
    keys, times, seqs = (pa.array((row[place] for row in found), pa.int64()) for place in range(3))
    unknown = pa.nulls(len(found), pa.int64())
    columns = dict(zip(_MEASURED, (keys, times, seqs, times, unknown), strict=True))
    return run.of_rows(pa.table(columns))


def _lies_in(time: str, hours: Collection[str]) -> Column:
    return within_hours(micros_of(time), hours)
