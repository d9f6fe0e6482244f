"""Turns of the loop: who comes first, who shares how much time, and who is not called any more. The clock is ours."""

from collections.abc import Iterator

import pytest

from penstock.serve.reactor import READ, SHARE_S, TURN_S, Turn
from tests.serve.reactor_stage import LONG_S, SHORT_S, Stage, reactor_stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with reactor_stage() as made:
        yield made


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
