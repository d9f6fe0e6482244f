"""penstock bench: a swarm of publishers and viewers against a server. See `swarm` for how, `bench_target` for whom."""

import argparse
from typing import Final

from penstock.tools.arguments import bit_rate, count, seconds
from penstock.tools.launch import run_command

HELP: Final = "load a server with publishers and viewers and check every byte"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("url", metavar="URL", help="streams are published under this name with -0, -1 and so on")
    parser.add_argument("--publishers", type=count, default=1, metavar="N", help="streams to publish (default 1)")
    parser.add_argument("--viewers", type=count, default=1, metavar="M", help="viewers of each stream (default 1)")
    parser.add_argument("--seconds", type=seconds, default=10.0, metavar="S", help="how long to publish (default 10)")
    parser.add_argument("--bitrate", type=bit_rate, default=2_000_000, metavar="RATE", help="of a stream (default 2M)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--allow-remote", action="store_true", help="also against another machine, within a small bound"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the swarm if its target and size are allowed."""
    return run_command("bench", "penstock.tools.swarm", arguments)
