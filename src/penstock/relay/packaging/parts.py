"""Parts and segments as values, and the making of a part from the samples of a log.

Owns where a sample's bytes lie in the log, past chunk headers and tag headers, and how long the last sample of a track
lasts. A part has the boxes as bytes and the payloads as ranges of the log, so that no payload is copied to make it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.media.fmp4_fragment import Sample, TrackRun
from penstock.media.fmp4_tracks import LeftOut
from penstock.relay.cursor import Range
from penstock.relay.payload import payload_position
from penstock.relay.segment import Entry, Segment

_LONE_SAMPLE_MS: Final = 20
"""What a sample lasts that has no neighbour to tell: a frame of sound."""


@dataclass(frozen=True, slots=True)
class Init:
    """An init segment. Its name comes from its bytes, so that all who make it name it alike."""

    name: str
    data: bytes
    codec_strings: tuple[str, ...]
    width_px: int | None = None
    height_px: int | None = None


@dataclass(frozen=True, slots=True)
class PackagedPart:
    """A part: `boxes`, then the bytes of `ranges` in their order. Of a gap there is neither, since data is missing."""

    number: int
    segment: int
    index: int
    start_ms: int
    duration_ms: int
    is_independent: bool
    boxes: bytes
    ranges: tuple[Range, ...]

    @property
    def is_gap(self) -> bool:
        return not self.boxes

    @property
    def size(self) -> int:
        return len(self.boxes) + sum(piece.size for piece in self.ranges)


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """What is known of a segment once its first part is there. `init` is None where nothing of it can be carried.

    `left_out` names the tracks that are not in it.
    """

    number: int
    start_ms: int
    wall_ms: int
    discontinuity: int
    is_discontinuous: bool
    is_independent: bool
    init: Init | None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """A segment is whole: its parts, one behind the other, are its bytes. A gap lacks some of them, or all."""

    number: int
    duration_ms: int
    is_gap: bool


Packaged = SegmentStart | PackagedPart | SegmentEnd
"""What a packager gives: for each segment its start, its parts and its end, in this order."""


class LoggedSample(NamedTuple):
    """A sample and where its bytes are."""

    sample: Sample
    ranges: tuple[Range, ...]


def sample_ranges(segment: Segment, entry: Entry, start: int, end: int, chunk_size: int) -> Iterator[Range]:
    """Where `payload[start:end]` of a message lies in the log: one range for each chunk that has some of it."""
    while start < end:
        chunk_end = min(end, (start // chunk_size + 1) * chunk_size)
        yield Range(segment, entry.position + payload_position(entry, start, chunk_size), chunk_end - start)
        start = chunk_end


def make_run(track_id: int, samples: Sequence[LoggedSample], next_ms: int | None) -> TrackRun:
    """The run of a track; `next_ms` is the time of its next sample, where that is known."""
    times_ms = [logged.sample.timestamp_ms for logged in samples]
    if next_ms is None:
        # Not by the next part, which need not be there yet: so two packagers make the same bytes.
        next_ms = times_ms[-1] + _mean_distance_ms(times_ms)
    return TrackRun(track_id, [logged.sample for logged in samples], next_ms)


def _mean_distance_ms(times_ms: Sequence[int]) -> int:
    if len(times_ms) < 2 or times_ms[-1] <= times_ms[0]:
        return _LONE_SAMPLE_MS
    return max(1, round((times_ms[-1] - times_ms[0]) / (len(times_ms) - 1)))
