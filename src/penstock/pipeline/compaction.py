"""Hours that nothing more is expected in, as one file sorted by view.

Owns when bronze is rewritten: an hour that has been over for two hours, once; and any hour that has gathered too many
files, whatever its age. A late fact makes the hour due again. Rows stay the same.
"""

from typing import Final

from pyspark.sql import SparkSession

from penstock.pipeline.bronze import joined_stats
from penstock.pipeline.commits import Snapshot
from penstock.pipeline.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake import Lake

CLOSED_FOR_US: Final = 2 * HOUR_US
MAX_FILES: Final = 60
SORTED: Final = "is_sorted"


def due_hours(snapshot: Snapshot, as_of_us: int) -> list[tuple[str, str]]:
    """Table and hour of every part of bronze that is to be rewritten."""
    found = []
    for table in sorted(snapshot.tables):
        if not table.startswith("bronze."):
            continue
        for hour in snapshot.partitions(table):
            files = snapshot.files(table, [hour])
            is_closed = us_of_hour(hour) + HOUR_US + CLOSED_FOR_US <= as_of_us
            is_one = len(files) == 1 and files[0].stats.get(SORTED, False)
            if len(files) >= MAX_FILES or (is_closed and not is_one):
                found.append((table, hour))
    return found


def compact(spark: SparkSession, lake: Lake, snapshot: Snapshot, as_of_us: int) -> Snapshot:
    """Rewrite what is due, by one commit. The state after it."""
    due = due_hours(snapshot, as_of_us)
    if not due:
        return snapshot
    transaction = lake.begin(snapshot, "compaction", as_of_us)
    for table, hour in due:
        facts = lake.read(spark, snapshot, table, [hour])
        stats = joined_stats(snapshot.files(table, [hour])) | {SORTED: True}
        transaction.rewrite_bronze(table.partition(".")[2], hour, facts, stats)
    return transaction.commit()
