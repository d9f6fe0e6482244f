"""What the pipeline costs on a simulated day, beside DuckDB on the same files in the same run.

Two threads each. Answers are compared before times are: rows that differ make the exit code 1, times never do. Rounds
that count are warm, the median of five after two; the first round of each and the start of the session stand apart.
CPU seconds are those of the whole process tree, since machines are noisy. Run:
`python -m bench.pipeline [--quick] [--viewers N] [--rounds N]`.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from bench.duckdb_peer import DuckDbPeer, Taken
from bench.duckdb_tables import STATEMENTS
from bench.pipeline_questions import QUESTIONS, Question
from bench.pipeline_report import Comparison, Timed, comparison_table, markdown, summed
from bench.usage import cpu_s
from penstock.pipeline.build.gold import build
from penstock.pipeline.build.plan import Plan, plan_increment, plan_rebuild
from penstock.pipeline.build.run import Run
from penstock.pipeline.engine.session import SparkSettings, close_session, open_session
from penstock.pipeline.lake.dimensions import Dimensions
from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.state import State
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.simulator import Platform
from penstock.pipeline.simulator.bronze import SimulatedBronze

CORES = 2
SILENT_US = 90_000_000
_LOGS = ("state", "*/*/_delta_log")
"""What says which rows there are: data files are never changed."""
FULL = {"viewers": 170_000, "rounds": 5, "hours": 24}
QUICK = {"viewers": 8_000, "rounds": 1, "hours": 24}
WARM_UPS = {5: 2}
"""Rounds before those that count; one where there are fewer."""
AIMS = "aims: (a) at most 2.5 in sum, (b) at most 5, (c) at most 30 % of (b), 200,000 facts/s"


@dataclass(frozen=True, slots=True)
class Day:
    """A simulated day in a lake: all tables made but for its last hour, which is in bronze only."""

    folder: Path
    lake: Lake
    platform: Platform
    facts: int
    last_hour_facts: int
    written_s: float

    @property
    def as_of_us(self) -> int:
        return self.platform.ends_us

    def reset(self) -> State:
        """Forget what was committed since the day was written."""
        copy_logs(self.folder / "kept", self.folder / "lake")
        return self.lake.read_state()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, and say by the exit code whether the answers are the same."""
    options = _read_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        began_at = time.perf_counter()
        spark = open_session(SparkSettings(cores=CORES, heap=options.heap))
        spark.range(1).count()
        start_s = time.perf_counter() - began_at
        try:
            return _measure(spark, options, Path(folder), start_s)
        finally:
            close_session(spark)


def _measure(spark: SparkSession, options: argparse.Namespace, folder: Path, start_s: float) -> int:
    platform = Platform(viewers=options.viewers, first_hour=24 - options.hours, hours=options.hours)
    day = write_day(spark, platform, folder)
    print(
        f"{day.facts:,} facts of a simulated day in {day.written_s:.0f} s; Spark and DuckDB on {CORES} threads each;"
        f" session start and first job {start_s:.1f} s"
    )
    peer = DuckDbPeer(folder / "lake", CORES)
    try:
        rebuild, increment = compare_derivations(spark, day, peer, options.rounds)
        differing = [f"{name} (increment)" for name in different_tables(day, peer)]
        rebuild_day(spark, day)
        differing += different_tables(day, peer)
        questions, wrong = compare_questions(spark, day, peer, options.rounds)
    finally:
        peer.close()
    print(f"\n(a) questions to stored samples\n\n{comparison_table(questions)}")
    print(f"\n(b) bronze to all silver, rollups and gold of the day, files written\n\n{comparison_table([rebuild])}")
    print(f"\n(c) the last hour's {day.last_hour_facts:,} facts into all tables\n")
    print(_increment_table(increment, rebuild))
    print(f"\n{_rates(day, questions, rebuild, increment)}\n{AIMS}")
    for name in (*differing, *wrong):
        print(f"DIFFERENT ANSWERS: {name}", file=sys.stderr)
    return 1 if differing or wrong else 0


def copy_logs(source: Path, target: Path) -> None:
    """Put what says which rows there are in place of what another lake has."""
    for folder in (found for pattern in _LOGS for found in source.glob(pattern)):
        place = target / folder.relative_to(source)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)


def write_day(spark: SparkSession, platform: Platform, folder: Path) -> Day:
    """Simulate a day, derive all but its last hour, and keep that state to come back to."""
    lake = Lake(Storage(folder / "lake"))
    simulated = SimulatedBronze(platform, lake)
    began_at = time.perf_counter()
    hours = simulated.write_hours()
    for _ in range(platform.hours - 1):
        next(hours)
    written_s, facts = time.perf_counter() - began_at, simulated.truth.facts
    state = lake.read_state()
    # As it was then: an hour later every server would seem to have been silent for an hour.
    _build(spark, lake, state, plan_rebuild(state, [f"{platform.day}"]), platform.ends_us - HOUR_US)
    began_at = time.perf_counter()
    next(hours)
    written_s += time.perf_counter() - began_at
    copy_logs(folder / "lake", folder / "kept")
    total = simulated.truth.facts
    return Day(folder, lake, platform, total, total - facts, written_s)


def rebuild_day(spark: SparkSession, day: Day) -> Taken:
    """Everything of the day anew."""
    state = day.reset()
    with _taken() as taken:
        _build(spark, day.lake, state, plan_rebuild(state, [f"{day.platform.day}"]), day.as_of_us)
    return taken[0]


def increment_day(spark: SparkSession, day: Day) -> Taken:
    """What the last hour touches."""
    state = day.reset()
    with _taken() as taken:
        _build(spark, day.lake, state, plan_increment(state, day.as_of_us, SILENT_US), day.as_of_us)
    return taken[0]


def compare_derivations(spark: SparkSession, day: Day, peer: DuckDbPeer, rounds: int) -> tuple[Comparison, Timed]:
    """Bronze to everything, on both, and what the last hour touches."""
    state = day.lake.read_state()
    hours = state.fact_hours["viewer_sample"]

    def rebuild_peer() -> Taken:
        shutil.rmtree(day.folder / "duckdb", ignore_errors=True)
        return peer.rebuild(state, hours, day.as_of_us, SILENT_US, day.folder / "duckdb")

    # By turns: on a shared machine one that was measured minutes later would be measured on another one.
    ours, increment, theirs = _turns(
        rounds, lambda: rebuild_day(spark, day), lambda: increment_day(spark, day), rebuild_peer
    )
    return Comparison("rebuild of the day", ours, theirs), increment


def different_tables(day: Day, peer: DuckDbPeer) -> list[str]:
    """Tables of which a row differs from DuckDB's."""
    storage = day.lake.storage
    found = []
    for table in STATEMENTS:
        files = [Path(storage.path_for_arrow(path)) for path in day.lake.paths(day.lake.pin(table))]
        if count := peer.differences(table, files, day.folder / "duckdb"):
            found.append(f"{table}: {count:,} rows")
    return found


def compare_questions(
    spark: SparkSession, day: Day, peer: DuckDbPeer, rounds: int
) -> tuple[list[Comparison], list[str]]:
    """All questions on both, and those that were answered differently."""
    samples = day.lake.read(spark, day.lake.pin("bronze.viewer_sample"), "bronze.viewer_sample")
    views = day.lake.read(spark, day.lake.pin("silver.views"), "silver.views")
    peer.show_samples()
    comparisons, wrong = [], []
    for question in QUESTIONS:
        answers: list[list[tuple[object, ...]]] = []

        def ask_spark(question: Question = question, answers: list[list[tuple[object, ...]]] = answers) -> Taken:
            with _taken() as taken:
                rows = question.spark(samples, views).collect()
            answers.append(sorted((tuple(row) for row in rows), key=repr))
            return taken[0]

        def ask_peer(question: Question = question, answers: list[list[tuple[object, ...]]] = answers) -> Taken:
            rows, taken = peer.ask(question.duckdb)
            answers.append(rows)
            return taken

        comparisons.append(Comparison(question.name, _rounds(rounds, ask_spark), _rounds(rounds, ask_peer)))
        if any(answer != answers[0] for answer in answers):
            wrong.append(question.name)
    return comparisons, wrong


def _build(spark: SparkSession, lake: Lake, state: State, plan: Plan, as_of_us: int) -> None:
    progress = LineProgress(sys.stderr, is_json=False)
    begun = lake.state.commit(replace(state, planned=plan.as_hours()))
    # DuckDB makes no breakdown by subject.
    same = Dimensions(auth_subject=False)
    build(Run(spark, lake, plan, begun, as_of_us, SILENT_US, progress, dimensions=same))


def _rounds(rounds: int, work: Callable[[], Taken]) -> Timed:
    return _turns(rounds, work)[0]


def _turns(rounds: int, *works: Callable[[], Taken]) -> list[Timed]:
    """Several things, one after the other in each round."""
    taken = [[work() for work in works] for _ in range(WARM_UPS.get(rounds, 1) + rounds)]
    return [Timed(each[0], tuple(each[-rounds:])) for each in zip(*taken, strict=True)]


@contextmanager
def _taken() -> Iterator[list[Taken]]:
    """What the block took, in the list once it is over: this process and Spark's Java."""
    found: list[Taken] = []
    used_s, wall_s = cpu_s(os.getpid()), time.perf_counter()
    yield found
    found.append(Taken(time.perf_counter() - wall_s, cpu_s(os.getpid()) - used_s))


def _increment_table(increment: Timed, rebuild: Comparison) -> str:
    ours, whole, peer = increment.median, rebuild.spark.median, rebuild.duckdb.median
    return markdown(
        [
            ["", "wall s", "CPU s", "% of our rebuild", "% of DuckDB's rebuild", "cold s"],
            [
                "increment of an hour",
                f"{ours.wall_s:.2f}",
                f"{ours.cpu_s:.2f}",
                f"{100 * ours.wall_s / whole.wall_s:.1f}",
                f"{100 * ours.wall_s / peer.wall_s:.1f}",
                f"{increment.cold.wall_s:.2f}",
            ],
        ]
    )


def _rates(day: Day, questions: Sequence[Comparison], rebuild: Comparison, increment: Timed) -> str:
    ours, theirs = summed(questions)
    hour, whole, peer = increment.median, rebuild.spark.median, rebuild.duckdb.median
    return (
        f"bronze to gold: {day.facts / whole.wall_s / CORES:,.0f} facts/s per core,"
        f" {day.facts / whole.cpu_s:,.0f} per CPU second\n"
        f"ratios: (a) {ours.wall_s / theirs.wall_s:.2f}, (b) {whole.wall_s / peer.wall_s:.2f},"
        f" (c) {100 * hour.wall_s / whole.wall_s:.1f} %; by CPU seconds (a) {ours.cpu_s / theirs.cpu_s:.2f},"
        f" (b) {whole.cpu_s / peer.cpu_s:.2f}, (c) {100 * hour.cpu_s / whole.cpu_s:.1f} %"
    )


def _read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pipeline", description="Measure the pipeline beside DuckDB on a simulated day."
    )
    parser.add_argument("--quick", action="store_true", help="a small day and one round: a few minutes in all")
    parser.add_argument("--viewers", type=int, help=f"views of the day; {FULL['viewers']:,} make 19 million facts")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--hours", type=int, help="the last so many hours of the day only")
    parser.add_argument("--heap", default="2g", help="Java's heap")
    options = parser.parse_args(arguments)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    sys.exit(main())
