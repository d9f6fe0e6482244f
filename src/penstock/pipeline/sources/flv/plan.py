"""Which parts of which recordings are read by which task.

Owns the list of partitions: files as found, named by the manifest in their folder, large ones cut at key frames. Cuts
come from the index in the file's own metadata, which other writers fill with anything: each cut is believed only if a
video tag begins there and the tag before it ends there, else the file is read as a whole. Planning reads no more than
the beginning of large files, and a few bytes at each cut.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from penstock.errors import MalformedMedia
from penstock.media.flv import (
    BACK_POINTER_BYTES,
    FILE_HEADER_BYTES,
    SCRIPT_TAG,
    TAG_HEADER_BYTES,
    VIDEO_TAG,
    read_file_header,
    read_tag_header,
)
from penstock.media.flv_metadata import read_flv_metadata
from penstock.pipeline.sources.files import FoundFile, Location, OpenFile
from penstock.pipeline.sources.flv.filters import NO_FILTERS, PushedFilters
from penstock.pipeline.sources.flv.manifest import Segment, segments_by_name
from penstock.pipeline.sources.flv.segment_filter import EVERY_SEGMENT, SegmentFilter

DEFAULT_SPLIT_BYTES: Final = 512 * 1024 * 1024


@dataclass(frozen=True)
class FlvPart(InputPartition):
    """The tags of a file that begin from `start` up to `end`. Names are None if no manifest describes the file."""

    location: Location
    start: int
    end: int
    app: str | None
    stream: str | None
    recording_id: str | None
    segment: int | None
    is_open: bool
    """Whether the file is still being written, so that a torn end is no damage."""

    @property
    def path(self) -> str:
        return self.location.uri


def named_files(
    files: Iterable[FoundFile], wanted: SegmentFilter = EVERY_SEGMENT
) -> Iterator[tuple[FoundFile, Segment | None]]:
    """The files that are wanted, each with its row in the manifest of its folder, if there is one."""
    segments: dict[Location, dict[str, Segment]] = {}
    for file in files:
        folder = file.location.folder
        if folder not in segments:
            segments[folder] = segments_by_name(folder)
        segment = segments[folder].get(file.location.name)
        if wanted.wants(segment):
            yield file, segment


def plan(
    files: Iterable[tuple[FoundFile, Segment | None]], split_bytes: int, filters: PushedFilters = NO_FILTERS
) -> list[FlvPart]:
    """The parts to read, in the order of the files; none of a file that the filters rule out."""
    return [part for file, segment in files for part in parts_of(file, segment, split_bytes, filters)]


def parts_of(
    file: FoundFile,
    segment: Segment | None,
    split_bytes: int,
    filters: PushedFilters = NO_FILTERS,
    *,
    first_byte: int = 0,
) -> Iterator[FlvPart]:
    """The parts to read of one file. `first_byte`: 0, or where the first tag begins that is wanted."""
    names = _names_of(segment)
    if filters.wants_file(dict(zip(_FILE_COLUMNS, (file.location.uri, *names), strict=True))):
        is_open = segment is not None and segment.is_open
        for start, end in pairwise([first_byte, *_cuts(file, split_bytes, first_byte), file.file_bytes]):
            yield FlvPart(file.location, start, end, *names, is_open)


_FILE_COLUMNS: Final = ("path", "app", "stream", "recording_id", "segment")


def _names_of(segment: Segment | None) -> tuple[str | None, str | None, str | None, int | None]:
    if segment is None:
        return None, None, None, None
    return segment.app, segment.stream, segment.recording_id, segment.segment


def _cuts(file: FoundFile, split_bytes: int, first_byte: int) -> list[int]:
    """Where a file is cut: key frames, so that parts stay below the size from which on files are cut."""
    if split_bytes == 0 or file.file_bytes - first_byte <= split_bytes:
        return []
    try:
        with OpenFile(file.location) as opened:
            cuts = list(_spaced(_indexed_keyframes(opened, first_byte), first_byte, file.file_bytes, split_bytes))
            return cuts if all(_is_keyframe_tag(opened, cut) for cut in cuts) else []
    except OSError:
        # The task that reads it reports what is wrong.
        return []


def _spaced(keyframes: Sequence[int], start: int, end: int, split_bytes: int) -> Iterator[int]:
    """As few of the key frames as keep what is between two of them below a size, as far as they can."""
    for keyframe, following in pairwise([*keyframes, end]):
        if following - start > split_bytes:
            yield keyframe
            start = keyframe


def _indexed_keyframes(file: OpenFile, first_byte: int) -> list[int]:
    """Where the key frames are that the metadata names; none unless all of it makes sense."""
    try:
        offset = read_file_header(file.read_at(0, FILE_HEADER_BYTES)).first_tag_offset
        kind, size, _ = read_tag_header(file.read_at(offset, TAG_HEADER_BYTES).ljust(TAG_HEADER_BYTES), 0, offset)
    except MalformedMedia:
        return []
    if kind != SCRIPT_TAG:
        return []
    match read_flv_metadata(file.read_at(offset + TAG_HEADER_BYTES, size)):
        case (_, {"keyframes": {"filepositions": list(positions)}}):
            numbers = [round(each) for each in positions if isinstance(each, float) and math.isfinite(each)]
        case _:
            return []
    places = [place for place in numbers if place > first_byte]
    is_rising = all(one < other for one, other in pairwise(places))
    is_inside = all(offset < place < file.file_bytes for place in places)
    return places if len(numbers) == len(positions) and is_rising and is_inside else []


def _is_keyframe_tag(file: OpenFile, place: int) -> bool:
    head = file.read_at(place - BACK_POINTER_BYTES, BACK_POINTER_BYTES + 1)
    tag_bytes = int.from_bytes(head[:BACK_POINTER_BYTES])
    before = place - BACK_POINTER_BYTES - tag_bytes
    if head[BACK_POINTER_BYTES:] != bytes((VIDEO_TAG,)) or tag_bytes < TAG_HEADER_BYTES or before < 0:
        return False
    return int.from_bytes(file.read_at(before + 1, 3)) == tag_bytes - TAG_HEADER_BYTES
