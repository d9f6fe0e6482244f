"""When to send a frame, so that a file plays on the other side as it would here. Knows no clock: the caller tells time.

Media time and wall time start together at the first frame. After a jump of more than ten seconds, as in files that were
cut together, they start anew, so that nobody waits for a time that is not in the file.
"""

from typing import Final

_JUMP_MS: Final = 10_000


class Pacer:
    """Real time for one stream."""

    __slots__ = ("_last_ms", "_start_ms", "_start_s")

    def __init__(self) -> None:
        self._start_s = 0.0
        self._start_ms = 0
        self._last_ms: int | None = None

    def delay_s(self, timestamp_ms: int, now_s: float) -> float:
        """How long to wait before a frame is sent; 0 when its time has come."""
        if self._last_ms is None or abs(timestamp_ms - self._last_ms) > _JUMP_MS:
            self._start_s, self._start_ms = now_s, timestamp_ms
        self._last_ms = timestamp_ms
        return max(self._start_s + (timestamp_ms - self._start_ms) / 1000 - now_s, 0.0)
