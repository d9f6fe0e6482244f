"""The tables of a lake: pinned, read by pruned lists of files, and written by whole files in one commit for each table.

Owns how rows become files and files become versions. Spark writes what is large and this process what is small; both
write aside, into `_staging` or under a name that no version has, and a commit makes it true. Whoever reads pins a
version and sees that one until it is vacuumed. Writers keep to one order, which is what makes two of them safe
(decision 0037): commit the state, pin the tables, compute, commit against what was pinned.
"""

import io
import itertools
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake import arrow_rows
from penstock.pipeline.lake.delta import Change, DataFile, Pinned, Table
from penstock.pipeline.lake.hours import HOUR_US, day_of, hour_of_us, hours_between
from penstock.pipeline.lake.layout import (
    BRONZE,
    DATE,
    ENDS,
    HOUR,
    KIND,
    arrow_schema_of,
    file_schema_of,
    folder_of,
    has_hours,
    order_of,
    partition_by,
    schema_of,
    stats_of,
    stored_as,
    stored_tables,
)
from penstock.pipeline.lake.state import INGEST, Batch, State, StateTable
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES

STAGING: Final = "_staging"
OLDER_LOG: Final = "_commits"
"""Of a lake from before its tables were Delta tables: see `ops.migrate`."""
MIGRATED: Final = "_notes/migrated"
"""Is there from when the Delta tables hold everything until the last older file is gone."""
_STAGED_HOUR: Final = "__hour"
_STAGED_FOR_US: Final = 24 * HOUR_US
"""No run takes so long for a file."""
_MISREAD: Final = re.compile(r"\\|%[0-9A-Fa-f]{2}")
"""What deltalake 1.6 takes for a slash, or for the letter of that code, in the name of a folder."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of a table are asked for. Files are passed over by it; rows that it lets through may be more."""

    hours: Collection[str] | None = None
    """Those of rows that say their hour, or of the days of those that do not."""
    since: str | None = None
    """The first hour, if it is not a list."""
    until: str | None = None
    """The first hour that is too late."""
    kinds: Collection[str] | None = None
    """Of facts."""
    seqs: tuple[int, int] | None = None
    """Of facts: the lowest and the highest number."""
    reaching: str | None = None
    """Rows that were there in this hour or later, whenever they began."""

    def takes(self, file: DataFile) -> bool:
        """Whether a file may have such rows."""
        if self.kinds is not None and file.partition[KIND] not in self.kinds:
            return False
        if self.seqs is not None and not _is_within(file, "seq", *self.seqs):
            return False
        if DATE not in file.partition:
            return True
        first, last = _hours_of(file)
        if self.hours is not None and not any(first <= hour <= last for hour in self.hours):
            return False
        is_in_time = (self.since is None or last >= self.since) and (self.until is None or first < self.until)
        return is_in_time and (self.reaching is None or _reach(file, last) >= self.reaching)


EVERYTHING: Final = Wanted()


def is_unmigrated(lake: Storage) -> bool:
    """Whether the lake's tables are not Delta tables yet."""
    return lake.exists(OLDER_LOG) and not lake.exists(MIGRATED)


def _is_within(file: DataFile, column: str, low: int, high: int) -> bool:
    """Whether a file may have values between these two; without statistics it may."""
    least, most = file.least.get(column), file.most.get(column)
    return least is None or most is None or (least <= high and low <= most)


def _hours_of(file: DataFile) -> tuple[str, str]:
    """The first and the last hour of a file; without statistics, of its day."""
    day = file.partition[DATE]
    return file.least.get(HOUR) or f"{day}T00", file.most.get(HOUR) or f"{day}T23"


def _reach(file: DataFile, last: str) -> str:
    """The last hour that a row of a file reaches into; without statistics, any."""
    ends = [hour_of_us(file.most[name]) for name in ENDS if file.most.get(name) is not None]
    return max(last, *ends) if ends else "~"


class Lake:
    """Everything below `data/lake`."""

    def __init__(
        self, storage: Storage, failpoint: Callable[[str], None] | None = None, *, is_migrating: bool = False
    ) -> None:
        """`failpoint` is told each point at which tests kill a run, such as `silver.views-committed`.

        LakeError if the lake is an older one, unless it is opened to migrate it.
        """
        if not is_migrating and is_unmigrated(storage):
            raise LakeError(f"the lake in {storage.root} is of an older layout: run `penstock pipeline migrate` once")
        if storage.is_local and _MISREAD.search(storage.root):
            raise LakeError(f"the lake {storage.root} needs a name without backslashes and without %-codes like %41")
        self.storage = storage
        self.failpoint = failpoint or _go_on
        self.state = StateTable(storage)
        self._tables = {
            name: Table(
                storage,
                name,
                folder_of(name),
                arrow_schema_of(name),
                partition_by=partition_by(name),
                stats=stats_of(name),
            )
            for name in stored_tables()
        }
        self._numbers = itertools.count(1)
        self._run_id = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"

    def table(self, name: str) -> Table:
        """A stored table."""
        return self._tables[stored_as(name)]

    def pin(self, name: str, version: int | None = None) -> Pinned | None:
        """The version to read of a table, or the newest; None if it was never written."""
        return self.table(name).pin(version)

    def read_state(self, bronze: Pinned | None = None) -> State:
        """The newest state, as of this version of bronze; whoever is to add to bronze pins it first and gives it."""
        pinned = bronze or self.pin(BRONZE)
        return self.state.read(None if pinned is None else pinned.transaction(INGEST))

    # Reading.

    def paths(self, pinned: Pinned | None, wanted: Wanted = EVERYTHING) -> list[str]:
        """The files, below the lake, that may have what is asked for."""
        if pinned is None:
            return []
        folder = folder_of(pinned.name)
        return [f"{folder}/{file.path}" for file in pinned.files if wanted.takes(file)]

    def count(self, pinned: Pinned | None, wanted: Wanted = EVERYTHING) -> int:
        """How many rows those files have, by the log alone."""
        return 0 if pinned is None else sum(file.rows for file in pinned.files if wanted.takes(file))

    def read(
        self,
        spark: SparkSession,
        pinned: Pinned | None,
        table: str,
        wanted: Wanted = EVERYTHING,
        columns: Collection[str] | None = None,
    ) -> DataFrame:
        """Rows of a table as Spark reads them, those that are asked for."""
        stored, schema = stored_as(table), schema_of(table)
        places = partition_by(stored)
        if stored == BRONZE and table != BRONZE:
            wanted = replace(wanted, kinds=[table.removeprefix("bronze.")])
        if columns is not None:
            schema = StructType([field for field in schema if field.name in {*columns, HOUR, *places}])
        paths = self.paths(pinned, wanted)
        if not paths:
            # Spark sees that it is empty, and leaves out what would be done with its rows.
            return spark.createDataFrame(to_arrow_schema(schema, timezone="UTC").empty_table(), schema)
        in_folders = [field for field in schema_of(stored) if field.name in places and field.name not in schema.names]
        whole = StructType([*schema, *in_folders])
        reader = spark.read.schema(whole).option("basePath", self.storage.address(folder_of(stored)))
        rows = reader.parquet(*(self.storage.pattern(path) for path in paths))
        if pinned is not None and has_hours(stored):
            condition = _condition([file for file in pinned.files if wanted.takes(file)], wanted)
            rows = rows if condition is None else rows.where(condition)
        return rows.select(*schema.names)

    def rows(
        self,
        pinned: Pinned | None,
        wanted: Wanted = EVERYTHING,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of a stored table, read by this process, or some of their columns; of `hours` no others."""
        if pinned is None:
            raise LakeError("rows of a table that was never written are asked for")
        schema = file_schema_of(pinned.name)
        names = schema.names if columns is None else list(columns)
        places = [self.storage.path_for_arrow(path) for path in self.paths(pinned, wanted)]
        if not places:
            return pa.schema([schema.field(name) for name in names]).empty_table()
        is_of_hours = wanted.hours is not None and has_hours(pinned.name)
        condition = ds.field(HOUR).isin(sorted(wanted.hours or ())) if is_of_hours else None
        try:
            dataset = ds.dataset(places, schema=schema, format="parquet", filesystem=self.storage.fs)
            return dataset.to_table(columns=names, filter=condition)
        except FileNotFoundError as error:
            raise LakeError(f"version {pinned.version} of {pinned.name} was vacuumed: its files are gone") from error

    # Writing. Each gives the version after its commit.

    def new_facts(self, kind: str, day: str, schema: pa.Schema) -> tuple[str, pq.ParquetWriter]:
        """A file of bronze that no version has yet: its path in the table, and what writes it."""
        path = f"{KIND}={kind}/{DATE}={day}/{self._new_name()}.parquet"
        return path, self.storage.parquet_writer(f"{folder_of(BRONZE)}/{path}", schema)

    def replace_hours(
        self, name: str, pinned: Pinned, rows: DataFrame, hours: Collection[str]
    ) -> tuple[Pinned, list[str]]:
        """Give these hours of a table new rows, which say their `hour` as hours since 1970, written by Spark.

        The version after it, and the new files.
        """
        table = TABLES[name]
        own = [f"`{column.name}`" for column in table.columns]
        # One file for each hour, so that the next run can replace it alone.
        placed = (
            rows.selectExpr(*own, f"{HOUR} AS {_STAGED_HOUR}")
            .repartition(_STAGED_HOUR)
            .sortWithinPartitions(_STAGED_HOUR, *order_of(table))
            .withColumn(HOUR, F.date_format(F.timestamp_seconds(F.col(_STAGED_HOUR) * 3600), "yyyy-MM-dd'T'HH"))
        )
        added = self._stage(name, placed, [_STAGED_HOUR])
        return self._replace(name, pinned, added, hours), added

    def replace_days(
        self, name: str, pinned: Pinned, rows: DataFrame, days: Collection[str], kept: pc.Expression | None = None
    ) -> Pinned:
        """Give these days of a table new rows, which say their `date`, written by Spark, one file for each day.

        Rows of before for which `kept` holds stay. A table without days is replaced as a whole.
        """
        own = [column.name for column in TABLES[name].columns]
        places = partition_by(name)
        rows = rows.select(*own, *places)
        placed = rows.repartition(*places) if places else rows.coalesce(1)
        added = self._stage(name, placed.sortWithinPartitions(*places, *order_of(TABLES[name])), places)
        # A row of another day would count twice if that day kept what it had.
        touched = {*days, *(_day_of_path(path) for path in added)} if places else {""}
        removed = [file for file in pinned.files if file.partition.get(DATE, "") in touched]
        for day in sorted(touched if kept is not None else ()):
            held = [file for file in removed if file.partition[DATE] == day]
            if held and (path := self.table(name).join(held, kept)):
                added.append(path)
        return self.commit(name, pinned, Change(added, removed))

    def put_days(self, name: str, pinned: Pinned, rows: Mapping[str, pa.Table]) -> Pinned:
        """Give these days of a table the rows that are here, one file each; a table without days has the day ''."""
        added = [path for day, held in rows.items() if (path := self._write(name, day, held))]
        removed = [file for file in pinned.files if file.partition.get(DATE, "") in rows]
        return self.commit(name, pinned, Change(added, removed))

    def ingest(self, bronze: Pinned, state: State, batch: Batch, added: Sequence[str]) -> None:
        """Add files of facts to bronze: first the state, with the batch under way, then bronze, which has it then."""
        self.failpoint("ingest-written")
        state = self.state.commit(replace(state, under_way=(*state.under_way, batch)))
        self.failpoint("ingest-under-way")
        self.commit(BRONZE, bronze, Change(added, transaction=(INGEST, state.under_way[-1].number)))

    def rewrite(self, name: str, pinned: Pinned, rows: DataFrame, removed: Sequence[DataFile]) -> Pinned:
        """Put rows in place of the files that they were read from: the same ones, but for what has to be forgotten."""
        added = self._stage(name, rows, partition_by(name))
        return self.commit(name, pinned, Change(added, removed))

    def drop_days(self, name: str, pinned: Pinned, first_day: str) -> Pinned:
        """Remove the days before this one."""
        removed = [file for file in pinned.files if file.partition.get(DATE, first_day) < first_day]
        return self.commit(name, pinned, Change(removed=removed))

    def commit(self, name: str, pinned: Pinned, change: Change) -> Pinned:
        """Make a change true."""
        self.failpoint(f"{name}-written")
        after = self.table(name).commit(pinned, change) if change else pinned
        self.failpoint(f"{name}-committed")
        return after

    def recover(self) -> None:
        """Remove what killed runs have left in staging, and what a power cut has torn. For who has the lock."""
        # The lock of a remote lake is this machine's: a writer on another one may be at what is young.
        long_ago_us = time.time_ns() // 1000 - (0 if self.storage.is_local else _STAGED_FOR_US)
        files = self.storage.find(STAGING)
        in_use = {_run_of(file.path) for file in files if file.modified_at_us > long_ago_us}
        for folder in {_run_of(file.path) for file in files} - in_use:
            self.storage.delete_folder(folder)
        self.state.recover()
        for table in self._tables.values():
            table.recover()

    def _replace(self, name: str, pinned: Pinned, added: list[str], hours: Collection[str]) -> Pinned:
        """Put new files in place of all rows of some hours; other hours of the files that go are written again."""
        wanted = Wanted(hours=hours)
        removed = [file for file in pinned.files if wanted.takes(file)]
        kept = list(added)
        for file in removed:
            first, last = _hours_of(file)
            is_other = ~ds.field(HOUR).isin(sorted(hours))
            if first != last and (path := self.table(name).join([file], is_other)):
                kept.append(path)
        return self.commit(name, pinned, Change(kept, removed))

    def _write(self, name: str, day: str, rows: pa.Table) -> str | None:
        """A file of a day with these rows in the table's order; none if there are none."""
        if not rows.num_rows:
            return None
        path = f"{self._new_name()}.parquet"
        path = f"{DATE}={day}/{path}" if partition_by(name) else path
        data = io.BytesIO()
        ordered = arrow_rows.sorted_by(rows.select(file_schema_of(name).names), order_of(TABLES[name]))
        pq.write_table(ordered.cast(file_schema_of(name)), data)
        self.storage.put(f"{folder_of(name)}/{path}", data.getvalue())
        return path

    def _stage(self, name: str, rows: DataFrame, places: list[str]) -> list[str]:
        """Let Spark write rows aside, and put its files into the folders of the table. Their paths in it."""
        folder = f"{STAGING}/{self._new_name()}"
        writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        (writer.partitionBy(*places) if places else writer).parquet(self.storage.address(folder))
        moves = {
            file.path: f"{_table_folder(file.path.split('/')[-1 - len(places) : -1])}{self._new_name()}.parquet"
            for file in self.storage.find(folder)
            if file.path.endswith(".parquet")
        }
        if not self.storage.exists(folder):
            # Of rows that are gone the commit would say that there were none.
            raise LakeBusy(f"{name}: what was staged for it is gone; is there a writer without our lock?")
        self.storage.move_all([(source, f"{folder_of(name)}/{target}") for source, target in moves.items()])
        self.storage.delete_folder(folder)
        return list(moves.values())

    def _new_name(self) -> str:
        return f"{self._run_id}-{next(self._numbers)}"


def _condition(files: Collection[DataFile], wanted: Wanted) -> Column | None:
    """What rows of these files have to be asked besides; None if all of them are wanted."""
    if wanted.hours is not None:
        hours = set(wanted.hours)
        if all(hours.issuperset(hours_between(*_hours_of(file))) for file in files):
            return None
        return F.col(HOUR).isin(sorted(hours))
    conditions = []
    if wanted.since is not None and any(_hours_of(file)[0] < wanted.since for file in files):
        conditions.append(F.col(HOUR) >= wanted.since)
    if wanted.until is not None and any(_hours_of(file)[1] >= wanted.until for file in files):
        conditions.append(F.col(HOUR) < wanted.until)
    return reduce(Column.__and__, conditions) if conditions else None


def _run_of(path: str) -> str:
    """The folder in staging that a file is in."""
    return "/".join(path.split("/")[:2])


def _day_of_path(path: str) -> str:
    """The day of a file in a table that is partitioned by days."""
    return path.partition("/")[0].partition("=")[2]


def _table_folder(staged: Sequence[str]) -> str:
    """Where in its table a file belongs that Spark has written into these folders."""
    if staged and staged[0].startswith(_STAGED_HOUR):
        return f"{DATE}={day_of(hour_of_us(int(staged[0].partition('=')[2]) * HOUR_US))}/"
    return "".join(f"{part}/" for part in staged)


def _go_on(_point: str) -> None:
    """Whoever does not watch the points of a commit."""
