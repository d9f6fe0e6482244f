"""From bronze to silver: the hours of a plan, computed by the transforms and committed table by table.

Owns the order, and which rows each transform is given; knows no arithmetic of its own. The increment of a cycle and a
rebuild go the same way, with different plans. What rests on silver is made by `gold`. Until the run has settled the
plan stays in the state, so that a run that is killed is done again.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.build.plan import hours_with_views_of, sampled_before
from penstock.pipeline.build.run import Run
from penstock.pipeline.build.side_by_side import Step
from penstock.pipeline.lake.fact_kinds import BEACON
from penstock.pipeline.lake.hours import HOUR_US, runs_of, shifted
from penstock.pipeline.transforms.common import hour_number, micros_of, whole
from penstock.pipeline.transforms.rollup.stream_episodes import stream_episodes
from penstock.pipeline.transforms.rollup.view_lags import view_lags
from penstock.pipeline.transforms.rollup.view_minutes import carry_of, view_minutes
from penstock.pipeline.transforms.silver.connections import connections
from penstock.pipeline.transforms.silver.publications import publications
from penstock.pipeline.transforms.silver.stream_seconds import stream_carry_of, stream_seconds
from penstock.pipeline.transforms.silver.views import PLAY_KINDS, views
from penstock.pipeline.transforms.times import within_hours

_LONGEST_RUN_HOURS: Final = 24
"""So much is computed in one job: a rebuild of a month goes day by day."""
_CARRY_HOURS: Final = 2
"""How far back the last sample of a publication is looked for, in hours in which its server told any: one a second."""
_SAMPLE_COLUMNS: Final = (
    "boot_key",
    "publication_id",
    "app",
    "stream",
    "at_us",
    "interval_us",
    "received_bytes",
    "messages",
    "video_frames",
    "audio_frames",
    "keyframes",
    "timestamp_jumps",
    "viewers_sent_bytes",
    "viewers_watched_us",
)


@dataclass(slots=True)
class Silver:
    """The steps of silver but for recordings, and the rollups of minutes, lags and episodes."""

    run: Run

    def steps(self) -> list[Step]:
        """The chain of views is the longest, so it comes first."""
        return [
            Step("minutes", self._write_minutes),
            Step("lags", self._write_lags),
            Step("views", self._write_views, after=("minutes", "lags")),
            Step("publications", self._write_publications),
            # What a connection is for is told by its views and publications.
            Step("connections", self._write_connections, after=("views", "publications")),
            Step("seconds", self._write_seconds),
            Step("episodes", self._write_episodes, after=("publications", "seconds")),
        ]

    def _runs_of_views(self) -> Iterator[list[str]]:
        return runs_of(self.run.plan.view_hours, self.run.state.view_starts, _LONGEST_RUN_HOURS)

    def _runs_of_streams(self) -> Iterator[list[str]]:
        sampled = self.run.state.fact_hours.get("stream_sample", ())
        return runs_of(self.run.plan.stream_hours, sampled, _LONGEST_RUN_HOURS)

    def _write_minutes(self) -> None:
        run = self.run
        for hours in self._runs_of_views():
            run.progress.step(f"views of {hours[0]} to {hours[-1]}, minute by minute")
            starts = run.state.view_starts
            oldest = min((start for hour in hours for start in starts.get(hour, ())), default=hours[0])
            carry = carry_of(run.read_since("rollup.view_minutes", oldest, until=hours[0]))
            rows = view_minutes(run.facts(["viewer_sample"], hours), run.facts(PLAY_KINDS, hours), carry)
            run.replace("rollup.view_minutes", rows.withColumn("hour", hour_number("minute")), hours)

    def _write_lags(self) -> None:
        for hours in self._runs_of_views():
            rows = view_lags(self.run.facts(["viewer_sample"], hours))
            self.run.replace("rollup.view_lags", rows.withColumn("hour", hour_number("hour_at")), hours)

    def _write_views(self) -> None:
        run, starts = self.run, self.run.plan.view_starts
        if not starts:
            return
        run.progress.step(f"views that began in {len(starts)} hours")
        told_in = hours_with_views_of(run.state, starts)
        minutes = run.read("rollup.view_minutes", told_in).where(within_hours(micros_of("started_at"), starts))
        lags, beacons = run.read("rollup.view_lags", told_in), run.facts([BEACON], told_in)
        rows = views(run.facts(PLAY_KINDS, told_in), minutes, lags, beacons, run.boots)
        replace_by_start(run, "silver.views", rows, "started_at", starts)

    def _write_publications(self) -> None:
        run, starts = self.run, self.run.plan.publication_starts
        if not starts:
            return
        run.progress.step("publications")
        rows = publications(
            run.facts(["publish_started"], _with_neighbours(starts)),
            run.facts_since("publish_stopped", min(starts)),
            self._publication_samples(),
            run.boots,
        )
        replace_by_start(run, "silver.publications", rows, "started_at", starts)

    def _publication_samples(self) -> DataFrame:
        """New samples, and what earlier ones said of the same publications, in the same shape: counters only grow."""
        run, starts, columns = self.run, self.run.plan.publication_starts, _SAMPLE_COLUMNS
        sampled = run.facts(["stream_sample"], run.plan.stream_hours).select(*columns)
        if run.plan.stream_hours.issuperset(_since(run, "stream_sample", min(starts))):
            return sampled
        known = run.read("silver.publications", starts).select(
            F.xxhash64("server_id", "boot_id").alias("boot_key"),
            "publication_id",
            "app",
            "stream",
            micros_of("last_seen_at").alias("at_us"),
            (micros_of("last_seen_at") - micros_of("started_at")).alias("interval_us"),
            *columns[6:],
        )
        return sampled.unionByName(known)

    def _write_connections(self) -> None:
        run, starts = self.run, self.run.plan.connection_starts
        if not starts:
            return
        run.progress.step("connections")
        rows = connections(
            run.facts(["connection_opened"], _with_neighbours(starts)),
            run.facts_since("connection_closed", min(starts)),
            run.read_since("silver.views", min(starts)),
            run.read_since("silver.publications", min(starts)),
            run.boots,
        )
        replace_by_start(run, "silver.connections", rows, "opened_at", starts)

    def _write_seconds(self) -> None:
        run = self.run
        for hours in self._runs_of_streams():
            run.progress.step(f"streams of {hours[0]} to {hours[-1]}, second by second")
            earlier = sampled_before(run.state, hours, _CARRY_HOURS)
            rows = stream_seconds(
                run.facts(["stream_sample"], hours),
                run.facts(["publish_stopped"], hours),
                stream_carry_of(run.facts(["stream_sample"], earlier)),
            )
            run.replace("silver.stream_seconds", rows.withColumn("hour", hour_number("at")), hours)

    def _write_episodes(self) -> None:
        run = self.run
        for hours in self._runs_of_streams():
            published = run.read_present("silver.publications", hours)
            episodes = stream_episodes(run.read("silver.stream_seconds", hours), published)
            # By the hour of its seconds: a run that begins with the hour has its start a little before.
            placed = episodes.withColumn("hour", whole(F.col("hour_us"), F.lit(HOUR_US)))
            run.replace("rollup.stream_episodes", placed, hours)


def replace_by_start(run: Run, table: str, rows: DataFrame, time: str, starts: Collection[str]) -> None:
    """Give the hours in which sessions began those of the rows that did."""
    begun = rows.where(within_hours(micros_of(time), starts)).withColumn("hour", hour_number(time))
    run.replace(table, begun, starts)


def _since(run: Run, kind: str, hour: str) -> list[str]:
    return [each for each in run.state.fact_hours.get(kind, ()) if each >= hour]


def _with_neighbours(hours: Collection[str]) -> set[str]:
    """Hours with those beside them: a start that is reckoned back from an end may be a little off the true one."""
    return {shifted(hour, by) for hour in hours for by in (-1, 0, 1)}
