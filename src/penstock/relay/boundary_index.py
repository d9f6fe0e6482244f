"""The boundaries of parts and segments that a log remembers: its index for packagers.

Owns which boundaries belong to what the log still holds, and what codec configuration was in force at each. They come
from whoever appends to the log, and are only looked up here, in the process that writes it and in those that follow it.
"""

from collections import deque
from itertools import takewhile
from typing import NamedTuple

from penstock.relay.codec_config import CodecConfig
from penstock.relay.packaging.boundaries import Boundary


class IndexedBoundary(NamedTuple):
    """A boundary, and the codec configuration in force before the message that it is at."""

    boundary: Boundary
    config: CodecConfig


class BoundaryIndex:
    """The boundaries of one log, oldest first."""

    def __init__(self) -> None:
        self._boundaries: deque[IndexedBoundary] = deque()

    @property
    def newest(self) -> Boundary | None:
        """The last one."""
        return self._boundaries[-1].boundary if self._boundaries else None

    def add(self, boundary: Boundary, config: CodecConfig) -> None:
        """There is a new one."""
        self._boundaries.append(IndexedBoundary(boundary, config))

    def between(self, start: int, end: int) -> list[IndexedBoundary]:
        """Those at log positions from `start` to before `end`."""
        # Asked for the newest of many, again and again.
        found = [
            each
            for each in takewhile(lambda each: each.boundary.position >= start, reversed(self._boundaries))
            if each.boundary.position < end
        ]
        return found[::-1]

    def segment_start_back(self, wanted_ms: int, end: int) -> IndexedBoundary | None:
        """The newest start of a segment that is so far back on the wall; without one, the first there is.

        Before a log position, that is: what lies behind it is not visible yet.
        """
        newest = self.newest
        starts = [each for each in self._boundaries if each.boundary.part_index == 0 and each.boundary.position < end]
        if newest is None or not starts:
            return None
        far_enough = (each for each in reversed(starts) if newest.wall_ms - each.boundary.wall_ms >= wanted_ms)
        return next(far_enough, starts[0])

    def forget_before(self, position: int) -> None:
        """What lies there is gone."""
        boundaries = self._boundaries
        while boundaries and boundaries[0].boundary.position < position:
            boundaries.popleft()
