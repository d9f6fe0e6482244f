"""Programs that run for as long as a stream is published.

Owns which run. What is published is looked up, and not counted from events: after a restart, or when events were lost,
a look is enough to have what should run, and to end what should not. A program that ends by itself is started again,
later each time unless it ran for a while.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from penstock.logs import get_logger
from penstock.web.programs.arguments import UnfitName, arguments_of, environment_of
from penstock.web.programs.launcher import Launcher
from penstock.web.programs.settings import ProgramSettings

MAX_AT_ONCE: Final = 100
_LOOK_S: Final = 1.0
_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 60.0
_LONG_LIFE_S: Final = 30.0

StreamKey = tuple[str, str]
_Run = tuple[ProgramSettings, StreamKey, str]


class WhilePublishing:
    """All hooks of this sort."""

    def __init__(
        self,
        launcher: Launcher,
        published: Callable[[], Mapping[StreamKey, str]],
        outer: Mapping[str, str],
        max_at_once: int = MAX_AT_ONCE,
        first_delay_s: float = _FIRST_DELAY_S,
    ) -> None:
        """`published` tells every stream that has a publisher, with the id of its publication."""
        self._launcher = launcher
        self._published = published
        self._outer = outer
        self._max_at_once = max_at_once
        self._first_delay_s = first_delay_s
        self._hooks: Sequence[ProgramSettings] = ()
        self._running: dict[_Run, asyncio.Task[None]] = {}
        self._refused: set[_Run] = set()
        self._ending: dict[_Run, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def configure(self, hooks: Sequence[ProgramSettings]) -> None:
        """Run these from now on, and no others."""
        self._hooks = hooks
        self.look_soon()

    def look_soon(self) -> None:
        """Something may have begun or ended."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled: programs end then too."""
        try:
            while True:
                self._changed.clear()
                self._look()
                # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the time-out.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S if self._hooks else None):
                        await self._changed.wait()
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), *self._ending.values(), return_exceptions=True)

    def _look(self) -> None:
        published = self._published() if self._hooks else {}
        wanted = {
            (hook, stream, publication)
            for hook in self._hooks
            for stream, publication in published.items()
            if hook.wanted.has_stream(*stream)
        }
        for run in self._running.keys() - wanted:
            self._end(run)
        self._begin(sorted(wanted - self._running.keys(), key=lambda run: run[1]))
        self._refused &= wanted

    def _end(self, run: _Run) -> None:
        task = self._running.pop(run)
        self._ending[run] = task
        task.add_done_callback(lambda _: self._ending.pop(run, None))
        task.cancel()

    def _begin(self, runs: Collection[_Run]) -> None:
        for run in runs:
            if len(self._running) < self._max_at_once:
                self._running[run] = asyncio.get_running_loop().create_task(self._keep_running(run))
                self._refused.discard(run)
            elif run not in self._refused:
                self._refused.add(run)
                get_logger().warning(
                    "hook program not run, since too many run", hook=run[0].name, stream_key="/".join(run[1])
                )

    async def _keep_running(self, run: _Run) -> None:
        hook, (app, stream), _ = run
        # The program for the publication before this one may still be writing to where this one will.
        if before := [task for other, task in self._ending.items() if other[:2] == run[:2]]:
            await asyncio.wait(before)
        values = {"event": "publishing", "app": app, "stream": stream}
        try:
            arguments = arguments_of(hook.arguments, values)
        except UnfitName as error:
            get_logger().warning("hook program not run", hook=hook.name, kind="publishing", reason=str(error))
            return
        clock = asyncio.get_running_loop().time
        delay_s = self._first_delay_s
        while True:
            began_at = clock()
            program = await self._launcher.start(arguments, environment_of(values, None, self._outer), hook.name)
            try:
                await asyncio.wait([program.ended])
            finally:
                await program.stop()
            if clock() - began_at >= _LONG_LIFE_S:
                delay_s = self._first_delay_s
            # Told a moment later: one that reads the stream ends with it, before we hear of that.
            await asyncio.sleep(self._first_delay_s)
            get_logger().warning(
                "hook program ended and is started again",
                hook=hook.name,
                stream_key=f"{app}/{stream}",
                reason=program.ended.result(),
                delay_s=delay_s,
            )
            await asyncio.sleep(delay_s - self._first_delay_s)
            delay_s = min(2 * delay_s, _LONGEST_DELAY_S)
