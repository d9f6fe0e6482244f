"""Servers to measure beside ours over HTTP that somebody else has started: SRS, MediaMTX, node-media-server, any other.

    --peer NAME=PID,RTMP_PORT,HTTP_PORT[,PATH]

Owns what the command line says of one. The bench publishes to it and watches it as it does with ours, and takes the CPU
of that process and all below it; who started it configures it, and ends it. PATH is the address of a media playlist.
"""

import argparse
from pathlib import Path
from typing import NamedTuple


class Peer(NamedTuple):
    """Another server on this machine."""

    name: str
    pid: int
    port: int
    http_port: int
    path: str | None = None


def read_peer(text: str) -> Peer:
    """A value of --peer."""
    name, is_there, rest = text.partition("=")
    pid, *ports_and_path = rest.split(",", 3)
    if not name or not is_there or len(ports_and_path) < 2 or not all(map(str.isdecimal, (pid, *ports_and_path[:2]))):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PID,RTMP_PORT,HTTP_PORT[,PATH]")
    if not Path(f"/proc/{pid}").exists():
        raise argparse.ArgumentTypeError(f"there is no process {pid}")
    port, http_port, *path = ports_and_path
    return Peer(name, int(pid), int(port), int(http_port), *path)


def add_peers(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument(
        "--peer",
        action="append",
        type=read_peer,
        default=[],
        metavar="NAME=PID,RTMP_PORT,HTTP_PORT[,PATH]",
        help="a server that runs already, to be measured too; may be given again",
    )
