"""Audio, video and data messages as tests compare them, from recorded sessions and from FLV files.

Owns the comparison: what a stream is made of must arrive to the byte, in order, and with the same time between its
messages. Reads FLV by itself, plainly and without bounds, so that it shares no slip with the product; for files of
real programs only.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.golden import golden_bytes
from tests.support.independent_rtmp import read_messages

AUDIO, VIDEO, DATA = 8, 9, 18
FLV_START_BYTES = 9 + 4
FLV_TAG_HEADER_BYTES = 11
BACK_POINTER_BYTES = 4


class Sample(NamedTuple):
    """One message of a stream: type 8, 9 or 18."""

    type_id: int
    timestamp_ms: int
    payload: bytes


def golden_samples(session_name: str) -> list[Sample]:
    """What a recorded publisher sent, in its order: "ffmpeg_publish"."""
    messages = read_messages(golden_bytes(f"sessions/{session_name}.client.bin"))
    return [Sample(each.type_id, each.timestamp, each.payload) for each in messages if each.type_id in (8, 9, 18)]


def flv_samples(path: Path) -> list[Sample]:
    """Every tag of an FLV file."""
    data = path.read_bytes()
    if data[:3] != b"FLV":
        raise ValueError(f"{path} is no FLV file: it starts with {data[:3]!r}")
    samples: list[Sample] = []
    position = FLV_START_BYTES
    while position < len(data):
        size = int.from_bytes(data[position + 1 : position + 4], "big")
        timestamp_ms = int.from_bytes(data[position + 4 : position + 7], "big") | data[position + 7] << 24
        start = position + FLV_TAG_HEADER_BYTES
        samples.append(Sample(data[position], timestamp_ms, data[start : start + size]))
        position = start + size + BACK_POINTER_BYTES
    return samples


def media_of(samples: Iterable[Sample]) -> list[Sample]:
    """Audio and video alone: metadata is the one thing that servers rewrite."""
    return [sample for sample in samples if sample.type_id in (AUDIO, VIDEO)]


def shifted(samples: Iterable[Sample], by_ms: int) -> list[Sample]:
    """The same samples, all later by the same time."""
    return [sample._replace(timestamp_ms=sample.timestamp_ms + by_ms) for sample in samples]


def fingerprints(samples: Iterable[Sample], type_id: int) -> list[str]:
    """A short line for each sample of one type, with its time: for comparisons that people can read when they fail.

    One type at a time, as servers may send a sequence header earlier or later among samples of the other type.
    """
    return [
        f"{each.timestamp_ms} ms, {len(each.payload)} bytes, {hashlib.sha256(each.payload).hexdigest()[:16]}"
        for each in samples
        if each.type_id == type_id
    ]
