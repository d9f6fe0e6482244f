"""How the lake is: each table's version, size and lag, and what waits to be computed: `penstock pipeline status`.

Owns what is told and how it is printed. `status_of` is the one place that asks the lake.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from penstock.pipeline.ingest.landing import waiting_files
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.hours import us_of_hour, utc_of_us
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import HOUR, stored_tables, time_of
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table as it is now."""

    name: str
    version: int
    """Of the table's last commit."""
    rows: int
    files: int
    bytes: int
    newest_at: datetime | None
    """The time of its newest row; None: it has none, or its rows have no time."""


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """The lake, and what is not in it yet."""

    tables: tuple[TableStatus, ...]
    waiting_files: int
    """Landed files that are not in bronze."""
    waiting_bytes: int
    oldest_waiting_at: datetime | None
    pending_hours: tuple[str, ...]
    """Hours of facts that are in bronze and that the other tables do not show."""


def status_of(lake: Lake, landing: Storage) -> LakeStatus:
    """Look at a lake. Reads logs alone, no rows."""
    state = lake.read_state()
    waiting = waiting_files(landing, state)
    oldest_us = min((file.modified_at_us for file in waiting), default=None)
    touched = {hour for hours in state.pending.hours.values() for hour in hours}
    planned = {hour for hours in state.planned.values() for hour in hours}
    pins = (lake.pin(name) for name in stored_tables())
    return LakeStatus(
        tables=tuple(_table_status(pinned) for pinned in pins if pinned is not None),
        waiting_files=len(waiting),
        waiting_bytes=sum(file.size for file in waiting),
        oldest_waiting_at=None if oldest_us is None else utc_of_us(oldest_us),
        pending_hours=tuple(sorted(touched | planned)),
    )


def _table_status(pinned: Pinned) -> TableStatus:
    table = TABLES.get(pinned.name)
    time = HOUR if table is None else time_of(table) or HOUR
    newest = max((file.most[time] for file in pinned.files if file.most.get(time) is not None), default=None)
    return TableStatus(
        name=pinned.name,
        version=pinned.version,
        rows=sum(file.rows for file in pinned.files),
        files=len(pinned.files),
        bytes=sum(file.bytes for file in pinned.files),
        newest_at=_moment(newest),
    )


def _moment(newest: int | date | str | None) -> datetime | None:
    """A statistic as a time: hours are text, and days begin at midnight."""
    match newest:
        case int():
            return utc_of_us(newest)
        case date():
            return datetime(newest.year, newest.month, newest.day, tzinfo=UTC)
        case str():
            return utc_of_us(us_of_hour(newest))
        case None:
            return None


def status_text(status: LakeStatus, now: datetime) -> str:
    """A line for each table, and what waits."""
    head = ("table", "version", "rows", "files", "size", "newest row", "lag")
    cells = [head, *(_cells(table, now) for table in status.tables)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 5) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([*lines, "", *_waiting(status, now)]) + "\n"


def _cells(table: TableStatus, now: datetime) -> tuple[str, ...]:
    newest = "" if table.newest_at is None else f"{table.newest_at:%Y-%m-%d %H:%M:%S}"
    lag = "" if table.newest_at is None else _duration((now - table.newest_at).total_seconds())
    return table.name, f"{table.version}", f"{table.rows:,}", f"{table.files:,}", _size(table.bytes), newest, lag


def _waiting(status: LakeStatus, now: datetime) -> list[str]:
    lines = []
    if status.oldest_waiting_at is not None:
        age = _duration((now - status.oldest_waiting_at).total_seconds())
        lines.append(
            f"{status.waiting_files:,} landed files wait to be ingested, {_size(status.waiting_bytes)},"
            f" the oldest for {age}"
        )
    if hours := status.pending_hours:
        lines.append(f"{len(hours)} hours of facts in bronze wait for the other tables: {hours[0]} to {hours[-1]}")
    return lines or ["nothing waits"]


def status_json(status: LakeStatus, now: datetime) -> str:
    """The same for programs; times are ISO 8601, lags seconds."""
    tables = [{**_plain(asdict(table)), "lag_s": _lag_s(table, now)} for table in status.tables]
    return json.dumps({**_plain(asdict(status)), "tables": tables}, indent=1) + "\n"


def _lag_s(table: TableStatus, now: datetime) -> float | None:
    return None if table.newest_at is None else (now - table.newest_at).total_seconds()


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _duration(seconds: float) -> str:
    parts: Sequence[tuple[float, str]] = ((86_400, "d"), (3600, "h"), (60, "min"))
    for length, unit in parts:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
