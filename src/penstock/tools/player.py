"""Playing for the command: into a file, into a pipe, or counted and dropped.

Into a pipe goes FLV as it comes, so that `penstock play URL -o - | ffplay -` shows it. The summary goes to stdout, as a
table or as JSON; beside a pipe it goes to stderr.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from penstock.media.frame import Frame, FrameKind
from penstock.tools.flv_output import FlvOutput
from penstock.tools.progress import RateMeter, clock_text, progress_line
from penstock.tools.report import write_json, write_stream_tables
from penstock.tools.running import until_interrupted
from penstock.tools.statistics import StreamStatistics
from penstock.tools.watching import Watch

_PIPE: Final = "-"


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
