"""Several observers as one: each hears every call, whatever the others do."""

import inspect
from typing import Any

import pytest

from penstock.serve.streams.observer import Observer, ObserverGroup

CALLS = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction)]


class Witness(Observer):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[object, ...]]] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name not in CALLS:
            return super().__getattribute__(name)
        return lambda *arguments: self.heard.append((name, arguments))


class Failing(Observer):
    """Fails whatever it is told."""

    def second_passed(self, now: float) -> None:
        raise ZeroDivisionError(f"at {now}")

    def error(self, connection: object, error: BaseException) -> None:
        raise RuntimeError from error


def arguments_of(name: str) -> list[Any]:
    parameters = list(inspect.signature(getattr(Observer, name)).parameters)[1:]
    return [f"the {parameter}" for parameter in parameters]


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("_")])
def test_every_call_reaches_every_observer_as_it_was_made(name: str) -> None:
    first, second = Witness(), Witness()
    arguments = arguments_of(name)
    getattr(ObserverGroup(first, second), name)(*arguments)
    assert first.heard == second.heard == [(name, tuple(arguments))]


def test_one_that_fails_is_told_to_the_others_and_keeps_nobody_from_hearing() -> None:
    before, after = Witness(), Witness()
    ObserverGroup(before, Failing(), after).second_passed(7.0)
    (_, told) = before.heard
    assert isinstance(told[1][1], ZeroDivisionError)
    assert [name for name, _ in before.heard] == ["second_passed", "error"]
    assert sorted(name for name, _ in after.heard) == ["error", "second_passed"]


def test_two_that_fail_at_everything_keep_nobody_from_hearing() -> None:
    after = Witness()
    ObserverGroup(Failing(), Failing(), after).second_passed(7.0)
    assert [name for name, _ in after.heard] == ["error", "error", "second_passed"]
