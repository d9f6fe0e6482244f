"""silver.gops: one row per GOP (group of pictures) of a recorded file, read on the executors.

A GOP is the tag of a key frame and all tags after it, up to the next key frame. Tags before the first key frame and
damaged places belong to no GOP; a file without video, or one that is gone, has none. Sizes include tag headers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from penstock.media.continuous_time import Timeline
from penstock.media.flv import AUDIO_TAG, TAG_HEADER_BYTES, VIDEO_TAG, unwrap_timestamp
from penstock.media.flv_index import is_key_video, is_timed_media
from penstock.pipeline.lake.schemas import table_schema
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.sources.files import OpenFile, locate
from penstock.pipeline.sources.flv.manifest import Segment
from penstock.pipeline.sources.flv.recorded_tags import RecordedTags, track_of

# At most so many tasks: a task per small file would cost more than reading it.
_MAX_TASKS: Final = 256


class GopRow(NamedTuple):
    """A row of silver.gops, in the order of its columns."""

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
    """One row per GOP of these segments, whose files are in the folder `recordings`."""
    listed = sorted(segments, key=lambda segment: -segment.bytes)
    files = spark.sparkContext.parallelize(listed, min(max(len(listed), 1), _MAX_TASKS))
    rows = files.flatMap(partial(_gops_of_segment, recordings=recordings))
    return spark.createDataFrame(rows, table_schema(TABLES["silver.gops"]), verifySchema=False)


def _gops_of_segment(segment: Segment, recordings: str) -> Iterator[GopRow]:
    try:
        with OpenFile(locate(Storage(recordings).address(segment.path))) as file:
            yield from gops_of_file(file, segment)
    except OSError:
        return  # gone or unreadable, which the archive job reports


@dataclass(slots=True)
class _Gop:
    """The GOP being read. `placed_ms` is its start on the timeline without timestamp jumps."""

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
    """The GOPs of an open file, in order. Durations leave out the publisher's timestamp jumps."""
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
