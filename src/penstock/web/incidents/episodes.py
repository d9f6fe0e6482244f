"""Episodes: times in which something is wrong with a stream, from the first sign to the last.

Owns how signs are joined, as gold.incidents does it: bad samples that touch are one run, and an incident if that lasts
long enough; things that come too often are counted within a time. An episode ends when a good sample follows, or when
there is nothing more for long enough that nothing can touch it any more.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from penstock.web.incidents.second import SECOND_US

TOUCHING_US: Final = SECOND_US // 2
"""Samples with a smaller gap touch. They are about 1 s long, so one good sample separates two runs."""


@dataclass(slots=True)
class Episode:
    """What went on from when to when, with the figures that its evidence quotes."""

    started_us: int
    ended_us: int
    least: int | None = None
    most: int | None = None
    reference: int | None = None

    @property
    def lasted_us(self) -> int:
        """How long it is now."""
        return self.ended_us - self.started_us

    def extend(self, ended_us: int, figure: int | None, reference: int | None) -> None:
        """It goes on."""
        self.ended_us = max(self.ended_us, ended_us)
        self.least = figure if self.least is None or (figure is not None and figure < self.least) else self.least
        self.most = figure if self.most is None or (figure is not None and figure > self.most) else self.most
        if reference is not None and (self.reference is None or reference > self.reference):
            self.reference = reference


class Run:
    """Consecutive bad samples of one kind."""

    __slots__ = ("_patience_us", "episode")

    def __init__(self) -> None:
        self.episode: Episode | None = None
        self._patience_us = 0

    def bad(self, from_us: int, at_us: int, figure: int | None, reference: int | None) -> Episode | None:
        """A bad sample. The run before it, if that had ended without a good one."""
        before = self.episode
        # The next sample of the same stream comes within twice its interval, or there is none.
        self._patience_us = 2 * (at_us - from_us) + SECOND_US
        if before is not None and from_us <= before.ended_us + TOUCHING_US:
            before.extend(at_us, figure, reference)
            return None
        self.episode = Episode(from_us, at_us, figure, figure, reference)
        return before

    def good(self) -> Episode | None:
        """A good sample. The run that it ends."""
        ended, self.episode = self.episode, None
        return ended

    def passed(self, now_us: int) -> Episode | None:
        """Time has passed. The run that nothing can touch any more."""
        episode = self.episode
        return self.good() if episode is not None and now_us > episode.ended_us + self._patience_us else None


class Crowd:
    """Things that may happen, but not so many within a time."""

    __slots__ = ("_at_least", "_lately", "_within_us", "episode")

    def __init__(self, at_least: int, within_us: int) -> None:
        self._at_least = at_least
        self._within_us = within_us
        self._lately: deque[tuple[int, int, int]] = deque()
        """When each was seen, since when it was under way, and how many there were."""
        self.episode: Episode | None = None

    def add(self, from_us: int, at_us: int, count: int = 1) -> Episode | None:
        """Some more. The crowd before, if that is over."""
        ended = self.passed(at_us)
        lately = self._lately
        lately.append((at_us, from_us, count))
        while lately[0][0] < at_us - self._within_us:
            lately.popleft()
        total = sum(each for _, _, each in lately)
        if total >= self._at_least:
            if self.episode is None:
                self.episode = Episode(lately[0][1], at_us, None, None, total)
            else:
                self.episode.extend(at_us, None, total)
        return ended

    def passed(self, now_us: int) -> Episode | None:
        """Time has passed. The crowd that is over: nothing that comes now is within the time of its last."""
        episode = self.episode
        if episode is None or now_us <= episode.ended_us + self._within_us:
            return None
        self.episode = None
        return episode
