"""What a recorded file is like: structure, timestamps, gaps, key frame index.

Owns the checks. Reads tag headers only and changes nothing: the structure is looked at by the same code that repairs
torn recordings, given a file that takes its changes for made. What follows the last whole tag is not part of the rest.
Raises nothing but the file's own OSError.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pyarrow import NativeFile

from penstock.amf import AmfValue
from penstock.errors import MalformedMedia
from penstock.media.flv import SCRIPT_TAG, VIDEO_TAG, unwrap_timestamp
from penstock.media.flv_index import is_key_video, is_timed_media
from penstock.media.flv_metadata import read_flv_metadata
from penstock.media.flv_repair import RepairState, repair
from penstock.pipeline.jobs.flv_walk import TagWalk, track_of
from penstock.pipeline.jobs.timestamps import Jump, Timeline

GAP_MS: Final = 1000
"""A file that stands still for longer, in all its tracks, has a gap."""
_LEAST_INDEX: Final = 2

IndexState = Literal["right", "wrong", "none"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. Times and counts are of the whole tags; `start_ms` is where the first of them lies in time."""

    whole_bytes: int
    cut_bytes: int
    damage: str | None
    """What is wrong with the structure; None: nothing is."""
    tags: int
    wrong_back_pointers: int
    start_ms: int
    duration_ms: int
    """Without the jumps, and without the length of the last frame."""
    has_media: bool
    keyframes: int
    index: IndexState
    gaps: int
    gap_ms: int
    jumps: tuple[Jump, ...]
    moved_frames: int


class _LookOnly:
    """A file to `repair` that stays as it is."""

    def __init__(self, file: NativeFile) -> None:
        self.read = file.read
        self.seek = file.seek

    def write(self, data: bytes, /) -> int:
        return len(data)

    def truncate(self, size: int, /) -> int:
        return size


def verify(file: NativeFile) -> Verification:
    """Look at a file from its beginning to its end, twice."""
    structure = repair(_LookOnly(file))
    is_usable = structure.state is not RepairState.UNUSABLE
    whole_bytes = structure.file_bytes if is_usable else 0
    walk = _Walk()
    if is_usable:
        walk.run(file, whole_bytes)
    timeline = walk.timeline
    earliest_ms = timeline.earliest_ms
    return Verification(
        whole_bytes=whole_bytes,
        cut_bytes=structure.cut_bytes if is_usable else file.size(),
        damage=structure.reason,
        tags=structure.tags,
        wrong_back_pointers=structure.wrong_back_pointers,
        start_ms=-(earliest_ms or 0),
        duration_ms=0 if earliest_ms is None else timeline.front_ms - earliest_ms,
        has_media=earliest_ms is not None,
        keyframes=len(walk.keyframes),
        index=_index_state(walk.metadata, walk.keyframes),
        gaps=walk.gaps,
        gap_ms=walk.gap_ms,
        jumps=tuple(timeline.jumps),
        moved_frames=timeline.moved_frames,
    )


class _Walk:
    """The second look, over the tags that are whole."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.keyframes: dict[int, int] = {}
        """Offset to time as written."""
        self.metadata: Mapping[str, AmfValue] = {}
        self.gaps = 0
        self.gap_ms = 0

    def run(self, file: NativeFile, end: int) -> None:
        timeline = self.timeline
        tags = TagWalk(file, end)
        try:
            for number, tag in enumerate(tags):
                if number == 0 and tag.kind == SCRIPT_TAG:
                    self.metadata = _members(tags.payload_of(tag))
                if not is_timed_media(tag.kind, tag.start):
                    continue
                if tag.kind == VIDEO_TAG and is_key_video(tag.start):
                    self.keyframes[tag.offset] = tag.timestamp_ms
                front_ms, has_begun = timeline.front_ms, timeline.earliest_ms is not None
                missing_ms = timeline.place(track_of(tag), tag.timestamp_ms) - front_ms
                if has_begun and missing_ms > GAP_MS:
                    self.gaps += 1
                    self.gap_ms += missing_ms
        except MalformedMedia:
            # The first look believed a size that leads elsewhere; what was walked over so far stands.
            return


def _members(payload: bytes) -> Mapping[str, AmfValue]:
    match read_flv_metadata(payload):
        case ("onMetaData", dict(members)):
            return members
    return {}


def _index_state(metadata: Mapping[str, AmfValue], keyframes: Mapping[int, int]) -> IndexState:
    """Whether every entry of the index is a key frame at its time. An index may leave key frames out."""
    match metadata.get("keyframes"):
        case {"times": list(times), "filepositions": list(positions)} if len(positions) >= _LEAST_INDEX:
            is_right = len(times) == len(positions) and all(
                _is_keyframe(time_s, position, keyframes) for time_s, position in zip(times, positions, strict=True)
            )
            return "right" if is_right else "wrong"
    return "none"


def _is_keyframe(time_s: AmfValue, position: AmfValue, keyframes: Mapping[int, int]) -> bool:
    if not (isinstance(time_s, float) and math.isfinite(time_s)):
        return False
    found_ms = keyframes.get(int(position)) if isinstance(position, float) and position.is_integer() else None
    # Timestamps are written modulo 2**32, and the index runs on.
    return found_ms is not None and abs(unwrap_timestamp(round(time_s * 1000), found_ms) - time_s * 1000) <= 1
