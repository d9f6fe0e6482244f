"""Which parts of which recordings are read by which task.

Owns the list of partitions: files as found, named by the manifest in their folder, large ones cut at key frames. Cuts
come from the index in the file's own metadata, which other writers fill with anything: each cut is believed only if a
video tag begins there and the tag before it ends there, else the file is read as a whole. Planning reads no more than
the beginning of large files, and a few bytes at each cut.

With a filter on time, parts are left out whose key frames are all more than SLACK_MS away from it: tags lie between the
key frames around them, give or take how audio and video are interleaved. That is so in sound files and a promise of
none: a tag whose time is further than that from its neighbours' is missed. So who plans has to be asked for it.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from penstock.amf import AmfValue
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
from penstock.pipeline.sources.flv_filters import PushedFilters
from penstock.pipeline.sources.manifest import Segment, segments_by_name

DEFAULT_SPLIT_BYTES: Final = 512 * 1024 * 1024
SLACK_MS: Final = 10_000


@dataclass(frozen=True)
class FlvPart(InputPartition):
    """The tags of a file that begin from `start` up to `end`. A name of None: no manifest tells it."""

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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The file from one indexed key frame to the next, and the times of both; None: not known."""

    start: int
    end: int
    from_ms: int | None
    to_ms: int | None

    def may_overlap(self, filters: PushedFilters) -> bool:
        times = [time for time in (self.from_ms, self.to_ms) if time is not None]
        is_after = self.from_ms is not None and min(times) - SLACK_MS > filters.to_ms
        is_before = self.to_ms is not None and max(times) + SLACK_MS < filters.from_ms
        return not is_after and not is_before


def named_files(files: Iterable[FoundFile]) -> Iterator[tuple[FoundFile, Segment | None]]:
    """Each file with its row in the manifest of its folder, if there is one."""
    segments: dict[Location, dict[str, Segment]] = {}
    for file in files:
        folder = file.location.folder
        if folder not in segments:
            segments[folder] = segments_by_name(folder)
        yield file, segments[folder].get(file.location.name)


def plan(files: Iterable[tuple[FoundFile, Segment | None]], split_bytes: int, filters: PushedFilters) -> list[FlvPart]:
    """The parts to read, in the order of the files. Below files of which no row is wanted there are none."""
    return [part for file, segment in files for part in parts_of(file, segment, split_bytes, filters)]


def parts_of(
    file: FoundFile, segment: Segment | None, split_bytes: int, filters: PushedFilters, first_byte: int = 0
) -> Iterator[FlvPart]:
    """The parts to read of one file. `first_byte`: 0, or where the first tag begins that is wanted."""
    names = _names_of(segment)
    if filters.wants_file(dict(zip(_FILE_COLUMNS, (file.location.uri, *names), strict=True))):
        is_open = segment is not None and segment.is_open
        for start, end in _cuts(file, split_bytes, filters, first_byte):
            yield FlvPart(file.location, start, end, *names, is_open)


_FILE_COLUMNS: Final = ("path", "app", "stream", "recording_id", "segment")


def _names_of(segment: Segment | None) -> tuple[str | None, str | None, str | None, int | None]:
    if segment is None:
        return None, None, None, None
    return segment.app, segment.stream, segment.recording_id, segment.segment


def _cuts(file: FoundFile, split_bytes: int, filters: PushedFilters, first_byte: int) -> Iterator[tuple[int, int]]:
    whole = (first_byte, file.file_bytes)
    is_large = split_bytes > 0 and file.file_bytes - first_byte > split_bytes
    if not is_large and not filters.is_timed:
        yield whole
        return
    try:
        with OpenFile(file.location) as opened:
            keyframes = [(first_byte, None), *_indexed_keyframes(opened, first_byte)]
            ends = [*keyframes[1:], (file.file_bytes, None)]
            stretches = [
                _Stretch(start, end, from_ms, to_ms)
                for (start, from_ms), (end, to_ms) in zip(keyframes, ends, strict=True)
            ]
            wanted = [stretch for stretch in stretches if stretch.may_overlap(filters)]
            parts = list(_joined(wanted, split_bytes if split_bytes > 0 else file.file_bytes))
            inner = {place for part in parts for place in part} - set(whole)
            are_tags = all(_is_keyframe_tag(opened, place) for place in inner)
    except OSError:
        # The task that reads it will say what is wrong.
        yield whole
        return
    yield from parts if are_tags else [whole]


def _joined(stretches: Iterable[_Stretch], split_bytes: int) -> Iterator[tuple[int, int]]:
    """Neighbouring stretches as one part, as long as it stays below the size at which files are cut."""
    start = end = None
    for stretch in stretches:
        if start is not None and end is not None and (stretch.start != end or stretch.end - start > split_bytes):
            yield start, end
            start = None
        start = stretch.start if start is None else start
        end = stretch.end
    if start is not None and end is not None:
        yield start, end


def _indexed_keyframes(file: OpenFile, first_byte: int) -> list[tuple[int, int | None]]:
    """Places and times of the key frames that the metadata names; none unless all of it makes sense."""
    try:
        offset = read_file_header(file.read_at(0, FILE_HEADER_BYTES)).first_tag_offset
        kind, size, _ = read_tag_header(file.read_at(offset, TAG_HEADER_BYTES).ljust(TAG_HEADER_BYTES), 0, offset)
    except MalformedMedia:
        return []
    if kind != SCRIPT_TAG:
        return []
    match read_flv_metadata(file.read_at(offset + TAG_HEADER_BYTES, size)):
        case (_, {"keyframes": {"times": list(times), "filepositions": list(positions)}}):
            offsets, times_ms = _numbers(positions, 1), _numbers(times, 1000)
        case _:
            return []
    if offsets is None or times_ms is None or len(offsets) != len(times_ms):
        return []
    places = [(place, time_ms) for place, time_ms in zip(offsets, times_ms, strict=True) if place > first_byte]
    is_rising = all(one < other for (one, _), (other, _) in pairwise(places))
    is_inside = all(offset < place < file.file_bytes for place, _ in places)
    return list(places) if is_rising and is_inside else []


def _numbers(values: list[AmfValue], factor: int) -> list[int] | None:
    numbers = [round(value * factor) for value in values if isinstance(value, float) and math.isfinite(value)]
    return numbers if len(numbers) == len(values) else None


def _is_keyframe_tag(file: OpenFile, place: int) -> bool:
    head = file.read_at(place - BACK_POINTER_BYTES, BACK_POINTER_BYTES + 1)
    tag_bytes = int.from_bytes(head[:BACK_POINTER_BYTES])
    before = place - BACK_POINTER_BYTES - tag_bytes
    if head[BACK_POINTER_BYTES:] != bytes((VIDEO_TAG,)) or tag_bytes < TAG_HEADER_BYTES or before < 0:
        return False
    return int.from_bytes(file.read_at(before + 1, 3)) == tag_bytes - TAG_HEADER_BYTES
