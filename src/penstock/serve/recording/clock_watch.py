"""Whether the wall clock can be trusted with deleting: not for an hour after it was set.

Owns the comparison with the monotonic clock, which nobody sets. A machine that starts with a wrong clock, or is given
one by mistake, has time to be put right. Slow corrections are not seen, and do no harm.
"""

from collections.abc import Callable
from typing import Final

_JUMP_S: Final = 60.0
PAUSE_S: Final = 3600.0


class ClockWatch:
    """To be asked now and then; what it compares with is what it saw when it was asked last."""

    def __init__(self, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._offset_s = wall_clock() - clock()
        self._trusted_at = clock()

    def jump_s(self) -> float | None:
        """By how much the wall clock was set since the last look; None if it was not, or by less than a minute."""
        offset_s = self._wall_clock() - self._clock()
        jump_s = offset_s - self._offset_s
        self._offset_s = offset_s
        if abs(jump_s) <= _JUMP_S:
            return None
        self._trusted_at = self._clock() + PAUSE_S
        return jump_s

    @property
    def is_trusted(self) -> bool:
        """Whether it has not been set for a while."""
        return self._clock() >= self._trusted_at
