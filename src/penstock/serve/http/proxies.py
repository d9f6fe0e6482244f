"""Who a request is from, where proxies stand in between.

Owns whose word is taken: that of a peer in a trusted network, and of each proxy that it names in turn. What the first
stranger says of others is not believed.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from penstock.control.allowance import host_address

_MOST_NAMED: Final = 32
_UNKNOWN_PORT: Final = 0


class TrustedProxies:
    """Networks of proxies."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(each) for each in networks)
        self._trusts = lru_cache(maxsize=1024)(self._look)

    def address_of(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """The address of the viewer, with a port; the peer's own if no trusted proxy names another."""
        if not self._networks or not self._trusts(_host_of(peer)):
            return peer
        named = headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")[-_MOST_NAMED:]
        found = peer
        for each in reversed(named):
            address = _read(each.strip())
            if address is None:
                break
            found = address
            if not self._trusts(_host_of(address)):
                break
        return found

    def is_encrypted(self, peer: str, headers: Mapping[bytes, bytes], *, is_encrypted: bool) -> bool:
        """Whether the viewer's own connection is under TLS."""
        if not self._networks or not self._trusts(_host_of(peer)):
            return is_encrypted
        proto = headers.get(b"x-forwarded-proto", b"").strip().lower()
        return proto in (b"https", b"wss") if proto else is_encrypted

    def _look(self, host: str) -> bool:
        try:
            address = host_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _read(text: str) -> str | None:
    """An address as connections have it, of one with or without a port."""
    host, port = text, _UNKNOWN_PORT
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = _port_of(rest.removeprefix(":"))
    elif text.count(":") == 1:
        host, _, rest = text.partition(":")
        port = _port_of(rest)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _port_of(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else _UNKNOWN_PORT
