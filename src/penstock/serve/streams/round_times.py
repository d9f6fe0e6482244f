"""How long rounds of sending take: a histogram with fixed bounds."""

from bisect import bisect_left

_STEPS = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)
ROUND_BOUNDS_S = (*(round(step * scale, 6) for scale in (1e-4, 1e-3, 1e-2, 1e-1) for step in _STEPS), 1.0)
"""A fifth apart, so that two percentiles can be told apart by as much."""


class RoundTimes:
    """Rounds by their duration."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(ROUND_BOUNDS_S) + 1)
        """Rounds up to each bound and above the one before; the last number is of those beyond all bounds."""
        self.sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """A round is over."""
        self.counts[bisect_left(ROUND_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s
