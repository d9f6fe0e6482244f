"""The pace of a stream: when a frame is due, at which rate frames go, and the line that shows it.

A file plays on the other side as it would here: media time and wall time start together at the first frame. After a
jump of more than ten seconds, as in files that were cut together, they start anew, so that nobody waits for a time that
is not in the file. The line is for terminals only, changes a few times a second, and is gone at the end.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.tools.report import bit_rate_text

_JUMP_MS: Final = 10_000
_REFRESH_S: Final = 0.25


class Pacer:
    """Real time for one stream. Knows no clock: the caller tells time."""

    __slots__ = ("_last_ms", "_start_ms", "_start_s")

    def __init__(self) -> None:
        self._start_s = 0.0
        self._start_ms = 0
        self._last_ms: int | None = None

    def delay_s(self, timestamp_ms: int, now_s: float) -> float:
        """How long to wait before a frame is sent; 0 when its time has come."""
        if self._last_ms is None or abs(timestamp_ms - self._last_ms) > _JUMP_MS:
            self._start_s, self._start_ms = now_s, timestamp_ms
        self._last_ms = timestamp_ms
        return max(self._start_s + (timestamp_ms - self._start_ms) / 1000 - now_s, 0.0)


class RateMeter:
    """Frames and bits per second since it was last asked, at moments that the caller gives."""

    __slots__ = ("_bytes", "_frames", "_since_s")

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._frames = 0
        self._bytes = 0

    def add(self, size_bytes: int, *, is_picture: bool) -> None:
        """Count one frame; pictures are what makes the rate of frames."""
        self._bytes += size_bytes
        self._frames += is_picture

    def take(self, now_s: float) -> str:
        """The rates in words; counting starts anew."""
        span_s = max(now_s - self._since_s, 1e-3)
        text = f"{self._frames / span_s:5.1f} fps  {bit_rate_text(self._bytes * 8 / span_s)}"
        self._since_s, self._frames, self._bytes = now_s, 0, 0
        return text


@contextmanager
def progress_line(console: Console) -> Iterator[Callable[[Callable[[], str]], None]]:
    """Gives a function to call as often as one likes; it asks for the text of the line only when it is time."""
    if not console.is_terminal:
        yield lambda _: None
        return
    next_at_s = time.monotonic() + _REFRESH_S
    with Live(Text(""), console=console, auto_refresh=False, transient=True) as live:

        def show(make_text: Callable[[], str]) -> None:
            nonlocal next_at_s
            now_s = time.monotonic()
            if now_s >= next_at_s:
                next_at_s = now_s + _REFRESH_S
                live.update(Text(make_text(), no_wrap=True, overflow="ellipsis"), refresh=True)

        yield show


def clock_text(milliseconds: float) -> str:
    """A length of time as on a clock: 1:02:03.4."""
    tenths = max(int(milliseconds // 100), 0)
    minutes, tenths = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{tenths / 10:04.1f}"
