"""The checks on what a run has computed: rows of gold.data_quality for its hours.

Owns which rows each check is given. A row of an earlier run stays unless the run has looked at the same table and hour.
"""

import operator
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.facts import FACTS as KINDS
from penstock.pipeline.build.checks import BOOTS, FACTS, QUARANTINE, broken_rules, has_rules, summed_up
from penstock.pipeline.build.plan import Plan, last_numbers_before
from penstock.pipeline.build.run import Run
from penstock.pipeline.ingest.quarantine import quarantined_files, read_quarantine
from penstock.pipeline.lake.arrow_rows import lies_in
from penstock.pipeline.lake.hours import days_of, hours_of_day, shifted
from penstock.pipeline.lake.lake import Wanted
from penstock.pipeline.lake.layout import BRONZE, DATE
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.transforms.common import micros_of
from penstock.pipeline.transforms.times import within_hours

_TABLE: Final = "gold.data_quality"
_MEASURED: Final = ("boot_key", "at_us", "seq", "landed_at_us", "step_us")
"""Of a fact, what the checks look at."""
_MANY_ROWS: Final = 500_000
"""Their keys take some 100 MB here."""


def write_checks(run: Run) -> None:
    """Give the days of the run their rows of gold.data_quality."""
    run.progress.step("checks")
    broken, again = [], []
    for table, hours in _hours_looked_at(run.plan).items():
        if not hours:
            continue
        again.append((ds.field("table") == table) & lies_in("at", hours))
        if table == QUARANTINE and not quarantined_files(run.lake.storage):
            continue
        is_unique = has_one_row_each(run, table, hours)
        if has_rules(table) or not is_unique:
            rows = broken_rules(table, _frames(run, table, hours), is_unique=is_unique)
            broken.append(rows.where(within_hours(micros_of("at"), hours)))
    if broken:
        found = summed_up(reduce(DataFrame.unionByName, broken)).withColumn(DATE, F.to_date("at"))
        run.replace_days(_TABLE, found, run.plan.gold_days, ~reduce(operator.or_, again))


def has_one_row_each(run: Run, table: str, hours: Collection[str]) -> bool:
    """Whether no day of a table has two rows of one key. Found out here: to group by keys is dear in Spark.

    Not of days with very many rows, whose keys Spark can put on the disk.
    """
    if table not in TABLES:
        return False
    names = list(TABLES[table].key)
    for day in days_of(hours):
        of_day = set(hours_of_day(day)).intersection(hours)
        if run.lake.count(run.pin(table), Wanted(hours=of_day)) > _MANY_ROWS:
            return False
        keys = run.rows(table, of_day, names)
        if keys.group_by(names).aggregate([]).num_rows < keys.num_rows:
            return False
    return True


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
