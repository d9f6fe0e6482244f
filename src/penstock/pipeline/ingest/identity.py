"""Short names for servers' boots, and what is kept of who is behind an address. Imports no Spark.

Owns the rules by which ingest fills `boot_key`, `viewer_key` and `network` of bronze. Reads no files and makes no
secrets: salts are given, see `salts`.

A viewer is named by the first that is known: whom its token names (`a:`), what it calls itself (`v:`), else a keyed
hash of its address without the port and of its client (`h:`). The salt is that of the month of the event, in UTC, so
that a hash says nothing of another month; a view that runs over the end of a month is named by its start.
"""

import hashlib
import re
from typing import Final

ERASED: Final = "erased"
"""Stands for a viewer who asked to be forgotten."""

_SEPARATOR: Final = "\x00"
_HASH_DIGITS: Final = 32
# The server writes IPv6 without brackets, so the port is what follows the last colon.
_ZONE_AND_PORT: Final = re.compile(r"(%[^:]*)?:\d*$")
_MAPPED_IPV4: Final = re.compile(r"^::ffff:(?=.*\.)")
_IPV4: Final = re.compile(r"(\d{1,3}\.\d{1,3}\.\d{1,3})\.\d{1,3}")
_PRIVATE_IPV4: Final = re.compile(r"10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.")
# Unique local (fc00::/7) and link local (fe80::/10) addresses; the first group has all its four digits in both.
_PRIVATE_IPV6: Final = re.compile(r"(f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):")
_SEED: Final = 42
_PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_64_BITS: Final = 2**64 - 1


def boot_key(server_id: str, boot_id: str) -> int:
    """A number for one boot of one server: that which Spark's `xxhash64(server_id, boot_id)` gives."""
    key = _xxhash64(boot_id.encode(), _xxhash64(server_id.encode(), _SEED))
    return key - 2**64 if key >= 2**63 else key


def ip_of(peer_addr: str) -> str:
    """The address without port, zone and the prefix that IPv4 has on a socket of IPv6."""
    return _MAPPED_IPV4.sub("", _ZONE_AND_PORT.sub("", peer_addr))


def network_of(ip: str) -> str | None:
    """/24 of IPv4, /48 of IPv6, `loopback` or `private`; None for what is no address."""
    ipv4 = _IPV4.fullmatch(ip)
    if ip == "::1" or (ipv4 and ip.startswith("127.")):
        return "loopback"
    if (ipv4 and _PRIVATE_IPV4.match(ip)) or _PRIVATE_IPV6.match(ip):
        return "private"
    if ipv4:
        return f"{ipv4[1]}.0/24"
    return f"{_first_groups(ip)}::/48" if ":" in ip else None


def _first_groups(ip: str) -> str:
    """The first three groups of an IPv6 address, without zeros at their end."""
    left, is_short, right = ip.partition("::")
    head, tail = ([group for group in part.split(":") if group] for part in (left, right))
    groups = [*head, *["0"] * (8 - len(head) - len(tail)), *tail] if is_short else head
    return re.sub("(:0)+$", "", ":".join(groups[:3]))


def viewer_key(
    auth_subject: str | None, viewer: str | None, ip: str | None, client: str | None, salt: str
) -> str | None:
    """Who watches; None if nothing is known. The salt is that of the month."""
    if auth_subject is not None:
        return f"a:{auth_subject}"
    if viewer is not None:
        return f"v:{viewer}"
    return None if ip is None else hashed_key(salt, ip, client)


def hashed_key(salt: str, ip: str, client: str | None) -> str:
    """A viewer by address and client. Hashed twice, so that nothing can be appended to what was hashed."""
    inner = hashlib.sha256(_SEPARATOR.join((salt, ip, client or "")).encode()).hexdigest()
    outer = hashlib.sha256(_SEPARATOR.join((salt, inner)).encode()).hexdigest()
    return f"h:{outer[:_HASH_DIGITS]}"


# XXH64 (xxhash.com, specification 0.2), since Python has none and names of boots are hashed by it in all tables.


def _xxhash64(data: bytes, seed: int) -> int:
    first, second, third, fourth, fifth = _PRIMES
    whole = len(data) // 32 * 32
    if whole:
        lanes = [seed + first + second, seed + second, seed, seed - first]
        for place in range(0, whole, 8):
            lane = place // 8 % 4
            lanes[lane] = _round(lanes[lane], int.from_bytes(data[place : place + 8], "little"))
        key = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            key = ((key ^ _round(0, lane)) * first + fourth) & _64_BITS
    else:
        key = seed + fifth
    key = (key + len(data)) & _64_BITS
    for place in range(whole, len(data) - 7, 8):
        key = _rotated(key ^ _round(0, int.from_bytes(data[place : place + 8], "little")), 27) * first + fourth
    rest = data[whole + (len(data) - whole) // 8 * 8 :]
    if len(rest) >= 4:
        key = _rotated(key ^ (int.from_bytes(rest[:4], "little") * first), 23) * second + third
        rest = rest[4:]
    for byte in rest:
        key = _rotated(key ^ (byte * fifth), 11) * first
    for by, prime in ((33, second), (29, third), (32, 1)):
        key = (((key & _64_BITS) ^ ((key & _64_BITS) >> by)) * prime) & _64_BITS
    return key


def _round(lane: int, data: int) -> int:
    return _rotated(lane + data * _PRIMES[1], 31) * _PRIMES[0] & _64_BITS


def _rotated(value: int, by: int) -> int:
    value &= _64_BITS
    return (value << by | value >> (64 - by)) & _64_BITS
