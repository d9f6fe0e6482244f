"""Entry points: where in a log one may begin.

Owns which of them are remembered: the newest ones, for those who join or skip, and some that are older where there are
players that look at more of a stream before they show it. What lies before the first of them need not be kept.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from penstock.relay.codec_config import CodecConfig

_LOOKBACK_GAP_S = 0.5
"""Places to look back from are at least so far apart, so that a flood of key frames is not a flood of them."""


class EntryPoint(NamedTuple):
    """A place where a cursor may begin: at a key frame, or at any message of a stream without video."""

    position: int
    timestamp_ms: int
    config: CodecConfig
    at: float


class EntryPoints:
    """Those of one log, oldest first."""

    def __init__(self, max_points: int, max_age_s: float, lookback_s: float) -> None:
        self._max_age_s = max_age_s
        self._lookback_s = min(lookback_s, max_age_s)
        self._newest: deque[EntryPoint] = deque(maxlen=max_points)
        self._to_look_back: deque[EntryPoint] = deque()

    @property
    def newest(self) -> EntryPoint | None:
        """The last one."""
        return self._newest[-1] if self._newest else None

    def first_from(self, position: int) -> EntryPoint | None:
        """The first of the newest ones that is not before a position."""
        return next((point for point in self._newest if point.position >= position), None)

    def back(self, seconds: float, now: float) -> EntryPoint | None:
        """The newest that is so far back; the first, if there was less to see so far."""
        points = self._to_look_back
        far_enough = (point for point in reversed(points) if now - point.at >= seconds)
        return next(far_enough, points[0] if points else self.newest)

    @property
    def remembered(self) -> tuple[tuple[EntryPoint, ...], tuple[EntryPoint, ...]]:
        """All of them: the newest ones, and those to look back from."""
        return tuple(self._newest), tuple(self._to_look_back)

    def replace(self, newest: Iterable[EntryPoint], to_look_back: Iterable[EntryPoint]) -> None:
        """Another process has chosen which are remembered."""
        self.clear()
        self._newest.extend(newest)
        self._to_look_back.extend(to_look_back)

    @property
    def first_position(self) -> int | None:
        """What lies before it nobody will begin with."""
        return min((point.position for point in (*self._newest, *self._to_look_back)), default=None)

    def add(self, point: EntryPoint) -> None:
        """There is a new one."""
        self._newest.append(point)
        if not self._lookback_s:
            return
        points = self._to_look_back
        if not points or point.at - points[-1].at >= _LOOKBACK_GAP_S:
            points.append(point)
        while len(points) > 1 and point.at - points[1].at >= self._lookback_s:
            points.popleft()

    def forget_old(self, now: float) -> None:
        """Those go that are too old, if there is a newer one that is old enough itself."""
        while len(self._newest) > 1 and now - self._newest[1].at > self._max_age_s:
            self._newest.popleft()

    def forget_before(self, position: int) -> None:
        """What lies there is gone."""
        for points in (self._newest, self._to_look_back):
            while points and points[0].position < position:
                points.popleft()

    def forget_lookback(self) -> None:
        """Nobody needs to look back any more."""
        self._to_look_back.clear()

    def forget_all_but_newest(self) -> None:
        """Memory is short."""
        self.forget_lookback()
        while len(self._newest) > 1:
            self._newest.popleft()

    def clear(self) -> None:
        """There is none any more."""
        self.forget_lookback()
        self._newest.clear()
