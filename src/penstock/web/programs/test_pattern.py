"""The test stream: a program of ours that publishes a moving picture to this server, for a while.

Owns that there is one at a time, its end, and what became of it. It publishes by RTMP like every encoder, with a
credential that only the server can make, which it finds in its environment: arguments can be read by everybody on the
machine. The guard of programs ends it with the web process, whatever that dies of.
"""

import asyncio
import enum
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final, NamedTuple

from penstock.web.programs.launcher import Launcher, Program

URL_VARIABLE: Final = "PENSTOCK_TEST_STREAM"
_NAME: Final = "test stream"
_PACKAGES: Final = ("av", "rich")
_LATE_S: Final = 10.0
"""How much longer than it should it may take to end by itself."""
_PASSED_ON: Final = ("PATH", "PYTHONPATH")


class PatternState(enum.Enum):
    """What the newest test stream does."""

    NEVER = "never"
    RUNNING = "running"
    ENDED = "ended"


class PatternStatus(NamedTuple):
    """The newest test stream."""

    state: PatternState
    words: str
    app: str | None = None
    stream: str | None = None
    started_at: float | None = None
    """In seconds since 1970."""
    ends_at: float | None = None
    """When it ends by itself, or when it ended."""


class NotStarted(Exception):
    """Why no test stream can be started."""


class TestPattern:
    """Starts and ends test streams."""

    # No test, whatever pytest makes of the name.
    __test__ = False

    def __init__(
        self,
        launcher: Launcher,
        outer: Mapping[str, str],
        now: Callable[[], float],
        program: tuple[str, ...] = (sys.executable, "-m", "penstock"),
    ) -> None:
        """`outer` is our own environment."""
        self._launcher = launcher
        self._environment = {"LANG": "C.UTF-8", **{name: outer[name] for name in _PASSED_ON if name in outer}}
        self._now = now
        self._program = program
        self._running: asyncio.Task[None] | None = None
        self.status = PatternStatus(PatternState.NEVER, "None was started since the server's web process began.")

    @property
    def is_running(self) -> bool:
        """Whether there is one."""
        return self._running is not None and not self._running.done()

    async def start(self, app: str, stream: str, url: str, for_s: float) -> PatternStatus:
        """Publish to a URL, which may hold a credential, for so long."""
        if self.is_running:
            raise NotStarted("A test stream is running; end it first.")
        if missing := [name for name in _PACKAGES if find_spec(name) is None]:
            raise NotStarted(f"No package {missing[0]} on the server; pip install 'penstock[tools]'.")
        started_at = self._now()
        words = f"It ends by itself after {for_s:g} s."
        self.status = PatternStatus(PatternState.RUNNING, words, app, stream, started_at, started_at + for_s)
        self._running = asyncio.get_running_loop().create_task(self._run(url, for_s))
        return self.status

    async def stop(self) -> bool:
        """End it. False: there was none."""
        running = self._running
        if running is None or running.done():
            return False
        running.cancel()
        await asyncio.wait([running])
        return True

    async def close(self) -> None:
        """End it with everything that runs for it."""
        if self._running is not None:
            self._running.cancel()
        await self._launcher.close()

    async def _run(self, url: str, for_s: float) -> None:
        arguments = [*self._program, "publish", f"env:{URL_VARIABLE}", "--test-pattern", "--seconds", f"{for_s:g}"]
        program: Program | None = None
        words = "It was ended."
        try:
            program = await self._launcher.start(arguments, {**self._environment, URL_VARIABLE: url}, _NAME)
            await asyncio.wait([program.ended], timeout=for_s + _LATE_S)
            words = _words(program)
        finally:
            self.status = self.status._replace(state=PatternState.ENDED, words=words, ends_at=self._now())
            if program is not None:
                await program.stop()


def _words(program: Program) -> str:
    if not program.ended.done():
        return "It did not end by itself, and was ended."
    how = program.ended.result()
    return "It ended by itself." if how == "status 0" else f"It failed ({how}); the server's log has what it said."
