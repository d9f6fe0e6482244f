"""A recording as the body of an answer: made piece by piece, at the rate at which the client takes it.

Owns how many are under way. Each piece is made in a thread, so that the loop never waits for the disk; whatever ends
the answer, the file is closed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

if TYPE_CHECKING:
    from penstock.web.recorded.mp4_source import Mp4Source

MAX_AT_ONCE: Final = 16
CONTENT_TYPE: Final = "video/mp4"
STARTS_AT: Final = "penstock-starts-at-s"
"""The header that says where in the recording the answer begins."""


class Mp4Answers:
    """All that are under way. What reads and frames them is imported with the first."""

    def __init__(self, max_at_once: int = MAX_AT_ONCE) -> None:
        self._max_at_once = max_at_once
        self._under_way = 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return self._under_way >= self._max_at_once

    async def begin(self, path: Path, from_s: float) -> "Mp4Answer":
        """An answer that has its first piece. Raises as `Mp4Source` does."""
        from penstock.web.recorded.mp4_source import Mp4Source  # noqa: PLC0415 - codecs take memory that few servers need

        # Counted from here: opening may take long, too.
        room = contextlib.ExitStack()
        room.enter_context(self._room())
        try:
            source = await asyncio.to_thread(Mp4Source, path, from_s)
        except BaseException:
            room.close()
            raise
        room.callback(source.close)
        return Mp4Answer(source, room)

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


class Mp4Answer(StreamingResponse):
    """The body of one."""

    def __init__(self, source: "Mp4Source", room: contextlib.ExitStack) -> None:
        self._room = room
        headers = {STARTS_AT: f"{source.starts_at_ms / 1000:.3f}", "accept-ranges": "none"}
        super().__init__(_pieces(source), headers=headers, media_type=CONTENT_TYPE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it to its end, or as far as the client takes it."""
        with self._room:
            await super().__call__(scope, receive, send)

    def close(self) -> None:
        """It is not sent after all."""
        self._room.close()


async def _pieces(source: "Mp4Source") -> AsyncIterator[bytes]:
    while piece := await _read(source):
        yield piece


async def _read(source: "Mp4Source") -> bytes:
    reading = asyncio.ensure_future(asyncio.to_thread(source.read))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        # The file must not be closed under the thread that reads it.
        await asyncio.wait([reading])
        raise
