"""The newest events of the server in one order, for clients that come back and ask what they missed.

Owns their numbers and how many are kept. Samples have a ring of their own, so that thousands of viewers do not push out
what happened once. Knows no clients and no clock.
"""

from collections import deque
from collections.abc import Iterator
from heapq import merge
from typing import Final, NamedTuple

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of events without samples: three times what 10,000 of usual size take. Text of peers makes larger ones."""
MAX_SAMPLES: Final = 5_000
MAX_SAMPLE_BYTES: Final = 4 * 1024 * 1024


class Event(NamedTuple):
    """Something that happened."""

    number: int
    kind: str
    app: str | None
    stream: str | None
    """None: it is about no app or stream."""
    is_sample: bool
    data: bytes
    """A JSON object without a line end."""


class EventLog:
    """Numbers events from 1 and keeps the newest. `boot` is one life of this log: numbers mean nothing in another."""

    def __init__(self, boot: str, max_events: int = 10_000, max_age_s: float = 600.0) -> None:
        self.boot = boot
        self.newest = 0
        """The number of the last event; 0: there was none."""
        self._events = _Ring(max_events, MAX_BYTES, max_age_s)
        self._samples = _Ring(MAX_SAMPLES, MAX_SAMPLE_BYTES, max_age_s)

    def append(
        self, kind: str, app: str | None, stream: str | None, data: bytes, now: float, *, is_sample: bool = False
    ) -> Event:
        """Something happened."""
        self.newest += 1
        event = Event(self.newest, kind, app, stream, is_sample, data)
        (self._samples if is_sample else self._events).append(event, now)
        return event

    def lose(self) -> None:
        """Something happened that nobody will hear of: whoever has read so far has a gap from here on."""
        self.newest += 1
        self._events.lost = self._samples.lost = self.newest

    def after(self, number: int, *, with_samples: bool = False) -> list[Event] | None:
        """What came after an event, oldest first. None: some of it is not kept, or such an event never was."""
        if number > self.newest or number < self._events.lost:
            return None
        if not with_samples:
            return list(self._events.after(number))
        if number < self._samples.lost:
            return None
        return list(merge(self._events.after(number), self._samples.after(number)))

    def id_of(self, number: int) -> str:
        """An event's id, as clients keep it."""
        return f"{self.boot}:{number}"

    def number_of(self, event_id: str) -> int | None:
        """The number of an event by its id; None: it is of another boot, or no id."""
        boot, _, digits = event_id.rpartition(":")
        return int(digits) if boot == self.boot and digits.isascii() and digits.isdigit() and len(digits) < 20 else None


class _Ring:
    """The newest events within bounds."""

    def __init__(self, max_events: int, max_bytes: int, max_age_s: float) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._kept: deque[tuple[float, Event]] = deque()
        self._bytes = 0
        self.lost = 0
        """The newest number that is not kept any more."""

    def append(self, event: Event, now: float) -> None:
        self._kept.append((now, event))
        self._bytes += len(event.data)
        while self._is_over(now):
            _, dropped = self._kept.popleft()
            self._bytes -= len(dropped.data)
            self.lost = max(self.lost, dropped.number)

    def _is_over(self, now: float) -> bool:
        kept = self._kept
        return (
            len(kept) > self._max_events
            or (self._bytes > self._max_bytes and len(kept) > 1)
            or kept[0][0] < now - self._max_age_s
        )

    def after(self, number: int) -> Iterator[Event]:
        """Those that came later. Whoever is up to date but for a few pays for those few."""
        newer: list[Event] = []
        for _, event in reversed(self._kept):
            if event.number <= number:
                break
            newer.append(event)
        return reversed(newer)
