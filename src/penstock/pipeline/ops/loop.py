"""Runs again and again: look for new facts, run a cycle if there are some, wait until it is time or somebody asks.

Owns the rhythm. Cycles never overlap. A cycle costs much the same however few facts there are, so little waits for
several rounds unless somebody asks. One that takes longer than the interval doubles it, which is said; when cycles
are quick again, the interval returns to what was asked for. The Spark session is opened for the first cycle, or for
whoever asks, and closed after a while without either, so that an idle server has no Java beside it. The clock is an
argument, and so is what the loop waits for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.errors import LakeBusy
from penstock.pipeline.ops.on_demand import Wake

_MAX_INTERVAL_S: Final = 3600.0


class Worker(Protocol):
    """What the loop runs. `has_work` is cheap; `run_cycle` opens the session if there is none."""

    def has_work(self, patience_s: float) -> bool:
        """Whether there is something to do; little may wait so long."""
        ...

    def run_cycle(self) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...


class Askers(Protocol):
    """Those who may want a cycle before its time; see `on_demand.Demand`."""

    def wait(self, seconds: float) -> Wake: ...

    def round_done(self) -> None: ...

    def was_asked(self) -> bool: ...

    def close_unless_asked(self, close: Callable[[], None]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often to look, and how long to keep a session that has nothing to do.

    An idle session costs 0.3 to 0.6 % of a core. A start with its first cycle, for which Java compiles everything anew,
    costs some 40 CPU seconds more than a cycle of a warm session: as much as two hours of idling. Keeping a session for
    so long costs at most twice what would be best, whenever the next facts come, and less than 2 % of a core.
    """

    every_s: float = 600.0
    idle_s: float = 7200.0
    quiet_every_s: float = 0.0
    """How often, at most, where little has landed; not more often than `every_s`."""


class Loop:
    """One pipeline that keeps up with its landing folder."""

    def __init__(
        self,
        worker: Worker,
        rhythm: Rhythm,
        clock: Callable[[], float],
        askers: Askers,
        say: Callable[[str], None],
    ) -> None:
        self._worker = worker
        self._rhythm = rhythm
        self._clock = clock
        self._askers = askers
        self._say = say
        self._used_at: float | None = None
        """When the session last did something for somebody; None: there is no session."""
        self._has_run = False
        self.interval_s = rhythm.every_s

    def run(self) -> None:
        """Until it is to end; then once more for what landed last."""
        wake = Wake.TIME
        while True:
            began_at = self._clock()
            was_asked = self._askers.was_asked()
            if self._worker.has_work(self._patience_s(wake)):
                self._cycle()
                self._has_run = True
                self._used_at = self._clock()
                self._adapt(self._used_at - began_at)
            elif wake is Wake.ASKED:
                self._worker.open()
                self._used_at = self._clock()
            elif self._used_at is not None:
                self._used_at = began_at if was_asked else self._kept_since(self._used_at)
            self._askers.round_done()
            if wake is Wake.END:
                self._worker.close()
                return
            wake = self._askers.wait(max(0.0, began_at + self.interval_s - self._clock()))

    def _patience_s(self, wake: Wake) -> float:
        """How long little may wait: not at all for the first cycle, for who asks, or for the end."""
        is_patient = wake is Wake.TIME and self._has_run
        return max(0.0, self._rhythm.quiet_every_s - self._rhythm.every_s) if is_patient else 0.0

    def _cycle(self) -> None:
        try:
            self._worker.run_cycle()
        except LakeBusy as busy:
            # Another writer has the lake for a while, a rebuild for one: what landed is still there next time.
            self._say(str(busy))

    def _kept_since(self, used_at: float) -> float | None:
        """When a session was last used that nobody needed in this round; None: it was closed."""
        idle_s = self._rhythm.idle_s
        if self._clock() - used_at < idle_s or not self._askers.close_unless_asked(self._worker.close):
            return used_at
        self._say(f"nothing to do for {idle_s:g} s: Spark is stopped until facts land or somebody asks")
        return None

    def _adapt(self, took_s: float) -> None:
        if took_s > self.interval_s and self.interval_s < _MAX_INTERVAL_S:
            self.interval_s = min(2 * self.interval_s, _MAX_INTERVAL_S)
            self._say(f"a cycle took {took_s:.1f} s: the next ones are {self.interval_s:g} s apart")
        elif took_s < self._rhythm.every_s / 2 and self.interval_s > self._rhythm.every_s:
            self.interval_s = self._rhythm.every_s
            self._say(f"cycles are quick again: every {self.interval_s:g} s")
