"""A writer of MaxMind DB files (format 2.0), for a few networks: what the tests need of a database of addresses.

A binary search tree over the bits of an address, in nodes of two 24-bit records, sixteen zero bytes, the data, a marker
and the metadata. A record below the number of nodes is another node, the number itself is "nothing known", and above it
the offset of data. IPv4 networks lie under ::/96. See https://maxmind.github.io/MaxMind-DB/.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_SEPARATOR = bytes(16)
_MARKER = b"\xab\xcd\xefMaxMind.com"
_NODE_BYTES = 6

# Types of values, of which those above 7 are told in a second byte.
_STRING, _UINT16, _UINT32, _MAP, _UINT64, _ARRAY = 2, 5, 6, 7, 9, 11


class _Number(NamedTuple):
    """A number with a type of its own: libmaxminddb wants those of the metadata to be as specified."""

    value: int
    kind: int


_Node = list[Any]
"""Two of: another node, the bytes of a record, or None."""


def write_database(path: Path, networks: Mapping[str, Mapping[str, Any]], database_type: str = "Test") -> Path:
    """A file that knows these networks, none of which lies in another: {"203.0.113.0/24": {"country": ...}}."""
    root: _Node = [None, None]
    for network, record in networks.items():
        _place(root, _bits(network), _value(record))
    nodes, data = _laid_out(root)
    tree = b"".join(left.to_bytes(3, "big") + right.to_bytes(3, "big") for left, right in nodes)
    metadata = {
        "node_count": _Number(len(nodes), _UINT32),
        "record_size": _NODE_BYTES * 4,
        "ip_version": 6,
        "database_type": database_type,
        "languages": ["en"],
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": _Number(1_794_772_800, _UINT64),
        "description": {"en": "written by a test"},
    }
    path.write_bytes(tree + _SEPARATOR + data + _MARKER + _value(metadata))
    return path


def _bits(network: str) -> list[int]:
    parsed = ipaddress.ip_network(network)
    offset = 96 if parsed.version == 4 else 0
    number = int(parsed.network_address)
    return [number >> (127 - each) & 1 for each in range(offset + parsed.prefixlen)]


def _place(node: _Node, bits: list[int], record: bytes) -> None:
    *way, last = bits
    for bit in way:
        node[bit] = node[bit] or [None, None]
        node = node[bit]
    node[last] = record


def _laid_out(root: _Node) -> tuple[list[tuple[int, int]], bytes]:
    """The records of all nodes, the root first, and the data that they point to."""
    nodes = [root]
    for node in nodes:
        nodes.extend(child for child in node if isinstance(child, list))
    number_of = {id(node): number for number, node in enumerate(nodes)}
    offsets: dict[bytes, int] = {}
    data = b""
    for child in (child for node in nodes for child in node if isinstance(child, bytes)):
        if child not in offsets:
            offsets[child] = len(data)
            data += child

    def pointer(child: _Node | bytes | None) -> int:
        if child is None:
            return len(nodes)
        if isinstance(child, bytes):
            return len(nodes) + len(_SEPARATOR) + offsets[child]
        return number_of[id(child)]

    return [(pointer(left), pointer(right)) for left, right in nodes], data


def _value(value: object) -> bytes:
    match value:
        case str():
            text = value.encode()
            return _control(_STRING, len(text)) + text
        case Mapping():
            return _control(_MAP, len(value)) + b"".join(_value(name) + _value(each) for name, each in value.items())
        case list():
            return _control(_ARRAY, len(value)) + b"".join(map(_value, value))
        case int():
            return _value(_Number(value, _UINT16 if value < 1 << 16 else _UINT32 if value < 1 << 32 else _UINT64))
        case _Number(number, kind):
            digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
            return _control(kind, len(digits)) + digits
        case _:
            raise TypeError(f"no type for {value!r}")


def _control(kind: int, size: int) -> bytes:
    # Sizes up to 28 are told in five bits, and up to 284 in a byte more.
    told, more = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return bytes([kind << 5 | told]) + more if kind <= 7 else bytes([told, kind - 7]) + more
