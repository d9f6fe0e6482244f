"""Cycles on demand: whoever asks a running pipeline wakes its loop, if what has landed is not in the tables yet.

Owns the meeting of the loop, in one thread, with those who ask, in others. They share cycles: all who ask while one is
under way wait for its end. Nobody waits for more than two, the one under way and the one after it, nor longer than
`READY_WITHIN_S`; then the answer comes from what is there, and a notice says what it lacks. The session stays open
while somebody is being answered.
"""

import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, Protocol

from penstock.errors import PipelineError
from penstock.pipeline.queries.answers import QueryRunner
from penstock.pipeline.queries.sql_service import READY_WITHIN_S, Notify

FRESH_US: Final = 5_000_000
"""What landed so shortly ago is not waited for. With files that land every 10 s, figures are at most 15 s old."""
_ROUNDS: Final = 2
_STARTING: Final = "Spark is starting for this question, which takes some ten seconds"


class Wake(enum.Enum):
    """Why the loop goes on."""

    TIME = enum.auto()
    ASKED = enum.auto()
    END = enum.auto()


class Demand:
    """What is wanted of the loop, and how often it has gone round."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_wanted = False
        self._is_ending = False
        self._rounds = 0
        self._asking = 0
        self._was_asked = False

    # For the loop.

    def wait(self, seconds: float) -> Wake:
        """Sleep so long, or until somebody wants a round or the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_wanted or self._is_ending, seconds)
            if self._is_ending:
                return Wake.END
            return Wake.ASKED if self._is_wanted else Wake.TIME

    def round_done(self) -> None:
        """Let those who waited for a round look whether it was enough for them."""
        with self._changed:
            self._is_wanted = False
            self._rounds += 1
            self._changed.notify_all()

    def was_asked(self) -> bool:
        """Whether anybody has asked since this was last called, or is being answered."""
        with self._changed:
            was_asked, self._was_asked = self._was_asked or self._asking > 0, False
            return was_asked

    def close_unless_asked(self, close: Callable[[], None]) -> bool:
        """Close the session while nobody is being answered; whoever asks meanwhile waits. Whether it was closed."""
        with self._changed:
            if self._asking:
                return False
            close()
            return True

    # For everybody else.

    def end(self) -> None:
        """Have the loop end after its last round."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Keep the session open for the length of the block."""
        with self._changed:
            self._asking += 1
            self._was_asked = True
        try:
            yield
        finally:
            with self._changed:
                self._asking -= 1

    def go_round(self, timeout_s: float) -> bool:
        """Have the loop go round, or finish the round that it is in; whether it did in time."""
        with self._changed:
            before, self._is_wanted = self._rounds, True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._rounds > before or self._is_ending, timeout_s)
            return self._rounds > before


class Tables(Protocol):
    """What is asked about a pipeline, by any thread."""

    def waiting_since_us(self) -> int | None:
        """When the oldest facts landed that the tables do not show; None: they show all."""

    def query_runner(self) -> QueryRunner | None:
        """Who runs queries in the session; None: there is no session."""
        ...


class OnDemand:
    """The pipeline as `queries.sql_service` needs it."""

    def __init__(
        self,
        tables: Tables,
        demand: Demand,
        *,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        clock: Callable[[], float] = time.monotonic,
        within_s: float = READY_WITHIN_S,
    ) -> None:
        self._tables = tables
        self._demand = demand
        self._now_us = now_us
        self._clock = clock
        self._within_s = within_s

    def refresh(self, notify: Notify) -> None:
        """Have the tables show what had landed FRESH_US ago. What lands later is not waited for, so this ends."""
        wanted_us, deadline = self._now_us() - FRESH_US, self._clock() + self._within_s
        with self._demand.asking():
            since_us = self._lacking_since_us(wanted_us)
            if since_us is not None and self._tables.query_runner() is None:
                notify(_STARTING)
            for _ in range(_ROUNDS):
                if since_us is None:
                    return
                is_done = self._demand.go_round(deadline - self._clock())
                since_us = self._lacking_since_us(wanted_us)
                if not is_done:
                    break
            if since_us is not None:
                notify(self._shortage(since_us))

    @contextlib.contextmanager
    def session(self, notify: Notify) -> Iterator[QueryRunner]:
        """Who runs queries; the session is opened if there is none, and stays open for the length of the block."""
        deadline = self._clock() + self._within_s
        with self._demand.asking():
            runner = self._tables.query_runner()
            if runner is None:
                notify(_STARTING)
                # The round that is under way may have begun without a reason to open one.
                for _ in range(_ROUNDS):
                    if not self._demand.go_round(deadline - self._clock()):
                        break
                    if (runner := self._tables.query_runner()) is not None:
                        break
            if runner is None:
                raise PipelineError(f"sql: Spark has not started within {self._within_s:g} s; ask again a little later")
            yield runner

    def _lacking_since_us(self, wanted_us: int) -> int | None:
        since_us = self._tables.waiting_since_us()
        return None if since_us is None or since_us > wanted_us else since_us

    def _shortage(self, since_us: int) -> str:
        since = datetime.fromtimestamp(since_us / 1_000_000, UTC)
        age_s = (self._now_us() - since_us) / 1_000_000
        return f"the tables do not show yet what landed since {since:%H:%M:%S} UTC, {age_s:.0f} s ago"
