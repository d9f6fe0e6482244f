"""FFmpeg as publisher and player: command lines for tiny streams, run with deadlines.

Owns the arguments, so that each test says only what is special in it. Refuses to run for ever: every call has a
deadline, and a failure shows FFmpeg's own last lines.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import RunningProgram, find_program, run_to_end, running

DEFAULT_DEADLINE_S = 30.0
QUIET_ARGUMENTS = ("-nostdin", "-hide_banner", "-loglevel", "info")

# One keyframe each half second, no B-frames: every picture can be sent as it comes, and a player starts quickly.
TINY_H264_ARGUMENTS = (
    *("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency"),
    *("-g", "5", "-b:v", "60k", "-pix_fmt", "yuv420p"),
)
TINY_AAC_ARGUMENTS = ("-c:a", "aac", "-b:a", "24k", "-ac", "1")


def find_ffmpeg() -> str:
    """Full path of ffmpeg."""
    return find_program("ffmpeg", "ffmpeg")


def pattern_arguments(seconds: float) -> list[str]:
    """Inputs in real time: a moving picture of 128x72 at 10 frames a second, and a tone."""
    picture = f"testsrc=size=128x72:rate=10:duration={seconds}"
    tone = f"sine=frequency=440:sample_rate=22050:duration={seconds}"
    return ["-re", "-f", "lavfi", "-i", picture, "-re", "-f", "lavfi", "-i", tone]


def publish_command(url: str, seconds: float, extra: Sequence[str] = ()) -> list[str]:
    """Publish the test pattern as H.264 and AAC. `extra` comes last before the URL and may override what is before."""
    encoding = [*TINY_H264_ARGUMENTS, *TINY_AAC_ARGUMENTS]
    return [find_ffmpeg(), *QUIET_ARGUMENTS, *pattern_arguments(seconds), *encoding, *extra, "-f", "flv", url]


def play_command(url: str, seconds: float, recording_path: Path) -> list[str]:
    """Play `seconds` of a stream into a file, whose name says the format, without decoding."""
    return [find_ffmpeg(), *QUIET_ARGUMENTS, "-i", url, "-t", str(seconds), "-c", "copy", "-y", str(recording_path)]


def publish(url: str, seconds: float, log_path: Path, deadline_s: float = DEFAULT_DEADLINE_S) -> str:
    """Publish to the end of the pattern and return what FFmpeg printed."""
    return run_to_end(publish_command(url, seconds), log_path, deadline_s)


@contextmanager
def publishing(url: str, log_path: Path, seconds: float = 600.0) -> Iterator[RunningProgram]:
    """Publish in the background for the length of the block, which begins once FFmpeg has sent its first frames."""
    with running(publish_command(url, seconds, ["-stats_period", "0.2"]), log_path) as program:
        program.wait_for_log("frame=", DEFAULT_DEADLINE_S)
        yield program


def play(url: str, seconds: float, recording_path: Path, log_path: Path, deadline_s: float = DEFAULT_DEADLINE_S) -> str:
    """Play `seconds` of a stream into `recording_path` and return what FFmpeg printed."""
    return run_to_end(play_command(url, seconds, recording_path), log_path, deadline_s)
