"""When clients are sent what has happened: those with the same interval at the same moments.

Owns who waits. Clients that wake together ask for the same piece of the log, which is then encoded once. They are woken
a hundred at a time, so that answers to others come in between. There is one timer for each interval, not for each
client.
"""

import asyncio
from typing import Final, NamedTuple

_AT_ONCE: Final = 100
_PULSE_S: Final = 5.0
"""How often everybody is woken without an event, to find out whether it is time for a sign of life."""


class Beat(NamedTuple):
    """What clients that wake together have in common."""

    interval_ms: int
    with_samples: bool


class Rhythm:
    """Clients that wait for events."""

    def __init__(self) -> None:
        self._waiting: dict[Beat, set[asyncio.Future[None]]] = {}
        self._timers: dict[Beat, asyncio.TimerHandle] = {}
        self._pulse: asyncio.TimerHandle | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether nobody waits."""
        return not any(self._waiting.values())

    def happened(self, *, is_sample: bool = False) -> None:
        """There is an event: whoever waits for such is woken at the end of their interval."""
        for beat, waiting in self._waiting.items():
            if waiting and beat not in self._timers and (beat.with_samples or not is_sample):
                self._arm(beat)

    async def wait(self, interval_ms: int, *, with_samples: bool, has_more: bool = False) -> None:
        """Until the next moment at which there is something to look for; `has_more`: something is there already."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        beat = Beat(interval_ms, with_samples)
        waiting = self._waiting.setdefault(beat, set())
        waiting.add(future)
        if has_more and beat not in self._timers:
            self._arm(beat)
        if self._pulse is None:
            self._pulse = loop.call_later(_PULSE_S, self._on_pulse)
        try:
            await future
        finally:
            waiting.discard(future)

    def _arm(self, beat: Beat) -> None:
        loop = asyncio.get_running_loop()
        interval_s = beat.interval_ms / 1000
        # On a grid, so that clients stay in step whenever they came.
        at = (loop.time() // interval_s + 1) * interval_s
        self._timers[beat] = loop.call_at(at, self._on_time, beat)

    def _on_time(self, beat: Beat) -> None:
        del self._timers[beat]
        self._wake(list(self._waiting[beat]))

    def _on_pulse(self) -> None:
        self._pulse = None
        for beat, waiting in list(self._waiting.items()):
            if waiting:
                self._wake(list(waiting))
            elif beat not in self._timers:
                del self._waiting[beat]

    def _wake(self, futures: list[asyncio.Future[None]]) -> None:
        for future in futures[:_AT_ONCE]:
            if not future.done():
                future.set_result(None)
        if len(futures) > _AT_ONCE:
            asyncio.get_running_loop().call_soon(self._wake, futures[_AT_ONCE:])
