"""The order in which the messages of one hook go out.

Owns which is next. Messages of one stream are a lane: the next goes when the one before was taken or given up. Lanes do
not wait for each other. Knows messages by number alone, and no clock.
"""

import heapq
from collections import deque
from collections.abc import Collection

Lane = str


class Lanes:
    """Messages that wait, each in the lane of its stream."""

    def __init__(self) -> None:
        self._waiting: dict[Lane, deque[int]] = {}
        self._due: list[tuple[float, int, Lane]] = []
        """Of lanes of which none is under way: when their first is due. Entries of others are stale."""
        self._due_at: dict[Lane, float] = {}
        self._under_way: set[Lane] = set()
        self.count = 0

    def add(self, number: int, lane: Lane, due_at: float) -> None:
        """Behind all others of its lane. `due_at` counts if it is the first."""
        waiting = self._waiting.setdefault(lane, deque())
        waiting.append(number)
        self.count += 1
        if len(waiting) == 1 and lane not in self._under_way:
            self._schedule(lane, due_at)

    def take(self, now: float) -> tuple[int, Lane] | None:
        """One that is due; its lane is under way until it is `done` or to be tried `again`."""
        self._drop_stale()
        if not self._due or self._due[0][0] > now:
            return None
        _, _, lane = heapq.heappop(self._due)
        del self._due_at[lane]
        self._under_way.add(lane)
        return self._waiting[lane][0], lane

    def done(self, lane: Lane, now: float) -> None:
        """What was taken is over with, well or not: the next of its lane is due."""
        self._under_way.remove(lane)
        waiting = self._waiting[lane]
        waiting.popleft()
        self.count -= 1
        if waiting:
            self._schedule(lane, now)
        else:
            del self._waiting[lane]

    def again(self, lane: Lane, due_at: float) -> None:
        """What was taken is to be tried again then."""
        self._under_way.remove(lane)
        self._schedule(lane, due_at)

    def remove(self, numbers: Collection[int], now: float) -> None:
        """Forget some of those that wait. What is under way goes on."""
        for lane, waiting in list(self._waiting.items()):
            kept = deque(each for each in waiting if each not in numbers)
            if lane in self._under_way and waiting[0] in numbers:
                kept.appendleft(waiting[0])
            self.count -= len(waiting) - len(kept)
            had_first, self._waiting[lane] = waiting[0], kept
            if not kept:
                del self._waiting[lane]
                self._due_at.pop(lane, None)
            elif lane not in self._under_way and kept[0] != had_first:
                self._schedule(lane, now)

    @property
    def under_way(self) -> set[int]:
        """The messages that were taken."""
        return {self._waiting[lane][0] for lane in self._under_way}

    @property
    def next_due_at(self) -> float | None:
        """When one may be taken; None: none waits."""
        self._drop_stale()
        return self._due[0][0] if self._due else None

    def _schedule(self, lane: Lane, due_at: float) -> None:
        self._due_at[lane] = due_at
        heapq.heappush(self._due, (due_at, self._waiting[lane][0], lane))

    def _drop_stale(self) -> None:
        while self._due:
            due_at, number, lane = self._due[0]
            waiting = self._waiting.get(lane)
            if self._due_at.get(lane) == due_at and waiting and waiting[0] == number:
                return
            heapq.heappop(self._due)
