"""Where the tables of the lake lie, and what their files hold. Reads and writes none of them.

Owns paths and schemas by the name of a table, `bronze.{kind}` included.
"""

import io
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import LakeError
from penstock.facts import FACTS
from penstock.pipeline.schemas import PARTITION_FIELDS, bronze_schema, table_schema
from penstock.pipeline.tables import TABLES, Partition, Table

VIEWS_ONLY: Final = frozenset(("silver.viewer_samples",))
"""Tables that are nothing but a look at another one."""


def stored_tables() -> list[str]:
    """Every table that has files."""
    return [*(f"bronze.{kind}" for kind in FACTS), *(name for name in TABLES if name not in VIEWS_ONLY)]


@cache
def arrow_schema_of(table: str) -> pa.Schema:
    """What a file of a table holds, in Arrow's types."""
    return to_arrow_schema(schema_of_files(table), timezone="UTC")


def file_without_rows(table: str) -> bytes:
    """The bytes of a file of a table that has none."""
    data = io.BytesIO()
    pq.write_table(arrow_schema_of(table).empty_table(), data)
    return data.getvalue()


def folder_of(table: str) -> str:
    """Where the files of a table are, below the lake."""
    layer, _, name = table.partition(".")
    return f"bronze/kind={name}" if layer == "bronze" else f"{layer}/{name}"


def folder_of_hour(table: Table, hour: str) -> str:
    """Where the files of an hour of silver or of a rollup are."""
    return f"{folder_of(table.full_name)}/hour={hour}"


def gold_path(table: Table, day: str) -> str:
    """The file of a day of gold; of the whole table where it is not cut."""
    folder = folder_of(table.full_name)
    return f"{folder}/part.parquet" if table.partition is None else f"{folder}/date={day}/part.parquet"


def order_of(table: Table) -> tuple[str, ...]:
    """What rows of a file are sorted by. Spark sorts by a few bytes of the first column, and boots are few."""
    order = table.order
    return ("view_seq", "boot_key", *order[2:]) if order[:2] == ("boot_key", "view_seq") else order


def partition_of(table: str) -> Partition:
    """What a table is cut by."""
    return "hour" if table.startswith("bronze.") else TABLES[table].partition


def schema_of_files(table: str) -> StructType:
    """What a file of a table holds, without the columns of its partition."""
    layer, _, kind = table.partition(".")
    if layer == "bronze":
        if kind not in FACTS:
            raise LakeError(f"there is no kind of fact called {kind}")
        return bronze_schema()
    if table not in TABLES:
        raise LakeError(f"there is no table called {table}")
    return table_schema(TABLES[table])


@cache
def schema_of_facts(columns: frozenset[str] | None = None) -> StructType:
    """What readers of several kinds of facts at once get, or those columns that they ask for and the partition's."""
    wanted = (field for field in bronze_schema() if columns is None or field.name in columns)
    return StructType([*wanted, *PARTITION_FIELDS])


@cache
def schema_with_partition(table: str) -> StructType:
    """What readers of a table get."""
    fields = schema_of_files(table)
    names = {"hour": ["hour"], "day": ["date"], None: []}[partition_of(table)]
    return StructType([*fields, *(StructField(name, StringType(), nullable=False) for name in names)])
