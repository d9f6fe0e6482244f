"""Deadlines that are all of one length, such as that of a head: in the order in which they began.

Owns one timer for any number of them.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from penstock.serve.reactor import Loop, Timer

Item = TypeVar("Item", bound=Hashable)


class Deadlines(Generic[Item]):
    """What is late is told of once."""

    def __init__(self, loop: Loop, seconds: float, on_late: Callable[[Item], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._on_late = on_late
        self._due: dict[Item, float] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, item: Item) -> bool:
        return item in self._due

    @property
    def oldest(self) -> Item | None:
        """What is due first."""
        return next(iter(self._due), None)

    def begin(self, item: Item) -> None:
        """It is due so much later than now, whatever was said before."""
        self._due.pop(item, None)
        self._due[item] = self._loop.now + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def end(self, item: Item) -> bool:
        """It came in time. Whether it was due at all."""
        return self._due.pop(item, None) is not None

    def close(self) -> None:
        """Nothing is due any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        while self._due:
            item, due = next(iter(self._due.items()))
            if due > self._loop.now:
                self._timer = self._loop.call_at(due, self._look)
                return
            del self._due[item]
            self._on_late(item)
