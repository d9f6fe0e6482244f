"""Rows of tables for tests of the lake: a test names what it is about, the rest is filled in or null."""

import secrets
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.pipeline.lake.delta import Change, Pinned
from penstock.pipeline.lake.hours import day_of
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, file_schema_of, folder_of
from penstock.pipeline.lake.tables import TABLES
from tests.pipeline.silver_rows import DEFAULTS


def rows_of(name: str, *rows: Mapping[str, Any]) -> pa.Table:
    """Rows of a stored table as a file of it holds them."""
    needed = {} if name == BRONZE else {each.name: each for each in TABLES[name].columns if each.required}
    filled = {name: DEFAULTS[each.type] for name, each in needed.items()}
    schema = file_schema_of(name)
    for row in rows:
        assert row.keys() <= set(schema.names), f"{name} has no {row.keys()}"
    return pa.Table.from_pylist([{**filled, **row} for row in rows], schema)


def put_file(lake: Lake, name: str, hour: str, rows: pa.Table, *, kind: str | None = None) -> str:
    """A file of an hour, whose rows say it, that no version has yet. Its path in the table."""
    folder = f"date={day_of(hour)}" if kind is None else f"kind={kind}/date={day_of(hour)}"
    path = f"{folder}/{hour}-{secrets.token_hex(4)}.parquet"
    if "hour" in rows.column_names:
        said = pa.array([hour] * rows.num_rows, pa.string())
        rows = rows.set_column(rows.column_names.index("hour"), "hour", said)
    lake.storage.make_folder(f"{folder_of(name)}/{folder}")
    pq.write_table(rows, lake.storage.path_for_arrow(f"{folder_of(name)}/{path}"), filesystem=lake.storage.fs)
    return path


def put_hours(lake: Lake, name: str, hours: Mapping[str, pa.Table], *, kind: str | None = None) -> Pinned:
    """The version with a further file for each hour."""
    added = [put_file(lake, name, hour, rows, kind=kind) for hour, rows in hours.items()]
    return lake.commit(name, lake.table(name).pin_or_create(), Change(added))
