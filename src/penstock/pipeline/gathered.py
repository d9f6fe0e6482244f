"""Rows that are gathered here from Spark, sorted and written by this process: all of gold, and all of a small run.

Owns the form of such files: the same bytes for the same rows, in whatever order they came and however they were made.
For few rows the way in which Spark writes, an exchange and a job that names files twice, costs more than to compute
them. What is already stored is read here as well, where rows only have to be looked up or carried over.
"""

import io
from collections.abc import Collection, Iterable, Sequence
from functools import cache, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.pipeline.hours import HOUR_US, hour_of_us, us_of_hour
from penstock.pipeline.layout import arrow_schema_of
from penstock.pipeline.storage import Storage

WHOLE: Final = ""
"""The partition of a table that has none, and the part of one that is not cut further."""


def gather(rows: DataFrame, table: str, places: Sequence[str] = ()) -> pa.Table:
    """All rows of a frame as the columns of a table, and these columns which say where they belong."""
    # Chosen here, since each name is a call into Java, and a choice another plan to be analysed.
    found = rows.toArrow()
    schema = schema_for_all(table)
    fields = [found.schema.field(name).remove_metadata() for name in places]
    return found.select([*schema.names, *places]).cast(pa.schema([*schema, *fields]))


def read_rows(storage: Storage, table: str, paths: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of these files of a table, or some of their columns; of a column that a file lacks, nulls."""
    schema = schema_for_all(table)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    if not paths:
        return schema.empty_table()
    files = [storage.path_for_arrow(path) for path in paths]
    return ds.dataset(files, schema=schema, format="parquet", filesystem=storage.fs).to_table()


def sorted_by(rows: pa.Table, order: Iterable[str]) -> pa.Table:
    """The rows in this order, nulls first, in one piece."""
    whole = rows.combine_chunks()
    keys = [(name, "ascending", "at_start") for name in order]
    return whole.take(pc.sort_indices(whole, sort_keys=keys))


def file_of(rows: pa.Table) -> bytes:
    """The bytes of a file with these rows, in their order."""
    data = io.BytesIO()
    pq.write_table(rows, data)
    return data.getvalue()


def hours_since_1970(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """The hour of each time, as a number."""
    return pc.divide(times.cast(pa.int64()), HOUR_US)


def lies_in(times: pa.ChunkedArray, hours: Collection[str]) -> pa.ChunkedArray:
    """Whether each time lies in one of the hours."""
    wanted = pa.array([us_of_hour(hour) // HOUR_US for hour in hours], pa.int64())
    return pc.is_in(hours_since_1970(times), value_set=wanted)


def cut_by(rows: pa.Table, places: list[str]) -> dict[tuple[str, str], pa.Table]:
    """Rows by partition and part, without the columns that say so; all together where there are none."""
    own = rows.drop_columns(places)
    if not places:
        return {(WHOLE, WHOLE): own}
    found = {}
    for place in rows.select(places).group_by(places).aggregate([]).to_pylist():
        is_there = reduce(pc.and_, (pc.equal(rows[name], value) for name, value in place.items()))
        partition, part = (*(str(value) for value in place.values()), WHOLE)[:2]
        found[partition_called(partition), part] = own.filter(is_there)
    return found


def partition_called(name: str) -> str:
    """The partition that a staged folder is of. Hours may be given as numbers, since 1970."""
    return hour_of_us(int(name) * HOUR_US) if name.isdigit() else name


@cache
def schema_for_all(table: str) -> pa.Schema:
    """What a file of a table holds; every column may be null, so that no run fails by a row that should not be."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema_of(table)])


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame that Spark sees to be empty, so that it leaves out what would be done with its rows."""
    return spark.createDataFrame(to_arrow_schema(schema, timezone="UTC").empty_table(), schema)
