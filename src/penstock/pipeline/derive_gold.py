"""From silver to gold: the days that a plan bears on, written aside and put in place file by file.

Owns which rows each transform of gold is given, and how the hours that were computed join those that were not: a day's
file is the rows of before but for the computed hours, and the new rows of those. The last commit settles the plan.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.commits import Snapshot
from penstock.pipeline.derive import Derivation
from penstock.pipeline.derive_checks import stage_checks
from penstock.pipeline.hours import days_of, hours_of_day, shifted_day
from penstock.pipeline.lake import Transaction
from penstock.pipeline.plan import starts_in
from penstock.pipeline.tables import TABLES
from penstock.pipeline.transforms.audience import audience
from penstock.pipeline.transforms.common import hour_of
from penstock.pipeline.transforms.histogram_hours import histogram_hours
from penstock.pipeline.transforms.incidents import incidents
from penstock.pipeline.transforms.recordings import recordings
from penstock.pipeline.transforms.stream_health import stream_health
from penstock.pipeline.transforms.usage import usage
from penstock.pipeline.transforms.view_quality import view_quality

_TIMES: Final = {"gold.audience": "minute", "gold.stream_health": "minute", "gold.view_quality": "hour_at"}
"""What places a row in its hour."""


@dataclass(slots=True)
class GoldDerivation:
    """One run over one plan, after its silver."""

    silver: Derivation

    def run(self, snapshot: Snapshot) -> Snapshot:
        """All of gold. The state after the commit that settles the plan."""
        plan, progress = self.silver.plan, self.silver.progress
        snapshot = self._write_histograms(snapshot)
        progress.step(f"gold of {len(plan.gold_days)} days")
        transaction = self.silver.lake.begin(snapshot, "gold", self.silver.as_of_us)
        self._stage_minutes(transaction, snapshot)
        transaction.publish_gold()
        self._stage_days(transaction, snapshot)
        transaction.publish_gold()
        progress.step("checks")
        stage_checks(self.silver, transaction)
        transaction.publish_gold()
        return transaction.commit(is_settling=True)

    def _write_histograms(self, snapshot: Snapshot) -> Snapshot:
        hours = self.silver.plan.quality_hours
        if not hours:
            return snapshot
        self.silver.progress.step("histograms")
        rows = histogram_hours(self._views_in(snapshot, hours), self._read(snapshot, "rollup.view_minutes", hours))
        rows = rows.withColumn("hour", hour_of("hour_at"))
        transaction = self.silver.lake.begin(snapshot, "silver", self.silver.as_of_us)
        transaction.replace(TABLES["rollup.histogram_hours"], rows.where(F.col("hour").isin(*hours)), hours)
        return transaction.commit(planned=self.silver.plan.as_hours())

    def _stage_minutes(self, transaction: Transaction, snapshot: Snapshot) -> None:
        """What is computed by the hour."""
        plan = self.silver.plan
        if hours := plan.audience_hours:
            minutes = self._read(snapshot, "rollup.view_minutes", hours)
            rows = audience(self._views_in(snapshot, hours), minutes, hours)
            self._stage_hours(transaction, "gold.audience", rows, hours)
        if hours := plan.quality_hours:
            buckets = self._read(snapshot, "rollup.histogram_hours", hours)
            rows = view_quality(self._read(snapshot, "silver.views", hours), buckets)
            self._stage_hours(transaction, "gold.view_quality", rows, hours)
        if hours := plan.stream_hours:
            seconds = self._read(snapshot, "silver.stream_seconds", hours)
            rows = stream_health(seconds, self._publications_in(snapshot, hours))
            self._stage_hours(transaction, "gold.stream_health", rows, hours)
        if plan.recording_hours:
            rows = recordings(self._read(snapshot, "silver.recording_segments", None))
            transaction.replace_gold(TABLES["gold.recordings"], rows, ())

    def _stage_days(self, transaction: Transaction, snapshot: Snapshot) -> None:
        """What is computed by the day, from gold that is in place by now."""
        days = self.silver.plan.gold_days
        if not days:
            return
        minutes, health = (self._read(snapshot, table, days) for table in ("gold.audience", "gold.stream_health"))
        rows = usage(minutes, health)
        transaction.replace_gold(TABLES["gold.usage"], rows.withColumn("date", F.col("day").cast("string")), days)
        # What goes on over midnight is one incident of the day before, so that day is made anew as well.
        begun = {shifted_day(day, by) for day in days for by in (-1, 0)}
        around = _days_around(begun)
        hours = [hour for day in around for hour in hours_of_day(day)]
        found = incidents(
            self._read(snapshot, "rollup.stream_spells", hours),
            self._read(snapshot, "gold.audience", around),
            self._publications_in(snapshot, hours),
            begun,
        )
        dated = found.withColumn("date", F.date_format("started_at", "yyyy-MM-dd"))
        transaction.replace_gold(TABLES["gold.incidents"], dated, begun)

    def _stage_hours(self, transaction: Transaction, table: str, rows: DataFrame, hours: Collection[str]) -> None:
        """Give the days of these hours their new rows, and the rows of their other hours."""
        days, time, snapshot = days_of(hours), _TIMES[table], transaction.snapshot
        fresh = rows.where(hour_of(time).isin(*hours))
        others = {hour for day in days for hour in hours_of_day(day)} - set(hours)
        if others and self.silver.lake.gold_paths(table, days):
            kept = self._read(snapshot, table, days).drop("date")
            fresh = fresh.unionByName(kept.where(hour_of(time).isin(*others)))
        dated = fresh.withColumn("date", F.date_format(time, "yyyy-MM-dd"))
        transaction.replace_gold(TABLES[table], dated, days)

    def _views_in(self, snapshot: Snapshot, hours: Collection[str]) -> DataFrame:
        """Every view that was there in one of these hours."""
        return self._read(snapshot, "silver.views", starts_in(snapshot, "silver.views", hours))

    def _publications_in(self, snapshot: Snapshot, hours: Collection[str]) -> DataFrame:
        """Every publication that was there in one of these hours."""
        return self._read(snapshot, "silver.publications", starts_in(snapshot, "silver.publications", hours))

    def _read(self, snapshot: Snapshot, table: str, partitions: Collection[str] | None) -> DataFrame:
        return self.silver.lake.read(self.silver.spark, snapshot, table, partitions)


def _days_around(days: Collection[str]) -> list[str]:
    """These days with the one before and the one after each."""
    return sorted({shifted_day(day, by) for day in days for by in (-1, 0, 1)})
