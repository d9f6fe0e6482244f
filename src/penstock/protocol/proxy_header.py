"""The header that a proxy puts before a connection (PROXY protocol, versions 1 and 2): bytes to the client's address.

Follows HAProxy's proxy-protocol.txt, sections 2.1 and 2.2. Owns where the header ends, so that whoever reads it takes
not one byte of what is behind it. Reads nothing else of it: the address that the proxy was reached at and what it adds
are passed over. Whether a peer may be believed is not its matter.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from penstock.errors import ProtocolViolation

_V1_BEGINNING: Final = b"PROXY "
_V1_END: Final = b"\r\n"
_V1_MAX_BYTES: Final = 107
_V1_VERSIONS: Final = {b"TCP4": 4, b"TCP6": 6}
_V1_PARTS: Final = 6
_MAX_PORT: Final = 65535

_V2_BEGINNING: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_HEAD_BYTES: Final = 16
_V2_MAX_REST_BYTES: Final = 4096
"""Addresses take 36 bytes, or 216 of Unix sockets; the rest is what proxies add, the name in a certificate for one."""
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_ADDRESS_BYTES: Final = {0x11: 4, 0x21: 16}
"""TCP over IPv4 and IPv6."""
_V2_NO_ADDRESS: Final = frozenset((0x00, 0x12, 0x22, 0x31, 0x32))
"""Unknown, UDP and Unix sockets: nothing that came here by TCP."""

MAX_HEADER_BYTES: Final = _V2_HEAD_BYTES + _V2_MAX_REST_BYTES


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """What a header says, and how long it is."""

    address: str | None
    """Of the client, with its port. None: the proxy speaks for itself, or does not know."""
    size: int


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """The header that these bytes begin with; None: there is more to come. ProtocolViolation if it is none."""
    if _begins_like(data, _V1_BEGINNING):
        return _read_v1(data)
    if _begins_like(data, _V2_BEGINNING):
        return _read_v2(data)
    raise ProtocolViolation("proxy", f"no header begins with {data[: len(_V2_BEGINNING)].hex(' ')}")


def _begins_like(data: bytes, beginning: bytes) -> bool:
    return data[: len(beginning)] == beginning[: len(data)]


def _read_v1(data: bytes) -> ProxyHeader | None:
    end = data.find(_V1_END, 0, _V1_MAX_BYTES)
    if end < 0:
        if len(data) >= _V1_MAX_BYTES:
            raise ProtocolViolation("proxy", f"no end of the line within {_V1_MAX_BYTES} bytes")
        return None
    size = end + len(_V1_END)
    parts = data[:end].split(b" ")
    if parts[1] == b"UNKNOWN":
        return ProxyHeader(None, size)
    version = _V1_VERSIONS.get(parts[1])
    if version is None or len(parts) != _V1_PARTS:
        raise ProtocolViolation("proxy", f"{data[:end]!r} is no line of TCP4, TCP6 or UNKNOWN")
    client, _ = (_v1_ip(part, version) for part in parts[2:4])
    client_port, _ = (_v1_port(part) for part in parts[4:])
    return ProxyHeader(_with_port(client, client_port), size)


def _v1_ip(text: bytes, version: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        ip = ipaddress.ip_address(text.decode("ascii"))
    except ValueError:
        raise ProtocolViolation("proxy", f"{text!r} is no address") from None
    # A zone is a name on the proxy's machine.
    if ip.version != version or b"%" in text:
        raise ProtocolViolation("proxy", f"{text!r} is no address of IPv{version}")
    return ip


def _v1_port(text: bytes) -> int:
    if not text.isdigit() or (text[0] == ord("0") and len(text) > 1) or int(text) > _MAX_PORT:
        raise ProtocolViolation("proxy", f"{text!r} is no port")
    return int(text)


def _read_v2(data: bytes) -> ProxyHeader | None:
    if len(data) < _V2_HEAD_BYTES:
        return None
    command, family = data[12], data[13]
    rest_bytes = int.from_bytes(data[14:16], "big")
    if command not in (_V2_LOCAL, _V2_PROXY):
        raise ProtocolViolation("proxy", f"version and command 0x{command:02x}, not 0x20 or 0x21")
    if rest_bytes > _V2_MAX_REST_BYTES:
        raise ProtocolViolation("proxy", f"a header of {rest_bytes} bytes, more than {_V2_MAX_REST_BYTES}")
    size = _V2_HEAD_BYTES + rest_bytes
    if command == _V2_LOCAL or family in _V2_NO_ADDRESS:
        return ProxyHeader(None, size) if len(data) >= size else None
    address_bytes = _V2_ADDRESS_BYTES.get(family)
    if address_bytes is None:
        raise ProtocolViolation("proxy", f"family and transport 0x{family:02x}")
    # Both addresses, then both ports.
    if rest_bytes < 2 * address_bytes + 4:
        raise ProtocolViolation("proxy", f"{rest_bytes} bytes for addresses of {address_bytes} bytes")
    if len(data) < size:
        return None
    client = ipaddress.ip_address(data[_V2_HEAD_BYTES : _V2_HEAD_BYTES + address_bytes])
    ports_at = _V2_HEAD_BYTES + 2 * address_bytes
    return ProxyHeader(_with_port(client, int.from_bytes(data[ports_at : ports_at + 2], "big")), size)


def _with_port(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """As accepted addresses are spelled; an IPv4 address that is wrapped in IPv6 is one of IPv4."""
    if ip.version == 6 and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return f"{ip}:{port}" if ip.version == 4 else f"[{ip}]:{port}"
