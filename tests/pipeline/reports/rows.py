"""Rows of the tables that reports read: a test names what it is about, the rest is filled in.

Also puts them into a lake on disk as the pipeline would, gold by fixed names and all else by a commit.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.pipeline.commits import Change, Commit, CommitLog, DataFile
from penstock.pipeline.reports.arrow_lake import arrow_schema
from penstock.pipeline.reports.gather import NEEDED_TABLES
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES

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
    return pa.Table.from_pylist(filled, schema=arrow_schema(table))


def tables_of(**tables: Sequence[Row]) -> dict[str, pa.Table]:
    """All tables of a report; those that are not named, by name without layer, are empty."""
    found = {name: table_of(name, *tables.pop(name.partition(".")[2], ())) for name in NEEDED_TABLES}
    assert not tables, f"no such tables: {sorted(tables)}"
    return found


def put_gold(lake: Path, name: str, day: str | None, *rows: Row) -> None:
    folder = lake / "gold" / name / (f"date={day}" if day else "")
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(f"gold.{name}", *rows), folder / "part.parquet")


def commit_files(lake: Path, files: Mapping[tuple[str, str], pa.Table]) -> None:
    """One commit that gives tables and partitions, as (table, partition), these rows."""
    changes = []
    for (table, partition), rows in files.items():
        path = f"{table.replace('.', '/')}/hour={partition}/part-0.parquet"
        (lake / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, lake / path)
        changes.append(Change(table, partition, (DataFile(path, rows.num_rows, 1),), is_replacing=True))
    log = CommitLog(Storage(lake))
    before = log.snapshot()
    log.append(before, Commit(before.number + 1, "run", 0, "silver", "0", 1, tuple(changes)))
