"""Who is at the other end of an HTTP connection.

Owns the client's address and scheme as applications find them. A TCP socket tells its peer itself. Behind TLS, which a
worker ends, there is the end of a pair, and the worker's word for address and scheme. Where neither tells, the address
is absent: never that of this machine, which applications may trust.
"""

import ipaddress
import socket
from typing import NamedTuple

ClientAddress = tuple[str, int]


class Client(NamedTuple):
    """A client and how it came."""

    address: ClientAddress | None
    scheme: str


def client_of(connection: socket.socket, told_address: str, told_scheme: str) -> Client:
    """Who is there. What was told counts for pairs alone."""
    if connection.family == socket.AF_UNIX:
        return Client(read_client_address(told_address), told_scheme)
    try:
        host, port = connection.getpeername()[:2]
    except OSError:  # gone already
        return Client(None, "http")
    return Client(normal_address(host, port), "http")


def read_client_address(text: str) -> ClientAddress | None:
    """Of HOST:PORT, where an IPv6 host is in brackets."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) <= 0xFFFF):
        return None
    return normal_address(host.removeprefix("[").removesuffix("]"), int(port))


def normal_address(host: str, port: int) -> ClientAddress | None:
    """IPv4 as such, where a socket for both shows it inside of IPv6: networks of proxies are told as IPv4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), port
