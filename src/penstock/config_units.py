"""Values as people write them: durations, sizes, bit rates, addresses and policies to what the program computes with.

Owns the spelling of each kind of value and the sentence that says what is allowed. Every reader takes what TOML, an
environment variable or a flag gives, or a value that is already read, and refuses the rest by ValueError, which
validation turns into ConfigError. Knows no keys and no sources.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal

HOUR, DAY = 3600, 86_400
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

NONE_WORD = "none"
"""TOML has no null, so absence is a word."""

_Units = dict[str, int | Decimal]
_PLAIN: _Units = {"": 1}
_SECONDS: _Units = {"": 1, "ms": Decimal("0.001"), "s": 1, "m": 60, "min": 60, "h": HOUR, "d": DAY}
_DECIMAL_BYTES: _Units = {"": 1, "b": 1, "kb": KB, "mb": MB, "gb": GB, "tb": TB}
_BYTES: _Units = _DECIMAL_BYTES | {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_BITS_PER_SECOND: _Units = {"": 1, "bit/s": 1, "kbit/s": KB, "mbit/s": MB, "gbit/s": GB}
_MILLISECONDS: _Units = {"": 1, "ms": 1}

# More digits than any bound has, fewer than arithmetic would mind.
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([a-z/]*)", re.ASCII | re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(?:\[([^\[\]]*)\]|([A-Za-z0-9._-]*)):(\d{1,5})", re.ASCII)
_MASTER = re.compile(r"local(\[(\d{1,4}|\*)\])?|yarn|(spark|k8s|mesos)://[^\s]+", re.ASCII)
_SPARK_SETTING = re.compile(r"spark\.[A-Za-z0-9._-]+=[^\x00-\x1f]*", re.ASCII)
_ALLOWED_NETWORKS = 'should be networks or addresses, such as ["10.0.0.0/8", "::1"]'
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
_MAX_PARAMETERS = 8
_OWN_DIMENSIONS = frozenset(("all", "client", "protocol", "server", "network", "country", "asn", "auth_subject"))
_CREDENTIAL = re.compile(
    r"token|secret|password|passwd|signature|credential|jwt|(?<![a-z])(auth|key|pass|pwd|sig|sign)(?![a-z])|key$",
    re.ASCII | re.IGNORECASE,
)
"""What the names of credentials have in them, as a rule: `token`, `streamkey`, `X-Amz-Signature`, `auth_code`."""
_PERSON = frozenset(("viewer",))
_SERVER_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. No host means every interface; port 0 lets the system choose."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FlushGrid:
    """Flush at multiples of this period."""

    period_ms: int


FlushPolicy = Literal["auto", "frame"] | FlushGrid


def _quantity(value: object, units: _Units) -> Decimal | None:
    if isinstance(value, bool):
        return None
    # TOML also has numbers like 1e99, inf and nan, which no unit belongs to.
    text = format(Decimal(repr(value)), "f") if isinstance(value, int | float) else value
    if not isinstance(text, str):
        return None
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        return None
    return Decimal(match[1]) * units[match[2].lower()]


def _whole_number(value: object, units: _Units, low: int, high: int, allowed: str) -> int:
    number = _quantity(value, units)
    if number is None or number != int(number) or not low <= number <= high:
        raise ValueError(allowed)
    return int(number)


def read_workers(value: object, most: int) -> int | Literal["auto"]:
    """A number of processes, or as many as this machine gives us cores."""
    if value == "auto":
        return "auto"
    return _whole_number(value, _PLAIN, 1, most, f"should be a whole number from 1 to {most}, or auto")


def read_count(value: object, low: int, high: int) -> int:
    return _whole_number(value, _PLAIN, low, high, f"should be a whole number from {low} to {high}")


def read_byte_count(value: object, low: int, high: int) -> int:
    allowed = f'should be {low} to {high} bytes, such as 64000000, "64 MB" or "64 MiB"'
    return _whole_number(value, _BYTES, low, high, allowed)


def read_bits_per_second(value: object, low: int, high: int) -> int:
    allowed = f'should be {low} to {high} bits per second, such as 8000000 or "8 Mbit/s"'
    return _whole_number(value, _BITS_PER_SECOND, low, high, allowed)


def read_seconds(value: object, low: float, high: float) -> float:
    number = _quantity(value, _SECONDS)
    if number is None or not low <= number <= high:
        raise ValueError(f'should be {low:g} to {high:.15g} seconds, such as 10, "10s", "500ms" or "1h"')
    return float(number)


def read_address(value: object) -> Address:
    if isinstance(value, Address):
        return value
    match = _HOST_AND_PORT.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[3]) > 0xFFFF or (match[1] is not None and not _is_ipv6(match[1])):
        raise ValueError("should be HOST:PORT, such as 127.0.0.1:1935, [::1]:1935 or :1935 for every interface")
    return Address(match[1] or match[2] or None, int(match[3]))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def read_networks(value: object) -> tuple[str, ...]:
    """Networks of peers in CIDR notation, from a list or from one text with commas; an address is a network of one."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if parts == [NONE_WORD]:
        return ()
    if not isinstance(parts, list | tuple) or not all(isinstance(each, str) for each in parts):
        raise ValueError(_ALLOWED_NETWORKS)
    try:
        return tuple(str(ipaddress.ip_network(each)) for each in parts)
    except ValueError as error:
        raise ValueError(f"{_ALLOWED_NETWORKS}: {error}") from error


def read_flush(value: object) -> FlushPolicy:
    if isinstance(value, FlushGrid):
        return value
    if value == "auto":
        return "auto"
    if value == "frame":
        return "frame"
    allowed = 'should be "auto", "frame" or a period of 1 to 1000 milliseconds, such as 50 or "50ms"'
    return FlushGrid(_whole_number(value, _MILLISECONDS, 1, 1000, allowed))


def read_patterns(value: object) -> tuple[str, ...]:
    """Patterns of APP/STREAM, from a list or from one text with commas; `all` and `none` stand alone."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    match parts:
        case ["all"]:
            return ("*/*",)
        case [] | ["none"]:
            return ()
        case [*patterns] if all(isinstance(each, str) and "/" in each and each.isprintable() for each in patterns):
            return tuple(map(str, patterns))
        case _:
            raise ValueError('should be "all", "none" or patterns of APP/STREAM, such as ["live/*"]')


def read_parameters(value: object) -> tuple[str, ...]:
    """Names of query parameters that become dimensions, from a list or from one text with commas."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if parts == [NONE_WORD]:
        return ()
    if (
        not isinstance(parts, list | tuple)
        or len(parts) > _MAX_PARAMETERS
        or len(set(map(str, parts))) < len(parts)
        or not all(isinstance(each, str) and _PARAMETER.fullmatch(each) for each in parts)
    ):
        raise ValueError(
            f"should be at most {_MAX_PARAMETERS} different names of parameters, of 1 to 32 letters, digits, hyphens"
            ' or underscores, such as ["campaign"]'
        )
    for name in map(str, parts):
        if name.lower() in _OWN_DIMENSIONS:
            raise ValueError(f"should not have {name}: a dimension of that name is made without parameters")
        if name.lower() in _PERSON or _CREDENTIAL.search(name):
            raise ValueError(f"should not have {name}: its values are credentials or names of people")
    return tuple(map(str, parts))


def read_server_id(value: object) -> str:
    if not isinstance(value, str) or not _SERVER_ID.fullmatch(value):
        raise ValueError("should be 1 to 64 letters, digits, dots, hyphens or underscores")
    return value


def server_id_of(host_name: str) -> str:
    """The host's name as a server id; hosts may carry any name at all."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", host_name)[:64] or "penstock"


def read_path(value: object) -> Path:
    if isinstance(value, str | Path) and str(value).isprintable() and value != "":
        return Path(value)
    raise ValueError("should be a path")


def read_file_path(value: object) -> Path:
    path = read_path(value)
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):
        raise ValueError("should be the path of a file that can be read")
    return path


def read_location(value: object) -> str:
    """A folder by path or by address, such as s3a://bucket/lake."""
    if isinstance(value, str | Path) and str(value).isprintable() and str(value).strip():
        return str(value)
    raise ValueError("should be a path or an address, such as s3a://bucket/lake")


def read_master(value: object) -> str:
    """Where Spark runs."""
    if isinstance(value, str) and _MASTER.fullmatch(value):
        return value
    raise ValueError('should be "local", "local[4]", "yarn" or an address such as "spark://host:7077"')


def read_spark_settings(value: object) -> tuple[str, ...]:
    """Settings as name=value, from a list or from one text with commas."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    match parts:
        case [] | ["none"]:
            return ()
        case [*settings] if all(isinstance(each, str) and _SPARK_SETTING.fullmatch(each) for each in settings):
            return tuple(map(str, settings))
        case _:
            raise ValueError('should be settings of Spark, such as ["spark.executor.memory=4g"]')
