"""Who calls the API: names and roles behind bearer tokens, and readers on this machine.

Owns roles, and what a request without a token may do. Tokens are known by their SHA-256 alone. There are no cookies, so
a page in a browser has nothing that it could lend.
"""

import enum
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.access.keys import find_role, read_role_line

FORWARDING_HEADERS: Final = frozenset(
    (
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"true-client-ip",
        b"cf-connecting-ip",
        b"fly-client-ip",
        b"via",
    )
)
"""Somebody speaks for somebody else: an address of this machine says nothing then."""


class Role(enum.IntEnum):
    """What a caller may do. Each may do what those before it may."""

    READ = 1
    OPERATE = 2
    ADMIN = 3


class Caller(NamedTuple):
    """Somebody who may call."""

    name: str | None
    """Of the key; None: a reader on this machine, without one."""
    role: Role


class NotLetIn(enum.Enum):
    """Why somebody may not call."""

    WITHOUT = "This needs a token: Authorization: Bearer TOKEN."
    UNKNOWN = "This token is not known here."


class Tokens:
    """Everybody who may call."""

    def __init__(self, lines: Iterable[str], *, loopback_reads: bool) -> None:
        self._keys = [read_role_line(line) for line in lines]
        self._loopback_reads = loopback_reads

    def caller(self, headers: Mapping[bytes, bytes], address: str | None) -> Caller | NotLetIn:
        """Who makes a request with these headers, from this address; None: it is not known."""
        if b"authorization" in headers:
            return self._bearer(headers[b"authorization"])
        if self._loopback_reads and is_loopback(address) and FORWARDING_HEADERS.isdisjoint(headers):
            return Caller(None, Role.READ)
        return NotLetIn.WITHOUT

    def _bearer(self, authorization: bytes) -> Caller | NotLetIn:
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return NotLetIn.WITHOUT
        found = find_role(self._keys, token.strip().decode("latin-1"))
        return NotLetIn.UNKNOWN if found is None else Caller(found.name, Role[found.role.upper()])


def is_loopback(address: str | None) -> bool:
    """Whether it is known, and this machine's."""
    try:
        return address is not None and ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
