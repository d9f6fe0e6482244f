"""Rows that are here, as Arrow: sorted, cut into days, looked up by hour.

Owns the form of the files that this process writes: the same bytes for the same rows, in whatever order they came.
"""

from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from penstock.pipeline.lake.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake.layout import DATE, file_schema_of


def collected(rows: DataFrame, table: str) -> pa.Table:
    """All rows of a frame as a file of a table holds them, and their `date` if they have one."""
    found = rows.toArrow()
    schema = file_schema_of(table)
    fields = [found.schema.field(DATE).remove_metadata()] if DATE in found.column_names else []
    return found.select([*schema.names, *(field.name for field in fields)]).cast(pa.schema([*schema, *fields]))


def by_day(rows: pa.Table) -> dict[str, pa.Table]:
    """Rows by their `date`, without it."""
    own = rows.drop_columns([DATE])
    days = pc.unique(rows[DATE]).to_pylist()
    return {str(day): own.filter(pc.equal(rows[DATE], day)) for day in days}


def sorted_by(rows: pa.Table, order: Iterable[str]) -> pa.Table:
    """The rows in this order, nulls first, in one piece."""
    whole = rows.combine_chunks()
    keys = [(name, "ascending", "at_start") for name in order]
    return whole.take(pc.sort_indices(whole, sort_keys=keys))


def lies_in(times: pa.ChunkedArray, hours: Collection[str]) -> pa.ChunkedArray:
    """Whether each time lies in one of the hours."""
    wanted = pa.array([us_of_hour(hour) // HOUR_US for hour in hours], pa.int64())
    return pc.is_in(pc.divide(times.cast(pa.int64()), HOUR_US), value_set=wanted)
