"""The checks on what a run has computed: rows of gold.data_quality for its hours.

Owns which rows each check is given. A row of an earlier run stays unless the run has looked at the same table and hour.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.facts import FACTS as KINDS
from penstock.pipeline.checks import BOOTS, CHECKED, FACTS, QUARANTINE, broken_rules, has_rules, summed_up
from penstock.pipeline.commits import Snapshot
from penstock.pipeline.derive import Derivation
from penstock.pipeline.gathered import cut_by, gather, lies_in
from penstock.pipeline.hours import days_of, hours_of_day, shifted
from penstock.pipeline.lake import Lake, Transaction
from penstock.pipeline.plan import Plan, last_numbers_before, starts_in
from penstock.pipeline.quarantine import quarantined_files, read_quarantine
from penstock.pipeline.tables import TABLES
from penstock.pipeline.transforms.common import micros_of
from penstock.pipeline.transforms.times import within_hours

_TABLE: Final = TABLES["gold.data_quality"]
_MEASURED: Final = ("boot_key", "at_us", "seq", "landed_at_us", "step_us")
"""Of a fact, what the checks look at."""


@dataclass(slots=True)
class Checks:
    """The checks of one run. Facts are there from its beginning, tables at its end."""

    silver: Derivation
    transaction: Transaction
    _found: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    """Of each day the rows that were found so far."""

    def look_at_facts(self) -> None:
        """What is wrong with facts and refused lines, for `stage`."""
        found = self._broken_rules((FACTS, QUARANTINE))
        if found is not None:
            for (day, _), rows in cut_by(gather(found, _TABLE.full_name, ["date"]), ["date"]).items():
                self._found[day].append(rows)

    def stage(self) -> None:
        """Give the days of the run their rows of gold.data_quality."""
        silver, days = self.silver, self.silver.plan.gold_days
        silver.progress.step("checks")
        found = self._broken_rules([table for table in CHECKED if table not in (FACTS, QUARANTINE)])
        if found is None:
            found = silver.frames.read(silver.state, _TABLE.full_name, ())
        looked_at = _hours_looked_at(silver.plan)
        kept = {
            day: pa.concat_tables([_rows_before(silver, silver.state, day, looked_at), *self._found[day]])
            for day in days
        }
        self.transaction.replace_gold(_TABLE, found, days, kept)

    def _broken_rules(self, tables: Collection[str]) -> DataFrame | None:
        """Rows of gold.data_quality, with their `date`, of some of what is checked. None: there is nothing to check."""
        silver, snapshot = self.silver, self.silver.state
        looked_at, broken = _hours_looked_at(silver.plan), []
        for table in tables:
            hours = looked_at[table]
            if not hours or (table == QUARANTINE and not quarantined_files(silver.lake.storage)):
                continue
            is_unique = has_one_row_each(silver.lake, snapshot, table, hours)
            if has_rules(table) or not is_unique:
                frames = _frames(silver, snapshot, table, hours)
                broken.append(broken_rules(table, frames, is_unique=is_unique).where(_lies_in("at", hours)))
        if not broken:
            return None
        return summed_up(reduce(DataFrame.unionByName, broken)).withColumn("date", F.date_format("at", "yyyy-MM-dd"))


def has_one_row_each(lake: Lake, snapshot: Snapshot, table: str, hours: Collection[str]) -> bool:
    """Whether no partition of a table has two rows of one key. Found out here: to group by keys is dear in Spark."""
    if table not in TABLES:
        return False
    names = list(TABLES[table].key)
    for partition in days_of(hours) if table.startswith("gold.") else hours:
        keys = lake.rows(snapshot, table, [partition], names)
        if keys.group_by(names).aggregate([]).num_rows < keys.num_rows:
            return False
    return True


def _rows_before(silver: Derivation, snapshot: Snapshot, day: str, looked_at: Mapping[str, frozenset[str]]) -> pa.Table:
    """What earlier runs have found on a day, but for what this one has looked at again."""
    known = silver.lake.rows(snapshot, _TABLE.full_name, [day])
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


def _frames(silver: Derivation, snapshot: Snapshot, table: str, hours: Collection[str]) -> dict[str, DataFrame]:
    rows = silver.frames
    if table == QUARANTINE:
        return {QUARANTINE: rows.whole(read_quarantine(rows.session, silver.lake.storage))}
    if table == FACTS:
        told = rows.read_facts(snapshot, KINDS, hours, frozenset(_MEASURED)).selectExpr(*_MEASURED)
        return {FACTS: told.unionByName(_last_before(silver, snapshot, hours)), BOOTS: silver.boots(snapshot)}
    partitions = days_of(hours) if table.startswith("gold.") else hours
    frames = {table: rows.read(snapshot, table, partitions)}
    if table == "gold.usage":
        of_days = [hour for day in days_of(hours) for hour in hours_of_day(day)]
        frames["silver.views"] = rows.read(snapshot, "silver.views", starts_in(snapshot, "silver.views", of_days))
    return frames


def _last_before(silver: Derivation, snapshot: Snapshot, hours: Collection[str]) -> DataFrame:
    """The last facts before the hours, as far as their numbers go: a gap is seen, and no file is opened."""
    found = last_numbers_before(snapshot, hours)
    keys, times, seqs = (pa.array((row[place] for row in found), pa.int64()) for place in range(3))
    unknown = pa.nulls(len(found), pa.int64())
    columns = dict(zip(_MEASURED, (keys, times, seqs, times, unknown), strict=True))
    return silver.frames.of_rows(pa.table(columns))


def _lies_in(time: str, hours: Collection[str]) -> Column:
    return within_hours(micros_of(time), hours)
