"""Pauses between tries: doubled from try to try up to a bound, and never the same for all who lost the same server."""

import random
from collections.abc import Callable
from typing import Final

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0
_LEAST_SHARE: Final = 0.5


class Backoff:
    """How long to wait before the next try."""

    def __init__(
        self,
        first_s: float = _FIRST_S,
        longest_s: float = _LONGEST_S,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` gives a number from 0 to 1."""
        self._first_s = first_s
        self._longest_s = longest_s
        self._chance = chance
        self._failures = 0

    def failed(self) -> float:
        """Another try came to nothing: the pause before the next."""
        pause_s = min(self._first_s * 2.0 ** min(self._failures, 30), self._longest_s)
        self._failures += 1
        return pause_s * (_LEAST_SHARE + (1.0 - _LEAST_SHARE) * self._chance())

    def succeeded(self) -> None:
        """It has worked for a while: the next failure is the first."""
        self._failures = 0
