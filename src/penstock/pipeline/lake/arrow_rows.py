"""Rows that this process reads and writes, as Arrow: sorted, and chosen by hour.

Owns the form of the files that this process writes: the same bytes for the same rows, in whatever order they came.
"""

from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.pipeline.lake.hours import HOUR_US, us_of_hour


def sorted_by(rows: pa.Table, order: Iterable[str]) -> pa.Table:
    """The rows in this order, nulls first, in one piece."""
    whole = rows.combine_chunks()
    keys = [(name, "ascending", "at_start") for name in order]
    return whole.take(pc.sort_indices(whole, sort_keys=keys))


def lies_in(time: str, hours: Collection[str]) -> pc.Expression:
    """Whether the time of a row lies in one of the hours."""
    wanted = pa.array([us_of_hour(hour) // HOUR_US for hour in hours], pa.int64())
    return pc.divide(ds.field(time).cast(pa.int64()), HOUR_US).isin(wanted)
