"""The checks on what a run has computed: rows of gold.data_quality for its hours.

Owns which rows each check is given. A row of an earlier run stays unless the run has looked at the same table and hour.
"""

from collections.abc import Collection, Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.facts import FACTS as KINDS
from penstock.pipeline.checks import BOOTS, CHECKED, FACTS, QUARANTINE, broken_rules, summed_up
from penstock.pipeline.commits import Snapshot
from penstock.pipeline.derive import Derivation
from penstock.pipeline.hours import days_of, hours_of_day, shifted
from penstock.pipeline.lake import Transaction
from penstock.pipeline.plan import Plan, starts_in
from penstock.pipeline.quarantine import read_quarantine
from penstock.pipeline.tables import TABLES
from penstock.pipeline.transforms.common import hour_of

_TABLE: Final = TABLES["gold.data_quality"]


def stage_checks(silver: Derivation, transaction: Transaction) -> None:
    """Give the days of a run their rows of gold.data_quality."""
    snapshot, days = transaction.snapshot, silver.plan.gold_days
    looked_at = _hours_looked_at(silver.plan)
    broken = [
        broken_rules(table, _frames(silver, snapshot, table, looked_at[table])).where(_lies_in("at", looked_at[table]))
        for table in CHECKED
        if looked_at[table]
    ]
    found = summed_up(reduce(DataFrame.unionByName, broken))
    known = silver.lake.read(silver.spark, snapshot, _TABLE.full_name, days).drop("date")
    is_replaced = [(F.col("table") == table) & _lies_in("at", hours) for table, hours in looked_at.items() if hours]
    rows = found.unionByName(known.where(~reduce(Column.__or__, is_replaced, F.lit(False))))
    transaction.replace_gold(_TABLE, rows.withColumn("date", F.date_format("at", "yyyy-MM-dd")), days)


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
    spark, lake = silver.spark, silver.lake
    if table == QUARANTINE:
        return {QUARANTINE: read_quarantine(spark, lake.storage)}
    if table == FACTS:
        with_before = set(hours) | {shifted(hour, -1) for hour in hours}
        return {FACTS: lake.read_facts(spark, snapshot, KINDS, with_before), BOOTS: silver.boots(snapshot)}
    partitions = days_of(hours) if table.startswith("gold.") else hours
    frames = {table: lake.read(spark, snapshot, table, partitions)}
    if table == "gold.usage":
        of_days = [hour for day in days_of(hours) for hour in hours_of_day(day)]
        frames["silver.views"] = lake.read(
            spark, snapshot, "silver.views", starts_in(snapshot, "silver.views", of_days)
        )
    return frames


def _lies_in(time: str, hours: Collection[str]) -> Column:
    return hour_of(time).isin(*hours)
