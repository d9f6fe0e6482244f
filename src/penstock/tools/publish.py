"""penstock publish: frames of a file or of the test pattern, sent in real time.

Files travel as they are, without encoding anew. Frames go out by their time of decoding, or with --fast as quickly as
the server takes them. A server that asks its publishers to come back, since it ends soon, is obeyed. Making a frame
takes a few milliseconds, in which the connection waits; that is no harm to one stream.
"""

import argparse
import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from penstock.client import publish
from penstock.media.frame import Frame, FrameKind
from penstock.tools.files import file_frames, limited, looped
from penstock.tools.pace import Pacer, RateMeter, clock_text, progress_line
from penstock.tools.pattern import Pattern, pattern_frames
from penstock.tools.report import bit_rate_text
from penstock.tools.running import until_interrupted
from penstock.tools.statistics import StreamStatistics

_DEFAULTS: Final = Pattern()


def _frames(arguments: argparse.Namespace) -> Iterator[Frame]:
    path: Path | None = arguments.file
    if path is not None:
        frames = looped(lambda: file_frames(path)) if arguments.loop else file_frames(path)
        return frames if arguments.seconds is None else limited(frames, arguments.seconds)
    width_px, height_px = arguments.size or (_DEFAULTS.width_px, _DEFAULTS.height_px)
    return pattern_frames(
        Pattern(
            codec=arguments.codec or _DEFAULTS.codec,
            width_px=width_px,
            height_px=height_px,
            frames_per_second=arguments.fps or _DEFAULTS.frames_per_second,
            video_bps=arguments.bitrate or _DEFAULTS.video_bps,
            seconds=arguments.seconds,
        )
    )


async def main(arguments: argparse.Namespace) -> int:
    """Publish, and tell what was sent."""
    console = Console(stderr=True)
    statistics = StreamStatistics()
    frames = _frames(arguments)
    # Made before the server is asked for anything: it should not hear of a file that cannot be read.
    first = next(frames, None)
    if first is not None:
        all_frames = itertools.chain([first], frames)
        await until_interrupted(_publish(arguments.url, all_frames, arguments.fast, statistics, console))
    console.print(_summary(statistics), markup=False, highlight=False, soft_wrap=True)
    return 0


async def _publish(
    url: str, frames: Iterator[Frame], is_fast: bool, statistics: StreamStatistics, console: Console
) -> None:
    pacer = Pacer()
    async with publish(url, reconnect=True) as stream:
        meter = RateMeter(time.monotonic())
        with progress_line(console) as show:
            for frame in frames:
                # Set-up has any time, often 0, and goes out at once.
                if not is_fast and not frame.is_setup:
                    await asyncio.sleep(pacer.delay_s(frame.timestamp_ms, time.monotonic()))
                await stream.send(frame)
                statistics.add(frame)
                meter.add(len(frame.payload), is_picture=frame.kind is FrameKind.VIDEO)
                show(lambda: f"{clock_text(statistics.duration_ms or 0)}  {meter.take(time.monotonic())}")


def _summary(statistics: StreamStatistics) -> str:
    duration_ms = statistics.duration_ms or 0
    rate = bit_rate_text(statistics.payload_bytes * 8000 / duration_ms if duration_ms else None)
    tracks = ", ".join(track.text for track in statistics.tracks.values()) or "nothing"
    return f"published {tracks}: {clock_text(duration_ms)}, {statistics.messages} messages, {rate}"
