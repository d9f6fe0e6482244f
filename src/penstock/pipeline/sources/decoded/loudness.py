"""`spark.read.format("loudness").load("recordings/")`: how loud recordings are, second by second.

One row for each second of a file in which an audio frame begins: RMS and peak of all samples and channels in decibels
of full scale, never below -120, and whether it is silent, which is an RMS below -60. A frame counts in the second in
which it begins. What cannot be decoded is a row with an error. A file is read by one task, as an audio decoder needs
the frame before. Options choose segments, see `flv.segment_filter`.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from penstock.pipeline.sources.decoded.decoded_source import DecodedReader, Row
from penstock.pipeline.sources.decoded.sounds import SILENT_DBFS, Sound, dbfs, rms, sounds_of
from penstock.pipeline.sources.files import OpenFile, paths_of
from penstock.pipeline.sources.flv.plan import FlvPart
from penstock.pipeline.sources.flv.segment_filter import segment_filter_of

LOUDNESS_SCHEMA: Final = (
    "path string, app string, stream string, at_ms bigint, rms_dbfs double, peak_dbfs double, is_silent boolean, "
    "samples bigint, error string"
)
_SECOND_MS: Final = 1000


class LoudnessSource(DataSource):
    """The format `loudness`."""

    @classmethod
    def name(cls) -> str:
        return "loudness"

    def schema(self) -> str:
        return LOUDNESS_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return LoudnessReader(
            paths_of(self.options), segment_filter_of(self.options), split_bytes=0, columns=len(schema)
        )


class LoudnessReader(DecodedReader):
    """Decodes on the executors."""

    def rows_of(self, file: OpenFile, part: FlvPart) -> Iterator[Row]:
        found = list(sounds_of(file, part))
        yield from ((each.at_ms, None, None, None, None, each.reason) for each in found if not isinstance(each, Sound))
        sounds = [each for each in found if isinstance(each, Sound)]
        # Seconds that come twice, after a jump back in time, are two rows.
        for second, group in groupby(sounds, lambda sound: sound.at_ms // _SECOND_MS):
            heard = list(group)
            rms_dbfs = dbfs(rms(heard))
            peak_dbfs = dbfs(max(sound.peak for sound in heard))
            samples = sum(sound.samples for sound in heard)
            yield second * _SECOND_MS, rms_dbfs, peak_dbfs, rms_dbfs < SILENT_DBFS, samples, None
