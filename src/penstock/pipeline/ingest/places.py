"""Where an address is: country and autonomous system, from files in MaxMind's format. Imports no Spark.

Owns reading those files, with the field names that MaxMind and DB-IP have. It is done while facts are taken in, since
addresses are masked a week later. A file is mapped into memory once, and again when it was replaced: an updater has to
put the new one in place by renaming it, as MaxMind's does.
"""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import maxminddb
import pyarrow as pa

from penstock.errors import PipelineError
from penstock.pipeline.lake.dimensions import Dimensions

_NAMES: Final = ["country", "asn"]
_ASNS: Final = range(2**32)
_MAX_READERS: Final = 4


def places_of(addresses: pa.Array, dimensions: Dimensions) -> pa.StructArray:
    """`country` and `asn` of addresses; null where they are not known, or not asked for."""
    countries = _look_up("country_db", dimensions.country_db, addresses, _country_of)
    systems = _look_up("asn_db", dimensions.asn_db, addresses, _asn_of)
    return pa.StructArray.from_arrays([pa.array(countries, pa.string()), pa.array(systems, pa.int64())], _NAMES)


def _look_up(key: str, path: str | None, addresses: pa.Array, read: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
    """What a file says of each address. PipelineError, in one line, if it is not there or damaged anywhere."""
    if path is None:
        return [None] * len(addresses)
    try:
        reader = _reader(path)
        records = [None if address is None else _record(reader, address) for address in addresses.to_pylist()]
    except (OSError, maxminddb.InvalidDatabaseError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no database in MaxMind's format"
        raise PipelineError(f"pipeline.dimensions.{key}: {path} cannot be read: {reason}") from error
    return [None if record is None else read(record) for record in records]


def _record(reader: maxminddb.Reader, address: str) -> Mapping[str, Any] | None:
    try:
        record = reader.get(address)
    except ValueError:  # no address, or one of IPv6 in a file of IPv4
        return None
    return record if isinstance(record, dict) else None


def _country_of(record: Mapping[str, Any]) -> str | None:
    for name in ("country", "registered_country"):
        country = record.get(name)
        if isinstance(country, dict) and isinstance(country.get("iso_code"), str):
            return str(country["iso_code"])
    return None


def _asn_of(record: Mapping[str, Any]) -> int | None:
    number = record.get("autonomous_system_number")
    return number if isinstance(number, int) and number in _ASNS else None


def _reader(path: str) -> maxminddb.Reader:
    status = os.stat(path)
    return _open(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=_MAX_READERS)
def _open(path: str, version: tuple[int, ...]) -> maxminddb.Reader:  # noqa: ARG001 - a replaced file is another key
    return maxminddb.open_database(path)
