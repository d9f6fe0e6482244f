"""Players that were there first: real programs that have asked for a stream which nobody publishes yet.

Owns their command lines and the list of packets that each of them writes. What such a player is given is the whole of
the stream, from its first picture on.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.ffmpeg_copies import ERROR_LINE, ffmpeg_command, packet_lines
from tests.support.penstock_server import PenstockServer
from tests.support.processes import RunningProgram, running

DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class LivePlayer:
    """A player in the background that writes a list of packets."""

    program: RunningProgram
    list_path: Path

    def finish(self) -> list[str]:
        """Wait until it ends by itself, without complaint, and return the packets it was given."""
        status = self.program.wait_for_exit(DEADLINE_S)
        errors = ERROR_LINE.findall(self.program.log_text())
        if status != 0 or errors:
            raise self.program.failure(f"ended with status {status} and {errors}")
        return packet_lines(self.list_path)

    def packets_so_far(self) -> list[str]:
        """Those of which the whole line is written; none before it knows what it plays."""
        if not self.list_path.exists():
            return []
        lines = self.list_path.read_text(encoding="utf-8").split("\n")[:-1]
        return [line for line in lines if not line.startswith("#")]


def player_command(url: str, list_path: Path, options: Sequence[str] = ()) -> list[str]:
    """FFmpeg writing each packet at once to a list: stream, dts, pts, duration, size, MD5. `options` are the URL's."""
    command = ffmpeg_command(*options, "-i", url, "-c", "copy", "-copyts", "-flush_packets", "1", "-f", "framemd5")
    return [*("level+debug" if each == "level+info" else each for each in command), "-y", str(list_path)]


@contextmanager
def waiting_player(server: PenstockServer, name: str, command: Sequence[str], list_path: Path) -> Iterator[LivePlayer]:
    """Run a player for the length of the block, which begins once the server has heard what it asks for."""
    with running(command, list_path.with_suffix(".log")) as program:
        server.wait_for_play(name)
        yield LivePlayer(program, list_path)


def pyav_command(source: str | Path, list_path: Path) -> list[str]:
    """The same list by PyAV, of all tracks."""
    return [sys.executable, "-m", "tests.support.pyav_packets", str(source), str(list_path)]
