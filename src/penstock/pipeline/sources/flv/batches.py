"""Tags of a part of a recording as Arrow batches: the rows of the `flv` source.

Owns the columns. A row is a tag, or a damaged region: that has a path, an offset, the number of bytes that were skipped
and an error, and nulls elsewhere. A tag whose payload cannot be read is a row with an error too. A file that cannot be
opened or read is one such row, never an exception.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from penstock.media.flv import AUDIO_TAG, VIDEO_TAG
from penstock.pipeline.sources.arrow_columns import arrow_schema, binaries, constant, numbers, strings, truths, words
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.filters import NO_FILTERS, PushedFilters
from penstock.pipeline.sources.flv.plan import FlvPart
from penstock.pipeline.sources.flv.tag_traits import CODECS, KINDS, NO_TRACK, ROLES, traits_of
from penstock.pipeline.sources.flv.walk import Damage, Longs, Tags, Walk

FLV_SCHEMA: Final = StructType(
    [
        StructField("path", StringType()),
        StructField("app", StringType()),
        StructField("stream", StringType()),
        StructField("recording_id", StringType()),
        StructField("segment", LongType()),
        StructField("tag_index", LongType()),
        StructField("kind", StringType()),
        StructField("track", IntegerType()),
        StructField("codec", StringType()),
        StructField("dts_ms", LongType()),
        StructField("pts_ms", LongType()),
        StructField("is_key", BooleanType()),
        StructField("size", LongType()),
        StructField("offset", LongType()),
        StructField("role", StringType()),
        StructField("error", StringType()),
    ]
)
PAYLOAD_FIELD: Final = StructField("payload", BinaryType())

_MAX_BATCH_TAGS: Final = 16_384
"""Spark works on a batch while the next one is made. With one batch for a window of small tags, each waited for the
other."""
_KIND_CODES: Final = np.full(256, KINDS.index("data"), np.int8)
_KIND_CODES[[VIDEO_TAG, AUDIO_TAG]] = KINDS.index("video"), KINDS.index("audio")

_SCHEMA: Final = arrow_schema(FLV_SCHEMA)
_SCHEMA_WITH_PAYLOAD: Final = _SCHEMA.append(pa.field("payload", pa.binary()))


def read_part(
    part: FlvPart, *, has_payload: bool, is_numbered: bool, filters: PushedFilters = NO_FILTERS
) -> Iterator[pa.RecordBatch]:
    """The rows of a part. `is_numbered`: whether tags are counted from the beginning of the file."""
    rows = _Rows(part, filters, has_payload)
    try:
        with OpenFile(part.location) as file:
            number = 0
            if part.start > 0 and is_numbered:
                before = Walk(file, 0, part.start).run()
                number = sum(len(found) for found in before if isinstance(found, Tags))
            numbers_from = number if part.start == 0 or is_numbered else None
            for found in Walk(file, part.start, part.end).run():
                if isinstance(found, Tags):
                    for tags in found.pieces(_MAX_BATCH_TAGS):
                        yield from rows.of_tags(tags, numbers_from)
                        numbers_from = None if numbers_from is None else numbers_from + len(tags)
                elif not (part.is_open and found.is_to_end):
                    yield from rows.of_damage(found)
    except OSError as error:
        yield from rows.of_damage(Damage(part.start, 0, f"cannot be read: {error}", is_to_end=True))


class _Rows:
    def __init__(self, part: FlvPart, filters: PushedFilters, has_payload: bool) -> None:
        self._file_values = (part.path, part.app, part.stream, part.recording_id, part.segment)
        self._filters = filters
        self._has_payload = has_payload
        self._schema = _SCHEMA_WITH_PAYLOAD if has_payload else _SCHEMA

    def of_tags(self, tags: Tags, numbers_from: int | None) -> Iterator[pa.RecordBatch]:
        tag_numbers = None if numbers_from is None else np.arange(numbers_from, numbers_from + len(tags))
        is_wanted = self._filters.wanted_before_reading(tags.kinds, tags.times_ms)
        if is_wanted is not None and not is_wanted.all():
            tags, tag_numbers = tags.kept(is_wanted), None if tag_numbers is None else tag_numbers[is_wanted]
        if len(tags):
            yield from self._batch(tags, tag_numbers)

    def _batch(self, tags: Tags, tag_numbers: Longs | None) -> Iterator[pa.RecordBatch]:
        traits = traits_of(tags.kinds, tags.starts, tags.sizes, tags.payload)
        count = len(tags)
        no_errors = pa.nulls(count, pa.string())
        columns = [
            *self._of_file(count),
            pa.nulls(count, pa.int64()) if tag_numbers is None else numbers(tag_numbers),
            words(KINDS, _KIND_CODES[tags.kinds]),
            numbers(traits.tracks, traits.tracks == NO_TRACK),
            words(CODECS, traits.codecs),
            numbers(tags.times_ms),
            numbers(tags.times_ms + traits.composition_times_ms),
            truths(traits.is_key),
            numbers(tags.sizes),
            numbers(tags.offsets),
            words(ROLES, traits.roles),
            strings([traits.errors.get(row) for row in range(count)]) if traits.errors else no_errors,
        ]
        rows = np.arange(count)
        if self._filters.is_key is not None:
            is_wanted = traits.is_key == self._filters.is_key
            columns = [column.filter(truths(is_wanted)) for column in columns]
            rows = rows[is_wanted]
        if self._has_payload:
            columns.append(binaries([tags.payload(row) for row in rows.tolist()]))
        if len(rows):
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def of_damage(self, damage: Damage) -> Iterator[pa.RecordBatch]:
        if not self._filters.may_be_damage:
            return
        values: dict[str, str | int] = {"offset": damage.offset, "size": damage.skipped_bytes, "error": damage.reason}
        columns = [
            *self._of_file(1),
            *(
                constant(values.get(field.name), field.type, 1)
                for field in list(self._schema)[len(self._file_values) :]
            ),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _of_file(self, count: int) -> list[pa.Array]:
        named = zip(self._file_values, self._schema, strict=False)
        return [constant(value, field.type, count) for value, field in named]
