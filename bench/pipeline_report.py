"""The pipeline bench's tables: medians over rounds, ratios of medians, wall and CPU seconds beside each other.

Owns how figures are put side by side, and what a ratio is: of the sums of medians where several rows belong together.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.duckdb_peer import Taken


@dataclass(frozen=True, slots=True)
class Timed:
    """One piece of work on one engine: the first time, and the rounds that count."""

    cold: Taken
    warm: tuple[Taken, ...]

    @property
    def median(self) -> Taken:
        return Taken(
            statistics.median(each.wall_s for each in self.warm), statistics.median(each.cpu_s for each in self.warm)
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work on both engines."""

    name: str
    spark: Timed
    duckdb: Timed


def summed(comparisons: Sequence[Comparison]) -> tuple[Taken, Taken]:
    """Medians of Spark and of DuckDB, each added up."""
    sums = []
    for engine in ("spark", "duckdb"):
        medians = [getattr(each, engine).median for each in comparisons]
        sums.append(Taken(sum(each.wall_s for each in medians), sum(each.cpu_s for each in medians)))
    return sums[0], sums[1]


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """As Markdown, with a row for the sum where there are several."""
    rows = [
        [
            each.name,
            *_seconds(each.spark.median),
            *_seconds(each.duckdb.median),
            *_ratios(each.spark.median, each.duckdb.median),
            f"{each.spark.cold.wall_s:.2f}",
            f"{each.duckdb.cold.wall_s:.2f}",
        ]
        for each in comparisons
    ]
    if len(comparisons) > 1:
        spark, duckdb = summed(comparisons)
        rows.append(["sum", *_seconds(spark), *_seconds(duckdb), *_ratios(spark, duckdb), "", ""])
    titles = ["", "Spark s", "CPU s", "DuckDB s", "CPU s", "ratio", "CPU ratio", "Spark cold s", "DuckDB cold s"]
    return markdown([titles, *rows])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row has the titles."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _seconds(taken: Taken) -> list[str]:
    return [f"{taken.wall_s:.2f}", f"{taken.cpu_s:.2f}"]


def _ratios(ours: Taken, theirs: Taken) -> list[str]:
    return [f"{ours.wall_s / theirs.wall_s:.2f}", f"{ours.cpu_s / theirs.cpu_s:.2f}"]
