"""Hours that nothing more is expected in, as one file sorted by view.

Owns when bronze is rewritten: an hour that has been over for two hours, once; and any hour that has gathered too many
files, whatever its age. A late fact makes the hour due again. Rows stay the same.
"""

from collections import Counter
from typing import Final

from pyspark.sql import SparkSession

from penstock.pipeline.bronze import joined_stats
from penstock.pipeline.commits import Snapshot
from penstock.pipeline.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake import Lake

CLOSED_FOR_US: Final = 2 * HOUR_US
MAX_FILES: Final = 60
SORTED: Final = "is_sorted"


def due_parts(snapshot: Snapshot, as_of_us: int) -> list[tuple[str, str]]:
    """Kind and hour of every part of bronze that is to be rewritten."""
    found = []
    for table in sorted(snapshot.tables):
        layer, _, kind = table.partition(".")
        if layer != "bronze":
            continue
        for hour in snapshot.partitions(table):
            files = snapshot.files(table, [hour])
            is_closed = us_of_hour(hour) + HOUR_US + CLOSED_FOR_US <= as_of_us
            is_one = len(files) == 1 and files[0].stats.get(SORTED, False)
            if len(files) >= MAX_FILES or (is_closed and not is_one):
                found.append((kind, hour))
    return found


def compact(spark: SparkSession, lake: Lake, snapshot: Snapshot, as_of_us: int) -> Snapshot:
    """Rewrite what is due, by one commit. The state after it."""
    due = due_parts(snapshot, as_of_us)
    if not due:
        return snapshot
    stats = {
        (kind, hour): {**joined_stats(snapshot.files(f"bronze.{kind}", [hour])), SORTED: True} for kind, hour in due
    }
    transaction = lake.begin(snapshot, "compaction", as_of_us)
    counts = Counter[str]()
    for kind, hour in due:
        counts[kind] += sum(file.rows for file in snapshot.files(f"bronze.{kind}", [hour]))
    transaction.rewrite_bronze_parts(lake.read_parts(spark, snapshot, due), stats, counts)
    return transaction.commit()
