"""Programs that run for events: each once, within its time.

Owns those that wait. Events of one stream are handled one after the other, those of others beside them, so many at a
time in all. What waits is lost with the process: a program that must hear of everything asks the API, or takes a
webhook.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.logs import OncePerSecond, get_logger
from penstock.web.events.event_log import Event
from penstock.web.programs.arguments import UnfitName, arguments_of, environment_of
from penstock.web.programs.launcher import Launcher
from penstock.web.programs.settings import ProgramSettings

MAX_AT_ONCE: Final = 16
MAX_WAITING: Final = 1000

_Lane = tuple[ProgramSettings, str]


class EventPrograms:
    """All hooks that run for events."""

    def __init__(
        self,
        launcher: Launcher,
        outer: Mapping[str, str],
        max_at_once: int = MAX_AT_ONCE,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """`outer` is the environment that we live in."""
        self._launcher = launcher
        self._outer = outer
        self._max_waiting = max_waiting
        self._hooks: Sequence[ProgramSettings] = ()
        self._lanes: dict[_Lane, deque[Event]] = {}
        self._waiting = 0
        self._slots = asyncio.Semaphore(max_at_once)
        self._running: set[asyncio.Task[None]] = set()
        self._left_out = OncePerSecond(asyncio.get_running_loop().time)

    def configure(self, hooks: Sequence[ProgramSettings]) -> None:
        """Run these from now on. What waits already is run as it was to be."""
        self._hooks = hooks

    def hear(self, event: Event) -> None:
        """Something happened. Never waits."""
        for hook in self._hooks:
            if hook.wanted.has(event):
                self._add(hook, event)

    async def close(self) -> None:
        """Forget what waits, and end what runs."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(self, hook: ProgramSettings, event: Event) -> None:
        if self._waiting >= self._max_waiting:
            if (swallowed := self._left_out.admit()) is not None:
                get_logger().warning("hook program not run, since too many wait", hook=hook.name, swallowed=swallowed)
            return
        self._waiting += 1
        lane = (hook, "" if event.stream is None else f"{event.app}/{event.stream}")
        if lane in self._lanes:
            self._lanes[lane].append(event)
            return
        self._lanes[lane] = deque([event])
        task = asyncio.get_running_loop().create_task(self._run_lane(lane))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_lane(self, lane: _Lane) -> None:
        hook, _ = lane
        events = self._lanes[lane]
        try:
            while events:
                async with self._slots:
                    self._waiting -= 1
                    await self._run(hook, events.popleft())
        finally:
            self._waiting -= len(events)
            del self._lanes[lane]

    async def _run(self, hook: ProgramSettings, event: Event) -> None:
        values = {"event": event.kind, "app": event.app or "", "stream": event.stream or ""}
        try:
            arguments = arguments_of(hook.arguments, values)
        except UnfitName as error:
            get_logger().warning("hook program not run", hook=hook.name, kind=event.kind, reason=str(error))
            return
        program = await self._launcher.start(arguments, environment_of(values, event.data, self._outer), hook.name)
        try:
            # The guard may have to be started first, which is not the program's fault.
            begun: list[asyncio.Future[Any]] = [program.started, program.ended]
            await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([program.ended], timeout=hook.timeout_s)
            if not program.ended.done():
                get_logger().warning("hook program ended, since its time was over", hook=hook.name, kind=event.kind)
                return
        finally:
            await program.stop()
        if (how := program.ended.result()) != "status 0":
            get_logger().warning("hook program failed", hook=hook.name, kind=event.kind, reason=how)
