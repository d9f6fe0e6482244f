"""Streams that an origin did not have a moment ago.

Owns for how long that is remembered, so that a crowd who asks for a stream that is nowhere asks its origin once in a
while. Names are of strangers, so there is a bound to how many are remembered. Knows no clock.
"""

from typing import Final

MISS_S: Final = 5.0
"""How long a stream that an origin did not have is not asked for again."""
MAX_MISSES: Final = 10_000
"""With more of them the oldest may be asked for again."""


class Misses:
    """Names, and until when they are not asked for, in the order in which they were."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, name: bytes, now: float) -> None:
        """An origin did not have it."""
        self._until.pop(name, None)
        self._until[name] = now + MISS_S
        if len(self._until) > MAX_MISSES:
            del self._until[next(iter(self._until))]

    def has(self, name: bytes, now: float) -> bool:
        """Whether an origin did not have it a moment ago."""
        return now < self._until.get(name, now)

    def forget_old(self, now: float) -> None:
        """Those that may be asked for again."""
        while self._until and next(iter(self._until.values())) <= now:
            del self._until[next(iter(self._until))]
