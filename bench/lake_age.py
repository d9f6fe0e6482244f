"""Whether a question about the last hours costs more in an old lake than in a young one.

    python -m bench.lake_age [--days 3 400] [--rounds 15]

Owns two synthetic lakes of `silver.views`, written through Arrow as runs leave them: closed days are one file each, the
last day has a file for each hour, and the log has checkpoints. The question is about the last four hours, asked by
`penstock.pipeline.table` and in SQL as `penstock pipeline sql` does: each time the version is new, so the log is opened
and the view is made again. What counts is the CPU seconds of this process and of its Java. The aim is that the oldest
lake costs at most 1.5 of the youngest.
"""

import argparse
import io
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.pipeline_report import markdown
from bench.usage import cpu_s
from penstock.pipeline import table
from penstock.pipeline.engine.session import SparkSettings, open_session
from penstock.pipeline.lake.delta import Change
from penstock.pipeline.lake.hours import day_of, hours_between, us_of_hour
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import file_schema_of
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.spark_runner import SparkQueryRunner

AIM = 1.5
VIEWS = "silver.views"
VIEWS_OF_AN_HOUR = 200
NOW = datetime(2026, 11, 15, 23, 59, tzinfo=UTC)
SINCE = datetime(2026, 11, 15, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
WARM_UP = 5
SQL = """
    SELECT app, stream, count(*), sum(watch_seconds), max(skips) FROM silver.views
    WHERE date >= '2026-11-15' AND hour >= '2026-11-15T20' GROUP BY app, stream
"""


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.lake_age", description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, nargs=2, default=[3, 400], help="of the young lake and of the old one")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    spark = open_session(SparkSettings())
    doors: dict[str, Callable[[Lake], int]] = {
        "table()": lambda lake: ask_table(spark, lake),
        "sql": SqlDoor(spark),
    }
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        lakes = {days: Lake(Storage(Path(folder) / str(days))) for days in options.days}
        for days, lake in lakes.items():
            write_lake(lake, days)
            print(f"a lake of {days} days is written", file=sys.stderr)
        costs = measure(doors, lakes, options.rounds)
    young, old = options.days
    rows = [["door", f"CPU-s at {young} days", f"CPU-s at {old} days", "ratio"]]
    ratios = {door: costs[door, old] / costs[door, young] for door in doors}
    rows += [
        [door, f"{costs[door, young]:.3f}", f"{costs[door, old]:.3f}", f"{ratio:.2f}"] for door, ratio in ratios.items()
    ]
    print(markdown(rows))
    return 0 if max(ratios.values()) <= AIM else 1


def measure(
    doors: dict[str, Callable[[Lake], int]], lakes: dict[int, Lake], rounds: int
) -> dict[tuple[str, int], float]:
    """The median cost of a question by door and lake, asked in turns so that Java is equally warm for all."""
    spent: dict[tuple[str, int], list[float]] = {(door, days): [] for door in doors for days in lakes}
    for number in range(WARM_UP + rounds):
        for days, lake in lakes.items():
            touch(lake)
            for door, ask in doors.items():
                began_s = cpu_s(os.getpid())
                found = ask(lake)
                took_s = cpu_s(os.getpid()) - began_s
                if found != 4 * VIEWS_OF_AN_HOUR:
                    raise RuntimeError(f"{door} at {days} days found {found} views")
                if number >= WARM_UP:
                    spent[door, days].append(took_s)
    return {key: statistics.median(each) for key, each in spent.items()}


def ask_table(spark: SparkSession, lake: Lake) -> int:
    """The question by a DataFrame."""
    views = table(spark, VIEWS, lake=lake.storage.root, hours=(SINCE, NOW + HOUR))
    groups = views.groupBy("app", "stream").agg({"*": "count", "watch_seconds": "sum", "skips": "max"}).collect()
    return sum(group["count(1)"] for group in groups)


class SqlDoor:
    """The question in SQL."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runners: dict[str, SparkQueryRunner] = {}

    def __call__(self, lake: Lake) -> int:
        runner = self._runners.setdefault(lake.storage.root, SparkQueryRunner(self._spark, lake))
        return sum(row[2] for row in runner.run(SQL, 1000).rows)


def write_lake(lake: Lake, days: int) -> None:
    """Views of so many days: a file for each, and one for each hour of the last."""
    last = NOW.date()
    for age in range(days - 1, 0, -1):
        day = str(last - timedelta(days=age))
        hours = hours_between(f"{day}T00", f"{day}T23")
        write(lake, day, pa.concat_tables([views_of(hour) for hour in hours]))
    for hour in hours_between(f"{last}T00", f"{last}T23"):
        write(lake, hour, views_of(hour))


def touch(lake: Lake) -> None:
    """Commit the last hour again, as the run does that comes before a question."""
    hour = f"{NOW:%Y-%m-%dT%H}"
    write(lake, hour, views_of(hour))


def write(lake: Lake, place: str, views: pa.Table) -> None:
    """Give a day or an hour these views, by one file."""
    views_table = lake.table(VIEWS)
    pinned = views_table.pin_or_create()
    path = f"date={day_of(place)}/{place}-{pinned.version}.parquet"
    data = io.BytesIO()
    pq.write_table(views, data)
    lake.storage.put(f"{views_table.folder}/{path}", data.getvalue())
    replaced = [file for file in pinned.files if file.path.startswith(f"date={day_of(place)}/{place}-")]
    views_table.commit(pinned, Change([path], replaced))


def views_of(hour: str) -> pa.Table:
    """Views of an hour, on ten streams."""
    schema = file_schema_of(VIEWS)
    began_us = us_of_hour(hour)
    numbers = range(VIEWS_OF_AN_HOUR)
    columns = {
        "view_id": [f"edge-{hour}-{number}" for number in numbers],
        "server_id": ["edge"] * len(numbers),
        "boot_id": [hour] * len(numbers),
        "app": ["live"] * len(numbers),
        "stream": [f"stream-{number % 10}" for number in numbers],
        "started_at": [began_us + number * 1_000_000 for number in numbers],
        "last_seen_at": [began_us + number * 1_000_000 + 600_000_000 for number in numbers],
        "ended_at": [began_us + number * 1_000_000 + 600_000_000 for number in numbers],
        "watch_seconds": [float(number) for number in numbers],
        "skips": [number % 3 for number in numbers],
        "hour": [hour] * len(numbers),
    }
    nothing = pa.nulls(len(numbers))
    return pa.table([pa.array(columns.get(field.name, nothing)).cast(field.type) for field in schema], schema)


if __name__ == "__main__":
    sys.exit(main())
