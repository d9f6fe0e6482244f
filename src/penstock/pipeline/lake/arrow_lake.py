"""Tables of the lake as Arrow, without Spark: for answers that should not wait for a session to start.

Owns how rows within a span of time are found: by the newest version of each table when it is first asked for, so two
tables may be a cycle apart. Writes nothing.
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
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.hours import utc_of_us
from penstock.pipeline.lake.lake import Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE, HOUR, file_schema_of, time_of
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES, Table

_MOMENT: Final = timedelta(microseconds=1)
_FIRST: Final = utc_of_us(0)
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when; the end is outside. None: no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def wanted(self, kinds: Sequence[str] | None = None) -> Wanted:
        """Which files have a part in it."""
        since, until = (self.since or _FIRST).astimezone(UTC), ((self.until or _LAST) - _MOMENT).astimezone(UTC)
        return Wanted(since=f"{since:%Y-%m-%dT%H}", until=f"{until:%Y-%m-%dT%H}~", kinds=kinds)


class ArrowLake:
    """Reads one lake, which any storage may hold."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lake = Lake(storage)
        self._pins: dict[str, Pinned | None] = {}

    def read(self, name: str, span: Span | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a table of TABLES within a span; none if it was never written."""
        table, span = TABLES[name], span or Span()
        dataset = self._dataset(name, span)
        return dataset.to_table(
            columns=[column.name for column in table.columns] if columns is None else list(columns),
            filter=_condition(table, span),
        )

    def tables(self, names: Iterable[str], span: Span | None = None) -> dict[str, pa.Table]:
        """Several tables within a span."""
        return {name: self.read(name, span) for name in names}

    def count(self, names: Iterable[str], span: Span) -> int:
        """How many rows the files of several tables have that `tables` would open."""
        return sum(self._lake.count(self._pin(name), span.wanted()) for name in names)

    def find(self, name: str, prefix: str, limit: int) -> list[dict[str, Any]]:
        """Rows of a table whose first column of the key begins so, as many as asked for."""
        key = ds.field(TABLES[name].key[0])
        # A range, since Parquet's statistics answer that and not whether a text begins so.
        condition = (key >= prefix) & (key < f"{prefix}\U0010ffff") if prefix else None
        rows: list[dict[str, Any]] = self._dataset(name, Span()).head(limit, filter=condition).to_pylist()
        return rows

    def facts(self, kind: str, span: Span, condition: pc.Expression) -> list[dict[str, Any]]:
        """Facts of one kind in the hours that a span touches."""
        if kind not in FACTS:
            raise MisuseError(f"lake: there is no kind of fact called {kind}")
        wanted = span.wanted()
        in_time = (ds.field(HOUR) >= wanted.since) & (ds.field(HOUR) < wanted.until)
        found = self._dataset(BRONZE, span, [kind]).to_table(filter=condition & in_time)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def is_being_built(self) -> bool:
        """Whether a run has not come to all tables yet: some of them are newer than others."""
        return bool(self._lake.read_state().planned)

    def server_starts(self, span: Span) -> list[datetime]:
        """Starts of servers, as far back as bronze is kept."""
        facts = self.facts("server_started", span, ds.field("version") > 0)
        return [utc_of_us(fact["at_us"]) for fact in facts]

    def _pin(self, name: str) -> Pinned | None:
        if name not in self._pins:
            self._pins[name] = self._lake.pin(name)
        return self._pins[name]

    def _dataset(self, name: str, span: Span, kinds: Sequence[str] | None = None) -> ds.Dataset:
        paths = self._lake.paths(self._pin(name), span.wanted(kinds))
        # With a schema given, columns that an older version did not write are null.
        schema = file_schema_of(name)
        if not paths:
            return ds.dataset(schema.empty_table())
        places = [self._storage.path_for_arrow(path) for path in paths]
        return ds.dataset(places, schema=schema, format="parquet", filesystem=self._storage.fs)


def _condition(table: Table, span: Span) -> pc.Expression | None:
    place = time_of(table)
    if place is None:
        return None
    type_ = file_schema_of(table.full_name).field(place).type
    since = ds.field(place) >= _bound(span.since or _FIRST, type_)
    until = ds.field(place) <= _bound((span.until or _LAST) - _MOMENT, type_)
    return since & until


def _bound(at: datetime, type_: pa.DataType) -> pa.Scalar:
    at = at.astimezone(UTC)
    return pa.scalar(at.date() if pa.types.is_date(type_) else at, type_)
