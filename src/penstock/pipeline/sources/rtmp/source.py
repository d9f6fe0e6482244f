"""`spark.readStream.format("rtmp").option("url", "rtmp://…").option("spool", folder)`: a live stream as rows.

One row for each message of the stream. Rows go through a spool, a folder that the driver and all executors see, so that
a batch can be read again after a failure: offsets are numbers of rows in the spool. The driver plays the stream from
Spark's first request for an offset on. `connection` is the time at which the connection was opened, in microseconds:
where it changes, messages may be missing or repeated, and the codec configuration comes again.

Options: `url` and `spool` must be given; each query has a spool of its own. `payload` (false): fill the column
`payload`. `maxRowsPerTrigger` bounds a batch, `maxSpoolBytes` (1 GiB) what waits in the spool. With AvailableNow a
query reads what is in the spool and what the server sends at once, for which it waits 5 s at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.client import read_address
from penstock.errors import ConfigError
from penstock.pipeline.sources.files import Location, locate
from penstock.pipeline.sources.options import count_of, truth_of
from penstock.pipeline.sources.rtmp.feed import RTMP_SCHEMA, Feed
from penstock.pipeline.sources.rtmp.spool import Spool, read_rows

DEFAULT_SPOOL_BYTES: Final = 1024**3
_FIRST_ROWS_S: Final = 5.0
_PART_BYTES: Final = 16 * 1024 * 1024


class RtmpSource(DataSource):
    """The format `rtmp`."""

    @classmethod
    def name(cls) -> str:
        return "rtmp"

    def schema(self) -> StructType:
        return RTMP_SCHEMA

    def streamReader(self, schema: StructType) -> "RtmpStreamReader":  # noqa: ARG002, N802
        missing = [name for name in ("url", "spool") if name not in self.options]
        if missing:
            raise ConfigError(f"format rtmp needs the option {missing[0]}")
        read_address(self.options["url"])
        return RtmpStreamReader(
            self.options["url"],
            locate(self.options["spool"]),
            has_payload=truth_of(self.options, "payload", default=False),
            max_rows=count_of(self.options, "maxRowsPerTrigger", default=0),
            max_spool_bytes=count_of(self.options, "maxSpoolBytes", default=DEFAULT_SPOOL_BYTES),
        )


@dataclass(frozen=True)
class SpoolPart(InputPartition):
    """Rows of neighbouring files of the spool: for each file from which to which, counted from its beginning."""

    pieces: tuple[tuple[Location, int, int], ...]


class RtmpStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Feeds the spool on the driver, reads it on the executors. Connects at the first call that needs the stream."""

    def __init__(self, url: str, folder: Location, *, has_payload: bool, max_rows: int, max_spool_bytes: int) -> None:
        self._url = url
        self._folder = folder
        self._has_payload = has_payload
        self._max_rows = max_rows
        self._max_spool_bytes = max_spool_bytes
        self._fed: tuple[Spool, Feed] | None = None
        self._target_row: int | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        spool, feed = self._feed()
        feed.wait_for_rows(_FIRST_ROWS_S)
        feed.check()
        self._target_row = spool.next_row

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        spool, feed = self._feed()
        feed.check()
        spool.number_from(start["row"])
        latest = spool.next_row if self._target_row is None else self._target_row
        if isinstance(limit, ReadMaxRows):
            latest = min(latest, start["row"] + limit.max_rows)
        return {"row": max(latest, start["row"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        spool, _ = self._feed()
        pieces: list[tuple[Location, int, int]] = []
        parts: list[InputPartition] = []
        part_bytes = 0
        # Several files for each task: there are four files a second, and a task costs more than reading one.
        for file in spool.files_between(start["row"], end["row"]):
            first, last = max(start["row"] - file.first, 0), min(end["row"] - file.first, file.count)
            pieces.append((file.location, first, last))
            part_bytes += file.file_bytes
            if part_bytes >= _PART_BYTES:
                parts.append(SpoolPart(tuple(pieces)))
                pieces, part_bytes = [], 0
        return [*parts, SpoolPart(tuple(pieces))] if pieces else parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SpoolPart):
            for location, start, end in partition.pieces:
                yield from read_rows(location, start, end).to_batches()

    def commit(self, end: dict[str, int]) -> None:
        self._feed()[0].free(end["row"])

    def stop(self) -> None:
        if self._fed is not None:
            self._fed[1].stop()

    def _feed(self) -> tuple[Spool, Feed]:
        if self._fed is None:
            spool = Spool(self._folder)
            feed = Feed(self._url, spool, self._max_spool_bytes, has_payload=self._has_payload)
            feed.start()
            self._fed = spool, feed
        return self._fed
