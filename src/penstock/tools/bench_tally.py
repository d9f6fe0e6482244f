"""What a swarm measured: latencies in a bounded histogram, and for each viewer what came, what not and what broke."""

from array import array
from dataclasses import dataclass, field
from typing import Final

from penstock.media.frame import FrameKind
from penstock.tools.bench_media import Seen

_BUCKET_MS: Final = 0.1
_BUCKETS: Final = 100_000


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
