"""Places in a recorded file: where its frames begin, and where one may begin to play at a time.

Owns the search. A closed file has an index of its key frames at its start; one that is being written, or that somebody
else wrote, is walked by the heads of its tags. Everything here blocks on the disk. What a file says is checked before
it is believed: it may have been damaged.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.amf import AmfValue
from penstock.errors import MalformedMedia
from penstock.media.flv import (
    AUDIO_TAG,
    BACK_POINTER_BYTES,
    FILE_HEADER_BYTES,
    MAX_FILE_HEADER_BYTES,
    SCRIPT_TAG,
    TAG_HEADER_BYTES,
    VIDEO_TAG,
    FlvTag,
    read_file_header,
    read_tag_header,
)
from penstock.media.flv_index import is_key_video, is_timed_media
from penstock.media.flv_metadata import METADATA_NAME, read_flv_metadata
from penstock.media.flv_reader import START_BYTES, TagHead

_SETUP_TAGS: Final = 256
"""Decoder configuration is written where a file begins; the first frames tell what that lacks."""
_MAX_SETUP_BYTES: Final = 4 * 1024 * 1024


class Place(NamedTuple):
    """Where to read on."""

    offset: int
    time_ms: int


def first_tag_offset(descriptor: int) -> int:
    """Behind the head of the file. MalformedMedia: it is no FLV."""
    return read_file_header(os.pread(descriptor, FILE_HEADER_BYTES + MAX_FILE_HEADER_BYTES, 0)).first_tag_offset


def first_tags(descriptor: int) -> Iterator[FlvTag]:
    """The tags that a file begins with, as far as they may have decoder configuration among them."""
    read_bytes = 0
    for count, head in enumerate(tag_heads(descriptor, first_tag_offset(descriptor))):
        read_bytes += head.payload_bytes
        if count >= _SETUP_TAGS or read_bytes > _MAX_SETUP_BYTES:
            return
        payload = os.pread(descriptor, head.payload_bytes, head.offset + TAG_HEADER_BYTES)
        yield FlvTag(head.kind, head.timestamp_ms, payload, head.offset)


def place_of(descriptor: int, from_ms: int) -> Place:
    """The last key frame that is not behind this time; of sound alone the last frame; else the first tag."""
    begin = first_tag_offset(descriptor)
    if from_ms <= 0:
        return Place(begin, 0)
    return _by_index(descriptor, begin, from_ms) or _by_walk(descriptor, begin, from_ms)


def tag_heads(descriptor: int, offset: int) -> Iterator[TagHead]:
    """Every tag from here on whose head is there. MalformedMedia where there is none."""
    while len(data := os.pread(descriptor, TAG_HEADER_BYTES + START_BYTES, offset)) >= TAG_HEADER_BYTES:
        kind, payload_bytes, timestamp_ms = read_tag_header(data, 0, offset)
        start = data[TAG_HEADER_BYTES : TAG_HEADER_BYTES + payload_bytes]
        yield TagHead(kind, timestamp_ms, offset, payload_bytes, start)
        offset += TAG_HEADER_BYTES + payload_bytes + BACK_POINTER_BYTES


def _by_index(descriptor: int, begin: int, from_ms: int) -> Place | None:
    head = next(tag_heads(descriptor, begin), None)
    if head is None or head.kind != SCRIPT_TAG:
        return None
    told = read_flv_metadata(os.pread(descriptor, head.payload_bytes, begin + TAG_HEADER_BYTES))
    if told is None or told[0] != METADATA_NAME or not isinstance(told[1], dict):
        return None
    positions, times = _index_of(told[1])
    found = bisect_right(times, from_ms / 1000) - 1
    if found < 0:
        return None
    place = Place(int(positions[found]), round(times[found] * 1000))
    return place if _is_key_frame(descriptor, place, begin) else None


def _index_of(metadata: dict[str, AmfValue]) -> tuple[list[float], list[float]]:
    keyframes = metadata.get("keyframes")
    if not isinstance(keyframes, dict):
        return [], []
    positions, times = keyframes.get("filepositions"), keyframes.get("times")
    if not isinstance(positions, list) or not isinstance(times, list) or len(positions) != len(times):
        return [], []
    pairs = [
        (position, time)
        for position, time in zip(positions, times, strict=True)
        if isinstance(position, float) and isinstance(time, float) and 0 <= position < 2**53
    ]
    return [position for position, _ in pairs], [time for _, time in pairs]


def _is_key_frame(descriptor: int, place: Place, begin: int) -> bool:
    if place.offset < begin:
        return False
    try:
        head = next(tag_heads(descriptor, place.offset), None)
    except MalformedMedia:
        return False
    return head is not None and head.timestamp_ms == place.time_ms and _is_entry(head, has_video=True)


def _by_walk(descriptor: int, begin: int, from_ms: int) -> Place:
    has_video = False
    picture = sound = Place(begin, 0)
    for head in tag_heads(descriptor, begin):
        has_video = has_video or head.kind == VIDEO_TAG
        if head.timestamp_ms > from_ms and is_timed_media(head.kind, head.start):
            break
        if _is_entry(head, has_video=True):
            picture = Place(head.offset, head.timestamp_ms)
        elif _is_entry(head, has_video=False):
            sound = Place(head.offset, head.timestamp_ms)
    return picture if has_video else sound


def _is_entry(head: TagHead, *, has_video: bool) -> bool:
    if has_video:
        return head.kind == VIDEO_TAG and is_key_video(head.start)
    return head.kind == AUDIO_TAG and is_timed_media(head.kind, head.start)
