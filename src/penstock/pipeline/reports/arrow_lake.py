"""Tables of the lake as Arrow, without Spark: for answers that should not wait for a session to start.

Owns how rows within a span of time are found: gold by the files that are there, each put in place whole by one rename;
all else by the commits of the lake. Gold is read file by file, so two tables of it may be a cycle apart. Writes
nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.errors import MisuseError
from penstock.facts import FACTS
from penstock.pipeline.commits import CommitLog
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES, Table

_ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}
_TIME_COLUMNS: Final = ("minute", "hour_at", "started_at", "opened_at", "at", "day")
"""What places a row in time, the first that a table has."""
_MOMENT: Final = timedelta(microseconds=1)
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when; the end is outside. None: no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def holds(self, partition: str) -> bool:
        """Whether an hour or day, spelled as in names of partitions, has a part in it."""
        first = (self.since or _FIRST).astimezone(UTC).isoformat()[: len(partition)]
        last = ((self.until or _LAST) - _MOMENT).astimezone(UTC).isoformat()[: len(partition)]
        return first <= partition <= last


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a table in Arrow's types."""
    return pa.schema([pa.field(each.name, _ARROW_TYPES[each.type]) for each in table.columns])


class ArrowLake:
    """Reads one lake, which any storage may hold. Commits are those that were there when it was made."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._snapshot = CommitLog(storage).snapshot()

    def read(self, name: str, span: Span | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a table of TABLES within a span; none if it was never written."""
        table, span = TABLES[name], span or Span()
        dataset = self._dataset(self._paths(table, span), arrow_schema(table))
        return dataset.to_table(columns=columns and list(columns), filter=_condition(table, span))

    def tables(self, names: Iterable[str], span: Span | None = None) -> dict[str, pa.Table]:
        """Several tables within a span."""
        return {name: self.read(name, span) for name in names}

    def find(self, name: str, prefix: str, limit: int) -> list[dict[str, Any]]:
        """Rows of a table whose first column of the key begins so, as many as asked for."""
        table = TABLES[name]
        key = ds.field(table.key[0])
        # A range, since Parquet's statistics answer that and not whether a text begins so.
        condition = (key >= prefix) & (key < f"{prefix}\U0010ffff") if prefix else None
        dataset = self._dataset(self._paths(table, Span()), arrow_schema(table))
        rows: list[dict[str, Any]] = dataset.head(limit, filter=condition).to_pylist()
        return rows

    def facts(self, kind: str, span: Span, condition: pc.Expression) -> list[dict[str, Any]]:
        """Facts of one kind in the hours that a span touches."""
        if kind not in FACTS:
            raise MisuseError(f"lake: there is no kind of fact called {kind}")
        hours = [hour for hour in self._snapshot.partitions(f"bronze.{kind}") if span.holds(hour)]
        paths = [file.path for file in self._snapshot.files(f"bronze.{kind}", hours)]
        if not paths:
            return []
        rows: list[dict[str, Any]] = self._dataset(paths, None).to_table(filter=condition).to_pylist()
        return rows

    def _paths(self, table: Table, span: Span) -> list[str]:
        if table.layer != "gold":
            partitions = self._snapshot.partitions(table.full_name)
            held = [each for each in partitions if table.partition is None or span.holds(each)]
            return [file.path for file in self._snapshot.files(table.full_name, held)]
        found = [file.path for file in self._storage.find(f"gold/{table.name}")]
        parts = [path for path in found if path.endswith("/part.parquet")]
        return [path for path in parts if table.partition is None or span.holds(path.split("/")[-2].partition("=")[2])]

    def _dataset(self, paths: Sequence[str], schema: pa.Schema | None) -> ds.Dataset:
        # With a schema given, columns that an older version did not write are null.
        full = [self._storage.path_for_arrow(path) for path in paths]
        if not full and schema is not None:
            return ds.dataset(schema.empty_table())
        return ds.dataset(full, schema=schema, format="parquet", filesystem=self._storage.fs)


def _condition(table: Table, span: Span) -> pc.Expression | None:
    names = {each.name: each.type for each in table.columns}
    place = next((name for name in _TIME_COLUMNS if name in names), None)
    if place is None:
        return None
    type_ = _ARROW_TYPES[names[place]]
    since = ds.field(place) >= _bound(span.since or _FIRST, type_)
    until = ds.field(place) <= _bound((span.until or _LAST) - _MOMENT, type_)
    return since & until


def _bound(at: datetime, type_: pa.DataType) -> pa.Scalar:
    at = at.astimezone(UTC)
    return pa.scalar(at.date() if pa.types.is_date(type_) else at, type_)
