"""`spark.read.format("stretches").load("recordings/")`: where recordings are black, frozen or silent.

One row for each stretch: its kind, and from when to when it is, in the file's time. Pictures are looked at in steps, so
the ends of black and frozen stretches are as exact as a step is long; those of silent ones are exact to a coded frame.
Where something cannot be decoded there is a row with an error. Options:

- `every` (1s): the step.
- `minimum` (2s): shorter stretches are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from penstock.pipeline.sources.decoded_source import DecodedReader, Row
from penstock.pipeline.sources.files import OpenFile, paths_of
from penstock.pipeline.sources.flv_plan import FlvPart
from penstock.pipeline.sources.frames import scaled
from penstock.pipeline.sources.options import duration_ms_of
from penstock.pipeline.sources.pictures import Picture, Unreadable, pictures_of
from penstock.pipeline.sources.sounds import SILENT_DBFS, Sound, dbfs, rms, sounds_of

STRETCHES_SCHEMA: Final = (
    "path string, app string, stream string, kind string, from_ms bigint, to_ms bigint, error string"
)
_LOOK_WIDTH: Final = 64
# Black is 16 in video; noise and compression lift it a little. A logo may cover 2 % of a black picture.
_BLACK_LUMA: Final = 32
_BLACK_SHARE: Final = 0.98
# Mean difference of luma between two looks at a picture that stands still: what compression alone does.
_FROZEN_DIFFERENCE: Final = 0.5

Moment = tuple[int, bool]
"""A time, and whether what is looked for is there from then on."""


class StretchesSource(DataSource):
    """The format `stretches`."""

    @classmethod
    def name(cls) -> str:
        return "stretches"

    def schema(self) -> str:
        return STRETCHES_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return StretchesReader(
            paths_of(self.options),
            split_bytes=0,
            columns=len(schema),
            every_ms=duration_ms_of(self.options, "every", default="1s"),
            minimum_ms=duration_ms_of(self.options, "minimum", default="2s"),
        )


@dataclass
class StretchesReader(DecodedReader):
    """Looks at pictures and sound on the executors."""

    every_ms: int
    minimum_ms: int

    def rows_of(self, file: OpenFile, part: FlvPart) -> Iterator[Row]:
        looks: list[tuple[int, NDArray[np.uint8]]] = []
        for found in pictures_of(file, part, self.every_ms):
            match found:
                case Picture():
                    gray = scaled(found.frame, _LOOK_WIDTH, "gray").to_ndarray()
                    looks.append((found.at_ms, gray.astype(np.uint8)))
                case Unreadable():
                    yield None, found.at_ms, None, found.reason
        yield from self._stretches("black", _black(looks))
        yield from self._stretches("frozen", _frozen(looks))
        sounds = [sound for sound in sounds_of(file, part) if isinstance(sound, Sound)]
        yield from self._stretches("silent", _silent(sounds))

    def _stretches(self, kind: str, moments: Iterable[Moment]) -> Iterator[Row]:
        for from_ms, to_ms in stretches(moments):
            if to_ms - from_ms >= self.minimum_ms:
                yield kind, from_ms, to_ms, None


def stretches(moments: Iterable[Moment]) -> Iterator[tuple[int, int]]:
    """From when to when it is there; the last moment is an end in any case."""
    start_ms = last_ms = None
    for last_ms, is_there in moments:
        if is_there and start_ms is None:
            start_ms = last_ms
        elif not is_there and start_ms is not None:
            yield start_ms, last_ms
            start_ms = None
    if start_ms is not None and last_ms is not None:
        yield start_ms, last_ms


def _black(looks: list[tuple[int, NDArray[np.uint8]]]) -> Iterator[Moment]:
    for at_ms, luma in looks:
        yield at_ms, bool((luma < _BLACK_LUMA).mean() >= _BLACK_SHARE)


def _frozen(looks: list[tuple[int, NDArray[np.uint8]]]) -> Iterator[Moment]:
    """A picture is frozen from one look on if the next look finds it the same."""
    for (at_ms, luma), (_, following) in pairwise(looks):
        is_same = luma.shape == following.shape
        yield at_ms, is_same and bool(np.abs(luma.astype(np.int16) - following).mean() <= _FROZEN_DIFFERENCE)
    if looks:
        yield looks[-1][0], False


def _silent(sounds: list[Sound]) -> Iterator[Moment]:
    for sound in sounds:
        yield sound.at_ms, dbfs(rms([sound])) < SILENT_DBFS
    if sounds:
        yield round(sounds[-1].at_ms + sounds[-1].duration_ms), False
