"""What programs print, as lines of the log: bounded in length, and in number per second."""

import asyncio
from collections.abc import Callable
from typing import Final

_MAX_LINE_BYTES: Final = 1024
_MAX_LINES_PER_S: Final = 50


class Lines(asyncio.Protocol):
    """The reading end of a program's output."""

    def __init__(self, tell: Callable[[str, int], None], clock: Callable[[], float]) -> None:
        """`tell` takes a line, and how many before it were left out."""
        self._tell = tell
        self._clock = clock
        self._rest = b""
        self._second = -1
        self._told = 0
        self._left_out = 0

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(rest) > _MAX_LINE_BYTES:
            self._line(rest)
            rest = b""
        self._rest = rest

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._rest:
            self._line(self._rest)

    def _line(self, line: bytes) -> None:
        # FFmpeg writes its progress over and over into one line.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace").rstrip()
        if not text:
            return
        second = int(self._clock())
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= _MAX_LINES_PER_S:
            self._left_out += 1
            return
        self._told += 1
        left_out, self._left_out = self._left_out, 0
        self._tell(text[:_MAX_LINE_BYTES], left_out)
