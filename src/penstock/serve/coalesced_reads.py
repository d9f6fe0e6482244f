"""Coalesced reads: sockets that are looked at together and at intervals, not whenever something comes.

Owns one epoll per pace and when it is looked at next. Who is read at which pace is not decided here. To wake up for one
message of 300 bytes costs more than to read it: what comes meanwhile waits in the sockets and is read at once.
"""

import math
import select
from enum import Enum, auto
from typing import Final


class Pace(Enum):
    """How soon what a peer sends is read."""

    AT_ONCE = auto()
    TICK = auto()
    """At a tick of all such, within 10 to 40 ms: somebody waits for it, but so do many others."""
    LAZY = auto()
    """Within 100 ms: nobody waits for it."""


TICK_S: Final = 0.009
"""With the millisecond or so by which a wait for events is late, 10 ms."""
_TICKS_AROUND: Final = 4
"""A tick reads a part of them, so that it stays short; after so many it was everybody's turn."""
_LEAST_PER_TICK: Final = 12
_LAZY_INTERVAL_S: Final = 0.100
_LAZY_SLACK_S: Final = 0.050
_MAX_EVENTS: Final = 1024
"""Of one look: whoever has something to say meanwhile waits for as long as these take."""


class CoalescedReads:
    """The sockets of one pace."""

    def __init__(self, interval_s: float, *, slack_s: float = 0.0, parts: int = 1, least: int = 1) -> None:
        self.epoll = select.epoll()
        self._interval_s = interval_s
        self._slack_s = slack_s
        self._parts = parts
        self._least = least
        self._count = 0
        self._due_at = 0.0

    @property
    def wake_at(self) -> float:
        """When the loop has to wake up for them; others wake it often enough for most."""
        return self._due_at + self._slack_s if self._count else math.inf

    def add(self, descriptor: int, events: int) -> None:
        """Look at a socket with the others from now on."""
        self._count += 1
        self.epoll.register(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Look at it no more."""
        self._count -= 1
        self.epoll.unregister(descriptor)

    def poll(self, now: float) -> list[tuple[int, int]]:
        """The events of those whose turn it is, if it is time.

        The kernel hands out what is ready in the order in which it became so, and puts it behind the others again: a
        part each time is everybody's turn after so many times.
        """
        if not self._count or now < self._due_at:
            return []
        self._due_at = now + self._interval_s
        return self.epoll.poll(0, min(max(-(-self._count // self._parts), self._least), _MAX_EVENTS))

    def close(self) -> None:
        """Give the descriptor back."""
        self.epoll.close()


def coalesced_reads() -> dict[Pace, CoalescedReads]:
    """One for each pace but that of those who are read at once."""
    return {
        Pace.TICK: CoalescedReads(TICK_S, parts=_TICKS_AROUND, least=_LEAST_PER_TICK),
        Pace.LAZY: CoalescedReads(_LAZY_INTERVAL_S, slack_s=_LAZY_SLACK_S),
    }
