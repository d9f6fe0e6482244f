"""Players that were there first: real programs that have asked for a stream which nobody publishes yet.

Owns their command lines and the list of packets that each of them writes. What such a player is given is the whole of
the stream, from its first picture on.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from tests.interop.ffmpeg_copies import ERROR_LINE, ffmpeg_command, packet_lines
from tests.support.live_publisher import is_coded
from tests.support.penstock_server import PenstockServer
from tests.support.processes import RunningProgram, running
from tests.support.samples import AUDIO, VIDEO, Sample, media_of

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


def from_first_picture(packets: Sequence[str]) -> list[str]:
    """What a viewer is given of a stream with pictures: it begins with one, and sounds before it go to nobody."""
    return list(dropwhile(lambda packet: not packet.startswith("0, "), packets))


def as_played(published: Sequence[Sample]) -> list[Sample]:
    """The same of samples: first the set-up that holds at the first picture, with its time, then all from it on."""
    has_video = any(sample.type_id == VIDEO for sample in published)
    kind = VIDEO if has_video else AUDIO
    first = next(number for number, sample in enumerate(published) if sample.type_id == kind and is_coded(sample))
    in_force: dict[tuple[int, bytes], Sample] = {}
    for sample in media_of(published[:first]):
        if not is_coded(sample):
            # Type, FourCC and track are what one set-up message replaces another by; it then comes last.
            slot = (sample.type_id, sample.payload[: _header_bytes(sample)])
            in_force.pop(slot, None)
            in_force[slot] = sample._replace(timestamp_ms=published[first].timestamp_ms)
    return media_of([*in_force.values(), *published[first:]])


def _header_bytes(sample: Sample) -> int:
    first_byte = sample.payload[0]
    if sample.type_id == VIDEO:
        is_enhanced, is_multitrack = first_byte & 0x80, first_byte & 0x0F == 6
    else:
        is_enhanced, is_multitrack = first_byte >> 4 == 9, first_byte & 0x0F == 5
    return 2 if not is_enhanced else 7 if is_multitrack else 5


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
