"""The answer to a query: columns, rows of plain values, and how they are printed.

Owns one spelling of values for all ways that an answer can come, from Spark or through a socket: timestamps are ISO
8601 in UTC, bytes are hexadecimal, maps and structs are objects.
"""

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Protocol, Self, TextIO

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.amf import printable

Format = Literal["table", "json", "csv"]

_WIDE_ENOUGH = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """Names of columns are all different."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """Whether there were more rows than were asked for."""

    @classmethod
    def of_arrow(cls, table: pa.Table, limit: int) -> Self:
        kept = table.slice(0, limit)
        columns = [[plain(value) for value in column.to_pylist()] for column in kept.columns]
        rows = tuple(zip(*columns, strict=True)) if columns else ()
        return cls(tuple(_different(table.column_names)), rows, table.num_rows > limit)

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> Self:
        return cls(tuple(value["columns"]), tuple(tuple(row) for row in value["rows"]), value["is_cut"])

    def to_json(self) -> dict[str, Any]:
        return {"columns": self.columns, "rows": self.rows, "is_cut": self.is_cut}


class QueryRunner(Protocol):
    """Whoever answers queries."""

    def run(self, query: str, limit: int) -> Answer:
        """At most so many rows; PipelineError if the query is wrong, refused or too slow."""
        ...


def plain(value: Any) -> Any:
    """A value of Arrow as JSON can hold it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return _iso(value)
        case date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() if value and all(isinstance(each, tuple) for each in value):
            # Arrow's way to hand out a map.
            return {str(plain(key)): plain(each) for key, each in value}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def write_answer(answer: Answer, format_: Format, out: TextIO) -> None:
    """Print an answer. As JSON it is an array with an object for each row."""
    match format_:
        case "json":
            rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
            out.write("[" + ",\n ".join(json.dumps(row, ensure_ascii=False) for row in rows) + "]\n")
        case "csv":
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(answer.columns)
            writer.writerows([_csv_cell(value) for value in row] for row in answer.rows)
        case "table":
            _write_table(answer, out)


def _write_table(answer: Answer, out: TextIO) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(answer.columns):
        is_number = any(isinstance(row[index], int | float) for row in answer.rows)
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    # Into a pipe lines are as long as they are; on a terminal cells are folded to fit.
    Console(file=out, width=None if out.isatty() else _WIDE_ENOUGH, highlight=False).print(table)
    count = f"{len(answer.rows):,} row{'' if len(answer.rows) == 1 else 's'}"
    out.write(f"{count}{'; there are more: see --limit' if answer.is_cut else ''}\n")


def _cell(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
        case str():
            return printable(value)
        case dict() | list():
            return _cell(json.dumps(value, ensure_ascii=False))
        case _:
            return str(value)


def _csv_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value


def _iso(value: datetime) -> str:
    # A time without a zone is a TIMESTAMP_NTZ, which names no moment.
    return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _different(names: Iterable[str]) -> Iterable[str]:
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}_{seen[name]}"
