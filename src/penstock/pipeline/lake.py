"""The tables of the lake: read by the log of commits, written aside, put in place by one commit.

Owns where files lie and what they are called:

    bronze/kind=…/hour=…/{run}-{n}.parquet      listed in commits
    silver/{table}/hour=…/{run}-{n}.parquet     listed in commits
    rollup/{table}/hour=…/{run}-{n}.parquet     listed in commits
    gold/{table}/date=…/part.parquet            replaced in one step, for anyone to read at any time
    _live/{layer}.{table}                       names of the listed files, one on each line, for views in SQL
    _live/_number                               the commit that those names are of
    _staging/{run}/…                            what a run is writing; nobody else's business

Rows of a file are in the table's order. Spark writes the files of bronze and of large runs, this process all others.
"""

import io
import itertools
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import __version__
from penstock.pipeline.commits import BootSpan, Change, Commit, CommitLog, DataFile, Snapshot, Touched
from penstock.pipeline.file_notes import notes_of_file, notes_of_rows
from penstock.pipeline.gathered import WHOLE, cut_by, file_of, gather, no_rows, partition_called, read_rows, sorted_by
from penstock.pipeline.gold_files import GoldFiles
from penstock.pipeline.layout import (
    arrow_schema_of,
    file_without_rows,
    folder_of,
    folder_of_hour,
    gold_path,
    order_of,
    partition_of,
    schema_of_facts,
    schema_with_partition,
    stored_tables,
)
from penstock.pipeline.schemas import bronze_columns, bronze_schema, table_schema
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES, TRANSFORMS_VERSION, Table

PART: Final = "part"
"""A column of rows that are to be in files of their own, and in the stats of those files."""
_STAGED_PARTITION: Final = "__partition"
_STAGED_PART: Final = "__part"
_BY_VIEW: Final = ("boot_key", "view_seq", "seq")
_MANY_FACTS: Final = 50_000
_LISTED_NUMBER: Final = "_live/_number"
# Of long ago, and without rows: where nothing else is yet.
_FIRST_PARTITION: Final = {
    "hour": "hour=1970-01-01T00/empty.parquet",
    "day": "date=1970-01-01/part.parquet",
    None: "part.parquet",
}


def new_run_id(now_us: int) -> str:
    """A name for a run: sorted by time, and like no other."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now_us / 1_000_000))}-{secrets.token_hex(4)}"


class Lake:
    """Everything below `data/lake`. Writing is for whoever holds the lock."""

    def __init__(self, storage: Storage, reached: Callable[[str], None] | None = None) -> None:
        """`reached` is told each point of a commit at which a run may die, such as `silver-written`."""
        self.storage = storage
        self.reached = reached or _go_on
        self._log = CommitLog(storage)

    def snapshot(self) -> Snapshot:
        """The newest committed state."""
        return self._log.snapshot()

    def read(
        self, spark: SparkSession, snapshot: Snapshot, table: str, partitions: Collection[str] | None = None
    ) -> DataFrame:
        """Rows of a table, `bronze.{kind}` included, in these partitions or all; bronze and silver with `hour`."""
        schema = schema_with_partition(table)
        paths = self._paths(snapshot, table, partitions)
        if not paths:
            return no_rows(spark, schema)
        base = self.storage.address(folder_of(table))
        patterns = [self.storage.pattern(path) for path in paths]
        return spark.read.schema(schema).option("basePath", base).parquet(*patterns)

    def read_parts(
        self,
        spark: SparkSession,
        snapshot: Snapshot,
        parts: Iterable[tuple[str, str]],
        columns: frozenset[str] | None = None,
    ) -> DataFrame:
        """Bronze of these kinds and hours, in one look, with `kind` and `hour`.

        Bronze has a column for whatever any fact tells, and Spark looks at all of them many times before it finds that
        few are used: who knows may ask for some.
        """
        paths = [file.path for kind, hour in parts for file in snapshot.files(f"bronze.{kind}", [hour])]
        schema = schema_of_facts(columns)
        if not paths:
            return no_rows(spark, schema)
        base = self.storage.address("bronze")
        patterns = [self.storage.pattern(path) for path in paths]
        return spark.read.schema(schema).option("basePath", base).parquet(*patterns)

    def gold_paths(self, table: str, days: Collection[str] | None = None) -> list[str]:
        """The files of a gold table that are there."""
        folder = folder_of(table)
        found = [file.path for file in self.storage.find(folder) if file.path.endswith("/part.parquet")]
        if days is None or TABLES[table].partition is None:
            return found
        wanted = {gold_path(TABLES[table], day) for day in days}
        return [path for path in found if path in wanted]

    def rows(
        self, snapshot: Snapshot, table: str, partitions: Collection[str], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Rows of a table in these partitions, read by this process, or some of their columns."""
        return read_rows(self.storage, table, self._paths(snapshot, table, partitions), columns)

    def _paths(self, snapshot: Snapshot, table: str, partitions: Collection[str] | None) -> list[str]:
        if table.startswith("gold."):
            return self.gold_paths(table, partitions)
        return [file.path for file in snapshot.files(table, partitions)]

    def create(self) -> None:
        """Make what views over the tables need: the schema of each table as of now, and a file without rows.

        Spark takes the schema of a folder from `_common_metadata`, so that files from before a column was added are
        read as if they had it.
        """
        for table in stored_tables():
            described = io.BytesIO()
            pq.write_metadata(arrow_schema_of(table), described)
            path = f"{folder_of(table)}/_common_metadata"
            if not self.storage.exists(path) or self.storage.read(path) != described.getvalue():
                self.storage.put(path, described.getvalue())
            path = f"{folder_of(table)}/{_FIRST_PARTITION[partition_of(table)]}"
            if not self.storage.exists(path):
                self.storage.put(path, file_without_rows(table))
            if not table.startswith("gold.") and not self.storage.exists(f"_live/{table}"):
                self.storage.put(f"_live/{table}", b"")

    def list_live(self, snapshot: Snapshot, tables: Iterable[str]) -> None:
        """Tell views in SQL which files these tables consist of."""
        for table in sorted(tables):
            names = (file.path.rpartition("/")[2] for file in snapshot.files(table))
            self.storage.put(f"_live/{table}", "".join(f"{name}\n" for name in names).encode())
        self.storage.put(_LISTED_NUMBER, f"{snapshot.number}\n".encode())

    def mend(self) -> None:
        """Finish what a writer left that was killed between its commit and the lists of it. For who has the lock."""
        snapshot = self.snapshot()
        try:
            is_listed = int(self.storage.read(_LISTED_NUMBER)) == snapshot.number
        except (FileNotFoundError, ValueError):
            is_listed = snapshot.number == 0
        if not is_listed:
            self.list_live(snapshot, snapshot.tables)

    def begin(self, snapshot: Snapshot, stage: str, now_us: int, run_id: str | None = None) -> "Transaction":
        """Start to write what will be the commit after this state."""
        return Transaction(self, self._log, snapshot, stage, now_us, run_id or new_run_id(now_us))


@dataclass(slots=True)
class Transaction:
    """One commit in the making. Nothing that it writes is seen before `commit`. Several threads may write for it."""

    lake: Lake
    _log: CommitLog
    snapshot: Snapshot
    stage: str
    now_us: int
    run_id: str
    _changes: list[Change] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _gold: GoldFiles = field(init=False)

    def __post_init__(self) -> None:
        self._gold = GoldFiles(self.lake.storage)

    def follow(self, snapshot: Snapshot) -> None:
        """Come after other commits that were made meanwhile. They are of the same run, and of other tables."""
        self.snapshot = snapshot

    def append_bronze(
        self,
        facts: DataFrame,
        stats: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Add facts, which have the columns of bronze, `kind` and `hour`.

        `stats` is for the files of a partition, `counts` says how many facts there are of each kind.
        """
        staged = self._stage_facts(facts, counts or {})
        for part in sorted(staged):
            self._place_facts(part, staged[part], (stats or {}).get(part, {}), is_replacing=False)

    def rewrite_bronze_parts(
        self, facts: DataFrame, stats: Mapping[tuple[str, str], Mapping[str, Any]], counts: Mapping[str, int]
    ) -> None:
        """Give these kinds and hours one new file each in place of all they have, sorted by view.

        The facts are all that the parts have, with `kind` and `hour`.
        """
        staged = self._stage_facts(facts, counts, is_sorted=True)
        for part in sorted(stats.keys() | staged.keys()):
            self._place_facts(part, staged.get(part, []), stats.get(part, {}), is_replacing=True)

    def rewrite_bronze(self, kind: str, hour: str, facts: DataFrame, stats: dict[str, Any] | None = None) -> None:
        """Give an hour of a kind new files in place of all it has, one if they fit, sorted by view."""
        names = bronze_schema().fieldNames()
        ordered = facts.select(*names).coalesce(1).sortWithinPartitions(*_BY_VIEW)
        self._place_facts((kind, hour), self._stage(ordered, []), stats or {}, is_replacing=True)

    def replace(
        self,
        table: Table,
        rows: DataFrame,
        partitions: Iterable[str],
        stats: Mapping[str, Mapping[str, Any]] | None = None,
        kept: Mapping[str, Sequence[DataFile]] | None = None,
    ) -> None:
        """Give these partitions of a silver table or rollup new rows by their `hour`, text or number; none: emptied.

        Rows that have a `part` are put into a file for each, which says so in its stats. Files that are `kept` stay.
        """
        staged = self._stage_table(table, rows)
        for partition in sorted(set(partitions) | {place[0] for place in staged}):
            files = list((kept or {}).get(partition, ()))
            for part in sorted(part for name, part in staged if name == partition):
                told = {**(stats or {}).get(partition, {}), **({PART: part} if part else {})}
                for file in self._move(staged[partition, part], folder_of_hour(table, partition), None):
                    notes = {**notes_of_file(self.lake.storage, file.path), **told}
                    files.append(DataFile(file.path, file.rows, file.bytes, notes))
            self._changes.append(Change(table.full_name, partition, tuple(files), is_replacing=True))

    def replace_by_rows(
        self,
        table: Table,
        rows: pa.Table,
        partitions: Iterable[str],
        stats: Mapping[str, Mapping[str, Any]] | None = None,
        kept: Mapping[str, Sequence[DataFile]] | None = None,
    ) -> None:
        """The same with rows that are here, which have the columns of the table, an `hour` and maybe a `part`."""
        cut = cut_by(rows, ["hour", PART] if PART in rows.column_names else ["hour"])
        write = next(self._numbers)
        for partition in sorted(set(partitions) | {place[0] for place in cut}):
            files = list((kept or {}).get(partition, ()))
            for number, part in enumerate(sorted(part for name, part in cut if name == partition)):
                own = sorted_by(cut[partition, part], order_of(table))
                data, path = file_of(own), f"{folder_of_hour(table, partition)}/{self.run_id}-{write}-{number}.parquet"
                self.lake.storage.put(path, data)
                told = {**(stats or {}).get(partition, {}), **({PART: part} if part else {})}
                files.append(DataFile(path, own.num_rows, len(data), {**notes_of_rows(own), **told}))
            self._changes.append(Change(table.full_name, partition, tuple(files), is_replacing=True))

    def replace_gold(
        self, table: Table, rows: DataFrame, days: Iterable[str], kept: Mapping[str, pa.Table] | None = None
    ) -> None:
        """Stage a gold table's days, which are put in place by `publish_gold`.

        The rows have a `date` if the table has days; those that are `kept` are of that day.
        """
        # What is there is looked at now, and not when it is about to be replaced.
        wanted = {WHOLE} if table.partition is None else set(days)
        known = self._gold.expect(table, wanted)
        places = [] if table.partition is None else ["date"]
        cut = cut_by(gather(rows, table.full_name, places), places)
        others = {day for day, _ in cut} - wanted
        known |= self._gold.expect(table, others)
        folder = f"_staging/{self.run_id}/{next(self._numbers)}"
        for day in sorted(wanted | others):
            parts = [part for part in (cut.get((day, WHOLE)), (kept or {}).get(day)) if part]
            data = file_of(sorted_by(pa.concat_tables(parts), table.order)) if parts else None
            self._gold.stage(table, day, data, known, f"{folder}/part-{day}.parquet")

    def publish_gold(self) -> int:
        """Put every staged gold file in place, each in one step, when nobody is in the middle of reading. How many."""
        self.lake.reached("gold-staged")
        return self._gold.publish(lambda: self.lake.reached("gold-replaced"))

    def drop(self, table: str, partition: str) -> None:
        """Empty a partition."""
        self._changes.append(Change(table, partition, (), is_replacing=True))

    def commit(
        self,
        *,
        batch: int | None = None,
        landed: Iterable[str] = (),
        removed: Iterable[str] = (),
        touched: Touched | None = None,
        boots: Iterable[BootSpan] = (),
        planned: Mapping[str, frozenset[str]] | None = None,
        is_settling: bool = False,
        counts: dict[str, int] | None = None,
    ) -> Snapshot:
        """Make it true. The state after it."""
        commit = Commit(
            number=self.snapshot.number + 1,
            run_id=self.run_id,
            at_us=self.now_us,
            stage=self.stage,
            software_version=__version__,
            transforms_version=TRANSFORMS_VERSION,
            changes=tuple(sorted(self._changes, key=lambda change: (change.table, change.partition))),
            batch=batch,
            landed=tuple(landed),
            removed=tuple(removed),
            touched=touched or Touched(),
            boots=tuple(boots),
            planned=planned or {},
            is_settling=is_settling,
            counts=counts or {},
        )
        self.lake.reached(f"{self.stage}-written")
        after = self._log.append(self.snapshot, commit)
        self._gold.readers.close()
        self.lake.reached(f"{self.stage}-committed")
        self.lake.list_live(after, {change.table for change in self._changes})
        self.lake.storage.delete_folder(f"_staging/{self.run_id}")
        return after

    # How files are written.

    def _stage(self, rows: DataFrame, partition_by: list[str]) -> list[str]:
        folder = f"_staging/{self.run_id}/{next(self._numbers)}"
        # Hadoop runs chmod for each file that it makes, and nobody looks for a mark of success here.
        writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.partitionBy(*partition_by) if partition_by else writer
        writer.parquet(self.lake.storage.address(folder))
        return [file.path for file in self.lake.storage.find(folder) if file.path.endswith(".parquet")]

    def _stage_facts(
        self, facts: DataFrame, counts: Mapping[str, int], *, is_sorted: bool = False
    ) -> dict[tuple[str, str], list[str]]:
        """Write facts by kind and hour. Which to paths."""
        # All kinds in one job, by one writer, each with the columns of all; but many of a kind are worth their own job.
        many = sorted(kind for kind, count in counts.items() if count >= _MANY_FACTS)
        parts = [(facts.where(F.col("kind") == kind), bronze_columns(kind)) for kind in many]
        if counts.keys() != set(many) or not many:
            rest = facts.where(~F.col("kind").isin(*many)).coalesce(1) if many else facts
            parts.append((rest, bronze_schema().fieldNames()))
        found: dict[tuple[str, str], list[str]] = {}
        for rows, names in parts:
            selected = rows.select(*(name for name in names if name != "hour"), "kind", "hour")
            if is_sorted:
                selected = selected.repartition("kind", "hour").sortWithinPartitions("kind", "hour", *_BY_VIEW)
            for path in self._stage(selected, ["kind", "hour"]):
                kind, hour = (part.partition("=")[2] for part in path.split("/")[-3:-1])
                found.setdefault((kind, hour), []).append(path)
        return found

    def _place_facts(
        self, part: tuple[str, str], staged: list[str], stats: Mapping[str, Any], *, is_replacing: bool
    ) -> None:
        kind, hour = part
        files = self._move(staged, f"bronze/kind={kind}/hour={hour}", stats)
        self._changes.append(Change(f"bronze.{kind}", hour, files, is_replacing=is_replacing))

    def _stage_table(self, table: Table, rows: DataFrame) -> dict[tuple[str, str], list[str]]:
        """Write a table's rows, each hour, or part of one, as a file in the table's order. Which to paths."""
        names = [f"`{name}`" for name in table_schema(table).fieldNames()]
        places = [f"hour AS {_STAGED_PARTITION}"]
        if PART in rows.columns:
            places.append(f"`{PART}` AS {_STAGED_PART}")
        keys = [_STAGED_PARTITION, _STAGED_PART][: len(places)]
        keyed = rows.selectExpr(*names, *places).repartition(_STAGED_PARTITION)
        found: dict[tuple[str, str], list[str]] = {}
        for path in self._stage(keyed.sortWithinPartitions(*keys, *order_of(table)), keys):
            name, part = (*(each.partition("=")[2] for each in path.split("/")[-1 - len(keys) : -1]), WHOLE)[:2]
            found.setdefault((partition_called(name), part), []).append(path)
        return found

    def _move(self, staged: list[str], folder: str, stats: Mapping[str, Any] | None) -> tuple[DataFile, ...]:
        files, write = [], next(self._numbers)
        for number, path in enumerate(staged):
            target = f"{folder}/{self.run_id}-{write}-{number}.parquet"
            self.lake.storage.replace(path, target)
            storage = self.lake.storage
            with storage.fs.open_input_file(storage.path_for_arrow(target)) as source:
                files.append(DataFile(target, pq.read_metadata(source).num_rows, source.size(), stats or {}))
        return tuple(files)


def _go_on(_point: str) -> None:
    """Whoever does not watch the points of a commit."""
