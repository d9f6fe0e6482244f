"""New figures, asked for by operators: one question to the pipeline at a time, however many ask.

Owns what became of the newest question. Nobody waits for the pipeline: who asks is told that it was asked.
"""

import asyncio
import enum
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.web.analytics.pipeline_link import NoPipeline, PipelineFailed, PipelineLink

WITHIN_S: Final = 180.0
"""A pipeline answers within two minutes, from what it has then."""
_DONE: Final = "The figures show what had landed some seconds before they were asked for."


class RefreshState(enum.Enum):
    """What became of the newest question."""

    NEVER = "never"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class RefreshStatus(NamedTuple):
    """The newest question."""

    state: RefreshState
    words: str
    asked_at: float | None = None
    """In seconds since 1970."""
    ended_at: float | None = None


class Refresh:
    """Asks the pipeline of a data folder for fresh tables."""

    def __init__(self, link: PipelineLink, now: Callable[[], float], within_s: float = WITHIN_S) -> None:
        self._link = link
        self._now = now
        self._within_s = within_s
        self._task: asyncio.Task[None] | None = None
        self.status = RefreshStatus(RefreshState.NEVER, "Nobody has asked since the server's web process began.")

    async def ask(self) -> RefreshStatus:
        """Have it begin, unless it is under way. NoPipeline: there is nobody to be asked."""
        if self._task is None or self._task.done():
            on_sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._task = asyncio.get_running_loop().create_task(self._run(on_sent, self._now()))
            await on_sent
        return self.status

    async def _run(self, on_sent: asyncio.Future[None], asked_at: float) -> None:
        self._tell(RefreshState.RUNNING, "The pipeline takes in what has landed.", asked_at)
        try:
            async with asyncio.timeout(self._within_s):
                notice = await self._link.refresh(on_sent)
        except NoPipeline as error:
            self._tell(RefreshState.FAILED, "No pipeline runs beside the server.", asked_at, ended=True)
            on_sent.set_exception(error)
        except PipelineFailed as error:
            self._tell(RefreshState.FAILED, str(error), asked_at, ended=True)
        except TimeoutError:
            self._tell(
                RefreshState.FAILED, f"The pipeline did not answer within {self._within_s:g} s.", asked_at, ended=True
            )
        else:
            self._tell(RefreshState.DONE, notice or _DONE, asked_at, ended=True)
        finally:
            if not on_sent.done():
                on_sent.set_result(None)

    def _tell(self, state: RefreshState, words: str, asked_at: float, *, ended: bool = False) -> None:
        self.status = RefreshStatus(state, words, asked_at, self._now() if ended else None)
