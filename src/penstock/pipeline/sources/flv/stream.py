"""`spark.readStream.format("flv").load("recordings/")`: tags of segments as they are finished, each exactly once.

Owns offsets on the manifest. An offset names the last row read that says a segment is closed or repaired; what follows
that row is new, also after the manifest was compacted, which keeps the order of rows. If the row itself is gone because
its segment was deleted, rows that ended later are new. If a closed segment is continued, its new row gives the tags
after its former end.

Options beside those of `flv`: `maxFilesPerTrigger` and `maxBytesPerTrigger`.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TypedDict

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from penstock.errors import ConfigError
from penstock.pipeline.sources.files import FoundFile, locate, paths_of
from penstock.pipeline.sources.flv.batches import read_part
from penstock.pipeline.sources.flv.manifest import Segment, read_rows
from penstock.pipeline.sources.flv.plan import FlvPart, parts_of
from penstock.pipeline.sources.flv.segment_filter import segment_filter_of
from penstock.pipeline.sources.options import count_of


class ManifestOffset(TypedDict):
    """The last row read: its segment, and what tells it from other rows of that segment. Empty before the first."""

    segment: str
    file_bytes: int
    ended_at: str


_START: ManifestOffset = {"segment": "", "file_bytes": 0, "ended_at": ""}


class FlvStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the manifest on the driver, segments on the executors."""

    def __init__(self, options: Mapping[str, str], split_bytes: int, has_payload: bool, is_numbered: bool) -> None:
        paths = paths_of(options)
        if len(paths) != 1:
            raise ConfigError(f"readStream takes one folder of recordings, not {len(paths)}")
        self._folder = locate(paths[0])
        self._wanted = segment_filter_of(options)
        self._split_bytes = split_bytes
        self._has_payload = has_payload
        self._is_numbered = is_numbered
        self._max_files = count_of(options, "maxFilesPerTrigger", default=0)
        self._max_bytes = count_of(options, "maxBytesPerTrigger", default=0)
        self._target: ManifestOffset | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._max_files:
            return ReadMaxFiles(self._max_files)
        return ReadMaxBytes(self._max_bytes) if self._max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        rows = self._finished()
        self._target = _offset_of(rows[-1]) if rows else _START

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        return {**_START}

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        rows = self._finished()
        new = rows[_place_after(rows, start) :]
        if self._target is not None:
            new = new[: max(_place_after(rows, {**self._target}) - _place_after(rows, start), 0)]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        elif isinstance(limit, ReadMaxBytes):
            sums = accumulate(row.bytes for row in new)
            # One segment at least, or a large one would never be read.
            new = new[: max(sum(total <= limit.max_bytes for total in sums), 1)]
        return {**_offset_of(new[-1])} if new else start

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        rows = self._finished()
        first, last = _place_after(rows, start), _place_after(rows, end)
        return [
            part
            for place in range(first, last)
            for part in parts_of(
                FoundFile(self._folder.child(rows[place].path), rows[place].bytes),
                rows[place],
                self._split_bytes,
                first_byte=_former_bytes(rows, place),
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, FlvPart):
            return iter(())
        return read_part(partition, has_payload=self._has_payload, is_numbered=self._is_numbered)

    def _finished(self) -> list[Segment]:
        return [row for row in read_rows(self._folder) if row.is_finished and self._wanted.wants(row)]


def _offset_of(row: Segment) -> ManifestOffset:
    return {"segment": f"{row.recording_id}/{row.segment}", "file_bytes": row.bytes, "ended_at": row.ended_at}


def _place_after(rows: list[Segment], offset: Mapping[str, object]) -> int:
    """How many of the rows an offset has behind it."""
    if not offset["segment"]:
        return 0
    for place in reversed(range(len(rows))):
        if _offset_of(rows[place]) == offset:
            return place + 1
    later = (place for place, row in enumerate(rows) if row.ended_at > str(offset["ended_at"]))
    return next(later, len(rows))


def _former_bytes(rows: list[Segment], place: int) -> int:
    """Where a segment ended when it had been finished before; 0 if it had not."""
    return max((row.bytes for row in rows[:place] if row.key == rows[place].key), default=0)
