"""Lines into bronze: judged, made unique, written and committed together with everything that later steps ask for.

Owns the promise that a fact is in bronze once, whoever sends it how often: facts are told apart by boot and number, in
the batch and against the committed files whose numbers overlap with it. Each file carries the span of numbers of every
boot in it, so for facts that are new no committed file is opened.

A commit also says what its facts touch: hours, the hours in which their views and sessions began, and boots.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from penstock.pipeline import identity
from penstock.pipeline.commits import SEQS, BootSpan, DataFile, Snapshot, Touched
from penstock.pipeline.fact_lines import MAX_LINE_BYTES, bronze_rows, facts_of_lines
from penstock.pipeline.horizon import read_horizon_us
from penstock.pipeline.hours import HOUR_US, hour_of_us, hours_between
from penstock.pipeline.lake import Lake, Transaction
from penstock.pipeline.missed_lines import missed_lines
from penstock.pipeline.plan import VIEW_KINDS
from penstock.pipeline.quarantine import put_aside
from penstock.pipeline.salts import salts_for
from penstock.pipeline.storage import Storage

_LATE_US: Final = HOUR_US
_EDGE_US: Final = 2_000_000
"""A start that is reckoned back from a duration is right to this."""
_LONGEST_WAIT_US: Final = 48 * HOUR_US
"""Who claims to have waited for longer than that began when it says, and at no time between."""
_BYTES_PER_WRITER: Final = 128 * 1024 * 1024
"""Of lines. A usual batch has one writer, and each kind and hour of it one file."""
_SESSION_KINDS: Final = ("connection_closed", "publish_stopped")


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of some lines."""

    batches: int = 0
    files: int = 0
    facts: int = 0
    duplicates: int = 0
    quarantined: int = 0
    late: int = 0
    """Facts that landed more than an hour after they were told."""
    newest_at_us: int = 0

    def plus(self, other: "Carried") -> "Carried":
        """Both together."""
        return Carried(
            self.batches + other.batches,
            self.files + other.files,
            self.facts + other.facts,
            self.duplicates + other.duplicates,
            self.quarantined + other.quarantined,
            self.late + other.late,
            max(self.newest_at_us, other.newest_at_us),
        )


def take_lines(
    lake: Lake,
    lines: DataFrame,
    now_us: int,
    *,
    landing: Storage | None,
    batch: int | None = None,
    files: Collection[str] = (),
) -> Carried:
    """Bring lines (`value`, `file`, `landed_at_us`, `file_bytes`) into bronze, by one commit.

    Files of `landing` that were committed before are left out. None: it is a replay of what was quarantined of them.
    `files` are landing files that count as taken though they may have no lines at all.
    """
    snapshot = lake.snapshot()
    with ExitStack() as cached:
        oldest_us = read_horizon_us(lake.storage)
        judged = _cache(facts_of_lines(lines, oldest_us), cached)
        groups = _survey(judged)
        known = set() if landing is None else {group.file for group in groups} & snapshot.landed_at_us.keys()
        groups = [group for group in groups if group.file not in known]
        if not groups and not files:
            return Carried()
        fresh = judged.where(~F.col("file").isin(*known)) if known else judged
        passed_over = {} if landing is None else _passed_over(groups)
        if landing is not None and passed_over:
            missing = missed_lines(lines.sparkSession, landing, passed_over, MAX_LINE_BYTES)
            fresh = _cache(fresh.unionByName(facts_of_lines(missing)), cached)
            groups = _survey(fresh)
        taken = {group.file for group in groups}.union(files)
        told = _count(groups)
        unique = _unique(lake, snapshot, fresh, groups)
        if unique is not None:
            fresh = _cache(unique, cached)
            groups = _survey(fresh)
        carried = Carried(
            batches=1,
            files=0 if landing is None else len(taken),
            facts=_count(groups),
            duplicates=told - _count(groups),
            quarantined=_count(groups, is_refused=True),
            late=sum(group.late for group in groups),
            newest_at_us=max((group.last_at_us or 0 for group in groups), default=0),
        )
        transaction = lake.begin(snapshot, "bronze", now_us)
        _write(transaction, fresh, groups)
        transaction.commit(
            batch=batch,
            landed=() if landing is None else sorted(taken),
            touched=_touched(_facts(groups)),
            boots=_boots(_facts(groups)),
            counts=_counts(carried, groups),
        )
        return carried


def _cache(rows: DataFrame, until: ExitStack) -> DataFrame:
    until.callback(rows.persist(StorageLevel.MEMORY_AND_DISK).unpersist)
    return rows


def joined_stats(files: Iterable[DataFile]) -> dict[str, Any]:
    """What has to be known of a file that takes the place of these files of bronze."""
    spans: dict[str, list[int]] = {}
    for file in files:
        for boot, (low, high) in file.stats.get(SEQS, {}).items():
            held = spans.setdefault(boot, [low, high])
            held[:] = min(held[0], low), max(held[1], high)
    return {SEQS: spans}


# What lines are about.


def _passed_over(groups: Iterable[Row]) -> dict[str, int]:
    """Files of which lines were not read, being too long, and when they landed."""
    read_bytes, sizes = Counter[str](), {}
    for group in groups:
        # Lines end with one byte or two.
        read_bytes[group.file] += group.bytes + 2 * group.lines
        sizes[group.file] = group.file_bytes, group.landed_at_us
    return {
        file: landed_at_us
        for file, (file_bytes, landed_at_us) in sizes.items()
        if file_bytes - read_bytes[file] >= MAX_LINE_BYTES - 2
    }


def _survey(judged: DataFrame) -> list[Row]:
    """Counts and spans, for each file, boot, kind, hour and hours of beginning; refused lines by file and reason."""
    is_fact = F.col("refusal").isNull()
    at_us, kind = F.col("at_us"), F.col("kind")
    start_us = _start_us()
    latest_start_us = F.when(kind == "play_first_keyframe", at_us).otherwise(F.least(start_us + _EDGE_US, at_us))
    keys = {
        "kind": kind,
        "server_id": F.col("server_id"),
        "boot_id": F.col("boot_id"),
        "boot_key": identity.boot_key(F.col("server_id"), F.col("boot_id")),
        "hour_us": _hour_us(at_us),
        "first_start_us": _hour_us(start_us - _EDGE_US),
        "last_start_us": F.when(start_us.isNotNull(), _hour_us(latest_start_us)),
    }
    of_file = ["file", "landed_at_us", "file_bytes"]
    named = judged.select(
        *of_file,
        "refusal",
        *(F.when(is_fact, column).alias(name) for name, column in keys.items()),
        "seq",
        "at_us",
        "line_bytes",
        F.when(is_fact, F.col("landed_at_us") - at_us > _LATE_US).alias("is_late"),
    )
    grouped = named.groupBy(*of_file, "refusal", *keys).agg(
        F.count("*").alias("lines"),
        F.sum("line_bytes").alias("bytes"),
        F.min("seq").alias("min_seq"),
        F.max("seq").alias("max_seq"),
        F.min("at_us").alias("first_at_us"),
        F.max("at_us").alias("last_at_us"),
        F.count_if("is_late").alias("late"),
    )
    return grouped.collect()


def _start_us() -> Column:
    """When the view or session began that a fact tells of, by its own time and a duration; null: of none."""
    at_us, kind = F.col("at_us"), F.col("kind")
    return (
        F.when(kind == "play_started", at_us)
        .when(kind == "play_first_keyframe", at_us - F.col("startup_us"))
        .when(kind.isin("play_stopped", "viewer_sample"), at_us - F.col("watched_us"))
        .when(kind.isin(*_SESSION_KINDS), at_us - F.col("duration_us"))
    )


def _hour_us(at_us: Column) -> Column:
    return at_us - F.pmod(at_us, F.lit(HOUR_US))


def _count(groups: Iterable[Row], *, is_refused: bool = False) -> int:
    return sum(group.lines for group in groups if (group.refusal is not None) == is_refused)


def _facts(groups: Iterable[Row]) -> list[Row]:
    return [group for group in groups if group.refusal is None]


# Each fact once.


def _unique(lake: Lake, snapshot: Snapshot, judged: DataFrame, groups: list[Row]) -> DataFrame | None:
    """The same without facts that are there twice or were committed before; None if there are none such."""
    key = ["boot_key", "seq"]
    keyed = judged.withColumn("boot_key", identity.boot_key(F.col("server_id"), F.col("boot_id")))
    is_fact = F.col("refusal").isNull()
    repeated = keyed.where(is_fact).groupBy(*key).count().where("count > 1")
    overlapping = _overlapping(snapshot, _facts(groups))
    if not overlapping and repeated.isEmpty():
        return None
    # Which of two is kept may not depend on the order in which they are read.
    order = Window.partitionBy(*key, "refusal").orderBy("landed_at_us", F.xxhash64(*judged.columns))
    facts = keyed.where(is_fact).withColumn("_place", F.row_number().over(order)).where("_place = 1")
    if overlapping:
        paths = [lake.storage.pattern(path) for path in overlapping]
        facts = facts.join(judged.sparkSession.read.parquet(*paths).select(*key), key, "left_anti")
    return facts.select(*judged.columns).unionByName(judged.where(~is_fact))


def _overlapping(snapshot: Snapshot, groups: list[Row]) -> list[str]:
    """Files of bronze that may hold facts of the same boots and numbers."""
    spans = _spans(groups)
    found = []
    for table in snapshot.tables:
        if table.startswith("bronze."):
            for file in snapshot.files(table):
                held = file.stats.get(SEQS)
                if held is None or any(
                    boot in held and held[boot][0] <= high and low <= held[boot][1]
                    for boot, (low, high) in spans.items()
                ):
                    found.append(file.path)
    return found


def _spans(groups: Iterable[Row]) -> dict[str, list[int]]:
    """Boot to the lowest and the highest of its numbers. The keys are text, as JSON wants them."""
    spans: dict[str, list[int]] = {}
    for group in groups:
        held = spans.setdefault(str(group.boot_key), [group.min_seq, group.max_seq])
        held[:] = min(held[0], group.min_seq), max(held[1], group.max_seq)
    return spans


# The commit.


def _write(transaction: Transaction, judged: DataFrame, groups: list[Row]) -> None:
    """Facts to bronze, refused lines to the quarantine."""
    lake = transaction.lake.storage
    refused_in = {group.file for group in groups if group.refusal is not None}
    if refused_in:
        put_aside(lake, judged.where("refusal is not null"), refused_in, transaction.run_id, transaction.now_us)
    told = _facts(groups)
    if told:
        months = {_month_of(group.hour_us) for group in told if group.kind in VIEW_KINDS}
        rows = bronze_rows(judged.where("refusal is null"), salts_for(lake, months))
        partitions: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for group in told:
            partitions[group.kind, hour_of_us(group.hour_us)].append(group)
        stats = {partition: {SEQS: _spans(held)} for partition, held in partitions.items()}
        writers = -(-sum(group.bytes for group in told) // _BYTES_PER_WRITER)
        counts = Counter[str]()
        for group in told:
            counts[group.kind] += group.lines
        transaction.append_bronze(rows.coalesce(writers), stats, counts)


def _counts(carried: Carried, groups: Iterable[Row]) -> dict[str, int]:
    counts = Counter(
        facts=carried.facts, duplicates=carried.duplicates, quarantined=carried.quarantined, late_facts=carried.late
    )
    for group in groups:
        if group.refusal is not None:
            counts[f"quarantined_{group.refusal}"] += group.lines
    return dict(counts)


def _month_of(at_us: int) -> str:
    return hour_of_us(at_us)[: len("2026-11")]


def _touched(told: Iterable[Row]) -> Touched:
    hours: dict[str, set[str]] = defaultdict(set)
    view_starts: dict[str, set[str]] = defaultdict(set)
    session_starts: set[str] = set()
    for group in told:
        hour = hour_of_us(group.hour_us)
        hours[group.kind].add(hour)
        if group.first_start_us is not None:
            starts = _hours_of_starts(group.first_start_us, group.last_start_us)
            if group.kind in VIEW_KINDS:
                view_starts[hour] |= starts
            else:
                session_starts |= starts
    return Touched(_frozen(hours), _frozen(view_starts), frozenset(session_starts))


def _hours_of_starts(first_us: int, last_us: int) -> set[str]:
    """The hours in which sessions may have begun: one may have waited for its first picture from hour to hour."""
    earliest_us = max(first_us, last_us - _LONGEST_WAIT_US)
    return {hour_of_us(first_us), *hours_between(hour_of_us(earliest_us), hour_of_us(last_us))}


def _frozen(sets: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in sets.items()}


def _boots(told: Iterable[Row]) -> list[BootSpan]:
    spans: dict[int, BootSpan] = {}
    for group in told:
        span = BootSpan(
            group.boot_key,
            group.server_id,
            group.boot_id,
            group.first_at_us,
            group.last_at_us,
            group.min_seq,
            group.max_seq,
            group.lines,
            group.kind == "server_stopped",
        )
        spans[group.boot_key] = spans[group.boot_key].merged(span) if group.boot_key in spans else span
    return [spans[key] for key in sorted(spans)]
