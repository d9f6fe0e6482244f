"""Small files joined to large ones, by the library that keeps the tables. Rows stay the same.

Owns when. A day that has been over for two hours becomes one file for each table (and kind of fact), once; a late hour
splits it and makes it due again. Of a day that is not over, facts are joined when there are many small files: whoever
asks often makes many. Whoever is refused since another writer came first leaves it for the next run.
"""

from collections import Counter
from typing import Final

from penstock.errors import LakeBusy
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.hours import HOUR_US, day_of, hour_of_us
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import DATE, partition_by, stored_tables

CLOSED_FOR_US: Final = 2 * HOUR_US
MAX_FILES: Final = 60
OPEN_DAY_BYTES: Final = 32 * 1024 * 1024
"""Files of a day that is not over grow to this size and are then left alone, so that no byte is written often."""
CLOSED_DAY_BYTES: Final = 1024 * 1024 * 1024
_DAYS_AT_ONCE: Final = 4
"""Of each table in one run. After a long rebuild the next runs go on."""


def due_days(pinned: Pinned, as_of_us: int) -> dict[str, int]:
    """Days of a table whose files are to be joined, and how large those are to be at most."""
    today = day_of(hour_of_us(as_of_us - CLOSED_FOR_US))
    small = Counter[tuple[tuple[str, str], ...]]()
    for file in pinned.files:
        limit = CLOSED_DAY_BYTES if file.partition[DATE] < today else OPEN_DAY_BYTES
        small[tuple(sorted(file.partition.items()))] += file.bytes < limit
    due = {}
    for key, count in sorted(small.items()):
        day = dict(key)[DATE]
        if day < today and count > 1:
            due[day] = CLOSED_DAY_BYTES
        elif count >= MAX_FILES:
            due[day] = OPEN_DAY_BYTES
    return due


def compact(lake: Lake, as_of_us: int) -> int:
    """Join what is due, each day of a table by one commit. How many days."""
    done = 0
    for name in stored_tables():
        pinned = lake.pin(name) if partition_by(name) else None
        if pinned is None:
            continue
        first = pinned.version
        for day, target_bytes in due_days(pinned, as_of_us).items():
            try:
                pinned = lake.table(name).compact(pinned, {DATE: day}, target_bytes)
            except LakeBusy:
                break
            lake.failpoint(f"{name}-compacted")
            # Files that are too large to be joined with one another stay, and are no day.
            if pinned.version - first == _DAYS_AT_ONCE:
                break
        done += pinned.version - first
    return done
