"""From silver to gold: the days that a plan bears on, written aside and put in place file by file.

Owns what the steps of a run wait for, which rows each transform of gold is given, and how the hours that were computed
join those that were not: a day's file is the rows of before but for the computed hours, and the new rows of those. The
last commit settles the plan.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.commits import DataFile, Snapshot
from penstock.pipeline.derive import Derivation
from penstock.pipeline.derive_checks import Checks
from penstock.pipeline.derive_recordings import write_recordings
from penstock.pipeline.gathered import lies_in
from penstock.pipeline.hours import day_of, days_of, hours_of_day, shifted, shifted_day
from penstock.pipeline.lake import PART, Transaction
from penstock.pipeline.plan import starts_in
from penstock.pipeline.side_by_side import Step, side_by_side
from penstock.pipeline.tables import TABLES
from penstock.pipeline.transforms.audience import audience
from penstock.pipeline.transforms.common import VIEW_KEYS, hour_number, micros_of
from penstock.pipeline.transforms.histogram_hours import STARTUP, histogram_hours
from penstock.pipeline.transforms.incidents import incidents
from penstock.pipeline.transforms.recordings import recordings
from penstock.pipeline.transforms.stream_health import stream_health
from penstock.pipeline.transforms.times import hours_span, within_hours
from penstock.pipeline.transforms.untold import untold
from penstock.pipeline.transforms.usage import usage
from penstock.pipeline.transforms.view_quality import view_quality
from penstock.pipeline.untouched import distinct

_TIMES: Final = {"gold.audience": "minute", "gold.stream_health": "minute", "gold.view_quality": "hour_at"}
"""What places a row in its hour."""
_DAYS_AT_ONCE: Final = 4
_STEPS_AT_ONCE: Final = 3
"""More would only take turns, and hold up those that others wait for."""
_OF_SAMPLES: Final = "samples"
_PART_OF_METRIC: Final = f"IF(metric = '{STARTUP}', 'startup', '{_OF_SAMPLES}')"
"""Histograms of startup are in files of their own, since they change when nothing else of an hour does."""


def derive(silver: Derivation) -> Snapshot:
    """Everything of a plan. The state after the commit that settles it."""
    try:
        GoldDerivation(silver).run()
    finally:
        silver.frames.leave()
    return silver.state


@dataclass(slots=True)
class GoldDerivation:
    """One run over one plan, with its silver."""

    silver: Derivation

    def run(self) -> None:
        """All of silver and gold. The last commit settles the plan."""
        silver = self.silver
        transaction = silver.lake.begin(silver.state, "gold", silver.as_of_us)
        checks = Checks(silver, transaction)
        of_gold = [
            Step("histograms", self._write_histograms, after=("views",)),
            Step("quality", partial(self._stage_quality, transaction), after=("histograms",)),
            Step("audience", partial(self._stage_audience, transaction), after=("views",)),
            Step("health", partial(self._stage_health, transaction), after=("publications", "seconds")),
            # What follows is made of gold that is in place by then.
            Step("minutes of gold", transaction.publish_gold, after=("audience", "health")),
            Step("usage", partial(self._stage_usage, transaction), after=("minutes of gold",)),
            Step("checks of tables", checks.stage, after=("usage", "connections", "checks of facts")),
            Step("incidents", partial(self._stage_incidents, transaction), after=("minutes of gold", "spells")),
            Step("checks of facts", checks.look_at_facts),
            Step("recordings", partial(write_recordings, silver)),
            Step("catalogue", partial(self._stage_recordings, transaction), after=("recordings",)),
        ]
        side_by_side([*silver.steps(), *of_gold], _STEPS_AT_ONCE)
        transaction.publish_gold()
        transaction.follow(silver.state)
        silver.state = transaction.commit(is_settling=True)

    def _stage_quality(self, transaction: Transaction) -> None:
        for some in _few_days_each(self.silver.plan.quality_hours):
            rows = view_quality(self._read("silver.views", some), self._read("rollup.histogram_hours", some))
            self._stage_hours(transaction, "gold.view_quality", rows, some)

    def _write_histograms(self) -> None:
        sampled, hours = self.silver.plan.sampled_hours, self.silver.plan.quality_hours
        if self.silver.changed_startups is not None:
            # Of an hour that has no new samples only the views that began in it may tell something new.
            hours = sampled | (hours & self.silver.changed_startups)
        if not hours:
            return
        rows = histogram_hours(
            self._counted_views(hours, sampled),
            self._read("rollup.view_minutes", sampled),
            self._read("rollup.view_lags", sampled),
        )
        rows = rows.where(within_hours(micros_of("hour_at"), hours))
        kept, mixed = self._counted_samples(set(hours).difference(sampled))
        if mixed:
            known = self._read("rollup.histogram_hours", mixed).drop("hour")
            rows = rows.unionByName(known.where(F.col("metric") != STARTUP))
        placed = rows.withColumns({"hour": hour_number("hour_at"), PART: F.expr(_PART_OF_METRIC)})
        self.silver.replace("rollup.histogram_hours", placed, hours, kept=kept)

    def _counted_views(self, hours: Collection[str], sampled: Collection[str]) -> DataFrame:
        """The views that began in the hours, and those that have minutes in the ones with samples."""
        begun = starts_in(self.silver.state, "silver.views", sampled)
        if not self.silver.is_small:
            return self._read("silver.views", {*hours, *begun})
        minutes = self.silver.lake.rows(self.silver.state, "rollup.view_minutes", sampled, VIEW_KEYS)
        seen = F.broadcast(self.silver.frames.of_rows(distinct(VIEW_KEYS, minutes)))
        others = self._read("silver.views", set(begun).difference(hours)).join(seen, VIEW_KEYS, "left_semi")
        return self._read("silver.views", hours).unionByName(others)

    def _counted_samples(self, hours: Collection[str]) -> tuple[dict[str, list[DataFile]], set[str]]:
        """Of hours without new samples the files that count lag and round trip, and the hours that have none apart."""
        files = {hour: self.silver.state.files("rollup.histogram_hours", [hour]) for hour in hours}
        mixed = {hour for hour, held in files.items() if any(PART not in file.stats for file in held)}
        kept = {
            hour: [file for file in held if file.stats[PART] == _OF_SAMPLES]
            for hour, held in files.items()
            if hour not in mixed
        }
        return kept, mixed

    def _stage_audience(self, transaction: Transaction) -> None:
        self.silver.progress.step(f"gold of {len(self.silver.plan.gold_days)} days")
        for hours in _few_days_each(self.silver.plan.audience_hours):
            # Who was gone before the first of the hours adds nothing to them.
            first_us, _ = hours_span(hours)
            views = self._views_in(hours).where(micros_of("last_seen_at") >= first_us)
            rows = audience(views, self._read("rollup.view_minutes", hours), hours)
            self._stage_hours(transaction, "gold.audience", rows, hours)

    def _stage_health(self, transaction: Transaction) -> None:
        for hours in _few_days_each(self.silver.plan.stream_hours):
            rows = stream_health(self._read("silver.stream_seconds", hours), self._publications_in(hours))
            self._stage_hours(transaction, "gold.stream_health", rows, hours)

    def _stage_recordings(self, transaction: Transaction) -> None:
        if self.silver.plan.recording_hours:
            rows = recordings(self._read("silver.recording_segments", None))
            transaction.replace_gold(TABLES["gold.recordings"], rows, ())

    def _stage_usage(self, transaction: Transaction) -> None:
        if days := self.silver.plan.gold_days:
            rows = usage(
                self._read("gold.audience", days), self._read("gold.stream_health", days), self._untold_in(days)
            )
            transaction.replace_gold(TABLES["gold.usage"], rows.withColumn("date", F.col("day").cast("string")), days)
            transaction.publish_gold()

    def _stage_incidents(self, transaction: Transaction) -> None:
        # What goes on over midnight is one incident of the day before, so that day is made anew as well.
        begun = {shifted_day(day, by) for day in self.silver.plan.gold_days for by in (-1, 0)}
        if not begun:
            return
        around = _days_around(begun)
        hours = [hour for day in around for hour in hours_of_day(day)]
        found = incidents(
            self._read("rollup.stream_spells", hours),
            self._read("gold.audience", around),
            self._publications_in(hours),
            begun,
        )
        dated = found.withColumn("date", F.date_format("started_at", "yyyy-MM-dd"))
        transaction.replace_gold(TABLES["gold.incidents"], dated, begun)

    def _stage_hours(self, transaction: Transaction, table: str, rows: DataFrame, hours: Collection[str]) -> None:
        """Give the days of these hours their new rows, and the rows of their other hours."""
        days, time = days_of(hours), _TIMES[table]
        fresh = rows.where(within_hours(micros_of(time), hours))
        kept = {}
        for day in days:
            known = self.silver.lake.rows(self.silver.state, table, [day])
            kept[day] = known.filter(lies_in(known[time], set(hours_of_day(day)).difference(hours)))
        dated = fresh.withColumn("date", F.date_format(time, "yyyy-MM-dd"))
        transaction.replace_gold(TABLES[table], dated, days, kept)

    def _untold_in(self, days: Collection[str]) -> DataFrame:
        """What lost servers sent on these days beyond the samples of their viewers."""
        # A view and its publication may have been seen last on either side of an hour.
        hours = {shifted(hour, by) for day in days for hour in hours_of_day(day) for by in (-1, 0, 1)}
        state, table = self.silver.state, "silver.publications"
        lost = {
            start: {boot for file in state.files(table, [start]) for boot in file.stats.get("lost_boots", ())}
            for start in starts_in(state, table, hours)
        }
        boots = {boot for held in lost.values() for boot in held}
        watched = starts_in(state, "silver.views", hours) if boots else []
        return untold(
            self._read("silver.views", watched).where(F.col("boot_id").isin(*boots)),
            self._read(table, [start for start in lost if lost[start]]),
        )

    def _views_in(self, hours: Collection[str]) -> DataFrame:
        """Every view that was there in one of these hours."""
        return self._read("silver.views", starts_in(self.silver.state, "silver.views", hours))

    def _publications_in(self, hours: Collection[str]) -> DataFrame:
        """Every publication that was there in one of these hours."""
        return self._read("silver.publications", starts_in(self.silver.state, "silver.publications", hours))

    def _read(self, table: str, partitions: Collection[str] | None) -> DataFrame:
        return self.silver.frames.read(self.silver.state, table, partitions)


def _few_days_each(hours: Collection[str]) -> Iterator[frozenset[str]]:
    """The hours of a few days at a time, since what is made of them is gathered by one process."""
    days = sorted(days_of(hours))
    for first in range(0, len(days), _DAYS_AT_ONCE):
        some = days[first : first + _DAYS_AT_ONCE]
        yield frozenset(hour for hour in hours if day_of(hour) in some)


def _days_around(days: Collection[str]) -> list[str]:
    """These days with the one before and the one after each."""
    return sorted({shifted_day(day, by) for day in days for by in (-1, 0, 1)})
