"""The background of the loop: it comes last, has its share all the same, and is looked at when that is worth it."""

import os
from collections.abc import Iterator

import pytest

from penstock.serve.reactor import BACKGROUND_S, READ, Turn
from tests.serve.reactor_stage import LONG_S, SHORT_S, Stage, reactor_stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with reactor_stage() as made:
        yield made


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
    read_end, write_end = stage.pipe()

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
