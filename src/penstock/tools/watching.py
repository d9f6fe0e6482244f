"""Watching a stream: a play for a while, with what is known of it. What play and probe have in common."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from penstock.client import Timeouts, play
from penstock.media.frame import Frame
from penstock.tools.report import Json, rounded, stream_json
from penstock.tools.statistics import StreamStatistics


class Watch:
    """One play. Waits are measured on the wall clock, as a viewer feels them."""

    __slots__ = ("_first_frame_s", "_longest_wait_s", "_reconnects", "_url", "statistics")

    def __init__(self, url: str) -> None:
        self.statistics = StreamStatistics()
        self._url = url
        self._reconnects = 0
        self._first_frame_s: float | None = None
        self._longest_wait_s: float | None = None

    async def run(
        self, on_frame: Callable[[Frame], None], *, limit_s: float | None = None, reconnect: bool = False
    ) -> None:
        """Play until the stream ends, or for so many seconds, also if nothing comes."""
        started_at_s = time.monotonic()
        timeouts = Timeouts() if limit_s is None else Timeouts(answer_s=max(limit_s, 1.0))
        async with play(self._url, timeouts=timeouts, reconnect=reconnect) as stream:
            previous_s: float | None = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    async for frame in stream:
                        now_s = time.monotonic()
                        if previous_s is None:
                            self._first_frame_s = now_s - started_at_s
                        else:
                            self._longest_wait_s = max(self._longest_wait_s or 0.0, now_s - previous_s)
                        previous_s = now_s
                        self._reconnects = stream.reconnects
                        self.statistics.add(frame)
                        on_frame(frame)

    def report(self) -> Json:
        """All that was seen."""
        return {
            **stream_json(self._url, "rtmp", self.statistics),
            "first_frame_ms": _milliseconds(self._first_frame_s),
            "longest_wait_ms": _milliseconds(self._longest_wait_s),
            "reconnects": self._reconnects,
        }


def _milliseconds(span_s: float | None) -> float | int | None:
    return rounded(None if span_s is None else span_s * 1000, 1)
