"""Which servers bench may load, and how much.

Refuses any address that is not of this machine, since a load test of somebody else's server is an attack. Where it is
allowed all the same, a swarm stays within a small bound.
"""

import argparse
import ipaddress
import socket
import sys
from typing import Final

from penstock.amf import printable
from penstock.client import read_address
from penstock.errors import MalformedInput

REMOTE_MAX_CONNECTIONS: Final = 20
REMOTE_MAX_SECONDS: Final = 30.0
# There is a key frame each second, and every viewer should meet one.
LEAST_SECONDS: Final = 2.0


def misuse_of(arguments: argparse.Namespace) -> str | None:
    """Why this swarm may not run; None if it may."""
    if arguments.seconds < LEAST_SECONDS:
        return f"{arguments.seconds:g} s are too short for viewers to meet a key frame; at least {LEAST_SECONDS:g}"
    try:
        host = read_address(arguments.url).host
        is_here = is_loopback(host)
    except (MalformedInput, OSError, ValueError) as fault:
        return f"{printable(arguments.url)}: {printable(str(fault))}"
    if is_here:
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
