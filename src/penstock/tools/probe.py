"""penstock probe: what is in a stream or a file. See `prober` for how."""

import argparse
from typing import Final

from penstock.tools.arguments import seconds
from penstock.tools.launch import run_command

HELP: Final = "show what is in a stream or a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("source", metavar="URL|FILE", help="rtmp[s]://host[:port]/app/stream, or a media file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--seconds", type=seconds, metavar="N", help="look at N seconds (streams 5, files to the end)")


def run(arguments: argparse.Namespace) -> int:
    """Look, and tell."""
    return run_command("probe", "penstock.tools.prober", arguments)
