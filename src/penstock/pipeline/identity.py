"""Short names for servers' boots and views, and what is kept of who is behind an address. Columns in, columns out.

Owns the rules by which landing fills `boot_key`, `view_seq`, `viewer_key` and `network` of bronze. Reads no files and
makes no secrets: salts are given, see `salts`.

A viewer is named by the first that is known: whom its token names (`a:`), what it calls itself (`v:`), else a keyed
hash of its address without the port and of its client (`h:`). The salt is that of the month of the event, in UTC, so
that a hash says nothing of another month; a view that runs over the end of a month is named by its start.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

ERASED: Final = "erased"
"""Stands for a viewer who asked to be forgotten."""

_SEPARATOR: Final = "\x00"
_HASH_DIGITS: Final = 32
_MAPPED_IPV4: Final = "::ffff:"
_IPV4: Final = r"^\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}$"
_PRIVATE_IPV4: Final = r"^(10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.)"
# Unique local (fc00::/7) and link local (fe80::/10) addresses; the first group has all its four digits in both.
_PRIVATE_IPV6: Final = r"^(f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):"


def boot_key(server_id: Column, boot_id: Column) -> Column:
    """A number for one boot of one server."""
    return F.xxhash64(server_id, boot_id)


def number_of(fact_id: Column) -> Column:
    """The number at the end of an event_id; null if there is none."""
    return F.substring_index(fact_id, "-", -1).try_cast("bigint")


def view_seq(kind: Column, seq: Column, view_id: Column) -> Column:
    """The number of a view within its boot: that of its play_started. Null where there is no view."""
    return F.when(kind == "play_started", seq).otherwise(number_of(view_id))


def hour_of(at_us: Column) -> Column:
    """The UTC hour of a time, as partitions are named."""
    return F.date_format(F.timestamp_micros(at_us), "yyyy-MM-dd'T'HH")


def ip_of(peer_addr: Column) -> Column:
    """The address without port, zone and the prefix that IPv4 has on a socket of IPv6."""
    # The server writes IPv6 without brackets, so the port is what follows the last colon.
    address = F.regexp_replace(peer_addr, r"(%[^:]*)?:\d*$", "")
    is_mapped = address.startswith(_MAPPED_IPV4) & address.contains(".")
    return F.when(is_mapped, F.substring(address, len(_MAPPED_IPV4) + 1, 15)).otherwise(address)


def network_of(ip: Column) -> Column:
    """/24 of IPv4, /48 of IPv6, `loopback` or `private`; null for what is no address."""
    is_ipv4 = ip.rlike(_IPV4)
    return (
        F.when((is_ipv4 & ip.startswith("127.")) | (ip == "::1"), "loopback")
        .when((is_ipv4 & ip.rlike(_PRIVATE_IPV4)) | ip.rlike(_PRIVATE_IPV6), "private")
        .when(is_ipv4, F.concat(F.substring_index(ip, ".", 3), F.lit(".0/24")))
        .when(ip.contains(":"), F.concat(_first_groups(ip), F.lit("::/48")))
    )


def _first_groups(ip: Column) -> Column:
    """The first three groups of an IPv6 address, without zeros at their end."""
    head = F.filter(F.split(F.substring_index(ip, "::", 1), ":"), lambda group: group != "")
    tail = F.filter(F.split(F.substring_index(ip, "::", -1), ":"), lambda group: group != "")
    left_out = F.array_repeat(F.lit("0"), F.lit(8) - F.size(head) - F.size(tail))
    groups = F.when(ip.contains("::"), F.concat(head, left_out, tail)).otherwise(head)
    return F.regexp_replace(F.array_join(F.slice(groups, 1, 3), ":"), "(:0)+$", "")


def viewer_key(fact: Mapping[str, Column], salts: Mapping[str, str]) -> Column:
    """Who watches, by a fact's auth_subject, viewer, peer_addr, client and at_us; null if nothing is known.

    `salts` has one for each month in which there are facts, as in 2026-11.
    """
    month = F.date_format(F.timestamp_micros(fact["at_us"]), "yyyy-MM")
    table = F.create_map(*(F.lit(text) for pair in salts.items() for text in pair))
    salt = F.try_element_at(table, month)
    return F.coalesce(
        F.concat(F.lit("a:"), fact["auth_subject"]),
        F.concat(F.lit("v:"), fact["viewer"]),
        _keyed_hash(salt, ip_of(fact["peer_addr"]), fact["client"]),
    )


def _keyed_hash(salt: Column, ip: Column, client: Column) -> Column:
    """Null if there is no address or salt. Hashed twice, so that nothing can be appended to what was hashed."""
    inner = F.sha2(F.concat_ws(_SEPARATOR, salt, ip, F.coalesce(client, F.lit(""))), 256)
    outer = F.sha2(F.concat_ws(_SEPARATOR, salt, inner), 256)
    return F.when(ip.isNotNull() & salt.isNotNull(), F.concat(F.lit("h:"), F.substring(outer, 1, _HASH_DIGITS)))


def hashed_key(salt: str, ip: str, client: str | None) -> str:
    """The same for one viewer, without Spark: to find what has to be erased."""
    inner = hashlib.sha256(_SEPARATOR.join((salt, ip, client or "")).encode()).hexdigest()
    outer = hashlib.sha256(_SEPARATOR.join((salt, inner)).encode()).hexdigest()
    return f"h:{outer[:_HASH_DIGITS]}"
