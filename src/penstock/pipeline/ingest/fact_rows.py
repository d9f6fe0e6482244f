"""Facts to rows of bronze, and what later steps have to know of them. Arrow in, Arrow out; imports no Spark.

Owns what bronze adds to a fact (`schemas.ADDED_FIELDS`), and the survey: counts and spans by boot, kind and hour, from
which a batch says what it touches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.ingest import identity
from penstock.pipeline.ingest.fact_lines import Ints, numbers_of
from penstock.pipeline.ingest.places import places_of
from penstock.pipeline.lake.dimensions import Dimensions
from penstock.pipeline.lake.hours import HOUR_US, hour_of_us
from penstock.pipeline.lake.layout import BRONZE, HOUR, file_schema_of
from penstock.pipeline.lake.schemas import bronze_columns

_LATE_US: Final = HOUR_US
_EDGE_US: Final = 2_000_000
"""A start that is reckoned back from a duration is right to this."""
_SINCE: Final = {
    "play_first_keyframe": "startup_us",
    "play_stopped": "watched_us",
    "viewer_sample": "watched_us",
    "view_beacon": "watched_us",
    "connection_closed": "duration_us",
    "publish_stopped": "duration_us",
}
"""Of facts about a view or session: how long it had been there."""
_WITH_VIEWER: Final = ("play_started", "play_stopped")
_WITH_PLACE: Final = (*_WITH_VIEWER, "publish_started")

Salts = Callable[[Iterable[str]], Mapping[str, str]]


class Group(NamedTuple):
    """Facts of one kind, boot and hour whose views or sessions began in the same hours."""

    kind: str
    server_id: str
    boot_id: str
    boot_key: int
    worker: int | None
    hour_us: int
    first_start_us: int | None
    last_start_us: int | None
    facts: int
    min_seq: int
    max_seq: int
    first_at_us: int
    last_at_us: int
    late: int
    """Facts that landed more than an hour after they were told."""


def boot_keys(facts: pa.Table) -> Ints:
    """The boot of each fact."""
    joined = pc.binary_join_element_wise(facts["server_id"], facts["boot_id"], "\0")
    encoded = joined.combine_chunks().dictionary_encode()
    keys = [identity.boot_key(*name.split("\0", 1)) for name in encoded.dictionary.to_pylist()]
    places: Ints = encoded.indices.to_numpy()
    return np.array(keys, np.int64)[places]


def bronze_rows(kind: str, facts: pa.Table, keys: Ints, salts: Salts, dimensions: Dimensions) -> pa.Table:
    """One row per fact in and out: what a file of this kind holds."""
    columns: dict[str, Any] = {name: facts[name] for name in facts.column_names}
    columns["boot_key"] = pa.array(keys)
    columns["hour"] = _spelled(facts["at_us"].to_numpy() // HOUR_US, lambda hour: hour_of_us(hour * HOUR_US))
    if kind == "play_started":
        columns["view_seq"] = facts["seq"]
    elif "view_id" in facts.column_names:
        columns["view_seq"] = numbers_of(facts["view_id"])
    if "peer_addr" in facts.column_names:
        encoded = facts["peer_addr"].combine_chunks().dictionary_encode()
        addresses = pa.array([identity.ip_of(peer) for peer in encoded.dictionary.to_pylist()], pa.string())
        networks = [identity.network_of(ip) for ip in addresses.to_pylist()]
        columns["network"] = pa.array(networks, pa.string()).take(encoded.indices)
        if kind in _WITH_PLACE:
            found = places_of(addresses, dimensions).take(encoded.indices)
            columns |= {name: found.field(name) for name in ("country", "asn")}
        if kind in _WITH_VIEWER:
            columns["viewer_key"] = _viewer_keys(facts, addresses.take(encoded.indices), salts)
    schema, count = file_schema_of(BRONZE), facts.num_rows
    fields = [schema.field(name) for name in bronze_columns(kind)]
    return pa.table([columns.get(each.name, pa.nulls(count, each.type)) for each in fields], schema=pa.schema(fields))


def by_day(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Rows of bronze by their day, nearly always one."""
    days = pc.utf8_slice_codeunits(rows[HOUR], 0, len("2026-11-15"))
    for day in pc.unique(days).to_pylist():
        yield day, rows.filter(pc.equal(days, day))


def survey(kind: str, rows: pa.Table) -> list[Group]:
    """Counts and spans of rows of bronze."""
    of_boot = ["server_id", "boot_id", "boot_key", "worker"]
    at_us, keys = rows["at_us"].to_numpy(), [*of_boot, "hour_us", "first_us", "last_us"]
    start_us = at_us - rows[_SINCE[kind]].to_numpy() if kind in _SINCE else at_us
    last_us = at_us if kind == "play_first_keyframe" else np.minimum(start_us + _EDGE_US, at_us)
    is_of_session = kind in _SINCE or kind == "play_started"
    nothing = pa.nulls(rows.num_rows, pa.int64())
    named = pa.table(
        {
            **{name: rows[name] for name in (*of_boot, "seq", "at_us")},
            "hour_us": _hour_us(at_us),
            "first_us": _hour_us(start_us - _EDGE_US) if is_of_session else nothing,
            "last_us": _hour_us(last_us) if is_of_session else nothing,
            "is_late": rows["landed_at_us"].to_numpy() - at_us > _LATE_US,
        }
    )
    spans = [("seq", "min"), ("seq", "max"), ("at_us", "min"), ("at_us", "max")]
    grouped = named.group_by(keys).aggregate([("seq", "count"), *spans, ("is_late", "sum")])
    names = [*keys, "seq_count", *(f"{name}_{how}" for name, how in spans), "is_late_sum"]
    return [Group(kind, *row) for row in zip(*(grouped[name].to_pylist() for name in names), strict=True)]


def _hour_us(at_us: Ints) -> pa.Array:
    return pa.array(at_us // HOUR_US * HOUR_US)


def _spelled(numbers: Ints, spell: Callable[[int], str]) -> pa.Array:
    """Numbers of which few are different, in words."""
    different, places = np.unique(numbers, return_inverse=True)
    return pa.array([spell(number) for number in different.tolist()], pa.string()).take(pa.array(places))


def _viewer_keys(facts: pa.Table, ips: pa.Array, salts: Salts) -> pa.Array:
    months = [hour_of_us(at_us)[: len("2026-11")] for at_us in facts["at_us"].to_pylist()]
    salt_of = salts(set(months))
    subjects, viewers, clients = (facts[name].to_pylist() for name in ("auth_subject", "viewer", "client"))
    rows = zip(subjects, viewers, ips.to_pylist(), clients, (salt_of[month] for month in months), strict=True)
    return pa.array(list(starmap(identity.viewer_key, rows)), pa.string())
