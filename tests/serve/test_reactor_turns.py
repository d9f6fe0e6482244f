"""Turns of the loop: who comes first, who shares how much time, and who is not called any more. The clock is ours."""

import os
from collections.abc import Callable, Iterator

import pytest

from penstock.serve.reactor import BACKGROUND_S, READ, SHARE_S, TURN_S, Reactor, Turn

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

    def readable(self) -> int:
        """A descriptor that has always something to read."""
        read_end, write_end = os.pipe()
        self._pipes += (read_end, write_end)
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


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


def test_a_callback_is_told_when_its_turn_ends(stage: Stage) -> None:
    seen: list[float] = []

    def look(_events: int) -> None:
        seen.append(stage.reactor.turn_ends_at - stage.time)
        stage.time += 0.001

    for _ in range(2):
        stage.reactor.add(stage.readable(), READ, look)
    stage.run(1)
    assert seen == [pytest.approx(TURN_S)] * 2


def test_one_that_used_much_time_comes_last_and_after_the_flush(stage: Stage) -> None:
    stage.add("heavy", LONG_S)
    stage.add("light", SHORT_S)
    stage.run(4)
    first, *later = stage.rounds
    assert sorted(first) in (["heavy"], ["heavy", "light"]), "nobody knows yet"
    assert "heavy" in stage.called[len(first) + 1 :]
    together = [names for names in later if {"heavy", "light"} <= set(names)]
    assert together == [], f"what is due is flushed before the heavy one comes: {later}"


def test_heavy_ones_share_a_few_milliseconds_of_each_round_and_each_gets_its_turn(stage: Stage) -> None:
    names = [f"heavy {number}" for number in range(12)]
    for name in names:
        stage.add(name, TURN_S)
    stage.add("light", SHORT_S)
    stage.run(40)
    settled = stage.called[len(stage.called) // 3 :]
    between: list[int] = []
    since = 0
    for name in settled:
        if name == "light":
            between.append(since)
            since = 0
        elif name != "|":
            since += 1
    assert max(between[1:]) <= 3, "two and a bit fit into their share"
    counts = [settled.count(name) for name in names]
    assert min(counts) >= max(counts) / 2, "whoever used least comes first, and nobody is forgotten"


def test_a_turn_ends_with_the_share_that_it_is_part_of(stage: Stage) -> None:
    seen: list[float] = []

    def look(_events: int) -> None:
        seen.append(stage.reactor.turn_ends_at - stage.time)
        stage.time += 0.0015

    for _ in range(5):
        stage.reactor.queue(Turn(look))
    stage.run(2)
    assert [round(left_s * 1000, 3) for left_s in seen[:4]] == [2.0, 2.0, 2.0, 0.5]
    assert len(seen) == 5, "the last has its turn in the next round"


def test_one_that_rested_comes_with_everybody_again(stage: Stage) -> None:
    stage.add("heavy", LONG_S)
    stage.add("light", SHORT_S)
    stage.run(3)
    stage.time += 0.2
    stage.called.clear()
    stage.run(1)
    assert stage.called.index("heavy") < stage.called.index("|")


def test_one_that_uses_a_little_now_and_then_is_never_heavy(stage: Stage) -> None:
    stage.add("steady", 0.001)
    for _ in range(50):
        stage.time += 0.05
        stage.called.clear()
        stage.run(1)
        assert stage.called.index("steady") < stage.called.index("|")


def test_many_who_use_a_little_do_not_hold_up_what_is_due(stage: Stage) -> None:
    for number in range(60):
        stage.add(str(number), 0.0005)
    stage.run(1)
    assert max(len(names) for names in stage.rounds) <= SHARE_S / 0.0005 + 1


def test_in_a_crowd_less_is_much(stage: Stage) -> None:
    for number in range(60):
        stage.add(str(number), 0.0005)
    stage.add("light", 0.000001)
    stage.run(8)
    stage.called.clear()
    stage.run(2)
    assert stage.called.index("light") <= 1, "all others wait behind it"


# Further turns.


def test_who_asks_for_a_turn_gets_one_without_events_however_often_it_asks(stage: Stage) -> None:
    seen: list[int] = []
    turn = Turn(seen.append)
    stage.reactor.queue(turn)
    stage.reactor.queue(turn)
    stage.run(2)
    assert seen == [0]
    stage.reactor.queue(turn)
    stage.run(1)
    assert seen == [0, 0]


def test_a_further_turn_comes_after_the_flush_and_is_flushed_for_again(stage: Stage) -> None:
    stage.add("event", SHORT_S)
    stage.reactor.queue(Turn(stage.worker("further", SHORT_S)))
    stage.run(1)
    assert stage.called == ["event", "|", "further", "|"]


def test_one_that_used_much_time_comes_after_those_with_a_further_turn(stage: Stage) -> None:
    heavy = Turn(stage.worker("heavy", LONG_S))
    stage.reactor.queue(heavy)
    stage.run(1)
    stage.called.clear()
    stage.reactor.queue(heavy)
    stage.reactor.queue(Turn(stage.worker("further", SHORT_S)))
    stage.run(1)
    assert [name for name in stage.called if name != "|"] == ["further", "heavy"]


def test_who_asks_in_its_turn_comes_again_in_the_next_round(stage: Stage) -> None:
    turns: list[str] = []

    def again(_events: int) -> None:
        turns.append("turn")
        stage.reactor.queue(turn)

    turn = Turn(again)
    stage.reactor.queue(turn)
    stage.run(5)
    assert len(turns) == 5, "the loop does not wait, and others come in between"


def test_events_of_one_that_waits_for_its_turn_are_kept_for_it(stage: Stage) -> None:
    seen: list[int] = []
    turn = stage.reactor.add(stage.readable(), READ, seen.append)
    stage.reactor.queue(turn)
    stage.run(1)
    assert seen == [READ], "one turn, with its events"


def test_one_that_is_removed_while_it_waits_is_not_called(stage: Stage) -> None:
    descriptor = stage.readable()
    turn = stage.reactor.add(descriptor, READ, stage.worker("removed", SHORT_S))
    stage.reactor.queue(turn)
    stage.reactor.remove(descriptor)
    stage.run(2)
    assert "removed" not in stage.called


def test_a_turn_that_fails_costs_no_other(stage: Stage) -> None:
    def fail(_events: int) -> None:
        raise ZeroDivisionError

    stage.reactor.queue(Turn(fail))
    stage.reactor.queue(Turn(stage.worker("other", SHORT_S)))
    stage.run(1)
    assert "other" in stage.called
    assert [type(error) for error in stage.errors] == [ZeroDivisionError]


# The background.


def test_the_background_comes_after_everybody_else_and_after_what_is_due_was_flushed(stage: Stage) -> None:
    heavy = Turn(stage.worker("heavy", LONG_S))
    stage.reactor.queue(heavy)
    stage.run(1)
    stage.called.clear()
    stage.queue_in_background("background", SHORT_S)
    stage.reactor.queue(heavy)
    stage.reactor.queue(Turn(stage.worker("further", SHORT_S)))
    stage.add("event", SHORT_S)
    stage.run(1)
    assert stage.called == ["event", "|", "further", "heavy", "|", "background", "|"]


def test_events_of_the_background_wait_for_all_others_whoever_came_first(stage: Stage) -> None:
    stage.add("background", SHORT_S, is_background=True)
    stage.add("event", SHORT_S)
    stage.run(1)
    assert stage.called == ["event", "|", "background", "|"]


def test_of_much_background_half_a_millisecond_is_done_before_the_others_come_again(stage: Stage) -> None:
    for number in range(40):
        stage.queue_in_background(str(number), 0.3 * BACKGROUND_S)
    stage.run(4)
    assert [len(names) for names in stage.rounds] == [4] * 4
    assert [name for names in stage.rounds for name in names] == [str(number) for number in range(16)]


def test_the_background_is_told_that_its_turn_ends_with_its_half_millisecond(stage: Stage) -> None:
    seen: list[float] = []

    def look(_events: int) -> None:
        seen.append(stage.reactor.turn_ends_at - stage.time)
        stage.time += 0.0002

    for _ in range(3):
        stage.reactor.queue(Turn(look, is_background=True))
    stage.run(1)
    assert [round(left_s * 1000, 3) for left_s in seen] == [0.5, 0.3, 0.1]


def test_who_is_busy_all_the_time_leaves_the_background_as_much_as_it_takes_itself(stage: Stage) -> None:
    stage.add("busy", 0.002)
    for _ in range(100):
        stage.queue_in_background("background", 0.0003)
    stage.run(3)
    assert [name for names in stage.rounds for name in names] == (["busy"] + ["background"] * 7) * 3


def test_requests_of_a_crowd_are_read_together_every_few_milliseconds(stage: Stage) -> None:
    stage.add("background", SHORT_S, is_background=True)
    stage.add("background", SHORT_S, is_background=True)
    stage.add("event", 0.001)
    stage.run(11)
    counts = "".join("e" if name == "event" else "b" for name in stage.called if name != "|")
    assert counts == "ebb" + "eeeeebb" * 2, "at once when all was quiet, then every five milliseconds"


def test_one_who_asks_again_and_again_and_is_alone_is_read_in_each_round(stage: Stage) -> None:
    stage.add("background", SHORT_S, is_background=True)
    stage.add("event", 0.001)
    stage.run(11)
    counts = "".join("e" if name == "event" else "b" for name in stage.called if name != "|")
    assert counts == "eb" + "eeeeeb" + "eb" * 5, "from the second time on"


def test_what_is_done_for_many_comes_before_all_who_ask(stage: Stage) -> None:
    for number in range(10):
        stage.add(f"asks {number}", 0.0001, is_background=True)
    stage.run(1)
    stage.called.clear()
    stage.queue_in_background("for many", 0.0001)
    stage.run(1)
    assert stage.called[1] == "for many"


def test_what_is_done_for_many_leaves_those_who_ask_one_turn_of_each_round(stage: Stage) -> None:
    for _ in range(30):
        stage.queue_in_background("for many", 0.0003)
    for number in range(3):
        stage.add(f"asks {number}", 0.0001, is_background=True)
    stage.run(3)
    assert [[name[:4] for name in names] for names in stage.rounds] == [["for ", "for ", "asks"]] * 3


def test_when_nothing_of_the_background_was_left_the_next_is_read_at_once(stage: Stage) -> None:
    read_end, write_end = os.pipe()
    stage._pipes += (read_end, write_end)

    def read(_events: int) -> None:
        stage.called.append(f"read {len(os.read(read_end, 100))}")

    stage.reactor.add(read_end, READ, read, is_background=True)
    os.write(write_end, b"x")
    stage.run(1)
    os.write(write_end, b"xx")
    stage.run(1)
    assert stage.called == ["|", "read 1", "|", "|"], "not five milliseconds later"
    stage.time += 0.005
    stage.run(1)
    stage.time += 0.005
    stage.run(1)
    os.write(write_end, b"xxx")
    stage.called.clear()
    stage.run(1)
    assert stage.called == ["|", "read 3", "|"]


def test_nobody_in_the_background_is_kept_waiting_by_one_who_always_has_something(stage: Stage) -> None:
    names = [f"b{number}" for number in range(70)]
    for name in names:
        stage.add(name, 0.0003, is_background=True)
    stage.run(200)
    counts = [stage.called.count(name) for name in names]
    assert min(counts) >= 2
    assert max(counts) <= min(counts) + 1


def test_of_a_crowd_in_the_background_a_part_comes_in_each_round_and_nobody_waits_for_the_interval(
    stage: Stage,
) -> None:
    names = {f"b{number}" for number in range(70)}
    for name in names:
        stage.add(name, 0.000001, is_background=True)
    stage.run(3)
    assert max(len(each) for each in stage.rounds) == 32
    assert names <= set(stage.called)


def test_one_of_the_background_that_is_removed_while_it_waits_is_not_called(stage: Stage) -> None:
    descriptors = [stage.add("removed", 0.0004, is_background=True) for _ in range(4)]
    stage.run(1)
    assert stage.called.count("removed") == 2
    for descriptor in descriptors:
        stage.reactor.remove(descriptor)
    stage.called.clear()
    stage.time += 1.0
    stage.run(3)
    assert "removed" not in stage.called


def test_one_of_the_background_that_fails_costs_no_other_and_is_given_up_in_the_end(stage: Stage) -> None:
    def fail(_events: int) -> None:
        raise ZeroDivisionError

    stage.reactor.add(stage.readable(), READ, fail, is_background=True)
    stage.add("other", 0.001, is_background=True)
    stage.run(60)
    for _ in range(20):
        stage.time += 0.005
        stage.run(1)
    assert len(stage.errors) == 10
    assert stage.called.count("other") > 20


def test_the_load_that_others_notice_is_without_the_background(stage: Stage) -> None:
    stage.add("event", 0.001)
    for _ in range(2000):
        stage.queue_in_background("background", 0.003)
    stage.run(1000)
    assert stage.reactor.busy_share == pytest.approx(1.0, abs=0.02)
    assert stage.reactor.foreground_share == pytest.approx(0.25, abs=0.02)


# Callbacks that fail.


def failing(stage: Stage, *, is_listener: bool) -> None:
    def fail(_events: int) -> None:
        raise ZeroDivisionError

    stage.reactor.add(stage.readable(), READ, fail, is_listener=is_listener)


def test_one_that_fails_again_and_again_is_not_called_any_more(stage: Stage) -> None:
    failing(stage, is_listener=False)
    stage.run(30)
    assert len(stage.errors) == 10


def test_failures_are_forgiven_with_time(stage: Stage) -> None:
    failing(stage, is_listener=False)
    for _ in range(5):
        stage.run(8)
        stage.time += 11.0
    assert len(stage.errors) >= 35


def test_a_listener_that_fails_again_and_again_rests_for_a_second_and_is_called_again(stage: Stage) -> None:
    failing(stage, is_listener=True)
    stage.run(30)
    assert len(stage.errors) == 10
    stage.time += 1.0
    stage.run(30)
    assert len(stage.errors) == 20
    for _ in range(20):
        stage.time += 1.0
        stage.run(15)
    assert len(stage.errors) > 100, "it is never given up"


def test_a_listener_that_is_gone_when_its_rest_is_over_is_left_alone(stage: Stage) -> None:
    def fail(_events: int) -> None:
        raise ZeroDivisionError

    descriptor = stage.readable()
    stage.reactor.add(descriptor, READ, fail, is_listener=True)
    stage.run(15)
    stage.reactor.remove(descriptor)
    stage.time += 2.0
    stage.run(2)
    assert len(stage.errors) == 10


def test_very_many_timers_at_once_let_what_is_due_be_flushed_in_between(stage: Stage) -> None:
    for number in range(10):
        stage.reactor.call_at(stage.time, lambda name=f"timer {number}": stage.worker(name, 0.002)(0))  # type: ignore[misc]
    stage.run(6)
    assert [names for names in stage.rounds if names] == [
        ["timer 0", "timer 1", "timer 2"],
        ["timer 3", "timer 4", "timer 5"],
        ["timer 6", "timer 7", "timer 8"],
        ["timer 9"],
    ]
