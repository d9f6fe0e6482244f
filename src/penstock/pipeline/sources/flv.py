"""`spark.read.format("flv").load("recordings/")`: one row for each tag of recordings.

`load` takes a file, a folder, a glob or a list of them. Options:

- `payload` (false): a last column with the whole payload of each tag.
- `splitBytes` (512 MiB): files larger than this are cut at key frames, for several tasks; 0 keeps them whole.
- `index` (true): whether `tag_index` is known in every part of a cut file, for which each task first walks over what
  is before its part. Without it the column is null there; `path` and `offset` name and order rows in any case.
- `pushdown` (true): filters on path, app, stream, recording_id, segment, kind, is_key and dts_ms leave out files and
  tags before they are read. Spark has to plan each use of a DataFrame for itself, see `own_plans`; where it cannot,
  as by Spark Connect, the default is false, and true is for a DataFrame that is used once, in one query.
- `seek` (false): a filter on dts_ms also leaves out parts of files, by the times of their key frames, see `flv_plan`.

`readStream` of the same format is in `flv_stream`.
"""

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.pipeline.sources.files import find_files, paths_of
from penstock.pipeline.sources.flv_batches import FLV_SCHEMA, PAYLOAD_FIELD, read_part
from penstock.pipeline.sources.flv_filters import PushedFilters, pushed
from penstock.pipeline.sources.flv_plan import DEFAULT_SPLIT_BYTES, FlvPart, named_files, plan
from penstock.pipeline.sources.flv_stream import FlvStreamReader
from penstock.pipeline.sources.options import count_of, truth_of


class FlvSource(DataSource):
    """The format `flv`, for sessions in which filters are pushed only if asked for."""

    pushes_filters: ClassVar = False

    @classmethod
    def name(cls) -> str:
        return "flv"

    def schema(self) -> StructType:
        return StructType([*FLV_SCHEMA, PAYLOAD_FIELD] if self._has_payload else list(FLV_SCHEMA))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        is_pushed = truth_of(self.options, "pushdown", default=self.pushes_filters)
        is_seeking = truth_of(self.options, "seek", default=False)
        kind = FilteringFlvReader if is_pushed else FlvReader
        return kind(self._paths(), self._split_bytes, self._has_payload, self._is_numbered, is_seeking)

    def streamReader(self, schema: StructType) -> FlvStreamReader:  # noqa: ARG002, N802
        return FlvStreamReader(self.options, self._split_bytes, self._has_payload, self._is_numbered)

    def _paths(self) -> list[str]:
        return paths_of(self.options)

    @property
    def _split_bytes(self) -> int:
        return count_of(self.options, "splitBytes", default=DEFAULT_SPLIT_BYTES)

    @property
    def _has_payload(self) -> bool:
        return truth_of(self.options, "payload", default=False)

    @property
    def _is_numbered(self) -> bool:
        return truth_of(self.options, "index", default=True)


class PushingFlvSource(FlvSource):
    """The format `flv`, for sessions that plan each use of a DataFrame for itself."""

    pushes_filters: ClassVar = True


class FlvReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(
        self, paths: list[str], split_bytes: int, has_payload: bool, is_numbered: bool, is_seeking: bool
    ) -> None:
        self._paths = paths
        self._split_bytes = split_bytes
        self._has_payload = has_payload
        self._is_numbered = is_numbered
        self._is_seeking = is_seeking
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        filters = self._filters if self._is_seeking else self._filters.of_any_time()
        return list(plan(named_files(find_files(self._paths)), self._split_bytes, filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition of its own where there is none.
        if not isinstance(partition, FlvPart):
            return iter(())
        return read_part(partition, self._filters, has_payload=self._has_payload, is_numbered=self._is_numbered)


class FilteringFlvReader(FlvReader):
    """Takes filters from Spark."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Note what may be left out. Spark looks at every filter once more."""
        self._filters = pushed(filters)
        return filters
