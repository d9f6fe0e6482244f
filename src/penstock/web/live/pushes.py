"""Streams that workers send to other servers, as they told it last."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.control.live import LivePush


class OpenPush(NamedTuple):
    """A push, and the worker that has it."""

    value: LivePush
    worker: int


class LivePushTable:
    """Each worker is believed about its own: what it had is gone with it."""

    def __init__(self) -> None:
        self._told: dict[int, list[LivePush]] = {}

    def receive(self, worker: int, pushes: list[LivePush]) -> None:
        """A worker tells all that it has."""
        self._told[worker] = pushes

    def worker_lost(self, worker: int) -> None:
        """A worker is gone, and all that it had."""
        self._told.pop(worker, None)

    def of_target(self, target: str) -> list[OpenPush]:
        """What is sent to a target."""
        found = [each for each in self if each.value.target == target]
        return sorted(found, key=lambda each: (each.value.app, each.value.stream, each.worker))

    def __iter__(self) -> Iterator[OpenPush]:
        for worker, pushes in self._told.items():
            yield from (OpenPush(push, worker) for push in pushes)
