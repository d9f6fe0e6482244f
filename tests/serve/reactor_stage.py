"""A reactor whose clock is the test's own."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.serve.reactor import READ, Reactor, Turn

LONG_S = 0.010
SHORT_S = 0.00001


class Stage:
    """A reactor whose time passes by the work of its callbacks. Pipes that are never emptied always have events."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.errors: list[BaseException] = []
        self.reactor = Reactor(self.errors.append, clock=lambda: self.time, processor_clock=lambda: self.time)
        self.reactor.after_events = lambda: self.called.append("|")
        self.called: list[str] = []
        """Who was called, with a mark wherever what is due was flushed."""
        self._pipes: list[int] = []

    def close(self) -> None:
        self.reactor.close()
        for descriptor in self._pipes:
            os.close(descriptor)

    def pipe(self) -> tuple[int, int]:
        """To read from, and to write to."""
        ends = os.pipe()
        self._pipes += ends
        return ends

    def readable(self) -> int:
        """A descriptor that has always something to read."""
        read_end, write_end = self.pipe()
        os.write(write_end, b"x")
        return read_end

    def worker(self, name: str, work_s: float) -> Callable[[int], None]:
        def work(_events: int) -> None:
            self.called.append(name)
            self.time += work_s

        return work

    def add(self, name: str, work_s: float, *, is_background: bool = False) -> int:
        """Somebody who has always events and works for so long in each turn."""
        descriptor = self.readable()
        self.reactor.add(descriptor, READ, self.worker(name, work_s), is_background=is_background)
        return descriptor

    def queue_in_background(self, name: str, work_s: float) -> Turn:
        """Somebody with a single turn of the background."""
        turn = Turn(self.worker(name, work_s), is_background=True)
        self.reactor.queue(turn)
        return turn

    def run(self, rounds: int) -> None:
        """So many rounds. Some descriptor must have events in each, or something must be queued."""
        left = rounds
        poll_descriptor = self.readable()

        def count(_events: int) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self.reactor.remove(poll_descriptor)
                self.reactor.stop()

        self.reactor.add(poll_descriptor, READ, count)
        self.reactor.run()

    @property
    def rounds(self) -> list[list[str]]:
        """Who was called between two flushes."""
        found: list[list[str]] = [[]]
        for name in self.called:
            if name == "|":
                found.append([])
            else:
                found[-1].append(name)
        return [names for names in found if names]


@contextmanager
def reactor_stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()
