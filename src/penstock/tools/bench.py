"""penstock bench: a swarm of publishers and viewers against a server. See `swarm` for how.

Refuses any address that is not of this machine, since a load test of somebody else's server is an attack. With
--allow-remote a swarm stays within a small bound.
"""

import argparse
import ipaddress
import socket
import sys
from typing import Final

from penstock.amf import printable
from penstock.client import read_address
from penstock.errors import MalformedInput
from penstock.tools.arguments import bit_rate, count, seconds
from penstock.tools.running import WRONG_USE, run_command

HELP: Final = "load a server with publishers and viewers and check every byte"
REMOTE_MAX_CONNECTIONS: Final = 20
REMOTE_MAX_SECONDS: Final = 30.0
# There is a key frame each second, and every viewer should meet one.
LEAST_SECONDS: Final = 2.0


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
    try:
        misuse = _misuse(arguments)
    except (MalformedInput, OSError, ValueError) as fault:
        misuse = f"{printable(arguments.url)}: {printable(str(fault))}"
    if misuse is not None:
        sys.stderr.write(f"penstock bench: {misuse}\n")
        return WRONG_USE
    return run_command("bench", "penstock.tools.swarm", arguments)


def _misuse(arguments: argparse.Namespace) -> str | None:
    host = read_address(arguments.url).host
    if arguments.seconds < LEAST_SECONDS:
        return f"{arguments.seconds:g} s are too short for viewers to meet a key frame; at least {LEAST_SECONDS:g}"
    if is_loopback(host):
        return None
    limit = f"at most {REMOTE_MAX_CONNECTIONS} connections for {REMOTE_MAX_SECONDS:g} s"
    if not arguments.allow_remote:
        return f"{host} is another machine; use --allow-remote if it is yours to load: {limit}"
    connections = arguments.publishers * (1 + arguments.viewers)
    if connections > REMOTE_MAX_CONNECTIONS or arguments.seconds > REMOTE_MAX_SECONDS:
        return f"{connections} connections for {arguments.seconds:g} s to another machine; {limit}"
    sys.stderr.write(f"penstock bench: {host} is another machine: {limit}\n")
    return None


def is_loopback(host: str) -> bool:
    """Whether every address of a host is one of this machine alone."""
    addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in addresses)
