"""Forgetting one viewer or one address, wherever the lake knows them.

Owns where they can be: facts in bronze, views, publications, usage and audience by subject, landing files, and lines in
quarantine. A viewer's key is replaced by one drawn by chance, the same in all of its rows and kept nowhere else, and so
is a subject in gold, so that there is no way back and every count stays true: nothing has to be computed anew.
`_notes/erasures.jsonl` says when and how much was erased, not whom.

Older versions of the tables that knew them are given up at once, so a query that runs meanwhile may fail. What a server
is still writing has not landed yet and is not reached.
"""

import io
import ipaddress
import json
import secrets
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import PipelineError
from penstock.pipeline.ingest.identity import ERASED, hashed_key, ip_of
from penstock.pipeline.ingest.quarantine import quarantined_files
from penstock.pipeline.ingest.salts import read_salts
from penstock.pipeline.lake.dimensions import AUTH_SUBJECT
from penstock.pipeline.lake.hours import day_of
from penstock.pipeline.lake.lake import Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE, DATE
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.retention import KINDS_WITH_ADDRESS, without_address

_LOG: Final = "_notes/erasures.jsonl"
_NOBODY: Final = "0.0.0.0:0"
"""Stands for an address in a landing file, where a fact has to have one."""
_PLACED: Final = ("country", "asn", "dimensions")
"""What else may tell who it was."""
_BY_SUBJECT: Final = ("gold.audience_dimensions", "gold.usage_dimensions")
_PLAY_KINDS: Final = ("play_started", "play_stopped")


@dataclass(frozen=True, slots=True)
class Erased:
    """How much was erased, and the hours of bronze and of silver.views in which it was."""

    facts: int
    views: int
    publications: int
    gold_rows: int
    landed_lines: int
    quarantined_lines: int
    hours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Person:
    """Whom it is about: keys, and what they are made of."""

    keys: Collection[str]
    names: Collection[str]
    ip: str | None

    @property
    def texts(self) -> set[str]:
        """What a line has to contain to be about them: one of these, as JSON may spell them."""
        plain = [*self.names, *([self.ip] if self.ip else [])]
        as_json = (json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in plain for is_ascii in (False, True))
        return {*plain, *as_json}

    def is_meant(self) -> Column:
        """Whether a fact is about them."""
        by_key = F.col("viewer_key").isin(*self.keys)
        by_name = F.col("viewer").isin(*self.names) | F.col("auth_subject").isin(*self.names)
        by_address = F.lit(False)
        if self.ip is not None:
            in_words = F.col("limit").isNotNull() & F.col("detail").contains(self.ip)
            by_address = F.coalesce(_ip_of(F.col("peer_addr")) == self.ip, F.lit(False)) | in_words
        return reduce(Column.__or__, (F.coalesce(each, F.lit(False)) for each in (by_key, by_name, by_address)))

    def is_told_by(self, fact: dict[str, object]) -> bool:
        """The same for a line of a landing file."""
        address, detail = ip_of(str(fact.get("peer_addr"))), str(fact.get("detail"))
        is_there = self.ip is not None and (address == self.ip or self.ip in detail)
        return is_there or fact.get("viewer") in self.names or fact.get("auth_subject") in self.names


def erase(
    spark: SparkSession, lake: Lake, landing: Storage, now_us: int, *, viewer: str | None = None, ip: str | None = None
) -> Erased:
    """Forget a viewer, named by its key or by its name alone, or everyone who came from an address."""
    person = _person(spark, lake, viewer, ip)
    markers = {key: f"{ERASED}:{secrets.token_hex(16)}" for key in person.keys}
    parts = _parts_with(spark, lake, person)
    for kind, day in sorted({(kind, day_of(hour)) for kind, hour, _ in parts}):
        bronze, wanted = lake.pin(BRONZE), Wanted(since=day, until=f"{day}U", kinds=[kind])
        if bronze is not None:
            rows = _forgotten(lake.read(spark, bronze, BRONZE, wanted), person, markers)
            lake.rewrite(BRONZE, bronze, rows.coalesce(1), [file for file in bronze.files if wanted.takes(file)])
    held = _erase_views(spark, lake, person, markers) if markers else {}
    published = _erase_publications(spark, lake, person) if person.names else {}
    gold_rows = sum(_erase_subject(spark, lake, table, person) for table in _BY_SUBJECT if person.names)
    # The files that knew them are still there for those who read older versions.
    for name in (BRONZE, "silver.views", "silver.publications", *_BY_SUBJECT):
        if lake.pin(name) is not None:
            lake.table(name).forget_history()
    erased = Erased(
        sum(count for *_, count in parts),
        sum(held.values()),
        sum(published.values()),
        gold_rows,
        sum(_erase_landed(landing, file.path, person) for file in landing.find("") if file.path.endswith(".jsonl")),
        sum(_erase_quarantined(lake.storage, path, person) for path in quarantined_files(lake.storage)),
        tuple(sorted({hour for _, hour, _ in parts} | held.keys())),
    )
    _log(lake.storage, now_us, "viewer" if viewer else "address", erased)
    return erased


def _erase_views(spark: SparkSession, lake: Lake, person: _Person, markers: dict[str, str]) -> dict[str, int]:
    """Give the person's views another name. The hours in which they began, and how many of each."""
    is_meant = F.col("viewer_key").isin(*person.keys)
    another = {"viewer_key": F.coalesce(_marker(markers), "viewer_key")}
    return _erase_sessions(spark, lake, "silver.views", is_meant, another)


def _erase_publications(spark: SparkSession, lake: Lake, person: _Person) -> dict[str, int]:
    """The same for what was published under the person's name."""
    is_meant = F.coalesce(F.col("auth_subject").isin(*person.names), F.lit(False))
    return _erase_sessions(spark, lake, "silver.publications", is_meant, {})


def _erase_sessions(
    spark: SparkSession, lake: Lake, table: str, is_meant: Column, another: dict[str, Column]
) -> dict[str, int]:
    pinned = lake.pin(table)
    found = lake.read(spark, pinned, table).where(is_meant).groupBy("hour").count().collect()
    held = {row["hour"]: int(row["count"]) for row in found}
    if pinned is not None and held:
        hour = F.unix_timestamp("hour", "yyyy-MM-dd'T'HH") / 3600
        rows = lake.read(spark, pinned, table, Wanted(hours=held)).withColumns(
            {
                **{name: F.when(~is_meant, F.col(name)) for name in ("auth_subject", *_PLACED)},
                **another,
                "hour": hour.cast("bigint"),
            }
        )
        lake.replace_hours(table, pinned, rows, held)
    return held


def _erase_subject(spark: SparkSession, lake: Lake, table: str, person: _Person) -> int:
    """Give the person's rows of a gold table by dimensions another value. How many there were."""
    pinned = lake.pin(table)
    is_meant = (F.col("dimension") == AUTH_SUBJECT) & F.col("value").isin(*person.names)
    found = lake.read(spark, pinned, table).where(is_meant).groupBy(F.col(DATE).cast("string")).count().collect()
    if pinned is None or not found:
        return 0
    days = [row[0] for row in found]
    another = F.when(is_meant, F.lit(f"{ERASED}:{secrets.token_hex(16)}")).otherwise(F.col("value"))
    rows = lake.read(spark, pinned, table, Wanted(hours=[f"{day}T00" for day in days])).withColumn("value", another)
    lake.replace_days(table, pinned, rows, days)
    return sum(row[1] for row in found)


def _ip_of(peer_addr: Column) -> Column:
    """What `identity.ip_of` gives."""
    return F.regexp_replace(F.regexp_replace(peer_addr, r"(%[^:]*)?:\d*$", ""), r"^::ffff:(?=.*\.)", "")


def _person(spark: SparkSession, lake: Lake, viewer: str | None, ip: str | None) -> _Person:
    if (viewer is None) == (ip is None):
        raise PipelineError("erase: name either a viewer or an address")
    if viewer is not None:
        has_kind = viewer[:2] in ("a:", "v:", "h:")
        name = viewer[2:] if has_kind else viewer
        if not name:
            raise PipelineError("erase: the viewer has no name")
        is_hash = viewer.startswith("h:")
        return _Person({viewer} if has_kind else {f"a:{name}", f"v:{name}"}, () if is_hash else (name,), None)
    try:
        address = ipaddress.ip_address(str(ip))
    except ValueError:
        raise PipelineError(f"erase: {ip} is no address") from None
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    salts = read_salts(lake.storage).values()
    clients = _clients(spark, lake)
    return _Person({hashed_key(salt, str(address), client) for salt in salts for client in clients}, (), str(address))


def _clients(spark: SparkSession, lake: Lake) -> list[str | None]:
    """What viewers' clients call themselves: part of what was hashed."""
    tables = [*(f"bronze.{kind}" for kind in _PLAY_KINDS), "silver.views"]
    seen = reduce(DataFrame.union, (lake.read(spark, lake.pin(table), table).select("client") for table in tables))
    return [row.client for row in seen.distinct().collect()]


def _parts_with(spark: SparkSession, lake: Lake, person: _Person) -> list[tuple[str, str, int]]:
    """Kind and hour of the parts of bronze that know the person, and in how many facts."""
    columns = ("kind", "hour", "viewer_key", "viewer", "auth_subject", "peer_addr", "limit", "detail")
    facts = lake.read(spark, lake.pin(BRONZE), BRONZE, Wanted(kinds=KINDS_WITH_ADDRESS), columns)
    found = facts.where(person.is_meant()).groupBy("kind", "hour").agg(F.count("*").alias("facts")).collect()
    return sorted((row.kind, row.hour, row.facts) for row in found)


def _forgotten(facts: DataFrame, person: _Person, markers: dict[str, str]) -> DataFrame:
    """The same facts, with nothing in them that tells who it was."""
    is_meant = person.is_meant()
    marked = facts.withColumn("_is_meant", is_meant)
    return without_address(
        marked.withColumns(
            {
                "viewer": F.when(~F.col("_is_meant"), F.col("viewer")),
                **{name: F.when(~F.col("_is_meant"), F.col(name)) for name in ("auth_subject", *_PLACED)},
                # Somebody else may have come from the address, by another name.
                "viewer_key": F.coalesce(_marker(markers), "viewer_key"),
            }
        ),
        F.col("_is_meant"),
    )


def _marker(markers: dict[str, str]) -> Column:
    """What stands in place of a key; null for keys that stay."""
    if not markers:
        return F.lit(None).cast("string")
    table = F.create_map(*(F.lit(text) for pair in sorted(markers.items()) for text in pair))
    return F.try_element_at(table, F.col("viewer_key"))


def _erase_landed(landing: Storage, path: str, person: _Person) -> int:
    try:
        data = landing.read(path)
    except FileNotFoundError:  # given up by a server whose landing folder is full
        return 0
    if not any(text.encode() in data for text in person.texts):
        return 0
    lines = list(_lines_without(data, person))
    erased = sum(is_changed for _, is_changed in lines)
    if erased:
        landing.put(path, b"".join(line for line, _ in lines))
    return erased


def _lines_without(data: bytes, person: _Person) -> Iterator[tuple[bytes, bool]]:
    for line in data.splitlines(keepends=True):
        try:
            fact = json.loads(line)
        except ValueError:
            # No fact: a torn line or the like, in which a name is a name all the same.
            is_told = any(text.encode() in line for text in person.texts)
            yield (b"\n" if is_told else line), is_told
            continue
        if not isinstance(fact, dict) or not person.is_told_by(fact):
            yield line, False
            continue
        for name, instead in {"peer_addr": _NOBODY, "viewer": None, "auth_subject": None, "dimensions": None}.items():
            if name in fact:
                fact[name] = instead
        if "limit" in fact:
            fact["detail"] = ERASED
        yield json.dumps(fact, separators=(",", ":")).encode() + b"\n", True


def _erase_quarantined(lake: Storage, path: str, person: _Person) -> int:
    table = pq.read_table(io.BytesIO(lake.read(path)))
    found = pa.array([False] * table.num_rows)
    for text in person.texts:
        found = pc.or_(found, pc.fill_null(pc.match_substring(table["raw"], text), False))
    erased = int(pc.sum(found).as_py() or 0)
    if erased:
        raw = pc.if_else(found, ERASED, table["raw"])
        output = io.BytesIO()
        pq.write_table(table.set_column(table.column_names.index("raw"), "raw", raw), output)
        lake.put(path, output.getvalue())
    return erased


def _log(lake: Storage, now_us: int, what: str, erased: Erased) -> None:
    at = datetime.fromtimestamp(now_us / 1_000_000, UTC).isoformat(timespec="seconds")
    before = lake.read(_LOG) if lake.exists(_LOG) else b""
    lake.put(_LOG, before + json.dumps({"at": at, "what": what, **asdict(erased)}).encode() + b"\n")
