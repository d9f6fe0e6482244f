"""The command lines of publish, play, probe and bench: the part of the commands that costs nothing to import.

Owns what they take: rates with their letters, sizes as 640x360, lengths of time in seconds; all refuse nonsense early.
The module that does the work has the name of its command and a coroutine function `main(arguments) -> status`. It is
imported when the command runs, as its packages take their time and may not be installed.
"""

import argparse
import importlib
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from penstock.tools import FAILURE, WRONG_USE

EXTRA_PACKAGES: Final = frozenset({"av", "rich"})
PATTERN_CODECS: Final = ("h264", "hevc", "av1", "vp9")

_VARIABLE_PREFIX: Final = "env:"
_MULTIPLES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_BIT_RATE: Final = re.compile(r"(\d{1,10}(?:\.\d{1,6})?)([kKmM]?)")
_SIZE: Final = re.compile(r"(\d{2,4})x(\d{2,4})")
_MAX_BIT_RATE: Final = 1_000_000_000
_ADDRESS_HELP: Final = "rtmp[s]://host[:port]/app/stream[?query], or env:NAME for a variable that has it"


def bit_rate(text: str) -> int:
    """Bits per second: 800k, 2.5M."""
    match = _BIT_RATE.fullmatch(text)
    rate = 0 if match is None else int(float(match[1]) * _MULTIPLES[match[2].lower()])
    if not 1_000 <= rate <= _MAX_BIT_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is no bit rate of 1k to 1000M, such as 800k or 2.5M")
    return rate


def address(text: str) -> str:
    """A URL, or `env:NAME` for the variable that has it: what is in arguments, everybody on the machine can read."""
    if not text.startswith(_VARIABLE_PREFIX):
        return text
    name = text.removeprefix(_VARIABLE_PREFIX)
    if not (url := os.environ.get(name)):
        raise argparse.ArgumentTypeError(f"the variable {name} is empty or not there")
    return url


def picture_size(text: str) -> tuple[int, int]:
    """Width and height in pixels, both even, as the encoders halve them for colour: 640x360."""
    match = _SIZE.fullmatch(text)
    width_px, height_px = (int(match[1]), int(match[2])) if match else (0, 0)
    if width_px < 16 or height_px < 16 or width_px % 2 or height_px % 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of even numbers from 16 on, such as 640x360")
    return width_px, height_px


def seconds(text: str) -> float:
    """A length of time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 6 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 999999")
    return int(text)


def _no_misuse(_: argparse.Namespace) -> str | None:
    return None


class ToolCommand(NamedTuple):
    """What `penstock.cli` asks of a command."""

    name: str
    HELP: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    misuse_of: Callable[[argparse.Namespace], str | None] = _no_misuse
    """Why arguments do not go together; None if they do."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command to its exit status."""
        if misuse := self.misuse_of(arguments):
            sys.stderr.write(f"penstock {self.name}: {misuse}\n")
            return WRONG_USE
        try:
            module = importlib.import_module(f"penstock.tools.{self.name}")
        except ModuleNotFoundError as fault:
            if fault.name not in EXTRA_PACKAGES:
                raise
            sys.stderr.write(f"penstock {self.name}: no package {fault.name}; pip install 'penstock[tools]'\n")
            return FAILURE
        from penstock.tools.running import run_to_status  # noqa: PLC0415 - asyncio is not for --help

        return run_to_status(self.name, module.main(arguments))


def _add_publish_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", type=address, help=_ADDRESS_HELP)
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="any container; its codecs are kept")
    parser.add_argument("--test-pattern", action="store_true", help="a moving picture and a tone (default)")
    parser.add_argument("--codec", choices=PATTERN_CODECS, help="of the test pattern (default h264)")
    parser.add_argument("--size", type=picture_size, metavar="WxH", help="of the test pattern (default 640x360)")
    parser.add_argument("--fps", type=count, metavar="N", help="of the test pattern (default 30)")
    parser.add_argument("--bitrate", type=bit_rate, metavar="RATE", help="of the test pattern's video (default 800k)")
    parser.add_argument("--seconds", type=seconds, metavar="N", help="end after N seconds of the stream")
    parser.add_argument("--loop", action="store_true", help="start the file again at its end")
    parser.add_argument("--fast", action="store_true", help="as quickly as the server takes it, not in real time")


def _add_play_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", type=address, help=_ADDRESS_HELP)
    parser.add_argument("-o", "--output", metavar="FILE", help="FLV file to write, or - for stdout")
    parser.add_argument("--seconds", type=seconds, metavar="N", help="end after N seconds")
    parser.add_argument("--stats", action="store_true", help="print a table at the end")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON at the end")
    parser.add_argument("--reconnect", action="store_true", help="connect again when the connection is lost")


def _add_probe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="URL|FILE", help="rtmp[s]://host[:port]/app/stream, or a media file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--seconds", type=seconds, metavar="N", help="look at N seconds (streams 5, files to the end)")


def _add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="streams are published under this name with -0, -1 and so on")
    parser.add_argument("--publishers", type=count, default=1, metavar="N", help="streams to publish (default 1)")
    parser.add_argument("--viewers", type=count, default=1, metavar="M", help="viewers of each stream (default 1)")
    parser.add_argument("--seconds", type=seconds, default=10.0, metavar="S", help="how long to publish (default 10)")
    parser.add_argument("--bitrate", type=bit_rate, default=2_000_000, metavar="RATE", help="of a stream (default 2M)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--allow-remote", action="store_true", help="also against another machine, within a small bound"
    )


def _misuse_of_publish(arguments: argparse.Namespace) -> str | None:
    of_pattern = [arguments.codec, arguments.size, arguments.fps, arguments.bitrate]
    if arguments.file is not None and (arguments.test_pattern or any(each is not None for each in of_pattern)):
        return "a file keeps its codecs; --test-pattern, --codec, --size, --fps and --bitrate are for the test pattern"
    if arguments.file is None and arguments.loop:
        return "--loop is for files; the test pattern has no end"
    return None


PUBLISH: Final = ToolCommand(
    "publish", "publish a file or a test pattern to a server", _add_publish_arguments, _misuse_of_publish
)
PLAY: Final = ToolCommand("play", "play a stream into a file or a pipe, or show what it is like", _add_play_arguments)
PROBE: Final = ToolCommand("probe", "show what is in a stream or a file", _add_probe_arguments)
BENCH: Final = ToolCommand(
    "bench", "load a server with publishers and viewers and check every byte", _add_bench_arguments
)
