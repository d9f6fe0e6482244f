"""FFmpeg as the judge: copies of a recording by file and by RTMP, made by the same program, must be the same.

Owns the command lines that copy without encoding, so that a difference can only come from the way between. Log lines
carry their level, which is how errors are found in them.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.support.ffmpeg import find_ffmpeg
from tests.support.golden import GOLDEN_DIR
from tests.support.processes import ProgramFailed, run_to_end, running

DEADLINE_S = 30.0
# H.264 with B-frames and AAC, 2 s, ending with an end-of-sequence tag.
RECORDING_PATH = GOLDEN_DIR / "flv" / "h264_aac.flv"
ERROR_LINE = re.compile(r"^.*\[(?:error|fatal|panic)\].*$", re.MULTILINE)


def ffmpeg_command(*arguments: str | Path) -> list[str]:
    return [find_ffmpeg(), "-nostdin", "-hide_banner", "-loglevel", "level+info", *map(str, arguments)]


def copy_command(source: str | Path, target: str | Path, options: Sequence[str] = ()) -> list[str]:
    """From a file or URL to an FLV file or URL. `options` are those of the target."""
    return ffmpeg_command("-i", source, "-c", "copy", *options, "-f", "flv", "-y", target)


def packet_list_command(source: str | Path, target: Path, options: Sequence[str] = ()) -> list[str]:
    """From a file or URL to a list of packets: stream, dts, pts, duration, size, MD5. `options` are the source's."""
    return ffmpeg_command(*options, "-i", source, "-c", "copy", "-copyts", "-f", "framemd5", "-y", target)


def run_cleanly(command: Sequence[str], log_path: Path) -> str:
    """Run to the end with status 0 and without an error line, and return what was printed."""
    printed = run_to_end(command, log_path, DEADLINE_S)
    if errors := error_lines(printed):
        raise ProgramFailed(f"{command!r} complained: {errors}")
    return printed


def run_to_failure(command: Sequence[str], log_path: Path) -> str:
    """Run until the program ends with another status than 0, and return what it printed."""
    with running(command, log_path) as program:
        if program.wait_for_exit(DEADLINE_S) == 0:
            raise program.failure("ended with status 0")
        return program.log_text()


def error_lines(printed: str) -> list[str]:
    return ERROR_LINE.findall(printed)


def packet_lines(path: Path, shift_ms: int = 0) -> list[str]:
    """The packets of a list, both times of each moved by `shift_ms`."""
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [
        ", ".join(
            (row[0], *(str(int(time_ms) + shift_ms) for time_ms in row[1:3]), *(each.strip() for each in row[3:]))
        )
        for row in rows
    ]


def listed_packets(source: str | Path, work_dir: Path, options: Sequence[str] = ()) -> list[str]:
    """The packets that FFmpeg reads from a file or URL, without complaint."""
    list_path = work_dir / "packets.txt"
    run_cleanly(packet_list_command(source, list_path, options), work_dir / "packets.log")
    return packet_lines(list_path)
