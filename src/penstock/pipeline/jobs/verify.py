"""Checks of a recorded file: structure, timestamps, gaps, key frame index.

Reads tag headers only and changes nothing. Bytes that are no tags are damage and are skipped; the rest is judged by the
tags that are whole. Raises nothing but the file's own OSError.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from penstock.amf import AmfValue
from penstock.media.continuous_time import Jump, Timeline
from penstock.media.flv import SCRIPT_TAG, VIDEO_TAG, unwrap_timestamp
from penstock.media.flv_index import is_key_video, is_timed_media
from penstock.media.flv_metadata import read_flv_metadata
from penstock.pipeline.sources.files import OpenFile
from penstock.pipeline.sources.flv.recorded_tags import RecordedTags, track_of
from penstock.pipeline.sources.flv.walk import Damage

GAP_MS: Final = 1000
"""If no track has a frame for longer than this, the file has a gap."""
_LEAST_INDEX: Final = 2

IndexState = Literal["right", "wrong", "none"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. Times and counts are of whole tags; `start_ms` is where the first frame of the file lies."""

    tags: int
    damaged_places: int
    damaged_bytes: int
    damage: str | None
    """What is wrong with the structure, in words; None: nothing is."""
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


def verify(file: OpenFile) -> Verification:
    """Check a file from its beginning to its end."""
    tags = RecordedTags(file)
    timeline = Timeline()
    metadata: Mapping[str, AmfValue] = {}
    key_times_ms: dict[int, int] = {}
    count = gaps = gap_ms = 0
    for tag in tags:
        if count == 0 and tag.kind == SCRIPT_TAG:
            metadata = _members(tags.payload_of(tag))
        count += 1
        if not is_timed_media(tag.kind, tag.start):
            continue
        if tag.kind == VIDEO_TAG and is_key_video(tag.start):
            key_times_ms[tag.offset] = tag.timestamp_ms
        front_ms, has_begun = timeline.front_ms, timeline.earliest_ms is not None
        missing_ms = timeline.place(track_of(tag), tag.timestamp_ms) - front_ms
        if has_begun and missing_ms > GAP_MS:
            gaps += 1
            gap_ms += missing_ms
    earliest_ms = timeline.earliest_ms
    return Verification(
        tags=count,
        damaged_places=len(tags.damages),
        damaged_bytes=sum(damage.skipped_bytes for damage in tags.damages),
        damage=_in_words(tags.damages),
        start_ms=-(earliest_ms or 0),
        duration_ms=0 if earliest_ms is None else timeline.front_ms - earliest_ms,
        has_media=earliest_ms is not None,
        keyframes=len(key_times_ms),
        index=_index_state(metadata, key_times_ms),
        gaps=gaps,
        gap_ms=gap_ms,
        jumps=tuple(timeline.jumps),
        moved_frames=timeline.moved_frames,
    )


def _in_words(damages: Sequence[Damage]) -> str | None:
    if not damages:
        return None
    others = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
    return damages[0].reason + others


def _members(payload: bytes) -> Mapping[str, AmfValue]:
    match read_flv_metadata(payload):
        case ("onMetaData", dict(members)):
            return members
    return {}


def _index_state(metadata: Mapping[str, AmfValue], key_times_ms: Mapping[int, int]) -> IndexState:
    """Whether every entry of the index is a key frame at its time. An index may leave key frames out."""
    match metadata.get("keyframes"):
        case {"times": list(times), "filepositions": list(positions)} if len(positions) >= _LEAST_INDEX:
            is_right = len(times) == len(positions) and all(
                _is_keyframe(time_s, position, key_times_ms) for time_s, position in zip(times, positions, strict=True)
            )
            return "right" if is_right else "wrong"
    return "none"


def _is_keyframe(time_s: AmfValue, position: AmfValue, key_times_ms: Mapping[int, int]) -> bool:
    if not (isinstance(time_s, float) and math.isfinite(time_s)):
        return False
    found_ms = key_times_ms.get(int(position)) if isinstance(position, float) and position.is_integer() else None
    # Timestamps are written modulo 2**32, and the index runs on.
    return found_ms is not None and abs(unwrap_timestamp(round(time_s * 1000), found_ms) - time_s * 1000) <= 1
