"""How long rounds of sending take: a histogram with fixed bounds."""

from bisect import bisect_left

from penstock.control.figures import ROUND_BOUNDS_S


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
