"""What the sources of decoded media share: files planned as for `flv`, rows made by a function of a part."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.pipeline.sources.files import OpenFile, find_files
from penstock.pipeline.sources.flv.plan import FlvPart, named_files, plan
from penstock.pipeline.sources.flv.segment_filter import SegmentFilter

Row = tuple[object, ...]


@dataclass
class DecodedReader(DataSourceReader):
    """Rows of recordings. The first three columns are path, app and stream, the last one is an error."""

    paths: Sequence[str]
    segments: SegmentFilter
    split_bytes: int
    columns: int

    @abstractmethod
    def rows_of(self, file: OpenFile, part: FlvPart) -> Iterator[Row]:
        """The rows of a part, without path, app and stream."""

    def partitions(self) -> list[InputPartition]:
        return list(plan(named_files(find_files(self.paths), self.segments), self.split_bytes))

    def read(self, partition: InputPartition) -> Iterator[Row]:
        # Spark makes up a partition of its own where there is none.
        if not isinstance(partition, FlvPart):
            return
        names = (partition.path, partition.app, partition.stream)
        try:
            with OpenFile(partition.location) as file:
                for row in self.rows_of(file, partition):
                    yield (*names, *row)
        except OSError as error:
            yield (*names, *[None] * (self.columns - 4), f"cannot be read: {error}")
