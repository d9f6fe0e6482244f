"""The rhythm of the pipeline, on a clock of the test's own."""

from collections.abc import Callable, Iterator

from penstock.errors import LakeBusy
from penstock.pipeline.loop import Loop, Rhythm


class World:
    """A clock, a worker and an operator who ends the loop after so many waits."""

    def __init__(self, work: list[float | None], busy_at: int | None = None) -> None:
        self.now = 1000.0
        self.work: Iterator[float | None] = iter(work)
        self.next: float | None = None
        self.rounds_left = len(work) - 1
        self.events: list[object] = []
        self.busy_at = busy_at

    def has_work(self) -> bool:
        self.next = next(self.work)
        return self.next is not None

    def run_cycle(self) -> None:
        assert self.next is not None
        if self.busy_at == len([event for event in self.events if event == "cycle"]):
            self.busy_at = None
            raise LakeBusy("rebuild on host h has the lake")
        self.now += self.next
        self.events.append("cycle")

    def close(self) -> None:
        self.events.append("closed")

    def wait(self, seconds: float) -> bool:
        self.events.append(seconds)
        self.now += seconds
        self.rounds_left -= 1
        return self.rounds_left <= 0

    def run(self, rhythm: Rhythm) -> list[object]:
        say: Callable[[str], None] = self.events.append
        Loop(self, rhythm, lambda: self.now, self.wait, say).run()
        return self.events


def test_a_cycle_runs_only_if_something_is_new_and_once_more_at_the_end() -> None:
    assert World([2.0, None, 3.0]).run(Rhythm(60, 900)) == ["cycle", 58.0, 60.0, "cycle", "closed"]


def test_a_slow_cycle_doubles_the_interval_until_cycles_are_quick_again() -> None:
    assert World([70.0, 130.0, 5.0, None]).run(Rhythm(60, 900)) == [
        "cycle",
        "a cycle took 70.0 s: the next ones are 120 s apart",
        50.0,
        "cycle",
        "a cycle took 130.0 s: the next ones are 240 s apart",
        110.0,
        "cycle",
        "cycles are quick again: every 60 s",
        55.0,
        "closed",
    ]


def test_a_session_without_work_is_closed_once() -> None:
    assert World([1.0, None, None, None, None, 1.0]).run(Rhythm(60, 120)) == [
        "cycle",
        59.0,
        60.0,
        60.0,
        "closed",
        "no new facts for 120 s: Spark is stopped until some come",
        60.0,
        60.0,
        "cycle",
        "closed",
    ]


def test_a_lake_that_another_has_is_tried_again_next_time() -> None:
    assert World([1.0, 1.0], busy_at=0).run(Rhythm(60, 900)) == [
        "rebuild on host h has the lake",
        60.0,
        "cycle",
        "closed",
    ]
