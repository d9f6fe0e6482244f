"""The rhythm of the pipeline, on a clock of the test's own."""

from collections.abc import Callable, Iterator

from penstock.errors import LakeBusy
from penstock.pipeline.ops.loop import Loop, Rhythm
from penstock.pipeline.ops.on_demand import Wake


class World:
    """A clock, a worker, people who ask, and an operator who ends the loop when all work is done."""

    def __init__(
        self, work: list[float | None], busy_at: int | None = None, asked: dict[int, float] | None = None
    ) -> None:
        self.now = 1000.0
        self.work: Iterator[float | None] = iter(work)
        self.next: float | None = None
        self.rounds = 0
        self.last_round = len(work) - 1
        self.events: list[object] = []
        self.patience_s: list[float] = []
        """How long little may wait, in each round."""
        self.busy_at = busy_at
        self.asked = asked or {}
        """After which round somebody wants another one, and how many seconds later."""
        self.quiet_askers: set[int] = set()
        """Before which rounds somebody was answered without a cycle."""
        self.under_way: set[int] = set()
        """In which rounds somebody is being answered."""

    def has_work(self, patience_s: float) -> bool:
        self.patience_s.append(patience_s)
        self.next = next(self.work)
        return self.next is not None

    def run_cycle(self) -> None:
        assert self.next is not None
        if self.busy_at == len([event for event in self.events if event == "cycle"]):
            self.busy_at = None
            raise LakeBusy("rebuild on host h has the lake")
        self.now += self.next
        self.events.append("cycle")

    def open(self) -> None:
        self.events.append("opened")

    def close(self) -> None:
        self.events.append("closed")

    def wait(self, seconds: float) -> Wake:
        taken_s = self.asked.get(self.rounds, seconds)
        self.events.append(taken_s)
        self.now += taken_s
        if self.rounds >= self.last_round:
            return Wake.END
        return Wake.ASKED if self.rounds in self.asked else Wake.TIME

    def round_done(self) -> None:
        self.rounds += 1

    def was_asked(self) -> bool:
        return self.rounds in self.quiet_askers

    def close_unless_asked(self, close: Callable[[], None]) -> bool:
        if self.rounds in self.under_way:
            return False
        close()
        return True

    def run(self, rhythm: Rhythm) -> list[object]:
        say: Callable[[str], None] = self.events.append
        Loop(self, rhythm, lambda: self.now, self, say).run()
        return self.events


def test_a_cycle_runs_only_if_something_is_new_and_once_more_at_the_end() -> None:
    assert World([2.0, None, 3.0]).run(Rhythm(60, 900)) == ["cycle", 58.0, 60.0, "cycle", "closed"]


def test_little_waits_for_the_sixth_round_but_not_for_the_first_cycle_nor_for_who_asks_nor_at_the_end() -> None:
    world = World([None, 2.0, None, 2.0, None], asked={3: 10.0})
    world.run(Rhythm(600, 7200, 3600))
    assert world.patience_s == [0.0, 0.0, 3000.0, 0.0, 0.0]


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
        "nothing to do for 120 s: Spark is stopped until facts land or somebody asks",
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


def test_who_asks_has_a_cycle_at_once_and_the_next_one_is_an_interval_later() -> None:
    world = World([2.0, 3.0, None, None], asked={1: 10.0})
    assert world.run(Rhythm(60, 900)) == ["cycle", 10.0, "cycle", 57.0, 60.0, "closed"]


def test_who_asks_when_nothing_is_new_has_a_session() -> None:
    world = World([None, None, None], asked={1: 10.0})
    assert world.run(Rhythm(60, 900)) == [10.0, "opened", 60.0, "closed"]


def test_a_session_that_answers_questions_is_not_idle() -> None:
    world = World([1.0, None, None, None, None])
    world.quiet_askers = {2}
    assert world.run(Rhythm(60, 120)) == [
        "cycle",
        59.0,
        60.0,
        60.0,
        60.0,
        "closed",
        "nothing to do for 120 s: Spark is stopped until facts land or somebody asks",
        "closed",
    ]


def test_a_session_is_not_closed_under_somebody_who_is_being_answered() -> None:
    world = World([1.0, None, None, None, None])
    world.under_way = {3}
    events = world.run(Rhythm(60, 120))
    assert events[:5] == ["cycle", 59.0, 60.0, 60.0, 60.0]
