"""penstock publish: a file, or a test pattern, to a server. See `publisher` for how."""

import argparse
import sys
from pathlib import Path
from typing import Final

from penstock.tools.arguments import WRONG_USE, bit_rate, count, picture_size, seconds
from penstock.tools.launch import run_command

HELP: Final = "publish a file or a test pattern to a server"
PATTERN_CODECS: Final = ("h264", "hevc", "av1", "vp9")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("url", metavar="URL", help="rtmp[s]://host[:port]/app/stream[?query]")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="any container; its codecs are kept")
    parser.add_argument("--test-pattern", action="store_true", help="a moving picture and a tone (default)")
    parser.add_argument("--codec", choices=PATTERN_CODECS, help="of the test pattern (default h264)")
    parser.add_argument("--size", type=picture_size, metavar="WxH", help="of the test pattern (default 640x360)")
    parser.add_argument("--fps", type=count, metavar="N", help="of the test pattern (default 30)")
    parser.add_argument("--bitrate", type=bit_rate, metavar="RATE", help="of the test pattern's video (default 800k)")
    parser.add_argument("--seconds", type=seconds, metavar="N", help="end after N seconds of the stream")
    parser.add_argument("--loop", action="store_true", help="start the file again at its end")
    parser.add_argument("--fast", action="store_true", help="as quickly as the server takes it, not in real time")


def run(arguments: argparse.Namespace) -> int:
    """Publish until the end, or until interrupted."""
    if misuse := _misuse(arguments):
        sys.stderr.write(f"penstock publish: {misuse}\n")
        return WRONG_USE
    return run_command("publish", "penstock.tools.publisher", arguments)


def _misuse(arguments: argparse.Namespace) -> str | None:
    of_pattern = [arguments.codec, arguments.size, arguments.fps, arguments.bitrate]
    if arguments.file is not None and (arguments.test_pattern or any(each is not None for each in of_pattern)):
        return "a file keeps its codecs; --test-pattern, --codec, --size, --fps and --bitrate are for the test pattern"
    if arguments.file is None and arguments.loop:
        return "--loop is for files; the test pattern has no end"
    return None
