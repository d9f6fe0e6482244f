"""`spark.read.format("flv").load("recordings/")`: one row for each tag of recordings.

`load` takes a file, a folder, a glob or a list of them. A DataFrame lists its files when it is first asked something;
load it again to see newer ones. Options:

- `app`, `stream`, `since`, `until`: read only these segments, by the manifest beside the files, see `segment_filter`.
- `payload` (false): a last column with the whole payload of each tag.
- `splitBytes` (512 MiB): files larger than this are cut at key frames, for several tasks; 0 keeps them whole.
- `index` (true): whether `tag_index` is filled in every part of a cut file, for which each task first walks over what
  is before its part. Without it the column is null there; `path` and `offset` identify and order rows in any case.
- `pushFilters` (false): let Spark push filters on path, app, stream, recording_id, segment, kind, is_key and dts_ms
  into the source; Spark's own setting `spark.sql.python.filterPushdown.enabled` must be true as well. **Ask such a
  DataFrame one question only.** Spark 4.2 and 4.3 keep the plan for a pushed filter with the DataFrame: a later query
  of it without a filter, and both sides of a union or join with itself, silently get the rows of that filter.

`readStream` of the same format is in `stream`.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.pipeline.sources.files import find_files, paths_of
from penstock.pipeline.sources.flv.batches import FLV_SCHEMA, PAYLOAD_FIELD, read_part
from penstock.pipeline.sources.flv.filters import NO_FILTERS, pushed
from penstock.pipeline.sources.flv.plan import DEFAULT_SPLIT_BYTES, FlvPart, named_files, plan
from penstock.pipeline.sources.flv.segment_filter import SegmentFilter, segment_filter_of
from penstock.pipeline.sources.flv.stream import FlvStreamReader
from penstock.pipeline.sources.options import count_of, truth_of


class FlvSource(DataSource):
    """The format `flv`."""

    @classmethod
    def name(cls) -> str:
        return "flv"

    def schema(self) -> StructType:
        return StructType([*FLV_SCHEMA, PAYLOAD_FIELD] if self._has_payload else list(FLV_SCHEMA))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        kind = PushingFlvReader if truth_of(self.options, "pushFilters", default=False) else FlvReader
        segments = segment_filter_of(self.options)
        return kind(self._paths(), segments, self._split_bytes, self._has_payload, self._is_numbered)

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


class FlvReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(
        self, paths: list[str], segments: SegmentFilter, split_bytes: int, has_payload: bool, is_numbered: bool
    ) -> None:
        self._paths = paths
        self._segments = segments
        self._split_bytes = split_bytes
        self._has_payload = has_payload
        self._is_numbered = is_numbered
        self._filters = NO_FILTERS

    def partitions(self) -> list[InputPartition]:
        return list(plan(named_files(find_files(self._paths), self._segments), self._split_bytes, self._filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition of its own where there is none.
        if not isinstance(partition, FlvPart):
            return iter(())
        return read_part(partition, has_payload=self._has_payload, is_numbered=self._is_numbered, filters=self._filters)


class PushingFlvReader(FlvReader):
    """Takes filters from Spark, which refuses a reader with this method unless its own setting is on."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Remember what may be left out. Spark applies all filters again, since all are returned."""
        self._filters = pushed(filters)
        return filters
