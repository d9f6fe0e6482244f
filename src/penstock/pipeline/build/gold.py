"""From silver to gold: the days that a plan bears on, each table by commits of its own.

Owns what the steps of a run wait for, which rows each transform of gold is given, and how the hours that were computed
join those that were not: a day is the rows of before but for the computed hours, and the new rows of those. The state
that settles the plan comes last.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.build.data_quality import write_checks
from penstock.pipeline.build.recordings import write_recordings
from penstock.pipeline.build.run import Run
from penstock.pipeline.build.side_by_side import Step, only, side_by_side
from penstock.pipeline.build.silver import Silver
from penstock.pipeline.lake.arrow_rows import lies_in
from penstock.pipeline.lake.hours import day_of, days_of, hours_of_day, shifted, shifted_day
from penstock.pipeline.lake.layout import DATE
from penstock.pipeline.lake.state import State
from penstock.pipeline.lake.tables import TRANSFORMS_VERSION
from penstock.pipeline.transforms.common import hour_number, micros_of
from penstock.pipeline.transforms.gold.audience import audience
from penstock.pipeline.transforms.gold.audience_dimensions import audience_dimensions
from penstock.pipeline.transforms.gold.incidents import incidents
from penstock.pipeline.transforms.gold.recordings import recordings
from penstock.pipeline.transforms.gold.stream_health import stream_health
from penstock.pipeline.transforms.gold.unreported_usage import unreported_usage
from penstock.pipeline.transforms.gold.usage import usage
from penstock.pipeline.transforms.gold.usage_dimensions import usage_dimensions
from penstock.pipeline.transforms.gold.view_quality import view_quality
from penstock.pipeline.transforms.rollup.histogram_hours import histogram_hours
from penstock.pipeline.transforms.times import hours_span, within_hours

_TIMES: Final = {
    "gold.audience": "minute",
    "gold.audience_dimensions": "minute",
    "gold.stream_health": "minute",
    "gold.view_quality": "hour_at",
}
"""What places a row in its hour."""
_DAYS_AT_ONCE: Final = 4
"""A rebuild of a month goes a few days at a time."""
_STEPS_AT_ONCE: Final = 3
"""More would only take turns, and hold up those that others wait for."""


def build(run: Run) -> State:
    """Everything of a plan. The state that settles it."""
    side_by_side(only(steps_of_run(run), run.only), _STEPS_AT_ONCE)
    run.lake.failpoint("built")
    settled = run.state.settled(run.sessions, TRANSFORMS_VERSION)
    return run.lake.state.commit(replace(settled, recordings=run.analysed))


def steps_of_run(run: Run) -> list[Step]:
    """All of silver and gold; see `lineage` for what each reads and writes."""
    return [*Silver(run).steps(), *Gold(run).steps()]


@dataclass(slots=True)
class Gold:
    """The steps of gold, and the rollup of histograms."""

    run: Run

    def steps(self) -> list[Step]:
        """After those of silver."""
        return [
            Step("histograms", self._write_histograms, after=("views",)),
            Step("quality", self._write_quality, after=("histograms",)),
            Step("audience", self._write_audience, after=("views",)),
            Step("audience by dimension", self._write_audience_dimensions, after=("views",)),
            Step("health", self._write_health, after=("publications", "seconds")),
            Step("usage", self._write_usage, after=("audience", "health")),
            Step(
                "usage by dimension",
                self._write_usage_dimensions,
                after=("audience by dimension", "seconds", "publications"),
            ),
            Step("checks", partial(write_checks, self.run), after=("usage", "connections")),
            Step("incidents", self._write_incidents, after=("audience", "episodes")),
            Step("recordings", partial(write_recordings, self.run)),
            Step("catalogue", self._write_catalogue, after=("recordings",)),
        ]

    def _write_histograms(self) -> None:
        run, hours = self.run, self.run.plan.quality_hours
        if not hours:
            return
        rows = histogram_hours(
            run.read_present("silver.views", hours),
            run.read("rollup.view_minutes", hours),
            run.read("rollup.view_lags", hours),
            run.dimensions,
        )
        rows = rows.where(within_hours(micros_of("hour_at"), hours))
        run.replace("rollup.histogram_hours", rows.withColumn("hour", hour_number("hour_at")), hours)

    def _write_quality(self) -> None:
        run = self.run
        for hours in _few_days_each(run.plan.quality_hours):
            views, histograms = run.read("silver.views", hours), run.read("rollup.histogram_hours", hours)
            rows = view_quality(views, histograms, run.dimensions)
            self._replace_hours("gold.view_quality", rows, hours)

    def _write_audience(self) -> None:
        run = self.run
        run.progress.step(f"gold of {len(run.plan.gold_days)} days")
        for hours in _few_days_each(run.plan.audience_hours):
            rows = audience(self._watching(hours), run.read("rollup.view_minutes", hours), hours)
            self._replace_hours("gold.audience", rows, hours)

    def _write_audience_dimensions(self) -> None:
        run = self.run
        for hours in _few_days_each(run.plan.audience_hours if run.dimensions.named else ()):
            minutes = run.read("rollup.view_minutes", hours)
            rows = audience_dimensions(self._watching(hours), minutes, hours, run.dimensions)
            self._replace_hours("gold.audience_dimensions", rows, hours)

    def _watching(self, hours: Collection[str]) -> DataFrame:
        """Views that may count in these hours: who was gone before the first of them adds nothing."""
        first_us, _ = hours_span(hours)
        return self.run.read_present("silver.views", hours).where(micros_of("last_seen_at") >= first_us)

    def _write_health(self) -> None:
        run = self.run
        for hours in _few_days_each(run.plan.stream_hours):
            published = run.read_present("silver.publications", hours)
            self._replace_hours(
                "gold.stream_health", stream_health(run.read("silver.stream_seconds", hours), published), hours
            )

    def _write_catalogue(self) -> None:
        if self.run.plan.recording_hours:
            rows = recordings(self.run.read_since("silver.recording_segments", ""))
            self.run.replace_days("gold.recordings", rows, ())

    def _write_usage(self) -> None:
        run = self.run
        if days := run.plan.gold_days:
            hours = _hours_of(days)
            rows = usage(
                run.read("gold.audience", hours), run.read("gold.stream_health", hours), self._unreported_in(hours)
            )
            run.replace_days("gold.usage", rows.withColumn(DATE, F.col("day")), days)

    def _write_usage_dimensions(self) -> None:
        run, days = self.run, self.run.plan.gold_days
        if days and run.dimensions.named:
            hours = _hours_of(days)
            rows = usage_dimensions(
                run.read("gold.audience_dimensions", hours),
                run.read("silver.stream_seconds", hours),
                run.read_present("silver.publications", hours),
                self._unreported_in(hours),
                run.dimensions,
            )
            run.replace_days("gold.usage_dimensions", rows.withColumn(DATE, F.col("day")), days)

    def _write_incidents(self) -> None:
        run = self.run
        # What goes on over midnight is one incident of the day before, so that day is made anew as well.
        begun = {shifted_day(day, by) for day in run.plan.gold_days for by in (-1, 0)}
        if not begun:
            return
        hours = _hours_of({shifted_day(day, by) for day in begun for by in (-1, 0, 1)})
        found = incidents(
            run.read("rollup.stream_episodes", hours),
            run.read("gold.audience", hours),
            run.read_present("silver.publications", hours),
            begun,
        )
        run.replace_days("gold.incidents", found.withColumn(DATE, F.to_date("started_at")), begun)

    def _replace_hours(self, table: str, rows: DataFrame, hours: Collection[str]) -> None:
        """Give these hours new rows; the rows of the other hours of their days stay."""
        time, days = _TIMES[table], days_of(hours)
        fresh = rows.where(within_hours(micros_of(time), hours)).withColumn(DATE, F.to_date(time))
        others = {hour for day in days for hour in hours_of_day(day)}.difference(hours)
        self.run.replace_days(table, fresh, days, lies_in(time, others) if others else None)

    def _unreported_in(self, hours: Collection[str]) -> DataFrame:
        """What lost servers sent in these hours beyond the samples of their viewers."""
        run, table = self.run, "silver.publications"
        # A view and its publication may have been seen last on either side of an hour.
        around = {shifted(hour, by) for hour in hours for by in (-1, 0, 1)}
        sessions = {**run.state.sessions.get(table, {}), **run.sessions.get(table, {})}
        lost = {start: each for start, each in sessions.items() if each.lost_boots and each.last_hour >= min(around)}
        boots = {boot for each in lost.values() for boot in each.lost_boots}
        watched = run.read_present("silver.views", around if boots else ())
        return unreported_usage(watched.where(F.col("boot_id").isin(*boots)), run.read(table, lost))


def _hours_of(days: Collection[str]) -> list[str]:
    return [hour for day in sorted(days) for hour in hours_of_day(day)]


def _few_days_each(hours: Collection[str]) -> Iterator[frozenset[str]]:
    """The hours of a few days at a time."""
    days = sorted(days_of(hours))
    for first in range(0, len(days), _DAYS_AT_ONCE):
        some = days[first : first + _DAYS_AT_ONCE]
        yield frozenset(hour for hour in hours if day_of(hour) in some)
