"""Where the tables of the lake lie, and what their files hold. Reads and writes none of them.

Owns folders, schemas and the order of rows by the name of a table:

    bronze/facts/kind=…/date=…/     every fact; `bronze.{kind}` is one kind of it
    silver/{table}/date=…/          rollup/{table}/date=…/          gold/{table}/date=…/
    gold/{table}/                   tables without partitions
    state/                          what runs leave for each other (`state`)

Files of silver and of rollups hold an hour each until their day is over, and a column `hour` that says which.
"""

from functools import cache
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DateType, StringType, StructField, StructType

from penstock.errors import LakeError
from penstock.facts import FACTS
from penstock.pipeline.lake.schemas import bronze_columns, bronze_schema, table_schema
from penstock.pipeline.lake.tables import TABLES, Table

BRONZE: Final = "bronze.facts"
"""All facts in one table, so that a batch of them is one commit."""
VIEWS_ONLY: Final = frozenset(("silver.viewer_samples",))
"""Tables that are nothing but a look at another one."""
DATE: Final = "date"
HOUR: Final = "hour"
KIND: Final = "kind"
ENDS: Final = ("last_seen_at", "ended_at", "closed_at")
"""Columns that say how far a row reaches beyond the hour in which it began."""
_FACT_STATS: Final = (HOUR, "boot_key", "seq")


def stored_tables() -> list[str]:
    """Every table that has files."""
    return [BRONZE, *(name for name in TABLES if name not in VIEWS_ONLY)]


def named_tables() -> list[str]:
    """Every table that can be asked for: those of bronze by their kinds."""
    return [BRONZE, *(f"bronze.{kind}" for kind in FACTS), *TABLES]


def stored_as(table: str) -> str:
    """The stored table that a table is a part of."""
    if table == BRONZE or table.removeprefix("bronze.") in FACTS:
        return BRONZE
    if table in VIEWS_ONLY:
        return BRONZE
    if table not in TABLES:
        raise LakeError(f"there is no table called {table}; there are {', '.join(named_tables())}")
    return table


def folder_of(table: str) -> str:
    """Where the files of a stored table are, below the lake."""
    return table.replace(".", "/")


def partition_by(table: str) -> list[str]:
    """The columns that the folders of a stored table are named by."""
    if table == BRONZE:
        return [KIND, DATE]
    return [] if TABLES[table].partition is None else [DATE]


def stats_of(table: str) -> list[str]:
    """The columns of a stored table by which its files are passed over; rows of compacted files lie by the first."""
    if table == BRONZE:
        return list(_FACT_STATS)
    columns = [column.name for column in TABLES[table].columns]
    time = time_of(TABLES[table])
    return [HOUR, *(name for name in columns if name == time or name in ENDS)]


def time_of(table: Table) -> str | None:
    """What places a row in time."""
    names = {column.name for column in table.columns}
    return next((name for name in ("minute", "hour_at", "started_at", "opened_at", "at", "day") if name in names), None)


def order_of(table: Table) -> tuple[str, ...]:
    """What rows of a file are sorted by. Spark sorts by a few bytes of the first column, and boots are few."""
    order = table.order
    return ("view_seq", "boot_key", *order[2:]) if order[:2] == ("boot_key", "view_seq") else order


def has_hours(table: str) -> bool:
    """Whether rows of a stored table say their hour."""
    return table == BRONZE or TABLES[table].partition == "hour"


@cache
def schema_of(table: str) -> StructType:
    """What readers of a table get, the columns of its partition last; every column may be null."""
    if table == BRONZE:
        fields = [*bronze_schema(), StructField(HOUR, StringType())]
    elif table.startswith("bronze."):
        wide = {field.name: field for field in (*bronze_schema(), StructField(HOUR, StringType()))}
        return StructType(
            [*(wide[name] for name in bronze_columns(table.removeprefix("bronze."))), _partition_field(DATE)]
        )
    else:
        fields = [*table_schema(TABLES[table]), *([StructField(HOUR, StringType())] if has_hours(table) else [])]
    places = [_partition_field(name) for name in partition_by(table)]
    return StructType([StructField(field.name, field.dataType) for field in (*fields, *places)])


@cache
def arrow_schema_of(table: str) -> pa.Schema:
    """The same in Arrow's types."""
    return to_arrow_schema(schema_of(table), timezone="UTC")


@cache
def file_schema_of(table: str) -> pa.Schema:
    """What a file of a stored table holds: its folder tells the rest."""
    places = partition_by(table)
    return pa.schema([field for field in arrow_schema_of(table) if field.name not in places])


def _partition_field(name: str) -> StructField:
    return StructField(name, DateType() if name == DATE else StringType())


def viewer_samples_columns() -> list[str]:
    """What silver.viewer_samples selects from facts of the kind viewer_sample, as SQL."""
    derived = {"event_id": "concat_ws('-', server_id, boot_id, seq)", "at": "timestamp_micros(at_us)"}
    names = [column.name for column in TABLES["silver.viewer_samples"].columns]
    return [*(f"{derived.get(name, name)} AS {name}" for name in names), HOUR, DATE]
