"""What the supervisor has told of workers, and what follows from it for who asks.

Owns the newest figures of each worker with the time at which they came, the totals, and whether the server is alive and
ready. Nobody is asked: a worker that does not tell is taken for one that hangs. Knows no sockets and no clock.
"""

from collections import Counter
from typing import Final, NamedTuple

import msgspec

from penstock.control import messages
from penstock.control.figures import Figures, FiguresSum
from penstock.web.metrics import ServerFigures

STALE_AFTER_S: Final = 5.0
"""Workers tell once a second."""


class WorkerState(NamedTuple):
    """One worker as it was last told of."""

    worker: int
    pid: int
    is_silent: bool
    """Whether it should have told something since."""
    figures: Figures


class Board:
    """The server as it was last told of."""

    def __init__(self, workers: int, own_pid: int) -> None:
        self._workers = workers
        self._own_pid = own_pid
        self._sum = FiguresSum()
        self._told_at: dict[int, float] = {}
        self._pids: dict[int, int] = {}
        self._supervisor_pid: int | None = None
        self._turned_away: dict[str, int] = {}
        self.turned_away_here: Counter[str] = Counter()
        """By this process, by limit; from 0 again in the next one."""
        self.is_stopping = False
        self._is_draining = False

    def past_figures(self, message: messages.PastFigures) -> None:
        """What was counted before this process was there to add it up. Told once, before any other figures."""
        self._sum.past = Figures.of_plain(message.figures)

    def figures(self, message: messages.Figures, now: float) -> None:
        """A worker has told its figures, or was lost."""
        worker = message.worker
        if message.figures is None:
            self._sum.lost(worker)
            self._told_at.pop(worker, None)
            self._pids.pop(worker, None)
            return
        self._sum.told(worker, message.boot_id, Figures.of_plain(message.figures))
        self._told_at[worker] = now
        self._pids[worker] = message.pid

    def entrance(self, message: messages.Entrance) -> None:
        """What the supervisor itself has counted."""
        self._supervisor_pid = message.pid
        self._turned_away = message.turned_away
        self._is_draining = message.is_draining

    @property
    def has_workers(self) -> bool:
        """Whether there is any that was not lost."""
        return bool(self._told_at)

    def complaint(self, now: float) -> str | None:
        """Why the server is not alive as a whole; None: it is."""
        for worker in range(1, self._workers + 1):
            if worker not in self._told_at:
                return f"worker {worker} is missing"
            if now - self._told_at[worker] > STALE_AFTER_S:
                return f"worker {worker} does not answer"
        return None

    def refusal(self, now: float) -> str | None:
        """Why the server takes no connections; None: it does."""
        if self.is_stopping:
            return "shutting down"
        if self._is_draining:
            return "draining"
        if not any(now - told_at <= STALE_AFTER_S for told_at in self._told_at.values()):
            return "no worker is ready"
        return None

    def state(self, now: float) -> str:
        """The same in one word or two."""
        if self.is_stopping:
            return "stopping"
        if self._is_draining:
            return "draining"
        return "ready" if self.refusal(now) is None else "not ready"

    @property
    def pids(self) -> dict[str, int]:
        """Of the processes that are known and are no workers, by what they are."""
        supervisor = {} if self._supervisor_pid is None else {"supervisor": self._supervisor_pid}
        return {**supervisor, "web": self._own_pid}

    def workers(self, now: float) -> list[WorkerState]:
        """Those that are there, by their numbers."""
        return [
            WorkerState(worker, self._pids[worker], now - self._told_at[worker] > STALE_AFTER_S, figures)
            for worker, figures in self._sum.workers.items()
            if worker in self._pids
        ]

    def server_figures(self) -> ServerFigures:
        """All that is told of it now."""
        total = self._sum.total()
        limits_hit = Counter(total.limits_hit)
        limits_hit.update(self._turned_away)
        limits_hit.update(self.turned_away_here)
        pids = {self._own_pid, *self._pids.values()}
        if self._supervisor_pid is not None:
            pids.add(self._supervisor_pid)
        return ServerFigures(msgspec.structs.replace(total, limits_hit=dict(limits_hit)), self._sum.workers, pids)
