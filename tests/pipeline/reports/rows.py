"""Rows of the tables that reports read: a test names what it is about, the rest is filled in.

Also puts them into the tables of a lake on disk.
"""

import io
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.pipeline.lake.delta import Change
from penstock.pipeline.lake.hours import day_of
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, arrow_schema_of, file_schema_of, folder_of, stored_as
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.reports.gather import NEEDED_TABLES

Row = Mapping[str, Any]

_FILLED: Final[dict[str, Any]] = {
    "string": "",
    "bigint": 0,
    "int": 0,
    "double": 0.0,
    "boolean": False,
    "timestamp": datetime(2026, 11, 15, tzinfo=UTC),
    "date": date(2026, 11, 15),
}


def at(clock: str) -> datetime:
    """20:05 or 20:05:30 on the day of the tests."""
    return datetime.fromisoformat(f"2026-11-15T{clock}+00:00")


def table_of(name: str, *rows: Row) -> pa.Table:
    """Rows of a table; required columns that are not named are zero, others null."""
    table = TABLES[name]
    for row in rows:
        assert row.keys() <= {column.name for column in table.columns}, f"{name} has no {row.keys()}"
    filled = [
        {
            column.name: row.get(column.name, _FILLED[column.type] if column.required else None)
            for column in table.columns
        }
        for row in rows
    ]
    schema = pa.schema([arrow_schema_of(name).field(column.name) for column in table.columns])
    return pa.Table.from_pylist(filled, schema=schema)


def tables_of(**tables: Sequence[Row]) -> dict[str, pa.Table]:
    """All tables of a report; those that are not named, by name without layer, are empty."""
    found = {name: table_of(name, *tables.pop(name.partition(".")[2], ())) for name in NEEDED_TABLES}
    assert not tables, f"no such tables: {sorted(tables)}"
    return found


def put_gold(lake: Path, name: str, day: str | None, *rows: Row) -> None:
    """Give a day of a gold table, or all of one that has no days, these rows."""
    full_name, tables = f"gold.{name}", Lake(Storage(lake))
    tables.put_days(full_name, tables.table(full_name).pin_or_create(), {day or "": table_of(full_name, *rows)})


def commit_files(lake: Path, files: Mapping[tuple[str, str], pa.Table]) -> None:
    """Add a file with these rows to each (table, hour); columns that they do not have are null."""
    tables = Lake(Storage(lake))
    for (name, hour), rows in files.items():
        stored = stored_as(name)
        schema = file_schema_of(stored)
        held = rows.to_pydict() | {"hour": [hour] * rows.num_rows}
        columns = {each: held.get(each, [None] * rows.num_rows) for each in schema.names}
        kind = f"kind={name.removeprefix('bronze.')}/" if stored == BRONZE else ""
        path = f"{kind}date={day_of(hour)}/{hour}-{secrets.token_hex(4)}.parquet"
        data = io.BytesIO()
        pq.write_table(pa.table(columns, schema), data)
        tables.storage.put(f"{folder_of(stored)}/{path}", data.getvalue())
        tables.commit(stored, tables.table(stored).pin_or_create(), Change([path]))
