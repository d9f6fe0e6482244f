"""The streams that bench publishes, of which each frame can be checked, and the tally of what came of them.

Frames have the size and rhythm of video and sound. A payload is a legal FLV header around a marker and a pattern::

    header | "PENS" 4 | publisher 2 | sequence 4 | size of the payload 4 | sent at, monotonic ns 8 | pattern

The pattern is a piece of one fixed noise, at a place that the sequence decides, so that bytes of another frame are told
apart. Sequences count per publisher and kind. The tally has latencies in a bounded histogram, and for each viewer what
came, what not and what broke. Knows no sockets and no clock.
"""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from penstock.media.frame import Frame, FrameKind, frame_of

FRAMES_PER_SECOND: Final = 30
KEY_FRAME_FRAMES: Final = 30
# A key frame is as large as so many others.
_KEY_FRAME_WEIGHT: Final = 5
_AUDIO_PER_SECOND: Final = 48000 / 1024
_AUDIO_BYTES: Final = 256

_MARKER: Final = Struct(">4sHIIQ")
_MAGIC: Final = b"PENS"
_KEY_HEADER: Final = bytes.fromhex("1701000000")
_INTER_HEADER: Final = bytes.fromhex("2701000000")
_AUDIO_HEADER: Final = bytes.fromhex("af01")
# H.264 of 640x360 as x264 sets it up, and AAC-LC 48 kHz stereo, so that servers which look take it for what it is.
_VIDEO_SETUP: Final = bytes.fromhex(
    "17000000000142c01effe100186742c01eda0280bfe584000003000400000300f23c58ba8001000468ce3c80"
)
_AUDIO_SETUP: Final = bytes.fromhex("af001190")

_NOISE_BYTES: Final = 1 << 20
_PLACE_STEP: Final = 7919  # a prime, so that places come again only after many frames

_BUCKET_MS: Final = 0.1
_BUCKETS: Final = 100_000


def _noise() -> bytes:
    return hashlib.shake_128(b"penstock bench").digest(_NOISE_BYTES)


class Planned(NamedTuple):
    """A frame to be made: when, of which kind, which of its kind, how large."""

    timestamp_ms: int
    kind: FrameKind
    sequence: int
    size_bytes: int


class Seen(NamedTuple):
    """What a viewer can read from a frame that arrived whole."""

    publisher: int
    sequence: int
    sent_at_ns: int


@dataclass(frozen=True, slots=True)
class BenchMedia:
    """Makes and checks the frames of a swarm; one for all, as the noise is a megabyte."""

    noise: bytes

    @classmethod
    def make(cls) -> "BenchMedia":
        """With its noise made anew, always the same."""
        return cls(_noise())

    def setup(self) -> tuple[Frame, Frame]:
        """What every viewer needs first."""
        return frame_of(FrameKind.VIDEO, 0, _VIDEO_SETUP), frame_of(FrameKind.AUDIO, 0, _AUDIO_SETUP)

    def frame(self, planned: Planned, publisher: int, sent_at_ns: int) -> Frame:
        """One frame, stamped."""
        header = _header_of(planned)
        marker = _MARKER.pack(_MAGIC, publisher, planned.sequence, planned.size_bytes, sent_at_ns)
        pattern = self._pattern(planned.sequence, planned.size_bytes - len(header) - len(marker))
        return frame_of(planned.kind, planned.timestamp_ms, b"".join((header, marker, pattern)))

    def check(self, frame: Frame) -> Seen | None:
        """What a frame says of itself; None if a byte of it is not as it was sent."""
        header_bytes = len(_AUDIO_HEADER) if frame.kind is FrameKind.AUDIO else len(_KEY_HEADER)
        start = header_bytes + _MARKER.size
        if len(frame.payload) < start:
            return None
        magic, publisher, sequence, size_bytes, sent_at_ns = _MARKER.unpack_from(frame.payload, header_bytes)
        if magic != _MAGIC or size_bytes != len(frame.payload):
            return None
        if frame.payload[start:] != self._pattern(sequence, size_bytes - start):
            return None
        return Seen(publisher, sequence, sent_at_ns)

    def _pattern(self, sequence: int, size_bytes: int) -> bytes:
        place = sequence * _PLACE_STEP % _NOISE_BYTES
        piece = self.noise[place : place + size_bytes]
        while len(piece) < size_bytes:
            piece += self.noise[: size_bytes - len(piece)]
        return piece


def planned_frames(bits_per_second: int, seconds: float) -> Iterator[Planned]:
    """Video and sound in the order of their times."""
    sizes = _video_sizes(bits_per_second)
    pictures = sounds = 0
    while True:
        picture_ms, sound_ms = pictures * 1000 / FRAMES_PER_SECOND, sounds * 1000 / _AUDIO_PER_SECOND
        if min(picture_ms, sound_ms) >= seconds * 1000:
            return
        if picture_ms <= sound_ms:
            yield Planned(int(picture_ms), FrameKind.VIDEO, pictures, sizes[pictures % KEY_FRAME_FRAMES == 0])
            pictures += 1
        else:
            yield Planned(int(sound_ms), FrameKind.AUDIO, sounds, _AUDIO_BYTES)
            sounds += 1


def _video_sizes(bits_per_second: int) -> tuple[int, int]:
    """Bytes of a common frame and of a key frame."""
    audio_bps = _AUDIO_PER_SECOND * _AUDIO_BYTES * 8
    group_bytes = max(bits_per_second - audio_bps, 0) / 8 * KEY_FRAME_FRAMES / FRAMES_PER_SECOND
    common = int(group_bytes / (KEY_FRAME_FRAMES - 1 + _KEY_FRAME_WEIGHT))
    least = len(_KEY_HEADER) + _MARKER.size
    return max(common, least), max(common * _KEY_FRAME_WEIGHT, least)


def _header_of(planned: Planned) -> bytes:
    if planned.kind is FrameKind.AUDIO:
        return _AUDIO_HEADER
    return _KEY_HEADER if planned.sequence % KEY_FRAME_FRAMES == 0 else _INTER_HEADER


class Latencies:
    """Counts by tenths of a millisecond up to ten seconds, which the last one stands for."""

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self.count = 0
        self._counts = array("Q", bytes(8 * _BUCKETS))

    def add(self, latency_ms: float) -> None:
        """Count one message."""
        self._counts[min(max(int(latency_ms / _BUCKET_MS), 0), _BUCKETS - 1)] += 1
        self.count += 1

    def percentile_ms(self, percent: float) -> float | None:
        """The latency that so many percent of the messages had at most, rounded up; None without messages."""
        wanted = self.count * percent / 100
        counted = 0
        for bucket, number in enumerate(self._counts):
            counted += number
            if counted >= wanted and number:
                return (bucket + 1) * _BUCKET_MS
        return None


@dataclass(slots=True)
class ViewerTally:
    """One viewer of one publisher."""

    publisher: int
    messages: int = 0
    payload_bytes: int = 0
    gaps: int = 0
    missing_messages: int = 0
    corruptions: int = 0
    first_frame_ms: float | None = None
    _asked_at_ns: int = 0
    _joined_at_ns: int = 0
    _next_sequences: dict[FrameKind, int] = field(default_factory=dict)

    def join(self, asked_at_ns: int, joined_at_ns: int) -> None:
        """Say when the viewer began to connect, and when the server had let it in."""
        self._asked_at_ns, self._joined_at_ns = asked_at_ns, joined_at_ns

    def add(self, kind: FrameKind, seen: Seen | None, size_bytes: int, now_ns: int) -> float | None:
        """Count one message; gives its latency in ms if it was sent while this viewer was there."""
        self.messages += 1
        self.payload_bytes += size_bytes
        if seen is None or seen.publisher != self.publisher:
            self.corruptions += 1
            return None
        if self.first_frame_ms is None and kind is FrameKind.VIDEO:
            self.first_frame_ms = (now_ns - self._asked_at_ns) / 1e6
        expected = self._next_sequences.get(kind, seen.sequence)
        if seen.sequence != expected:
            self.gaps += 1
            self.missing_messages += max(seen.sequence - expected, 0)
        self._next_sequences[kind] = max(seen.sequence + 1, expected)
        # What a server had kept for late joiners is as old as it was kept; that is no latency.
        return None if seen.sent_at_ns < self._joined_at_ns else (now_ns - seen.sent_at_ns) / 1e6

    def lacks(self, sent: dict[FrameKind, int]) -> bool:
        """Whether any of so many messages of each kind have not come yet."""
        return any(self._next_sequences.get(kind, 0) < sent_messages for kind, sent_messages in sent.items())

    def end(self, sent: dict[FrameKind, int]) -> None:
        """Nothing more is waited for: what is missing at the end is a gap as well."""
        for kind, sent_messages in sent.items():
            missing = sent_messages - self._next_sequences.get(kind, 0)
            if missing > 0:
                self.gaps += 1
                self.missing_messages += missing
