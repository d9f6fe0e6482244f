"""Runs again and again: look for new facts, run a cycle if there are some, wait.

Owns the rhythm. Cycles never overlap. One that takes longer than the interval doubles it, which is said; when cycles
are quick again, the interval returns to what was asked for. The Spark session is opened for the first cycle and closed
after a while without work, so that an idle server has no Java beside it. The clock and the wait are arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.errors import LakeBusy

_MAX_INTERVAL_S: Final = 3600.0


class Worker(Protocol):
    """What the loop runs. `has_work` is cheap; `run_cycle` opens the session if there is none."""

    def has_work(self) -> bool: ...

    def run_cycle(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often to look, and how long to keep a session that has nothing to do."""

    every_s: float = 60.0
    idle_s: float = 900.0


class Loop:
    """One pipeline that keeps up with its landing folder."""

    def __init__(
        self,
        worker: Worker,
        rhythm: Rhythm,
        clock: Callable[[], float],
        wait: Callable[[float], bool],
        say: Callable[[str], None],
    ) -> None:
        """`wait` sleeps so many seconds, or less if the loop is to end, and tells whether it is."""
        self._worker = worker
        self._rhythm = rhythm
        self._clock = clock
        self._wait = wait
        self._say = say
        self.interval_s = rhythm.every_s

    def run(self) -> None:
        """Until `wait` says that it is to end; then once more for what landed last."""
        last_work_at: float | None = None
        is_ending = False
        while True:
            began_at = self._clock()
            if self._worker.has_work():
                self._cycle()
                last_work_at = self._clock()
                self._adapt(last_work_at - began_at)
            elif last_work_at is not None and began_at - last_work_at >= self._rhythm.idle_s:
                self._worker.close()
                self._say(f"no new facts for {self._rhythm.idle_s:g} s: Spark is stopped until some come")
                last_work_at = None
            if is_ending:
                self._worker.close()
                return
            is_ending = self._wait(max(0.0, began_at + self.interval_s - self._clock()))

    def _cycle(self) -> None:
        try:
            self._worker.run_cycle()
        except LakeBusy as busy:
            # Another writer has the lake for a while, a rebuild for one: what landed is still there next time.
            self._say(str(busy))

    def _adapt(self, took_s: float) -> None:
        if took_s > self.interval_s and self.interval_s < _MAX_INTERVAL_S:
            self.interval_s = min(2 * self.interval_s, _MAX_INTERVAL_S)
            self._say(f"a cycle took {took_s:.1f} s: the next ones are {self.interval_s:g} s apart")
        elif took_s < self._rhythm.every_s / 2 and self.interval_s > self._rhythm.every_s:
            self.interval_s = self._rhythm.every_s
            self._say(f"cycles are quick again: every {self.interval_s:g} s")
