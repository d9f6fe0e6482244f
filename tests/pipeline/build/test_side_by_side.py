"""Steps of a run: each after what it rests on, so many at once, the first of the list first."""

import threading
from functools import partial

import pytest

from penstock.pipeline.build.side_by_side import Step, only, side_by_side

_SOON_S = 10


def test_a_step_is_taken_after_all_that_it_rests_on() -> None:
    taken: list[str] = []
    steps = [_noting("last", taken, "left", "right"), _noting("left", taken, "first"), _noting("right", taken, "first")]
    side_by_side([*steps, _noting("first", taken)], at_once=3)
    assert taken[0] == "first"
    assert set(taken[1:3]) == {"left", "right"}
    assert taken[3:] == ["last"]


def test_some_steps_alone_do_not_wait_for_those_that_are_left_out() -> None:
    taken: list[str] = []
    steps = [_noting("one", taken), _noting("two", taken, "one"), _noting("three", taken, "one", "two")]
    side_by_side(only(steps, {"two", "three"}), at_once=1)
    assert taken == ["two", "three"]
    assert only(steps, None) == steps


def test_of_those_that_can_be_taken_the_first_in_the_list_is() -> None:
    taken: list[str] = []
    steps = [_noting("one", taken), _noting("after one", taken, "one"), _noting("two", taken), _noting("three", taken)]
    side_by_side(steps, at_once=1)
    assert taken == ["one", "after one", "two", "three"]


def test_steps_that_do_not_wait_for_each_other_are_taken_side_by_side() -> None:
    all_are_there = threading.Barrier(3)
    side_by_side([Step(name, lambda: all_are_there.wait(_SOON_S)) for name in "abc"], at_once=3)


def test_no_more_steps_are_taken_at_once_than_wanted() -> None:
    lock, under_way, most = threading.Lock(), 0, 0
    second_is_there = threading.Barrier(2)

    def take() -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        second_is_there.wait(_SOON_S)
        with lock:
            under_way -= 1

    side_by_side([Step(str(number), take) for number in range(6)], at_once=2)
    assert most == 2


def test_after_an_error_no_step_is_begun_and_those_under_way_are_ended() -> None:
    taken: list[str] = []
    is_failing = threading.Event()

    def fail() -> None:
        is_failing.set()
        raise RuntimeError("no disk")

    def take_long() -> None:
        assert is_failing.wait(_SOON_S)
        taken.append("long")

    with pytest.raises(RuntimeError, match="no disk"):
        side_by_side([Step("long", take_long), Step("failing", fail), _noting("later", taken)], at_once=2)
    assert taken == ["long"]


def test_steps_that_wait_for_each_other_are_an_error_and_not_a_wait_for_ever() -> None:
    taken: list[str] = []
    steps = [_noting("first", taken), _noting("egg", taken, "hen"), _noting("hen", taken, "egg", "first")]
    with pytest.raises(ValueError, match="wait for each other: egg, hen"):
        side_by_side(steps, at_once=2)
    assert taken == ["first"]


def _noting(name: str, taken: list[str], *after: str) -> Step:
    return Step(name, partial(taken.append, name), after)
