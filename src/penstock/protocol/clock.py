"""Media time without wraps: 32-bit timestamps in, one 64-bit clock out.

Timestamps on the wire wrap after 49.7 days, those of peers that keep 31 bits after 24.8. A step is read as the
shortest way round the circle, and a step of nearly half the circle as the wrap of a 31-bit peer, since nothing else
makes such a step. Time may go back, and a single message with time 0 in mid-stream, as relays send set-up, leaves no
trace in what follows.
"""

_CIRCLE_MS = 1 << 32
_HALF_MS = 1 << 31
_NEARLY_HALF_MS = _HALF_MS - 60_000
_QUARTER_MS = 1 << 30
_NEVER = -1


class UnwrappingClock:
    """The clock of one message stream. The first timestamp is taken as it is."""

    __slots__ = ("_raw_ms", "_time_ms")

    def __init__(self) -> None:
        self._raw_ms = _NEVER
        self._time_ms = _NEVER

    def unwrap(self, raw_ms: int) -> int:
        """The time that a 32-bit timestamp stands for; the next one is seen from there, unless it is a far 0."""
        step_ms = raw_ms - self._raw_ms
        if step_ms >= _QUARTER_MS or step_ms <= -_QUARTER_MS:
            if raw_ms == 0 and _QUARTER_MS <= self._raw_ms <= _CIRCLE_MS - _QUARTER_MS:
                # The way back from 0 could pass for the wrap of a 31-bit peer where the way to it did not.
                return self.peek(0)
            step_ms = self._step_to(raw_ms)
        self._raw_ms = raw_ms
        self._time_ms = time_ms = self._time_ms + step_ms
        return time_ms

    def peek(self, raw_ms: int) -> int:
        """The same without moving the clock."""
        return self._time_ms + self._step_to(raw_ms)

    def _step_to(self, raw_ms: int) -> int:
        step_ms = raw_ms - self._raw_ms
        if self._raw_ms == _NEVER:
            return step_ms
        step_ms = (step_ms + _HALF_MS) % _CIRCLE_MS - _HALF_MS
        if step_ms <= -_NEARLY_HALF_MS:
            return step_ms + _HALF_MS
        if step_ms >= _NEARLY_HALF_MS:
            return step_ms - _HALF_MS
        return step_ms
