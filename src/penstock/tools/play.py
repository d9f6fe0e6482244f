"""penstock play: a stream from a server into a file or a pipe, or only looked at. See `player` for how."""

import argparse
from typing import Final

from penstock.tools.arguments import seconds
from penstock.tools.launch import run_command

HELP: Final = "play a stream into a file or a pipe, or show what it is like"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("url", metavar="URL", help="rtmp[s]://host[:port]/app/stream[?query]")
    parser.add_argument("-o", "--output", metavar="FILE", help="FLV file to write, or - for stdout")
    parser.add_argument("--seconds", type=seconds, metavar="N", help="end after N seconds")
    parser.add_argument("--stats", action="store_true", help="print a table at the end")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON at the end")
    parser.add_argument("--reconnect", action="store_true", help="connect again when the connection is lost")


def run(arguments: argparse.Namespace) -> int:
    """Play until the end of the stream, or until interrupted."""
    return run_command("play", "penstock.tools.player", arguments)
