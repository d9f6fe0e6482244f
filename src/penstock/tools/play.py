"""penstock play: a stream from a server into a file or a pipe, or counted and dropped.

Owns the watch over a stream, by which probe looks too. Into a pipe goes FLV as it comes, so that `penstock play URL
-o - | ffplay -` shows it. The summary goes to stdout, as a table or as JSON; beside a pipe it goes to stderr.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from penstock.client import Timeouts, play
from penstock.media.frame import Frame, FrameKind
from penstock.tools.flv import FlvOutput
from penstock.tools.pace import RateMeter, clock_text, progress_line
from penstock.tools.report import Json, rounded, stream_json, write_json, write_stream_tables
from penstock.tools.running import until_interrupted
from penstock.tools.statistics import StreamStatistics

_PIPE: Final = "-"


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


async def main(arguments: argparse.Namespace) -> int:
    """Play, and tell what came."""
    console = Console(stderr=True)
    watch = Watch(arguments.url)
    with _opened(arguments.output) as output:
        await until_interrupted(_play(arguments, watch, output, console))
    is_pipe = arguments.output == _PIPE
    if arguments.json:
        write_json(watch.report(), sys.stderr if is_pipe else sys.stdout)
    if arguments.stats:
        write_stream_tables(watch.report(), console if is_pipe else Console())
    return 0


async def _play(arguments: argparse.Namespace, watch: Watch, output: FlvOutput | None, console: Console) -> None:
    meter = RateMeter(time.monotonic())
    with progress_line(console) as show:

        def on_frame(frame: Frame) -> None:
            if output is not None:
                output.write(frame)
            meter.add(len(frame.payload), is_picture=frame.kind is FrameKind.VIDEO)
            show(lambda: _line(watch.statistics, meter))

        await watch.run(on_frame, limit_s=arguments.seconds, reconnect=arguments.reconnect)


def _line(statistics: StreamStatistics, meter: RateMeter) -> str:
    words = [clock_text(statistics.duration_ms or 0), meter.take(time.monotonic())]
    video = statistics.tracks.get((FrameKind.VIDEO, 0))
    if video is not None and video.keyframe_interval_ms is not None:
        words.append(f"key frame each {video.keyframe_interval_ms / 1000:.1f} s")
    if statistics.skew_ms is not None:
        words.append(f"picture {statistics.skew_ms:+d} ms to sound")
    words.append(f"{sum(track.gaps for track in statistics.tracks.values())} gaps")
    return "  ".join(words)


@contextlib.contextmanager
def _opened(name: str | None) -> Iterator[FlvOutput | None]:
    """The output, complete at the end of the block, also after an error: what came until then is a file too."""
    if name is None:
        yield None
        return
    is_pipe = name == _PIPE
    with contextlib.nullcontext(sys.stdout.buffer) if is_pipe else Path(name).open("wb") as file:
        # Stdout may be a file that others write to as well, so there is no way back in it even if it can seek.
        output = FlvOutput(file, can_seek=not is_pipe and file.seekable())
        try:
            yield output
        finally:
            output.finish()
