"""`spark.read.format("media_defects").load("recordings/")`: where recordings are black, frozen or silent.

One row for each defect: its kind, and when it begins and ends in the file's time. Pictures are compared at intervals,
so black and frozen defects are exact to one interval; silent ones are exact to one coded frame. Where something cannot
be decoded there is a row with an error. Options, beside those that choose segments (see `flv.segment_filter`):

- `every` (1s): the interval at which pictures are compared.
- `minimum` (2s): shorter defects are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from penstock.pipeline.sources.decoded.decoded_source import DecodedReader, Row
from penstock.pipeline.sources.decoded.frames import scaled
from penstock.pipeline.sources.decoded.pictures import Picture, Unreadable, pictures_of
from penstock.pipeline.sources.decoded.sounds import SILENT_DBFS, Sound, dbfs, rms, sounds_of
from penstock.pipeline.sources.files import OpenFile, paths_of
from penstock.pipeline.sources.flv.plan import FlvPart
from penstock.pipeline.sources.flv.segment_filter import segment_filter_of
from penstock.pipeline.sources.options import duration_ms_of

MEDIA_DEFECTS_SCHEMA: Final = (
    "path string, app string, stream string, kind string, from_ms bigint, to_ms bigint, error string"
)
_COMPARED_WIDTH: Final = 64
# Black is 16 in video; noise and compression lift it a little. A logo may cover 2 % of a black picture.
_BLACK_LUMA: Final = 32
_BLACK_SHARE: Final = 0.98
# Mean difference of luma between two pictures of a still scene: what compression alone causes.
_FROZEN_DIFFERENCE: Final = 0.5

Moment = tuple[int, bool]
"""A time, and whether the defect is present from then on."""


class MediaDefectsSource(DataSource):
    """The format `media_defects`."""

    @classmethod
    def name(cls) -> str:
        return "media_defects"

    def schema(self) -> str:
        return MEDIA_DEFECTS_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return MediaDefectsReader(
            paths_of(self.options),
            segment_filter_of(self.options),
            split_bytes=0,
            columns=len(schema),
            every_ms=duration_ms_of(self.options, "every", default="1s"),
            minimum_ms=duration_ms_of(self.options, "minimum", default="2s"),
        )


@dataclass
class MediaDefectsReader(DecodedReader):
    """Decodes pictures and sound on the executors."""

    every_ms: int
    minimum_ms: int

    def rows_of(self, file: OpenFile, part: FlvPart) -> Iterator[Row]:
        pictures: list[tuple[int, NDArray[np.uint8]]] = []
        for found in pictures_of(file, part, self.every_ms):
            match found:
                case Picture():
                    gray = scaled(found.frame, _COMPARED_WIDTH, "gray").to_ndarray()
                    pictures.append((found.at_ms, gray.astype(np.uint8)))
                case Unreadable():
                    yield None, found.at_ms, None, found.reason
        yield from self._defects("black", _black(pictures))
        yield from self._defects("frozen", _frozen(pictures))
        sounds = [sound for sound in sounds_of(file, part) if isinstance(sound, Sound)]
        yield from self._defects("silent", _silent(sounds))

    def _defects(self, kind: str, moments: Iterable[Moment]) -> Iterator[Row]:
        for from_ms, to_ms in intervals(moments):
            if to_ms - from_ms >= self.minimum_ms:
                yield kind, from_ms, to_ms, None


def intervals(moments: Iterable[Moment]) -> Iterator[tuple[int, int]]:
    """When the defect begins and ends; at the last moment it ends in any case."""
    start_ms = last_ms = None
    for last_ms, is_present in moments:
        if is_present and start_ms is None:
            start_ms = last_ms
        elif not is_present and start_ms is not None:
            yield start_ms, last_ms
            start_ms = None
    if start_ms is not None and last_ms is not None:
        yield start_ms, last_ms


def _black(pictures: list[tuple[int, NDArray[np.uint8]]]) -> Iterator[Moment]:
    for at_ms, luma in pictures:
        yield at_ms, bool((luma < _BLACK_LUMA).mean() >= _BLACK_SHARE)


def _frozen(pictures: list[tuple[int, NDArray[np.uint8]]]) -> Iterator[Moment]:
    """A picture is frozen if the next one that is compared is the same."""
    for (at_ms, luma), (_, following) in pairwise(pictures):
        is_same = luma.shape == following.shape
        yield at_ms, is_same and bool(np.abs(luma.astype(np.int16) - following).mean() <= _FROZEN_DIFFERENCE)
    if pictures:
        yield pictures[-1][0], False


def _silent(sounds: list[Sound]) -> Iterator[Moment]:
    for sound in sounds:
        yield sound.at_ms, dbfs(rms([sound])) < SILENT_DBFS
    if sounds:
        yield round(sounds[-1].at_ms + sounds[-1].duration_ms), False
