"""The files of a Delta table's log: on the disk when they have to be, repaired after a power cut, removed in time.

Owns what `deltalake` leaves to the file system. Entries and checkpoints appear whole, by a rename, without an fsync.
Writers have an entry on the disk before they build on it and before they tell of it, so what a power cut tears is the
end of the log, which nobody was told of. Object stores have none of this: what is put there is kept.

Owns also what an entry says of a file: the statistics in the footer of its Parquet.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import LakeError
from penstock.pipeline.lake.storage import Storage

ACTIONS: Final = "penstock.actions"
"""How many files a commit adds and removes, in its own words: an entry that was cut between two lines has fewer."""
_ENTRY: Final = "json"
_CHECKPOINT: Final = "checkpoint.parquet"
_HINT: Final = "_last_checkpoint"
_VERSIONED: Final = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")


class DeltaLog:
    """The folder `_delta_log` of one table."""

    def __init__(self, storage: Storage, table: str) -> None:
        """`table` is its folder."""
        self._storage = storage
        self._folder = f"{table}/_delta_log"

    def sync(self, first: int, last: int) -> None:
        """Have these entries on the disk, and the checkpoints that were made with them."""
        if not self._storage.is_local:
            return
        versions = range(first, last + 1)
        paths = [self._path(version, kind) for version in versions for kind in (_ENTRY, _CHECKPOINT)]
        for path in (*paths, f"{self._folder}/{_HINT}"):
            # There is not always a checkpoint, and another writer may have removed the entry since.
            with contextlib.suppress(FileNotFoundError):
                self._storage.sync(path)
        self._storage.sync(self._folder)

    def last_checkpoint(self, made_by_us: int) -> int:
        """The version of the newest checkpoint that was there at a time; 0 if there was none."""
        return max(self._versions(_CHECKPOINT, made_by_us), default=0)

    def drop_before(self, version: int) -> None:
        """Remove what a checkpoint stands for, once that is on the disk."""
        self.sync(version, version)
        for kind in (_ENTRY, _CHECKPOINT):
            for older in self._versions(kind):
                if older < version:
                    self._storage.delete(self._path(older, kind))

    def recover(self) -> None:
        """Take away what a power cut has torn at the end. LakeError if more is missing than that."""
        if not self._storage.exists(self._folder):
            return
        checkpoints = self._versions(_CHECKPOINT)
        while checkpoints and not self._is_whole_checkpoint(checkpoints[-1]):
            # It was made of entries that are still there.
            self._storage.delete(self._path(checkpoints.pop(), _CHECKPOINT))
        if self._hinted() not in checkpoints:
            # It is not needed, and one that names no checkpoint keeps everybody out.
            self._storage.delete(f"{self._folder}/{_HINT}")
        first = checkpoints[-1] + 1 if checkpoints else 0
        entries = [version for version in self._versions(_ENTRY) if version >= first]
        if entries and not checkpoints and entries[0] != 0:
            raise LakeError(f"{self._folder} begins with version {entries[0]} and has no checkpoint; restore it")
        version = first
        while self._is_whole_entry(version):
            version += 1
        # Files are listed while others may write: an entry counts as missing when it was asked for by its name, and
        # nothing is taken away where somebody has made a checkpoint meanwhile.
        if self._versions(_CHECKPOINT) == checkpoints:
            for torn in reversed([each for each in entries if each >= version]):
                self._storage.delete(self._path(torn, _ENTRY))
        self._storage.sync(self._folder)

    def _path(self, version: int, kind: str) -> str:
        return f"{self._folder}/{version:020d}.{kind}"

    def _versions(self, kind: str, made_by_us: int | None = None) -> list[int]:
        """Of which there are entries or checkpoints, in order."""
        files = self._storage.find(self._folder, recursive=False)
        named = [(file, _VERSIONED.fullmatch(file.path.rpartition("/")[2])) for file in files]
        return [
            int(name[1])
            for file, name in named
            if name is not None and name[2] == kind and (made_by_us is None or file.modified_at_us <= made_by_us)
        ]

    def _hinted(self) -> int | None:
        """The version of the checkpoint that readers are told to begin with; None: they are told none."""
        try:
            return int(json.loads(self._storage.read(f"{self._folder}/{_HINT}"))["version"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _is_whole_checkpoint(self, version: int) -> bool:
        place = self._storage.path_for_arrow(self._path(version, _CHECKPOINT))
        try:
            return bool(pq.read_metadata(place, filesystem=self._storage.fs).num_rows)
        except (OSError, pa.ArrowException):
            return False

    def _is_whole_entry(self, version: int) -> bool:
        try:
            actions = [json.loads(line) for line in self._storage.read(self._path(version, _ENTRY)).splitlines()]
        except (ValueError, FileNotFoundError):
            return False
        told = next((action["commitInfo"].get(ACTIONS) for action in actions if "commitInfo" in action), None)
        found = sum("add" in action or "remove" in action for action in actions)
        return bool(actions) and (told is None or int(told) == found)


def statistics_of(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, Any]:
    """How many rows, and of these columns the least, the most and how many nulls."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    for column in columns:
        if column not in places:
            nulls[column] = metadata.num_rows
            continue
        groups = [metadata.row_group(number).column(places[column]) for number in range(metadata.num_row_groups)]
        held = [group.statistics for group in groups if group.statistics is not None]
        if len(held) != len(groups) or not all(each.has_null_count for each in held):
            continue
        nulls[column] = sum(each.null_count for each in held)
        bounded = [each for each in held if each.has_min_max]
        # Without bounds of each group that has values nothing is known of the file.
        if bounded and all(each.has_min_max or each.num_values == 0 for each in held):
            least[column] = _json_value(min(each.min for each in bounded))
            most[column] = _json_value(max(each.max for each in bounded))
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _json_value(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes():
            return value.decode()
        case _:
            return value
