"""GOPs of recorded files: `silver.gops`, one row for each group of pictures, read on the executors.

Owns what belongs to a GOP: its key frame's tag and all tags behind it, up to the next key frame. What comes before the
first key frame belongs to none, and a file without pictures has none. A tag counts with its header and payload. Damaged
places belong to none, and a file that is gone gives none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from penstock.media.flv import AUDIO_TAG, TAG_HEADER_BYTES, VIDEO_TAG, unwrap_timestamp
from penstock.media.flv_index import is_key_video, is_timed_media
from penstock.pipeline.jobs.recorded_tags import RecordedTags, track_of
from penstock.pipeline.jobs.timestamps import Timeline
from penstock.pipeline.schemas import table_schema
from penstock.pipeline.sources.files import OpenFile, locate
from penstock.pipeline.sources.manifest import Segment
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES

# Files are read by so many tasks at most: a task for each small file would cost more than reading it.
_MAX_TASKS: Final = 256


class GopRow(NamedTuple):
    """A row of `silver.gops`, in the order of its columns."""

    path: str
    app: str
    stream: str
    gop: int
    first_dts_ms: int
    duration_ms: int
    offset: int
    bytes: int
    video_frames: int
    audio_frames: int
    keyframe_bytes: int


def gops(spark: SparkSession, recordings: str, segments: Iterable[Segment]) -> DataFrame:
    """One row for each GOP of these segments, whose files are in the folder `recordings`."""
    listed = sorted(segments, key=lambda segment: -segment.bytes)
    files = spark.sparkContext.parallelize(listed, min(max(len(listed), 1), _MAX_TASKS))
    rows = files.flatMap(partial(_gops_of_segment, recordings=recordings))
    return spark.createDataFrame(rows, table_schema(TABLES["silver.gops"]), verifySchema=False)


def _gops_of_segment(segment: Segment, recordings: str) -> Iterator[GopRow]:
    try:
        with OpenFile(locate(Storage(recordings).address(segment.path))) as file:
            yield from gops_of_file(file, segment)
    except OSError:
        return  # it is gone or cannot be read, which the archive job tells


@dataclass(slots=True)
class _Gop:
    """The GOP that is being walked over. `placed_ms` is on the time without jumps."""

    number: int
    written_ms: int
    placed_ms: int
    offset: int
    keyframe_bytes: int
    bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0

    def row(self, segment: Segment, end_ms: int) -> GopRow:
        return GopRow(
            path=segment.path,
            app=segment.app,
            stream=segment.stream,
            gop=self.number,
            first_dts_ms=self.written_ms,
            duration_ms=end_ms - self.placed_ms,
            offset=self.offset,
            bytes=self.bytes,
            video_frames=self.video_frames,
            audio_frames=self.audio_frames,
            keyframe_bytes=self.keyframe_bytes,
        )


def gops_of_file(file: OpenFile, segment: Segment) -> Iterator[GopRow]:
    """The GOPs of an open file, in its order. Durations are those without the publisher's jumps."""
    timeline = Timeline()
    gop: _Gop | None = None
    for tag in RecordedTags(file):
        tag_bytes = TAG_HEADER_BYTES + tag.payload_bytes
        if is_timed_media(tag.kind, tag.start):
            placed_ms = timeline.place(track_of(tag), tag.timestamp_ms)
            if tag.kind == VIDEO_TAG and is_key_video(tag.start):
                written_ms = tag.timestamp_ms
                if gop is not None:
                    yield gop.row(segment, placed_ms)
                    written_ms = unwrap_timestamp(gop.written_ms, written_ms)
                number = 0 if gop is None else gop.number + 1
                gop = _Gop(number, written_ms, placed_ms, tag.offset, tag_bytes)
            if gop is not None:
                gop.video_frames += tag.kind == VIDEO_TAG
                gop.audio_frames += tag.kind == AUDIO_TAG
        if gop is not None:
            gop.bytes += tag_bytes
    if gop is not None:
        yield gop.row(segment, timeline.front_ms)
