"""One Delta table: its versions, their files, and commits that add and remove files. The only module with `deltalake`.

Owns what makes a commit safe beyond what the library does (decision 0037):

- A commit is made against the version whose files it was computed from, and is refused if another one came first
  (`max_commit_retries=0`). The library would else try again and add rows beside those of the other writer.
- Data files, and the log entry that a commit builds on, are on the disk before the log names them; its own entry is on
  the disk before anybody goes on. The library syncs nothing: files are joined here, not by it, for that reason.
- An emptied entry would be read as a commit of nothing, and a torn one not at all: `recover` takes them away.
- Log entries go only once the checkpoint that stands for them is on the disk. The library would remove them at once.

Statistics are kept for few columns, by which files are passed over; none of them tells who somebody is.
"""

import contextlib
import itertools
import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, PostCommitHookProperties, RemoveAction, Transaction

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake.delta_log import ACTIONS, DeltaLog, statistics_of
from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.lake.storage import Storage

KEPT_VERSIONS_H: Final = 6
"""For so many hours files of older versions, and the log that names them, are kept for those who read them."""
_CONFIGURATION: Final = {
    "delta.logRetentionDuration": f"interval {KEPT_VERSIONS_H} hours",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_VERSIONS_H} hours",
    "delta.enableExpiredLogCleanup": "false",
    # Opening a table reads the entries since the last checkpoint.
    "delta.checkpointInterval": "20",
}
_STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
_ROWS_OF_A_GROUP: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class DataFile:
    """A live file of a version. `path` is relative to the table.

    `least` and `most` are its statistics, by column; times are microseconds since 1970.
    """

    path: str
    rows: int
    bytes: int
    partition: Mapping[str, str]
    least: Mapping[str, Any]
    most: Mapping[str, Any]


@dataclass(frozen=True)
class Pinned:
    """A table at one version: what is read of it is the same for as long as its files are kept."""

    name: str
    version: int
    delta: DeltaTable = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        """Another one for each table that was ever made, also at the same place."""
        return str(self.delta.metadata().id)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """Its live files, in the order of their paths."""
        columns = {name: column.to_pylist() for name, column in _columns_of(self.delta.get_add_actions(flatten=True))}
        groups: dict[str, dict[str, list[Any]]] = {"partition": {}, "min": {}, "max": {}}
        for name, values in columns.items():
            group, dot, column = name.partition(".")
            if dot and group in groups:
                groups[group][column] = values
        found = [
            DataFile(
                path,
                columns["num_records"][place],
                columns["size_bytes"][place],
                {name: str(values[place]) for name, values in groups["partition"].items()},
                {name: values[place] for name, values in groups["min"].items()},
                {name: values[place] for name, values in groups["max"].items()},
            )
            for place, path in enumerate(columns["path"])
        ]
        return tuple(sorted(found, key=lambda file: file.path))

    def transaction(self, app_id: str) -> int | None:
        """The number of the last commit that this application has made here."""
        return self.delta.transaction_version(app_id)


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does: whole files in, whole files out. `is_rewrite`: the rows stay the same."""

    added: Sequence[str] = ()
    removed: Sequence[DataFile] = ()
    is_rewrite: bool = False
    transaction: tuple[str, int] | None = None
    """Application and number, for who has to know after a crash whether a commit was made."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.transaction)


class Table:
    """A Delta table below the lake. It is made by the first who writes to it."""

    def __init__(
        self,
        storage: Storage,
        name: str,
        folder: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        stats: Sequence[str] = (),
    ) -> None:
        """`schema` has the columns of the partition too; `stats` are the columns whose least and most are kept."""
        self.name = name
        self.folder = folder
        self._storage = storage
        self._schema = schema
        self._partition_by = list(partition_by)
        self._stats = [column for column in stats if column in schema.names]
        self._log = DeltaLog(storage, folder)
        self._has_columns = False
        self._is_recovered = not storage.is_local

    def pin(self, version: int | None = None) -> Pinned | None:
        """The newest version, or this one; None if nobody has ever written to the table."""
        try:
            table = DeltaTable(self._storage.uri(self.folder), version, storage_options=self._storage.options)
        except DeltaError as error:
            if version is not None:
                raise LakeError(
                    f"{self.name} has no version {version}: it was never written, or has been replaced for more than"
                    f" {KEPT_VERSIONS_H} hours ({_first_line(error)})"
                ) from error
            if isinstance(error, TableNotFoundError):
                return None
            raise LakeError(f"{self.name} cannot be opened: {_first_line(error)}") from error
        return Pinned(self.name, table.version(), table)

    def pin_or_create(self) -> Pinned:
        """The newest version, with the columns that are known today."""
        self.recover()
        pinned = self.pin()
        if pinned is None:
            pinned = self._created()
        if not self._has_columns:
            pinned = self._with_new_columns(pinned)
            self._has_columns = True
        return pinned

    def commit(self, pinned: Pinned, change: Change) -> Pinned:
        """Make the version after the pinned one. LakeBusy if another writer has made it."""
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            *(self._add(path, now_ms, is_change=not change.is_rewrite) for path in change.added),
            *(
                RemoveAction(file.path, not change.is_rewrite, now_ms, file.bytes, dict(file.partition))
                for file in change.removed
            ),
        ]
        self._sync_files(change.added)
        self._log.sync(pinned.version, pinned.version)
        with self._committing():
            pinned.delta.create_write_transaction(
                actions,
                "append",
                self._schema,
                self._partition_by,
                commit_properties=CommitProperties(
                    max_commit_retries=0,
                    custom_metadata={ACTIONS: str(len(actions))},
                    app_transactions=None if change.transaction is None else [Transaction(*change.transaction)],
                ),
                post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
            )
        self._log.sync(pinned.version + 1, pinned.version + 1)
        return self._newest(pinned.version + 1)

    def compact(self, pinned: Pinned, partition: Mapping[str, str], target_bytes: int) -> Pinned:
        """Join the small files of partitions into files of about that size, by one commit. The rows stay the same."""
        small = [
            file for file in pinned.files if file.bytes < target_bytes and partition.items() <= file.partition.items()
        ]
        groups = [group for group in self._groups(small, target_bytes) if len(group) > 1]
        change = Change(
            [path for group in groups if (path := self.join(group))],
            list(itertools.chain.from_iterable(groups)),
            is_rewrite=True,
        )
        return self.commit(pinned, change) if change else pinned

    def vacuum(self, kept_h: int = KEPT_VERSIONS_H) -> int:
        """Remove files that no kept version needs, and log entries that are past their time. How many files.

        LakeBusy if another writer commits meanwhile. With 0 hours, files go that others have not committed yet.
        """
        pinned = self.pin()
        if pinned is None:
            return 0
        with self._committing():
            gone = pinned.delta.vacuum(
                retention_hours=kept_h,
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        self._log.sync(pinned.version + 1, self._newest().version)
        last_us = time.time_ns() // 1000 - kept_h * HOUR_US
        self._log.drop_before(self._log.last_checkpoint(last_us))
        return len(gone)

    def forget_history(self) -> None:
        """Keep the newest version alone: older files, and the log entries that tell of them, are removed now."""
        self.vacuum(kept_h=0)
        pinned = self._newest()
        pinned.delta.create_checkpoint()
        self._log.drop_before(pinned.version)

    def recover(self) -> None:
        """Take away what a power cut has torn, once for this process: nobody was told of it."""
        if not self._is_recovered:
            self._log.recover()
            self._is_recovered = True

    def _newest(self, version: int | None = None) -> Pinned:
        pinned = self.pin(version)
        if pinned is None:
            raise LakeError(f"{self.name} was there and is gone")
        return pinned

    @contextlib.contextmanager
    def _committing(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise LakeBusy(f"{self.name}: another writer has committed first") from error
        except DeltaError as error:
            raise LakeError(f"{self.name} cannot be written: {_first_line(error)}") from error

    # How it is made.

    def _created(self) -> Pinned:
        configuration = {**_CONFIGURATION, **({_STATS_COLUMNS: ",".join(self._stats)} if self._stats else {})}
        self._storage.make_folder(self.folder)
        try:
            DeltaTable.create(
                self._storage.uri(self.folder),
                self._schema,
                mode="error",
                partition_by=self._partition_by,
                name=self.name,
                configuration=configuration,
                storage_options=self._storage.options,
            )
        except DeltaError as error:
            # Of two who make it at once the second finds it made.
            pinned = self.pin()
            if pinned is None:
                raise LakeError(f"{self.name} cannot be made: {_first_line(error)}") from error
            return pinned
        self._log.sync(0, 0)
        return self._newest()

    def _with_new_columns(self, pinned: Pinned) -> Pinned:
        """Add the columns that a newer version of this software knows. None is ever taken away."""
        known = {field.name for field in pinned.delta.schema().fields}
        missing = [field for field in Schema.from_arrow(self._schema).fields if field.name not in known]
        if not missing:
            return pinned
        with self._committing():
            pinned.delta.alter.add_columns(missing, commit_properties=CommitProperties(max_commit_retries=0))
        self._log.sync(pinned.version + 1, pinned.version + 1)
        return self._newest()

    def _groups(self, files: Sequence[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
        """Files of one folder each, as many as are about so large together."""

        def folder_of(file: DataFile) -> str:
            return file.path.rpartition("/")[0]

        def place_of(file: DataFile) -> list[str]:
            # Rows of one time lie together then, and who asks for an hour passes over the rest of a day.
            return [folder_of(file), *(str(file.least.get(column)) for column in self._stats), file.path]

        for _, held in itertools.groupby(sorted(files, key=place_of), key=folder_of):
            group: list[DataFile] = []
            for file in held:
                if group and sum(each.bytes for each in group) + file.bytes > target_bytes:
                    yield group
                    group = []
                group.append(file)
            yield group

    def join(self, files: Sequence[DataFile], condition: pc.Expression | None = None) -> str | None:
        """A file with the rows of several, or some of those, in their order, never all here at once; None: no rows."""
        folder, name = files[0].path.rpartition("/")[0], f"compacted-{secrets.token_hex(8)}-"
        places = [self._storage.path_for_arrow(f"{self.folder}/{file.path}") for file in files]
        # Of columns that some files leave out, those stay out that all of them do.
        held = {name for place in places for name in pq.read_schema(place, filesystem=self._storage.fs).names}
        schema = pa.schema([field for field in self._schema if field.name in held])
        rows = ds.dataset(places, schema=schema, format="parquet", filesystem=self._storage.fs)
        if condition is not None and not rows.count_rows(filter=condition):
            return None
        ds.write_dataset(
            rows.scanner(filter=condition, batch_readahead=2, fragment_readahead=1),
            self._storage.path_for_arrow(f"{self.folder}/{folder}"),
            basename_template=f"{name}{{i}}.parquet",
            format="parquet",
            filesystem=self._storage.fs,
            existing_data_behavior="overwrite_or_ignore",
            preserve_order=True,
            min_rows_per_group=_ROWS_OF_A_GROUP,
            max_rows_per_group=2 * _ROWS_OF_A_GROUP,
        )
        return f"{folder}/{name}0.parquet"

    def _add(self, path: str, now_ms: int, *, is_change: bool) -> AddAction:
        place = self._storage.path_for_arrow(f"{self.folder}/{path}")
        with self._storage.fs.open_input_file(place) as source:
            size, metadata = source.size(), pq.read_metadata(source)
        statistics = json.dumps(statistics_of(metadata, self._stats))
        return AddAction(path, size, _partition_of(path), now_ms, is_change, statistics)

    # What has to be on the disk.

    def _sync_files(self, paths: Iterable[str]) -> None:
        if self._storage.is_local:
            places = [f"{self.folder}/{path}" for path in paths]
            for place in (*places, *sorted({place.rpartition("/")[0] for place in places})):
                self._storage.sync(place)
            if places:
                self._storage.sync(self.folder)


def _columns_of(actions: Any) -> Iterable[tuple[str, pa.ChunkedArray]]:
    table = pa.table(actions)
    # Python's times cost a hundred times what numbers do: 8 ms for 400 files.
    plain = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in table.columns]
    return zip(table.column_names, plain, strict=True)


def _partition_of(path: str) -> dict[str, str | None]:
    """What the folders of a file say."""
    parts = (part.partition("=") for part in path.split("/")[:-1])
    return {name: value for name, _, value in parts}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
