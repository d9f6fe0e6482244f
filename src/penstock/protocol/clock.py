"""Media time without wraps: 32-bit timestamps in, one 64-bit clock out.

Timestamps on the wire wrap after 49.7 days, those of peers that keep 31 bits after 24.8. A step is read as the
shortest way round the circle, and a step of nearly half the circle as the wrap of a 31-bit peer, since nothing else
makes such a step. Time may go back, and a single message with time 0 in mid-stream, as relays send set-up, leaves no
trace in what follows.
"""

_CIRCLE = 1 << 32
_HALF = 1 << 31
_NEARLY_HALF = _HALF - 60_000


class UnwrappingClock:
    """The clock of one message stream."""

    __slots__ = ("_raw_ms", "_time_ms")

    def __init__(self) -> None:
        self._raw_ms: int | None = None
        self._time_ms = 0

    def unwrap(self, raw_ms: int) -> int:
        """The time that a 32-bit timestamp stands for; the next one is seen from there."""
        self._time_ms = time_ms = self.peek(raw_ms)
        self._raw_ms = raw_ms
        return time_ms

    def peek(self, raw_ms: int) -> int:
        """The same without moving the clock. The first timestamp of all is taken as it is."""
        if self._raw_ms is None:
            return raw_ms
        step_ms = raw_ms - self._raw_ms
        if step_ms >= _NEARLY_HALF or step_ms <= -_NEARLY_HALF:
            step_ms = _around(step_ms)
        return self._time_ms + step_ms


def _around(step_ms: int) -> int:
    step_ms = (step_ms + _HALF) % _CIRCLE - _HALF
    if step_ms <= -_NEARLY_HALF:
        return step_ms + _HALF
    if step_ms >= _NEARLY_HALF:
        return step_ms - _HALF
    return step_ms
